# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the host must have. Sourced after say.sh.

# For whatever runs inside the Debian root.
host_can_run() {
	[[ $(uname -m) == x86_64 ]] ||
		die "this host is $(uname -m), but the machine is built for x86_64 only: use an x86_64 host, or build against your own kernel with 'make modules KDIR=...'."
	[[ $(id -u) -eq 0 ]] ||
		die "root is needed to set up the Debian root (chroot, mounts): run the same command with sudo."
	unshare --mount --pid --fork true 2>/dev/null ||
		die "this host does not let root make mount and process namespaces (a container without CAP_SYS_ADMIN?): run on a real or virtual machine, or in a privileged container."
}

# For making the root anew; DIR is where it will lie.
host_can_make_root() { # DIR
	local free_kib
	free_kib=$(df -Pk "$1" | awk 'NR == 2 { print $4 }')
	((free_kib >= 8 * 1024 * 1024)) ||
		die "too little disk space in $1: 8 GiB are needed, $((free_kib / 1024 / 1024)) GiB are free; make room or set USER_EVENTS_CACHE to a directory on a larger disk."
	if ! command -v debootstrap >/dev/null || [[ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ]]; then
		command -v apt-get >/dev/null ||
			die "debootstrap and debian-archive-keyring are missing: install them with this host's package manager."
		say "  debootstrap or its keyring is missing: installing debootstrap and debian-archive-keyring with apt-get"
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends debootstrap debian-archive-keyring; } >/dev/null ||
			die "apt-get could not install debootstrap and debian-archive-keyring: install them by hand."
	fi
}
