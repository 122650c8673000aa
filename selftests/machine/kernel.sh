# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2153,SC2154 # of ready.sh and scripts/kernel-tree.sh
#
# The kernels: Debian's newest stock kernel, and the project's own. Sourced by ready.sh. A kernel's
# entry in the cache has
#   stock/      image, modules and headers, as in Debian's packages
#   tree/       an output directory in which modules for the kernel can be built
#   source/     the source, and selftests/, the kernel's own of user_events, built unmodified: in
#               the stock kernel's entry
#   version     the output of uname -r
# An entry of the project's own has such a directory for each kernel that was built together, and
#   edited/     the edited files of their source

# once_a_day FILE LOG COMMAND...: make FILE of the output of COMMAND inside the root, unless it is
# younger than a day. COMMAND gets the former one. Returns 1 if that stays, also because the archive
# does not answer.
once_a_day() {
	[[ ! -s $1 || -n $(find "$1" -mmin +1440) ]] || return
	say "  asking the Debian archive for its kernels with Rust"
	touch -a "$1"
	if NETWORK=1 USER_EVENTS_KERNEL='' inside "${@:3}" <"$1" >"$1.$$" 2>"$LOGS/$2"; then
		mv "$1.$$" "$1"
		return
	fi
	rm "$1.$$"
	[[ -s $1 ]] || {
		tail -n 20 "$LOGS/$2" >&2
		die "the Debian archive does not say which kernels it has: $WHY_NOT"
	}
	say "  the archive does not answer: staying with what it had before"
	return 1
}

