# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Shared by the scripts here: places, output for users, sums of tests, locks, the cache. Each
# sources it first.

set -euo pipefail
MACHINE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CLONE=$(cd "$MACHINE/../.." && pwd)
LOGS=$CLONE/build/log
CACHE=${USER_EVENTS_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/user-events}
cd "$CLONE"

# say TEXT...: print a line for the user.
say() { printf '%s\n' "$*"; }

# die TEXT...: fail with one sentence that names what is missing and the way to get it.
die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# pause SECONDS: wait without a process, which would keep the caller's output open and its locks
# held after the caller's end.
pause() {
	local fd
	exec {fd}<> <(:)
	read -r -t "$1" -u "$fd" || true
	exec {fd}>&-
}

# tick OWNER TEXT: show that a long step of process OWNER is alive, every second on a terminal, else
# twice a minute. Runs in the background; tock ends it.
tick() {
	local start=$SECONDS seconds=0
	while pause 1 && kill -0 "$1" 2>/dev/null; do
		seconds=$((SECONDS - start))
		if [[ -t 1 ]]; then
			printf '\r  %s ... %d s' "$2" "$seconds"
		elif ((seconds > 0 && seconds % 30 == 0)); then
			printf '  %s ... %d s so far\n' "$2" "$seconds"
		fi
	done
}

# tock TICKER: end the ticker and clear its line.
tock() {
	kill "$1" 2>/dev/null || true
	wait "$1" 2>/dev/null || true
	[[ ! -t 1 ]] || printf '\r\e[K'
}

# step TEXT LOG COMMAND...: run COMMAND with its output in LOG; print its time, or the end of LOG.
step() {
	local text=$1 log=$2 start=$SECONDS status=0 ticker
	shift 2
	mkdir -p "$(dirname "$log")"
	[[ -t 1 ]] || printf '  %s ...\n' "$text"
	tick "$$" "$text" &
	ticker=$!
	"$@" >"$log" 2>&1 || status=$?
	tock "$ticker"
	if [[ $status -eq 0 ]]; then
		printf '  %s: done in %d s\n' "$text" $((SECONDS - start))
	else
		printf '  %s: FAILED after %d s; the end of %s:\n' "$text" $((SECONDS - start)) "$log"
		tail -n 40 "$log" | cut -c -300 | sed 's/^/    | /'
	fi
	return "$status"
}

# in_parallel COMMAND ARGUMENT...: run COMMAND with each ARGUMENT at once; fails if one does.
in_parallel() {
	local argument pids=() pid status=0
	for argument in "${@:2}"; do
		"$1" "$argument" &
		pids+=($!)
	done
	# Only these, as this shell may have other children.
	for pid in "${pids[@]}"; do wait "$pid" || status=1; done
	return "$status"
}

# count PASSED FAILED WHAT: add to the sum.
passed=0 failed=0
count() {
	passed=$((passed + $1)) failed=$((failed + $2))
	printf '  %s: %d of %d passed\n' "$3" "$1" "$(($1 + $2))"
}

# judge WHAT COMMAND...: a test that passes if COMMAND succeeds.
judge() { if "${@:2}"; then count 1 0 "$1"; else count 0 1 "$1"; fi; }

# sum: print the last line of each command that tests.
sum() {
	printf '\n%d passed, %d failed\n' "$passed" "$failed"
	[[ $failed -eq 0 && $passed -gt 0 ]]
}

# read_sum FILE STATUS: set p and f to the last sum in FILE, of a command that ended with STATUS;
# that it has no sum, or another failure, is one.
read_sum() {
	read -r p f < <(sed -nE 's/^(  in all )?([0-9]*) passed, ([0-9]*) failed$/\2 \3/p' "$1" | tail -n 1) || p=0 f=0
	[[ $f -gt 0 || ($2 -eq 0 && $p -gt 0) ]] || f=1
}

# hold FILE WHAT: lock FILE for this shell and its children; print a line if that must wait.
hold() {
	local fd
	mkdir -p "$(dirname "$1")"
	exec {fd}>"$1"
	flock -n "$fd" || {
		say "  another $2 of this clone is running: waiting for it"
		flock "$fd"
	}
}

# building COMMAND...: run COMMAND while nothing else is built in this clone.
building() (
	hold "$LOGS/build.lock" build
	"$@"
)

# The cache has directories that are expensive to make. An entry is the directory KIND-KEY, where
# KEY is a hash of everything that made it. It appears by rename when it is complete and is never
# changed afterwards. A shared lock on locks/KIND-KEY is held while the entry is made or used, an
# exclusive one while it is removed. Locks belong to open files, so they end with the last process
# that inherited them, in any way.

# cache_key: print a key of standard input.
cache_key() { sha256sum | cut -c1-16; }

# recipe KIND: print the part of a key with the version of how an entry is made.
recipe() { grep -E "^$1 [0-9]+$" "$MACHINE/recipes" || die "selftests/machine/recipes has no version of $1."; }

# cache_entry KIND KEY COMMAND...: set CACHE_ENTRY to the entry's directory, held as long as this
# shell and its children live. A missing entry is made by COMMAND, which gets a directory to fill.
cache_entry() {
	local kind=$1 name=$1-$2 fd making
	shift 2
	mkdir -p "$CACHE/locks"
	CACHE=$(cd "$CACHE" && pwd)
	CACHE_ENTRY=$CACHE/$name
	exec {fd}>>"$CACHE/locks/$name"
	flock -s "$fd"
	[[ ! -d $CACHE_ENTRY ]] || return 0
	exec {making}>>"$CACHE/locks/making-$name"
	flock -n "$making" || {
		say "  another run is preparing $name: waiting for it"
		flock "$making"
	}
	if [[ ! -d $CACHE_ENTRY ]]; then
		rm -rf --one-file-system "$CACHE/new-$name"
		mkdir -m 755 "$CACHE/new-$name"
		"$@" "$CACHE/new-$name"
		mv -T "$CACHE/new-$name" "$CACHE_ENTRY"
	fi
	exec {making}>&-
	cache_prune "$kind" "$name"
}

# unpacked KIND KEY DIR COMMAND...: copy an entry, held meanwhile only, to DIR, unless it is there.
unpacked() (
	[[ $(cat "$3.key" 2>/dev/null) != "$2" ]] || return 0
	cache_entry "$1" "$2" "${@:4}" || exit
	rm -rf "$3" "$3.key"
	cp -r "$CACHE_ENTRY" "$3" && echo "$2" >"$3.key"
)

# cache_prune KIND NAME: remove the entries of KIND other than NAME that are not in use.
cache_prune() {
	local path name
	for path in "$CACHE/$1"-* "$CACHE/new-$1"-*; do
		[[ -d $path ]] || continue
		name=${path##*/}
		name=${name#new-}
		[[ $name == "$2" ]] || cache_drop "$path" "$name"
	done
}

# cache_drop DIR NAME: remove the entry NAME if it is not in use. In the background, as some disks
# take minutes; the next run finishes an interrupted removal.
cache_drop() {
	(
		flock -n -x 9 || exit 0
		rm -rf --one-file-system "$1"
	) 9>>"$CACHE/locks/$2" </dev/null &>/dev/null &
}

# news: print version and day of the first entry of NEWS.
news() { sed -nE 's/^user_events ([^ ]*) \(([-0-9]*)\)$/\1 \2/p;T;q' "${NEWS:-NEWS}"; }
