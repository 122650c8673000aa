# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The bpftrace of Debian's next release, beside the one of the machine's own root. Sourced after
# ready.sh. The cache has for it
#   bpftrace-SUITE-KEY   the packages of packages-bpftrace, unpacked and not installed: only what
#                        bpftrace needs to run
# In the machine it is /opt, which the selftests' kit/bpftrace.rs has as the root of the tool.

NEXT_SUITE=forky

# ready_bpftrace: export USER_EVENTS_BPFTRACE, which is that entry, or empty for kernels without BTF
# and for arm64's machine, or if the download fails, which is reported once. A child process uses
# the same entry.
ready_bpftrace() {
	local key
	[[ -z ${USER_EVENTS_BPFTRACE+set} ]] || return 0
	export USER_EVENTS_BPFTRACE=
	[[ ${KERNEL:-stock} == @(stock|[0-9]*) && -z ${USER_EVENTS_GUEST:-} ]] || return 0
	key=$(key_of bpftrace "$(uname -m)" "$NEXT_SUITE" "$(packages packages-bpftrace)")
	# make_bpftrace can end its shell, so that a subshell tries first.
	(cache_entry "bpftrace-$NEXT_SUITE" "$key" make_bpftrace) || {
		say "  the tests with the bpftrace of Debian $NEXT_SUITE are left out"
		return 0
	}
	cache_entry "bpftrace-$NEXT_SUITE" "$key" make_bpftrace
	USER_EVENTS_BPFTRACE=$CACHE_ENTRY
}

make_bpftrace() { # DIR
	make_debian "the bpftrace of Debian $NEXT_SUITE (once)" "bpftrace-$NEXT_SUITE" \
		"$NEXT_SUITE" "$1" "$(packages packages-bpftrace | paste -sd,)" --variant=extract "${OF_OTHERS[@]}" \
		--setup-hook='cd "$1" && for dir in bin lib lib64 sbin; do mkdir -p usr/$dir && ln -s usr/$dir $dir; done' \
		--extract-hook='cd "$1" && mkdir -p dev proc sys tmp src build usr/lib/modules && rm -rf usr/share/doc usr/share/man usr/share/locale' \
		--extract-hook='chroot "$1" bpftrace --version'
}