# newest_in_archive: inside the root, print the version of the newest 7.x kernel in the archive that
# was built with Rust and has all packages: image, modules, headers and source.
newest_in_archive() {
	local version
	has() { grep -qxF -e "$1" names; }
	cd /tmp || return
	apt-get -qq update >&2
	apt-cache pkgnames linux- >names
	while read -r version; do
		if ! has "linux-binary-unsigned-$version-amd64" || ! has "linux-modules-$version-amd64" ||
			! has "linux-source-$(series_of "$version")"; then
			continue
		fi
		rm -f ./*.deb
		apt-get -qq download "linux-headers-$version-amd64" >&2
		# Reads the whole archive, else dpkg-deb complains of a closed pipe.
		if dpkg-deb --fsys-tarfile ./*.deb | tar -xO "./usr/src/linux-headers-$version-amd64/.config" |
			grep -x CONFIG_RUST=y >&2; then
			echo "$version-amd64"
			return
		fi
	done < <(sed -n 's/^linux-headers-\(7\.[0-9.]*\(+[^-]*\)\?\)-amd64$/\1/p' names | sort -rV)
	echo "the archive has no 7.x kernel built with Rust" >&2
	return 1
}

make_stock_kernel() { # DIR
	fill "download, unpack and prepare the kernel $VERSION (once; about three minutes)" kernel-make stock_kernel "$VERSION" "$1"
}

# stock_kernel VERSION: inside the root, fill /kernel.
stock_kernel() {
	local version=$1 series release package
	series=$(series_of "$version")
	echo "== download"
	cd /tmp || return
	apt-get -qq update
	release=$(apt-cache show "linux-headers-$version" | sed -n 's/^Version: //p' | head -n1)
	for package in "linux-headers-$version" "linux-binary-unsigned-$version" "linux-modules-$version" "linux-source-$series"; do
		apt-get -qq download "$package=$release"
	done
	dpkg-deb --fsys-tarfile linux-source-* | tar -xO "./usr/src/linux-source-$series.tar.xz" | xz -dc -T0 | tar -xC /kernel
	mv "/kernel/linux-source-$series" /kernel/source
	rm linux-source-*
	debian_tree "$version" "${version##*-}"
}

# own_selftests O=DIR [OPTION...]: inside the root, build the kernel's own selftests.
own_selftests() {
	echo "== the kernel's own selftests"
	make -s "$@" headers_install INSTALL_HDR_PATH=/tmp/headers
	mkdir -p /kernel/selftests
	make -C tools/testing/selftests/user_events OUTPUT=/kernel/selftests "${@:2}" \
		CFLAGS="-static -O2 -isystem /tmp/headers/include -I.." \
		/kernel/selftests/{ftrace,dyn,perf,abi}_test
}

# own_kernel NAME: use one of the project's own kernels: c, with the C implementation built in;
# custom, the same without it; debug and kcsan, custom with sanitizers; uml-c and uml, a pair like c
# and custom, run as processes of the host. NAME-6.12, not of uml, is built from the release's own
# source, without Rust.
own_kernel() {
	local name=${1%-6.12} kind recipe names fragments key
	case $1 in
	c | custom | c-6.12 | custom-6.12) kind=small names=(c custom) fragments=(small) recipe=(small_kernels) ;;
	debug | kcsan | debug-6.12 | kcsan-6.12)
		kind=$name names=("$name") fragments=(small debug "${name/debug/kasan}") recipe=(debug_kernel "$name" "${name/debug/kasan}")
		;;
	uml-c | uml) kind=uml names=(uml-c uml) fragments=(uml) recipe=(uml_kernels) ;;
	*) die "there is no kernel '$1': stock, c, custom, debug, kcsan, each also with -6.12, uml-c, uml, or one that 'selftests/machine/kernels list' shows." ;;
	esac
	if [[ $1 == *-6.12 ]]; then
		kind=stable-$kind names=("${names[@]/%/-6.12}") recipe+=(-6.12)
		whole_source 6.12
	fi
	key=$({
		basename "$USER_EVENTS_ROOT"
		echo "${recipe[*]}"
		recipe own-kernels
		(cd "$MACHINE" && grep -hE '^(CONFIG_|# CONFIG_.* is not set)' "${fragments[@]/%/.config}")
		[[ $kind != uml ]] || cat "$MACHINE"/uml-kernel/*
	} | cache_key)
	cache_entry "$kind" "$(cat "$USER_EVENTS_SOURCE/version")-$key" make_own_kernel
	export USER_EVENTS_KERNEL=$CACHE_ENTRY/$1
}

# make_own_kernel DIR: build it from the variables of own_kernel.
make_own_kernel() {
	local name
	# Mount points of in-root for the files shared with the stock kernel.
	for name in . "${names[@]}"; do
		mkdir -p "$1/$name/"{source,selftests}
	done
	KERNEL_WRITABLE=1 USER_EVENTS_KERNEL=$1 step "build of kernels: ${names[*]} (once; 10 to 45 minutes)" "$LOGS/kernel-$kind" inside "${recipe[@]}" ||
		die "the kernel could not be built: the log above says why."
}

# The following functions run inside the root, in the kernel's source. The array OPTIONS has
# arguments for every make. Long builds run at low priority.
kernel_make() { nice make -j"$(nproc)" O=/kernel/tree "${OPTIONS[@]}" "$@"; }

# kernel_configure FRAGMENT...: apply them to a configuration in which all else is off; repeatedly,
# as one option may open the menu of another. 6.12 lacks some options, and leaves Rust to the
# module, for which objtool needs IBT.
kernel_configure() {
	local try
	echo "== configure"
	if [[ ! -e /kernel/tree/.config ]]; then
		mkdir -p /kernel/tree
		kernel_make -s tinyconfig
	fi
	cat "$@" >/tmp/fragments
	! grep -qx 'PATCHLEVEL = 12' Makefile ||
		sed -i -e '$a CONFIG_X86_KERNEL_IBT=y' -e '/^CONFIG_RUST[_=]/d;/CONFIG_ACPI_EC /d' /tmp/fragments
	for try in 1 2 3 4; do
		# Makes a file where it is called.
		(cd /kernel/tree && /kernel/source/scripts/kconfig/merge_config.sh -m -O /kernel/tree .config /tmp/fragments) >/tmp/merge
		kernel_make -s olddefconfig
		grep -E '^(CONFIG_|# CONFIG_.* is not set)' /tmp/fragments | grep -vxF -f /kernel/tree/.config >/tmp/lacking || return 0
		echo "after $try rounds the configuration lacks:"
		cat /tmp/lacking
	done
	echo "the kernel's configuration does not take these lines (renamed, or something that they depend on is missing):" \
		"$(paste -sd, /tmp/lacking)"
	return 1
}

# kernel_finish NAME: build the configured kernel, and install it; User Mode Linux without modules.
kernel_finish() {
	local version modules image=bzImage
	[[ " ${OPTIONS[*]} " != *' ARCH=um '* ]] || image=linux
	echo "== build $1"
	kernel_make "$image" modules
	version=$(kernel_make -s kernelrelease)
	modules=/kernel/$1/stock/usr/lib/modules/$version
	mkdir -p "$modules"
	if [[ $image == linux ]]; then
		strip -o "$modules/linux" /kernel/tree/linux
	else
		kernel_make -s modules_install INSTALL_MOD_PATH="/kernel/$1/stock/usr" DEPMOD=true
		rm -f "$modules/build"
		depmod -b "/kernel/$1/stock/usr" "$version"
		cp /kernel/tree/arch/x86/boot/bzImage "$modules/vmlinuz.unsigned"
	fi
	cp /kernel/tree/.config "$modules/config"
	echo "$version" >"/kernel/$1/version"
}

# kernel_keep_tree NAME: move to NAME the part of the tree that building modules needs, without
# objects of the kernel; of a kernel without Rust with those that are linked into the module.
kernel_keep_tree() {
	local tree=/kernel/tree
	find "$tree" \( -name '*.o' -o -name '*.a' -o -name '.*.cmd' \) ! -path "$tree/scripts/*" ! -path "$tree/tools/*" -delete
	rm -f "$tree"/vmlinux* "$tree/.tmp_vmlinux"* "$tree/arch/x86/boot/"{bzImage,vmlinux.bin} \
		"$tree/arch/x86/boot/compressed/"vmlinux*
	grep -qx CONFIG_RUST=y "$tree/.config" || {
		kernel_make "${rust_in_sections[@]}" modules_prepare rust/helpers/helpers.o
		touch "/kernel/$1/linked"
	}
	mv "$tree" "/kernel/$1/tree"
}

# kernel_edit FILE EXPRESSION: replace a file of the source by sed's output, which must differ.
kernel_edit() {
	local copy=/kernel/edited/$1
	mkdir -p "${copy%/*}"
	sed -E "$2" "/kernel/source/$1" >"$copy"
	! cmp -s "$copy" "/kernel/source/$1" || {
		echo "$1 has nothing any more that '$2' would change"
		return 1
	}
	mount --bind "$copy" "/kernel/source/$1"
}

# kernel_pair FRAGMENT NAME-OF-C LOCALVERSION NAME LOCALVERSION: build a kernel with the C
# implementation, and the same without it, which reuses the objects of the first.
kernel_pair() {
	printf '%s\n' CONFIG_USER_EVENTS=y "CONFIG_LOCALVERSION=\"-$3\"" >/tmp/c.config
	printf '%s\n' '# CONFIG_USER_EVENTS is not set' "CONFIG_LOCALVERSION=\"-$5\"" >/tmp/without.config
	kernel_configure "$1" /tmp/c.config
	kernel_finish "$2"
	kernel_configure "$1" /tmp/without.config
	kernel_finish "$4"
	kernel_keep_tree "$4"
}

# small_kernels [SUFFIX]: build the two small kernels, which differ only in CONFIG_USER_EVENTS. Both
# have its member of task_struct, so that the offsets are the same, and all but a few objects are
# built once.
small_kernels() {
	local c=c${1:-} custom=custom${1:-} OPTIONS=()
	cd /kernel/source || return
	kernel_edit include/linux/sched.h '/^#ifdef CONFIG_USER_EVENTS$/,/^#endif/{/^#/d}'
	kernel_pair /src/selftests/machine/small.config "$c" small-c "$custom" small
	options() { grep -E '^(# )?CONFIG_' /kernel/"$1"/stock/usr/lib/modules/*/config | grep -vE 'CONFIG_(USER_EVENTS|LOCALVERSION)\b'; }
	if ! diff <(options "$c") <(options "$custom"); then
		echo "CONFIG_USER_EVENTS brings the differences above with it: the two kernels cannot be compared"
		return 1
	fi
}

