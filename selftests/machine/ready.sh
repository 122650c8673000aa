# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Makes the Debian root and a kernel ready and holds them.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$CLONE/scripts/kernel-tree.sh"
. "$MACHINE/kernel.sh"
. "$MACHINE/archive.sh"
. "$MACHINE/arm64.sh"

SUITE=trixie

# ready [KERNEL]: export USER_EVENTS_ROOT and USER_EVENTS_KERNEL, the two cache entries that in-root
# mounts, and USER_EVENTS_GUEST, a third one if the kernel has another architecture than this host.
# A child process uses the same entries. KERNEL is stock, a name of own_kernel, or the release
# (uname -r) of a kernel in Debian's archive, such as 7.2.12+deb14-amd64. A key covers the request
# and the version of the way to make the entry, see recipes.
ready() {
	local key
	[[ -z ${USER_EVENTS_ROOT:-} || -z ${USER_EVENTS_KERNEL+set} ]] || return 0
	ready_root
	key=${USER_EVENTS_ROOT##*/root-}
	export USER_EVENTS_GUEST=
	once_a_day "$CACHE/newest-kernel-$key" kernel-newest newest_in_archive || true
	VERSION=$(cat "$CACHE/newest-kernel-$key")
	if [[ ${1:-stock} == [0-9]* && $1 != "$VERSION" ]]; then
		archive_kernel "$1"
		return
	fi
	cache_entry kernel "$VERSION-$(key_of stock-kernel "$key")" make_stock_kernel
	# Own kernels share the source and the kernel's own selftests with the stock one.
	export USER_EVENTS_KERNEL=$CACHE_ENTRY USER_EVENTS_SOURCE=$CACHE_ENTRY
	[[ ${1:-stock} == @(stock|"$VERSION") ]] || own_kernel "$1"
}

# ready_root: make only the root ready.
ready_root() {
	# Everything inside ends with this process.
	export USER_EVENTS_OWNER=${USER_EVENTS_OWNER:-$$}
	host_can_run
	mkdir -p "$LOGS"
	cache_entry root "$(key_of root "$(uname -m)" "$SUITE" "$(packages)")" make_root
	export USER_EVENTS_ROOT=$CACHE_ENTRY
}

# in_root COMMAND...: run in-root. inside COMMAND...: also a function of this script.
in_root() { "$MACHINE/in-root" "$@"; }
inside() {
	in_root bash -euo pipefail -c '. /dev/fd/9; "$@"' bash "$@" 9< <(declare -f && declare -p rust_in_sections)
}

# offline_cargo ARGUMENT...: inside the root, run cargo with the crates of Debian and no network.
offline_cargo() {
	export CARGO_TARGET_DIR=/build/target CARGO_HOME=/tmp/cargo
	mkdir -p "$CARGO_HOME"
	printf '%s\n' 'net.offline = true' 'source.crates-io.replace-with = "debian"' \
		'source.debian.directory = "/usr/share/cargo/registry"' >"$CARGO_HOME/config.toml"
	# The lock file depends on the packages: one from another root may not fit.
	rm -f Cargo.lock
	/usr/bin/cargo "$@"
}

# kernel_log COMMAND..., host_tools COMMAND...: run these, built with the selftests, or now.
kernel_log() { tool kernel-log "$@"; }
host_tools() { tool host-tools "$@"; }
tool() {
	[[ -x build/target/release/$1 ]] || "$MACHINE/build" host-tools >&2 || return 2
	in_root "/build/target/release/$1" "${@:2}"
}

# count_tap WHAT STATUS [may-skip]: count the KTAP on standard input, of a program's end by STATUS.
count_tap() {
	local p=0 f=1
	read -r p f < <(host_tools tally tap "${@:2}") || true
	count "$p" "$f" "$1"
}

# boot_tests WHAT NAME OPTION...: run the selftests in the machine NAME, with output in
# build/boot/NAME.shown, and judge the kernel's log.
boot_tests() {
	local boot=build/boot/$2 status=0 as_c=()
	[[ " $* " != *" --against-c "* ]] || as_c=(--of-c)
	mkdir -p build/boot
	"$MACHINE/vm" boot "$2" /build/target/release/selftests "${@:3}" | tee "$boot.shown" || status=$?
	count_tap "$1" "$status" may-skip <"$boot.shown"
	judge "kernel's log" kernel_log check "${as_c[@]}" "$boot.dmesg"
}

# host_installs TEST PACKAGE...: install what the host lacks, unless it passes TEST by then: another
# run may be installing the same, and apt-get does not wait for an update of the lists by another.
host_installs() (
	command -v apt-get >/dev/null || die "this host lacks something of ${*:2}: install that with its package manager."
	hold "$CACHE/locks/host" "installing ${*:2}"
	! "$1" || return 0
	shift
	say "  installing on this host with apt-get: $*"
	{
		apt-get -qq -o DPkg::Lock::Timeout=300 update &&
			DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@"
	} >/dev/null || die "apt-get could not install $*: install by hand what is missing of it."
)

has_bwrap() { command -v bwrap >/dev/null; }
has_mmdebstrap() { command -v mmdebstrap >/dev/null && [[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]]; }

# host_can_run: check that the host can run everything inside the Debian root.
host_can_run() {
	[[ $(uname -m) == x86_64 ]] ||
		die "this host is $(uname -m), but the machine is built for x86_64 only: use an x86_64 host, or build against your own kernel with 'make modules KDIR=...'."
	has_bwrap || host_installs has_bwrap bubblewrap
	bwrap --unshare-pid --ro-bind / / --dev /dev --proc /proc true 2>/dev/null ||
		die "this host does not let its root, or a user's, make mount and process namespaces (a container without CAP_SYS_ADMIN?): run on a real or virtual machine, or in a privileged container."
}

# packages [LIST]: print the packages of LIST, by default those of the root, in apt's form.
packages() { awk -v suite="$SUITE" '!/^(#|$)/ { print $1 ($2 ? "/" suite "-" tolower($2) : "") }' "$MACHINE/${1:-packages}"; }

# new_root SUITE DIR PACKAGES OPTION...: make a root in namespaces of its own, like those of
# in-root, with further options of mmdebstrap. It can be made again at any time, so that it needs no
# syncs. Its sources.list has the mirror that it was made from, and its apt the options here.
new_root() {
	local apt=('APT::Sandbox::User "root"' 'APT::Update::Error-Mode "any"' 'Acquire::Retries "2"' 'Acquire::http::Timeout "30"')
	bwrap --die-with-parent --unshare-pid --cap-add ALL --dev-bind / / --proc /proc -- \
		mmdebstrap --mode=root --format=directory --include="$3" --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
		"${apt[@]/#/--aptopt=}" "${@:4}" "$1" "$2" ${MIRROR:+"$MIRROR"}
}

# Options of new_root: without manuals, for building; with the backports; for other suites.
FOR_BUILDING=(--variant=minbase --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*'
	--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*'
	--customize-hook='cd "$1" && mkdir -p src build kernel usr/lib/modules && rm -f etc/resolv.conf && touch etc/resolv.conf')
WITH_BACKPORTS="--setup-hook=sed -i -n 's/^\(deb .*\) $SUITE main\$/\1 $SUITE main\n\1 $SUITE-backports main/p' \"\$1/etc/apt/sources.list\""
OF_OTHERS=(--aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Languages "none"')

WHY_NOT='the log above says why; check the network, or name another mirror with MIRROR=...'

# make_debian TEXT LOG ARGUMENT...: new_root as a step.
make_debian() {
	has_mmdebstrap || host_installs has_mmdebstrap mmdebstrap debian-archive-keyring
	step "$1" "$LOGS/$2" new_root "${@:3}" || die "$1 could not be made: $WHY_NOT"
}

# fill TEXT LOG COMMAND... DIR: a step in which COMMAND, inside the root, has DIR as /kernel.
fill() {
	NETWORK=1 KERNEL_WRITABLE=1 USER_EVENTS_KERNEL=${!#} step "$1" "$LOGS/$2" inside "${@:3:$#-3}" || die "failed to $1: $WHY_NOT"
}

make_root() { # DIR
	local free_kib
	say "Making the Debian root (once; about two minutes)"
	free_kib=$(df -Pk "$CACHE" | awk 'NR == 2 { print $4 }')
	((free_kib >= 8 * 1024 * 1024)) ||
		die "too little disk space in $CACHE: 8 GiB are needed, $((free_kib / 1024 / 1024)) GiB are free; make room or set USER_EVENTS_CACHE to a directory on a larger disk."
	make_debian "Debian $SUITE with compilers, emulator and tracing tools" root "$SUITE" "$1" "$(packages | paste -sd,)" \
		"${FOR_BUILDING[@]}" "$WITH_BACKPORTS"
}

# become_root ARGUMENT...: an ordinary user continues in the same script as root of a user namespace
# with subordinate IDs, which then own the files of the Debian root. If the host lacks something for
# this, only its root can install that.
become_root() {
	[[ $(id -u) -ne 0 ]] || return 0
	{ has_bwrap && has_mmdebstrap && unshare --map-root-user --map-auto true &>/dev/null; } ||
		die "root is needed once, to install bubblewrap, mmdebstrap, debian-archive-keyring, uidmap (and util-linux 2.38 or newer), and for 'usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $(id -un)': do that, or run the same command with sudo."
	exec unshare --map-root-user --map-auto -- "$MACHINE/${0##*/}" "$@"
}
become_root "$@"
