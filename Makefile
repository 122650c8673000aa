# SPDX-License-Identifier: GPL-2.0
#
# Every task a person runs. The kernel's build system reads Kbuild instead.

# The kernel tree that 'modules' and 'install' build against: prepared, with Rust.
KDIR ?= /lib/modules/$(shell uname -r)/build

.DEFAULT_GOAL := help

help: ## this text
	@echo "Targets:"
	@sed -n 's/^\([a-z]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12 | sed 's/^/  /'
	@echo "Variables:"
	@echo "  KDIR=DIR    the prepared kernel tree to build against (modules, install)"
	@echo "  KVM=1       use hardware virtualisation instead of emulation (demo, test, shell)"
	@echo "  TIMEOUT=S   how long a machine may live, in seconds (demo, test; 1800)"
	@echo "  MIRROR=URL  the Debian mirror to use instead of debootstrap's own"
	@echo "  USER_EVENTS_CACHE=DIR  where the Debian root and the kernel are kept ($${XDG_CACHE_HOME:-~/.cache}/user-events)"
	@echo "demo, test, shell, lint and fmt set up a Debian root of their own: root is needed, and 8 GB on the disk."

demo: ## the main job on a stock Debian kernel, told step by step
	@machine/demo

test: ## all tests: the schema's on the host, the others in the machine
	@machine/test

modules: ## build user_events.ko against KDIR with this host's own tools
	@machine/modules $(KDIR)

install: modules ## install the module built by 'modules' for KDIR's kernel
	@machine/modules $(KDIR) install

shell: ## a terminal in the machine, with the module loaded
	@machine/shell

lint: ## check format, lints and the house rules
	@machine/lint

fmt: ## format the Rust sources
	@machine/fmt

clean: ## remove what was built (not the cache)
	@rm -rf --one-file-system build Cargo.lock

.PHONY: help demo test modules install shell lint fmt clean