# debug_kernel NAME SANITIZER [SUFFIX]: build the small custom kernel with all debugging options.
# The kernel allows KASAN together with Rust only with clang, which takes twice as long as gcc. gcc
# and rustc get the same options, and call the same functions.
debug_kernel() {
	local configs=/src/selftests/machine OPTIONS=()
	cd /kernel/source || return
	[[ $2 != kasan || -n ${3:-} ]] || kernel_edit init/Kconfig '/^\tdepends on !KASAN \|\| CC_IS_CLANG$/d'
	printf '%s\n' '# CONFIG_USER_EVENTS is not set' "CONFIG_LOCALVERSION=\"-$1\"" >/tmp/name.config
	# The sanitizer's configuration chooses an unwinder.
	sed '/^CONFIG_UNWINDER_/d' "$configs/small.config" >/tmp/small.config
	kernel_configure /tmp/small.config "$configs"/{debug,"$2"}.config /tmp/name.config
	kernel_finish "$1${3:-}"
	kernel_keep_tree "$1${3:-}"
}

# uml_kernels: build the two kernels for User Mode Linux, which differ like the small ones. That
# architecture lacks kprobes, of which the module uses one that is never armed, and perf; both are
# added. As on x86 are made: reads of user memory (uml-kernel/uaccess.h); additions to per-CPU
# variables, which are one instruction there; and copies, which use REP MOVSB on x86 if the
# processor has FSRM, and here the loop for processors without.
uml_kernels() {
	local from=/src/selftests/machine/uml-kernel OPTIONS=(ARCH=um)
	cd /kernel/source || return
	kernel_edit include/linux/sched.h '/^#ifdef CONFIG_USER_EVENTS$/,/^#endif/{/^#/d}'
	kernel_edit arch/um/Kconfig 's/^\tselect HAVE_RUST$/&\n\tselect HAVE_KPROBES\n\tselect HAVE_PERF_EVENTS/'
	# The headers of x86 serve where this architecture has none.
	kernel_edit arch/x86/include/asm/perf_event.h d
	kernel_edit include/asm-generic/kprobes.h "/^#define _ASM_GENERIC_KPROBES_H/r $from/kprobes.h"
	kernel_edit arch/um/kernel/ksyms.c "\$r $from/kprobes.c"
	kernel_edit arch/um/kernel/dyn.lds.S 's/^( *)LOCK_TEXT$/&\n\1KPROBES_TEXT/'
	kernel_edit arch/um/include/asm/uaccess.h "/^extern unsigned long raw_copy_from_user/{r $from/uaccess.h"$'\nd\n}'
	kernel_edit arch/um/kernel/skas/uaccess.c 's/\braw_copy_from_user\b/raw_copy_from_program/'
	kernel_edit arch/x86/lib/memcpy_64.S '/^\tALTERNATIVE "jmp memcpy_orig"/d'
	kernel_edit include/asm-generic/percpu.h '/^#define this_cpu_generic_to_op/,/^} while/{/__flags/d}'
	# The same name, so that the module that makes the benchmark's calls serves both.
	kernel_pair /src/selftests/machine/uml.config uml-c uml uml uml
}
