# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Configures and builds kernels of our own, inside the root, from /kernel/source in /kernel/tree. Sourced there.
# What becomes of a configuration NAME is put below /kernel/NAME:
#   stock/    the image and its modules, as Debian's packages have them
#   version   what uname -r says
# and tree/, in which modules for it can be built, by the last one built.

tree=/kernel/tree
# What every make is told besides, such as LLVM=1.
MAKE_OPTIONS=()

# A build of many minutes lets the others on the machine go first.
build() { nice make -j"$(nproc)" O="$tree" "${MAKE_OPTIONS[@]}" "$@"; }

# lacking FRAGMENT: its lines that the configuration does not have.
lacking() { grep -E '^(CONFIG_|# CONFIG_.* is not set)' "$1" | grep -vxF -f "$tree/.config"; }

# configure_nothing: start from the smallest configuration there is.
configure_nothing() {
	mkdir -p "$tree"
	build -s tinyconfig
}

# configure FRAGMENT...: apply them until they hold: one option may open the menu of another.
configure() {
	local try
	for try in 1 2 3 4; do
		scripts/kconfig/merge_config.sh -m -O "$tree" "$tree/.config" "$@" >/tmp/merge
		build -s olddefconfig
		cat "$@" >/tmp/wanted
		lacking /tmp/wanted >/tmp/lacking || return 0
		echo "after $try rounds the configuration lacks:"
		cat /tmp/lacking
	done
	echo "the kernel's configuration does not take these lines (renamed, or something that they depend on is missing):" \
		"$(paste -sd, /tmp/lacking)"
	exit 1
}

# finish NAME: build what is configured, and put it where it belongs.
finish() {
	local version modules
	echo "== build $1"
	build bzImage modules
	version=$(build -s kernelrelease)
	modules=/kernel/$1/stock/usr/lib/modules/$version
	mkdir -p "$modules"
	build -s modules_install INSTALL_MOD_PATH="/kernel/$1/stock/usr" DEPMOD=true
	rm -f "$modules/build"
	depmod -b "/kernel/$1/stock/usr" "$version"
	cp "$tree/arch/x86/boot/bzImage" "$modules/vmlinuz.unsigned"
	cp "$tree/.config" "$modules/config"
	echo "$version" >"/kernel/$1/version"
}

# keep_tree NAME: leave to NAME of the tree what building modules needs, which is no object of the kernel's own.
keep_tree() {
	find "$tree" \( -name '*.o' -o -name '*.a' -o -name '.*.cmd' \) ! -path "$tree/scripts/*" ! -path "$tree/tools/*" -delete
	rm -f "$tree"/vmlinux* "$tree/.tmp_vmlinux"* "$tree/arch/x86/boot/"{bzImage,vmlinux.bin} \
		"$tree/arch/x86/boot/compressed/"vmlinux*
	mv "$tree" "/kernel/$1/tree"
}
