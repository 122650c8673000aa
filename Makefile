# SPDX-License-Identifier: GPL-2.0
#
# Every task a person runs. The kernel's build system reads Kbuild instead. 'help' prints the lines
# with '##', as targets, and those with '#:', as they are.

# The kernel tree that 'modules' and 'install' build against: prepared, with Rust.
KDIR ?= /lib/modules/$(shell uname -r)/build

.DEFAULT_GOAL := help

#: Use
help: ## this text
	@sed -n -e 's/^#: \{0,1\}//p' -e 's/^\([a-z-]*\):[^#]*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: ## the main job on a stock Debian kernel, step by step
	@selftests/machine/demo

modules: ## user_events.ko for KDIR, by this host's own tools
	@selftests/machine/modules $(KDIR)

install: modules ## install that module for KDIR's kernel
	@selftests/machine/modules $(KDIR) install
#:     KDIR=DIR                 the prepared kernel tree (the running kernel's)

deb: ## the Debian packages, into build/deb
	@selftests/machine/deb
#:     KERNEL=RELEASE           also the module, built for this kernel

dist: ## the tarball of a release, into build/dist
	@selftests/machine/deb dist

htmldocs: ## the documentation as HTML, into build/htmldocs
	@selftests/machine/lint htmldocs

shell: ## a terminal in the machine, with the module loaded
	@selftests/machine/vm shell

clean: ## remove what was built (not the cache)
	@rm -rf --one-file-system build Cargo.lock 2>/dev/null || unshare --map-root-user --map-auto rm -rf --one-file-system build

#:
#: Test
test: ## all tests; with KERNEL=, those of the machine
	@selftests/machine/test
#:     KERNEL=custom            a small kernel
#:     KERNEL=debug             memory and locks are watched, calls may fail
#:     KERNEL=kcsan             races are watched
#:     KERNEL=debug-6.12        the same of 6.12; also custom-6.12, kcsan-6.12
#:     KERNEL=c                 the contract's tables on the C implementation
#:     KERNEL=RELEASE           one of Debian's, such as 7.2.12+deb14-amd64
#:     SOME=1                   the tests that reach most of the module

test-long: ## the tests that show more the longer they run
	@selftests/machine/test long $(or $(WHAT),storm) $(TIMES)
#:     WHAT=storm|deferred|numbers|lengthy
#:     WHAT=unloading TIMES=N   rounds of loading and unloading (10000)
#:     WHAT=soak TIMES=N        seconds of mixed load (3600)
#:     WHAT=samples TIMES=N     samples of perf (1000000)
#:     SEED=N                   the seed of the random choices

test-kernels: ## each of Debian's kernels that can have the module
	@selftests/machine/kernels
#:     KERNELS='PATTERN...'     some of them: selftests/machine/kernels
#:     SOME=1                   five of them, with fewer tests
#:     KEEP=1                   the table goes to Documentation/testing.rst

test-install: ## the packages, installed and upgraded by apt
	@selftests/machine/install

test-containers: ## containers with groups of their own
	@selftests/machine/containers
#:     PARTS='PART...'          podman, others

fuzz: ## random sequences of calls, compared with a model
	@selftests/machine/fuzz $(or $(WHAT),calls)
#:     SEED=N OPERATIONS=N      the seed; the steps of each worker (100000)
#:     WORKERS=N WORKER=N       how many workers (2); one of them alone
#:     RUSH=1                   mostly quick steps
#:     SOME=1                   the seeds that are kept, and a new one
#:     WHAT=schema              the schema on the host, by libFuzzer, instead:
#:     DURATION=S RUNS=N        seconds (60) or inputs of each kind; also SEED=N
#:     KEEP=1 INPUT=FILE        extend the corpus; try one input

lint: ## formats, lints and the rules of the project
	@selftests/machine/lint

fmt: ## format the Rust sources
	@selftests/machine/lint fmt

release-check: ## all that is run before a release, in two days
	@selftests/machine/release-check "$(FROM)"
#:     FROM='TARGET...'         go on with this entry of its list

#:
#: Measure
bench: ## the cost of each operation, in C and of the module
	@selftests/machine/bench $(WHAT)
#:     WHAT='GROUP...'          some groups of rows
#:     WHAT=counts              the groups that are counted in four minutes
#:     WHAT=preemption          how long preemption and interrupts are off
#:     WHAT=uml BOOTS=N         writes by the clock, on kernels as processes
#:     CHECK=1                  fail if the module costs more than the kept figures
#:     KEEP=1                   keep the new figures (selftests/bench/figures)

mutants: ## whether the tests see each fault put into the module
	@selftests/machine/mutants
#:     MUTANTS='PART...'        some, by parts of their names and files
#:     SAMPLE=N AGAIN=1         N of them; also those with kept results

#:
#: Variables of several targets
#:     KERNEL=NAME              of test, also of test-long, mutants, bench
#:                              WHAT=preemption, and with c of fuzz, shell
#:     MACHINES=N               machines at once (2): test-kernels, mutants
#:     CPUS=N NODES=N           processors (2), nodes of memory (1): shell
#:     KVM=1                    hardware virtualisation instead of emulation
#:     TIMEOUT=S                how long a machine may live, in seconds (1800)
#:     MIRROR=URL               another Debian mirror
#:     USER_EVENTS_CACHE=DIR    the Debian root and the kernels
#:                              ($XDG_CACHE_HOME/user-events, ~/.cache/user-events)
#: All but modules, install and clean make a Debian root of their own, in 8 GB, as
#: root or, with uidmap, as an ordinary user.

# All that the help lists.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):[^\#]*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))
