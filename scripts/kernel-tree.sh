# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The module's requirements on a kernel tree; a sentence names what is missing. Sourced by 'make
# modules' and by the package's build (debian/dkms/build). The caller sets $kdir, the tree's output
# directory with .config, runs in the directory of Kbuild, defines die, which gets the sentence and
# does not return, and sets by_name=1 if variables may name the compilers.

# The supported series: $stable, and all from $oldest on.
stable=6.12 oldest=7.2

# Arguments of make for a kernel that was built without Rust, or by another rustc: link the objects
# of the kernel's rust/ into the module.
rust_of_ours=(CONFIG_RUST=y 'KRUSTFLAGS=--cfg CONFIG_RUST' USER_EVENTS_LINK_RUST=y)
# Further arguments to prepare the tree with these objects: a section for each function, so that
# most can be left out; without tracing, which needs a table of all functions; as parts of a module,
# for which headers differ; and without arm64's vDSO for 32-bit programs, which takes another
# compiler.
# shellcheck disable=SC2034 # of those that source this
rust_in_sections=(CONFIG_RUST=y 'KRUSTFLAGS=--cfg CONFIG_RUST -Zfunction-sections=y' 'KCFLAGS=-ffunction-sections -fno-profile'
	CFLAGS_helpers/helpers.o=-DMODULE CONFIG_COMPAT_VDSO=)

# configured_as HEADERS SOURCE TREE: give the directory TREE, in which 6.12 is to be prepared, the
# configuration of Debian's headers, without the source's Kconfig: the kernel with PREEMPT_RT has
# options of patches that are in no package. The headers that these patch are all common to its
# flavour, and the caller has copied them over the source. The headers were configured without
# rustc, whose version the makefiles need.
configured_as() {
	local tree=$3/include rustc=${RUSTC:-rustc}
	mkdir -p "$tree"
	cp -r "$1"/include/{config,generated} "$tree/"
	cp "$1/.config" "$3/"
	sed -i "s/^CONFIG_RUSTC_VERSION=.*/CONFIG_RUSTC_VERSION=$("$2/scripts/rustc-version.sh" "$rustc")/
		s/^CONFIG_RUSTC_LLVM_VERSION=.*/CONFIG_RUSTC_LLVM_VERSION=$("$2/scripts/rustc-llvm-version.sh" "$rustc")/" "$tree/config/auto.conf"
	# Newer than their sources, so that make keeps them.
	touch "$tree"/config/auto.conf{,.cmd} "$tree"/generated/{autoconf.h,rustc_cfg}
}

# options FILE: print the options of a configuration, except those that may differ: the update
# version of a compiler; the features of compilers, if they are not the kernel's; keys that only the
# kernel's builders have; and arm64's vDSO for 32-bit programs.
options() {
	local compilers='(GCC|AS|LD|PAHOLE)_VERSION'
	has_our_rust || compilers+='|CC_HAS_|RUSTC_|X86_NATIVE_CPU'
	grep -E '^(# )?CONFIG_' "$1" |
		grep -vE "VERSION_TEXT|CONFIG_(BUILD_SALT|SYSTEM_TRUSTED_KEYS|MODULE_SIG_KEY|$compilers|((THUMB2|GENERIC)_)?COMPAT_VDSO)"
}

# or_by NAME: print that the variable NAME serves as well.
or_by() { [[ -z ${by_name:-} ]] || printf ', or name it with %s=' "$1"; }

# needed SERIES: print the options that Kbuild requires for that series, or for all that match it.
needed() {
	sed -n '/^needed-options :=/,/[^\\]$/{s/^.*:=//;s/\\$//;p}' Kbuild
	sed -n "s/^needed-options-of-$1 := //p" Kbuild
}

# has OPTION VALUE: whether the tree's configuration has it.
has() { grep -qx "CONFIG_$1=$2" "$kdir/.config"; }

# series: print the tree's series, such as 7.3, or nothing if unknown.
series() {
	{
		cat "$kdir/include/config/kernel.release" 2>/dev/null || true
		sed -n 's/^# Linux[^ ]* \(.*\) Kernel Configuration$/\1/p' "$kdir/.config"
	} | sed -n 's/^\([0-9][0-9]*\.[0-9][0-9]*\).*/\1/p' | awk 'NR == 1'
}

