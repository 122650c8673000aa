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

# stop PID: end a background process of this shell.
stop() {
	kill "$1" 2>/dev/null || true
	wait "$1" 2>/dev/null || true
}

# step TEXT LOG COMMAND...: run COMMAND with its output in LOG; print its time, or the end of LOG,
# and meanwhile, twice a minute, that it is alive.
step() {
	local text=$1 log=$2 start=$SECONDS status=0 ticker
	shift 2
	mkdir -p "$(dirname "$log")"
	say "  $text ..."
	while pause 1 && kill -0 "$$" 2>/dev/null; do
		(((SECONDS - start) % 30 > 0)) || say "  $text ... $((SECONDS - start)) s so far"
	done &
	ticker=$!
	"$@" >"$log" 2>&1 || status=$?
	stop "$ticker"
	if [[ $status -eq 0 ]]; then
		say "  $text: done in $((SECONDS - start)) s"
	else
		say "  $text: FAILED after $((SECONDS - start)) s; the end of $log:"
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

# in_all: copy the output of another command here, whose sum must not look like the last line.
in_all() { sed -u 's/^\([0-9]* passed, [0-9]* failed\)$/  in all \1/'; }

# make_target DIR TARGET [VARIABLE=VALUE...]: make it, with its output in a file of DIR, and add its
# sum; fails if a test failed.
make_target() {
	local words=${*:2} log status=0 start=$SECONDS p f
	log=${words//[=\/]/-}
	log=$1/${log// /}
	make "${@:2}" >"$log" 2>&1 || status=$?
	read_sum "$log" "$status"
	passed=$((passed + p)) failed=$((failed + f))
	say "make $words took $((SECONDS - start)) s, status $status: $p passed, $f failed ($log)"
	((f == 0))
}

# hold FILE WHAT: lock FILE, as HELD, for this shell and its children; print a line if that must
# wait.
hold() {
	mkdir -p "$(dirname "$1")"
	exec {HELD}>>"$1"
	flock -n "$HELD" || {
		say "  waiting for another run: $2"
		flock "$HELD"
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

# key_of RECIPE [TEXT...]: print the key of an entry that TEXT and the version of RECIPE make.
key_of() { { (($# == 1)) || printf '%s\n' "${@:2}"; recipe "$1"; } | cache_key; }

# cache_entry KIND KEY COMMAND...: set CACHE_ENTRY to the entry's directory, held as long as this
# shell and its children live. A missing entry is made by COMMAND, which gets a directory to fill,
# and takes the place of those of KIND that are not in use. Another KIND that begins with this one
# and '-' loses its entries, too.
cache_entry() {
	local kind=$1 name=$1-$2 fd HELD path
	shift 2
	mkdir -p "$CACHE/locks"
	CACHE=$(cd "$CACHE" && pwd)
	CACHE_ENTRY=$CACHE/$name
	exec {fd}>>"$CACHE/locks/$name"
	flock -s "$fd"
	[[ ! -d $CACHE_ENTRY ]] || return 0
	hold "$CACHE/locks/making-$name" "preparing $name"
	if [[ ! -d $CACHE_ENTRY ]]; then
		rm -rf --one-file-system "$CACHE/new-$name"
		mkdir -m 755 "$CACHE/new-$name"
		"$@" "$CACHE/new-$name"
		mv -T "$CACHE/new-$name" "$CACHE_ENTRY"
	fi
	exec {HELD}>&-
	for path in "$CACHE"/{,new-}"$kind"-*; do
		[[ $path == */?(new-)"$name" ]] || cache_drop "$path"
	done
}

# unpacked KIND KEY DIR COMMAND...: copy an entry, held meanwhile only, to DIR, unless it is there.
unpacked() (
	[[ $(cat "$3.key" 2>/dev/null) != "$2" ]] || return 0
	cache_entry "$1" "$2" "${@:4}" || exit
	rm -rf "$3" "$3.key"
	cp -r "$CACHE_ENTRY" "$3" && echo "$2" >"$3.key"
)

# cache_drop DIR: remove an entry, if there is one and it is not in use. In the background, as some
# disks take minutes; the next run finishes an interrupted removal.
cache_drop() {
	local name=${1##*/}
	[[ -d $1 ]] || return 0
	(flock -n -x 9 && rm -rf --one-file-system "$1") 9>>"$CACHE/locks/${name#new-}" </dev/null &>/dev/null &
}

# news: print version and day of the first entry of NEWS.
news() { sed -nE 's/^user_events ([^ ]*) \(([-0-9]*)\)$/\1 \2/p;T;q' "${NEWS:-NEWS}"; }
