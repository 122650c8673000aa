# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The machine for kernels of arm64. Sourced by ready.sh. The cache has for it
#   guest-arm64-KEY   root/: Debian for arm64, the files of the machine; the compilers of the
#                     machine's own root build against its libraries. qemu-system-aarch64: the
#                     emulator, which runs in the latter root
# In the machine's own root it is /mnt. The packages of root/ are unpacked and not installed, so
# that none of its programs has to run here; make_guest_arm64 makes the files that their scripts
# would have made and that are needed.

# ready_arm64: make the entry if it is missing, and hold it.
ready_arm64() {
	cache_entry guest-arm64 "$(key_of guest-arm64 "${USER_EVENTS_ROOT##*/}" "$(packages packages-arm64)")" make_guest_arm64
	export USER_EVENTS_GUEST=$CACHE_ENTRY
}

make_guest_arm64() { # DIR
	mkdir "$1/root"
	make_debian "Debian $SUITE for arm64 (once)" guest-arm64 "$SUITE" "$1/root" "$(packages packages-arm64 | paste -sd,)" \
		--variant=extract --architectures=arm64,armhf --aptopt='Acquire::Languages "none"' \
		--setup-hook="sed -i -n 's/^deb \(\[\([^]]*\)\] \)\?\([^ ]* \)$SUITE main\$/&\ndeb [ arch=arm64 \2 ] \3$SUITE-backports main/p' \"\$1/etc/apt/sources.list\"" \
		--setup-hook='cd "$1" && for dir in bin lib sbin; do mkdir -p usr/$dir && ln -s usr/$dir $dir; done' \
		--extract-hook='cd "$1" && cp usr/share/base-passwd/passwd.master etc/passwd && cp usr/share/base-passwd/group.master etc/group' \
		--extract-hook='cd "$1/etc" && touch fstab shadow sudoers && echo "127.0.0.1 localhost" >hosts && ln -s ../proc/self/mounts mtab' \
		--extract-hook='cd "$1/usr" && ln -s mawk bin/awk && ln -s ../bin/busybox sbin/poweroff' \
		--extract-hook='cd "$1" && mkdir -p mnt opt srv media src build kernel usr/lib/modules && rm -rf etc/resolv.conf etc/hostname usr/share/doc usr/share/man usr/share/locale'
	USER_EVENTS_SOURCE='' USER_EVENTS_GUEST='' fill "download the emulator of arm64" emulator-arm64 arm64_emulator "$1"
}

# arm64_emulator: inside the machine's root, put the emulator into /kernel. It has the same source
# version as that root's own emulator, and needs no library that the root lacks.
arm64_emulator() {
	cd /tmp || return
	apt-get -qq update
	apt-get -qq download qemu-system-arm
	dpkg-deb --fsys-tarfile ./*.deb | tar -xO ./usr/bin/qemu-system-aarch64 >/kernel/qemu-system-aarch64
	chmod 755 /kernel/qemu-system-aarch64
	/kernel/qemu-system-aarch64 --version
}

# cross COMMAND...: inside the machine's root, run COMMAND with compilers for arm64: /tmp/cross/cc,
# cc-32 and rustc.
cross() {
	local name target rustlib=/tmp/cross/sysroot/lib/rustlib
	mkdir -p "$rustlib"
	for name in cc:aarch64-linux-gnu cc-32:armv7-linux-gnueabihf; do
		target=${name#*:} name=/tmp/cross/${name%:*}
		printf '%s\n' '#!/bin/sh' "exec clang --target=$target --sysroot=/mnt/root -fuse-ld=lld \"\$@\"" >"$name"
	done
	# Build scripts and macros run on this host.
	ln -s /usr/lib/rustlib/x86_64-unknown-linux-gnu /mnt/root/usr/lib/rustlib/aarch64-unknown-linux-gnu "$rustlib/"
	printf '%s\n' '#!/bin/sh' "exec rustc --target=aarch64-unknown-linux-gnu --sysroot=${rustlib%/lib/rustlib} -C linker=/tmp/cross/cc \"\$@\"" \
		>/tmp/cross/rustc
	chmod 755 /tmp/cross/{cc,cc-32,rustc}
	export CARGO_BUILD_TARGET=aarch64-unknown-linux-gnu CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=/tmp/cross/cc
	export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="--sysroot=${rustlib%/lib/rustlib}"
	"$@"
}