# fits: check that the kernel can take the module. Sets kdir to the absolute path.
fits() {
	local option version arch
	[[ -d $kdir ]] ||
		die "there is no kernel tree $kdir: name one with KDIR=DIR, where DIR is a kernel's build directory."
	kdir=$(cd "$kdir" && pwd)
	[[ -e $kdir/.config && -e $kdir/Makefile ]] ||
		die "$kdir is no configured kernel tree (no .config or Makefile): name the directory the kernel was built in."
	[[ ! -L $kdir/source || -e $kdir/source/Makefile ]] ||
		die "$kdir was made from the source $(readlink "$kdir/source"), which is not there: put that back, or prepare the tree anew."
	version=$(series)
	[[ -z $version || $version == "$stable" || $(printf '%s\n' "$version" "$oldest" | sort -V | head -n 1) == "$oldest" ]] ||
		die "the kernel of $kdir is Linux $version, and the module is for $stable, and for $oldest and newer."
	has_our_rust || ! has X86_64 y || has X86_KERNEL_IBT y ||
		die "the kernel of $kdir has no Rust of '$(rustc_version)', and is configured without CONFIG_X86_KERNEL_IBT, which the module needs to have Rust linked in: enable it."
	[[ -n $(needed "$version") ]] || die "Kbuild names no needed-options: take it from the sources as they were."
	for option in $(needed "$version"); do
		has "$option" y ||
			die "the kernel of $kdir is configured without CONFIG_$option, which the module needs: enable it (README.md says what for)."
	done
	! has USER_EVENTS y ||
		die "the kernel of $kdir has CONFIG_USER_EVENTS=y, so it has user_events already: unset it to use this module instead."
	if has X86_64 y; then
		arch=x86
	elif has ARM64 y; then
		arch=arm64
	else
		die "the kernel of $kdir is neither for x86-64 nor for arm64, which are all that the module is built for."
	fi
	[[ ${ARCH:-$(uname -m | sed 's/x86_64/x86/;s/aarch64/arm64/')} == @("$arch"|"${arch/x86/x86_64}") ]] ||
		die "the kernel of $kdir is for $arch, and this host is not: name ARCH=$arch, and the compilers with CROSS_COMPILE=."
}

# rustc_of_kernel: print the version text of the rustc that built the kernel.
rustc_of_kernel() { sed -n 's/^CONFIG_RUSTC_VERSION_TEXT="\(.*\)"$/\1/p' "$kdir/.config"; }

# rustc_version: print the version text of this host's rustc, or nothing.
rustc_version() { "${RUSTC:-rustc}" --version 2>/dev/null || true; }

# has_our_rust: whether this host's rustc built the kernel's Rust, whose symbols carry a hash of the
# compiler. If not, the module is linked with Rust of its own.
has_our_rust() { has RUST y && [[ $(rustc_of_kernel) == "$(rustc_version)" ]]; }

# compilers_fit: check that the compilers are installed.
compilers_fit() {
	[[ $(rustc_version) ]] || die "rustc is missing: install it$(or_by RUSTC)."
	command -v "${BINDGEN:-bindgen}" >/dev/null || die "bindgen is missing: install it$(or_by BINDGEN)."
	if has CC_IS_CLANG y; then
		command -v clang >/dev/null || [[ -n ${LLVM:-}${CC:-} ]] ||
			die "the kernel of $kdir was built by clang, which is missing here: install it$(or_by LLVM)."
	else
		command -v "${CC:-${CROSS_COMPILE:-}gcc}" >/dev/null ||
			die "the kernel of $kdir was built by gcc, and ${CC:-${CROSS_COMPILE:-}gcc} is missing here: install it$(or_by CC)."
	fi
}

# has_symvers: check that the tree lists the kernel's exports.
has_symvers() {
	[[ -s $kdir/Module.symvers ]] ||
		die "$kdir has no Module.symvers: build the kernel, or copy the file from the package that it came from."
	grep -q $'\tvmlinux\t' "$kdir/Module.symvers" ||
		die "the Module.symvers of $kdir has nothing of the kernel itself: build the kernel, or copy the file from the package that it came from."
	if has MODVERSIONS y; then
		grep $'\tmodule_layout\t' "$kdir/Module.symvers" | grep -qv '^0x00000000' ||
			die "the kernel of $kdir has CONFIG_MODVERSIONS, and its Module.symvers has no versions: copy the file that the kernel's own build left."
	fi
}

# has_its_symbols DIR: whether the Rust symbols made in DIR are the kernel's. A few may differ.
has_its_symbols() {
	local file=$1/exports_core_generated.h
	[[ -s $file ]] || return 0
	awk '
		NR == FNR { kernel[$2]; next }
		match($0, /\(.*\)/) { all++; if (substr($0, RSTART + 1, RLENGTH - 2) in kernel) same++ }
		END { exit !(same * 2 >= all) }' "$kdir/Module.symvers" "$file"
}

# symbols_fit DIR
symbols_fit() {
	has_its_symbols "$1" || {
		! has TRIM_UNUSED_KSYMS y ||
			die "the kernel of $kdir has CONFIG_TRIM_UNUSED_KSYMS, and keeps from modules what this one needs: unset it."
		die "the Rust symbols of $1 are not those in the Module.symvers of $kdir: the kernel was built by another rustc than '$(rustc_of_kernel)', with which they were made; make them with that one."
	}
}

# make_beside KDIR SOURCE OUT ARGUMENT...: build the module of SOURCE in the directory OUT, with
# makefiles that lack MO=, as those of 6.12: links to the sources are beside the objects.
make_beside() {
	mkdir -p "$3"
	cp -asf "$2"/{Kbuild,NEWS,src} "$3/"
	make -C "$1" M="$3" "${@:4}"
}

# module_into OUT ARGUMENT...: build the module for the tree $kdir in the directory OUT.
module_into() {
	local out=$1 options=("${@:2}")
	has_our_rust || options+=("${rust_of_ours[@]}")
	if [[ $(series) == "$stable" ]]; then
		make_beside "$kdir" "$PWD" "$out" "${options[@]}"
	else
		make -C "$kdir" M="$PWD" MO="$out" "${options[@]}"
	fi
}
