# SPDX-License-Identifier: GPL-2.0
#
# Every task a person runs. The kernel's build system reads Kbuild instead.

# The kernel tree that 'modules' and 'install' build against: prepared, with Rust.
KDIR ?= /lib/modules/$(shell uname -r)/build

# The groups of the benchmark's rows that are counted quickly.
COUNTS := nothing core numbers runs strings long large instead many groups others threads

.DEFAULT_GOAL := help

help: ## this text
	@echo "Targets:"
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20 | sed 's/^/  /'
	@echo "Variables:"
	@echo "  KDIR=DIR    the prepared kernel tree to build against (modules, install)"
	@echo "  KVM=1       use hardware virtualisation instead of emulation (all that start a machine)"
	@echo "  KERNEL=NAME the machine's kernel (test, test-long, test-unloading, soak, fuzz, mutants, shell): stock, custom, debug, kcsan, one of Debian's by its name, as 7.2.12+deb14-amd64; c for fuzz and shell"
	@echo "  KERNELS='PATTERN...'  which kernels, by names that selftests/machine/kernels tells of, MACHINES=N, KEEP=1 into testing.rst (test-kernels)"
	@echo "  SEED=N, OPERATIONS=N, WORKERS=N, WORKER=N, RUSH=1, WITHOUT_GROUPS=1  the seed of the random choices, how many steps, by how many workers, by which alone, what is quick, what is taken with C, too (fuzz, fuzz-c)"
	@echo "  SECONDS=S, RUNS=N, SEED=N, INPUT=FILE, KEEP=1  how far, by which seed, one input only, into the corpus (fuzz-schema)"
	@echo "  MUTANTS='PART...', SAMPLE=N, MACHINES=N, AGAIN=1  which faults, how many of them, how many machines (2), also those with kept results (mutants)"
	@echo "  TIMEOUT=S   how long a machine may live, in seconds (1800)"
	@echo "  WHAT=storm|unloading|soak|deferred|samples|numbers|lengthy, TIMES=N, SEED=N  what (storm), how many rounds, seconds or samples, and the seed of the random choices (test-long)"
	@echo "  ROUNDS=N, SECONDS=S, SEED=N  how many rounds (10000), how long (3600), and the seed (test-unloading, soak)"
	@echo "  MIRROR=URL  the Debian mirror to use instead of the usual one"
	@echo "  USER_EVENTS_CACHE=DIR  where the Debian root and the kernel are kept ($${XDG_CACHE_HOME:-~/.cache}/user-events)"
	@echo "All but modules, install and clean set up a Debian root of their own, in 8 GB, as root or, with uidmap, as an ordinary user."

demo: ## the main job on a stock Debian kernel, told step by step
	@selftests/machine/demo

test: ## all tests: the schema's on the host, the others in the machine
	@selftests/machine/test

test-custom: ## the machine's tests on a small custom kernel, with the module
	@KERNEL=custom selftests/machine/test

test-debug: ## the machine's tests on a kernel that watches memory and locks, with injected faults
	@KERNEL=debug selftests/machine/test

test-debug-some: ## some of them, which go through most of the module
	@SOME=1 KERNEL=debug selftests/machine/test

test-kcsan: ## the machine's tests on a kernel that watches for races
	@KERNEL=kcsan selftests/machine/test

test-kcsan-some: ## some of them, which go through most of the module
	@SOME=1 KERNEL=kcsan selftests/machine/test

test-kernels: ## what each kernel of Debian's archive that the module is for must stand, as a table (KERNELS=, MACHINES=, KEEP=1)
	@selftests/machine/kernels

test-kernels-some: ## the kernel's own tests and the contract's tables on five of them that stand for all
	@SOME=1 selftests/machine/kernels

release-check: ## all that is run before a release, in order, with one sum (FROM=)
	@selftests/machine/release-check "$(FROM)"

test-long: ## what shows more the longer it runs: WHAT, TIMES (see selftests/machine/test)
	@selftests/machine/test long $(or $(WHAT),storm) $(TIMES)

test-unloading: ## ROUNDS (10000) of loading and unloading beside users
	@selftests/machine/test long unloading $(ROUNDS)

soak: ## SECONDS (3600) of mixed load: memory stays flat, counters agree
	@selftests/machine/test long soak $(SECONDS)

fuzz: ## random sequences of what users can do, compared with a model (SEED=, OPERATIONS=, WORKERS=, RUSH=1, WITHOUT_GROUPS=1)
	@selftests/machine/fuzz calls

fuzz-some: ## those from the seeds that are kept, and from a new one: a minute
	@SOME=1 selftests/machine/fuzz calls

fuzz-c: ## the same sequences but for groups on the kernel with the C implementation
	@KERNEL=c selftests/machine/fuzz calls

fuzz-c-some: ## the seeds that are kept, and a new one, there
	@SOME=1 KERNEL=c selftests/machine/fuzz calls

fuzz-schema: ## what a fuzzer thinks of, put to the schema on the host
	@FUZZ_SECONDS='$(SECONDS)' FUZZ_RUNS='$(RUNS)' FUZZ_SEED='$(SEED)' FUZZ_KEEP='$(KEEP)' FUZZ_INPUT='$(INPUT)' selftests/machine/fuzz schema

mutants: ## faults put into the module one at a time: does a test see each? (MUTANTS=, SAMPLE=, AGAIN=1)
	@selftests/machine/mutants

conformance-c: ## the conformance test on the kernel with the C implementation, and that the module is refused there
	@selftests/machine/test conformance-c

bench: ## what the operations cost, the C implementation and the module side by side (KEEP=1)
	@selftests/machine/bench

bench-check: ## the same, and fail if the module's own part is worse than in the figures that were kept
	@CHECK=1 selftests/machine/bench

bench-check-counts: ## the same of the rows that are counted quickly: four minutes
	@CHECK=1 selftests/machine/bench $(COUNTS)

bench-uml: ## what writes take by the clock, C and the module, on kernels that run as processes of this host (BOOTS=)
	@selftests/machine/uml

bench-preemption: ## how long preemption and interrupts are off in these operations, on a kernel with PREEMPT_RT
	@selftests/machine/bench preemption

kernels: ## build all kernels of our own, two at a time
	@selftests/machine/build kernels

kernel-c: ## build two small kernels, with the C implementation and without
	@selftests/machine/build small-kernels

modules: ## build user_events.ko against KDIR with this host's own tools
	@selftests/machine/modules $(KDIR)

install: modules ## install the module built by 'modules' for KDIR's kernel
	@selftests/machine/modules $(KDIR) install

deb: ## the Debian packages, into build/deb (KERNEL= also the module built for one)
	@selftests/machine/deb

test-install: ## the packages, installed and upgraded with apt in a Debian of their own, which is booted
	@selftests/machine/install

test-containers: ## containers with groups of their own: podman, Docker, systemd, in a Debian of their own, which is booted
	@selftests/machine/containers

dist: ## the tarball of a release, build/dist/user_events-VERSION.tar.xz
	@selftests/machine/deb dist

shell: ## a terminal in the machine, with the module loaded
	@selftests/machine/vm shell

htmldocs: ## the documentation as HTML, in build/htmldocs
	@selftests/machine/lint htmldocs

lint: ## check format, lints and the project rules
	@selftests/machine/lint

fmt: ## format the Rust sources
	@selftests/machine/lint fmt

clean: ## remove what was built (not the cache)
	@rm -rf --one-file-system build Cargo.lock 2>/dev/null || unshare --map-root-user --map-auto rm -rf --one-file-system build

# All that the help lists.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):[^\#]*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))
