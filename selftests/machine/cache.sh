# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# A cache of directories that are expensive to make. Sourced after say.sh.
#
# An entry is the directory KIND-KEY, where KEY is a hash of everything that made it. It appears by
# rename when it is complete and is never changed afterwards. Whoever uses it holds a shared lock on
# locks/KIND-KEY; whoever makes or removes it, an exclusive one. Locks belong to open files, so they
# end with the last process that inherited them, however it ends.

CACHE=${USER_EVENTS_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/user-events}

# cache_key: a key made of standard input.
cache_key() { sha256sum | cut -c1-16; }

# cache_lock -s|-x FD NAME: lock, and say so if that takes waiting.
cache_lock() {
	flock -n "$1" "$2" && return
	say "  another run is preparing $3: waiting for it"
	flock "$1" "$2"
}

# cache_entry KIND KEY COMMAND...: set CACHE_ENTRY to the entry's directory, held for use as long as
# this shell and its children live. If there is none, COMMAND makes it, given a directory to fill.
cache_entry() {
	local kind=$1 name=$1-$2 fd
	shift 2
	mkdir -p "$CACHE/locks"
	CACHE=$(cd "$CACHE" && pwd)
	CACHE_ENTRY=$CACHE/$name
	exec {fd}>>"$CACHE/locks/$name"
	while :; do
		cache_lock -s "$fd" "$name"
		[[ -d $CACHE_ENTRY ]] && return
		cache_lock -x "$fd" "$name"
		[[ -d $CACHE_ENTRY ]] && continue
		cache_delete "$CACHE/new-$name"
		mkdir "$CACHE/new-$name"
		"$@" "$CACHE/new-$name"
		mv -T "$CACHE/new-$name" "$CACHE_ENTRY"
		cache_prune "$kind" "$name"
	done
}

# cache_prune KIND NAME: remove the entries of KIND other than NAME that nobody uses. Some disks take
# minutes for that, so nobody waits for it; what is not finished, the next time finishes.
cache_prune() {
	local path name
	for path in "$CACHE/$1"-* "$CACHE/new-$1"-*; do
		[[ -d $path ]] || continue
		name=${path##*/}
		name=${name#new-}
		[[ $name == "$2" ]] && continue
		(
			flock -n -x 9 || exit 0
			cache_delete "$path"
		) 9>>"$CACHE/locks/$name" </dev/null &>/dev/null &
	done
}

# cache_delete DIR: mounts are only ever made in private namespaces, so none can be below DIR here;
# should one be there all the same, it is left alone together with DIR.
cache_delete() {
	[[ -e $1 ]] || return 0
	if awk -v dir="$1" '$5 == dir || index($5, dir "/") == 1 { found = 1 } END { exit !found }' /proc/self/mountinfo; then
		die "something is mounted below $1: unmount it, then run the same command again."
	fi
	rm -rf --one-file-system -- "$1"
}
