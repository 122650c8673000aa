# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # of scripts/kernel-tree.sh
#
# The kernels of Debian's archive, by their names in uname -r. Sourced by ready.sh. The stock kernel
# of kernel.sh is one of them. For NAME-linked the root's own rustc makes the module, and the
# kernel's Rust is linked in. The cache has for each other kernel in use
#   debian-RELEASE-KEY/RELEASE   the entry of a kernel as in kernel.sh, without the source
#   source-VERSION-KEY           source/: the part of that version's source that preparing a tree
#                                takes; all flavours share it
#   compilers-SUITE-ARCH-KEY     a root with the compilers that built the kernel, if the machine's
#                                own root lacks them
#   whole-source-SERIES-KEY      the source for the project's own kernels of that series, with
#                                selftests/ and version, as in kernel.sh
#   9p-VERSION-KEY               the source of 9p, by which the machine's files come, for clouds'
#                                kernels, which lack it

# archive_list: set ARCHIVE to the list of the archive's kernels, which is fetched once a day. Its
# lines are tab-separated, with - for a missing value:
#   kernel RELEASE SUITE FLAVOUR ARCH VERSION COMPILERS RUSTC CC   COMPILERS: their suite
#   package NAME VERSION FILE SHA256
archive_list() {
	ARCHIVE=$CACHE/archive-$(key_of archive-list "${USER_EVENTS_ROOT##*/}")
	# shellcheck disable=SC2153 # of ready.sh
	! once_a_day "$ARCHIVE" archive archive_kernels "$SUITE" || archive_prune
}

# archive_kernels SUITE: inside the root of SUITE, print the list of all kernels of 6.12 and 7.x
# with complete packages. Standard input is the former list, whose answers are reused.
archive_kernels() {
	local own=$1 suites=("$1" "$1-backports" forky sid experimental) uri suite other package pattern name
	local release flavour arch version compilers rustc cc image
	declare -A asked=() rustc_of=()
	cd /tmp || return
	while IFS=$'\t' read -r name _ _ _ arch version _ rustc cc; do
		[[ $name != kernel ]] || asked[$version/$arch]=$rustc$'\t'$cc
	done

	uri=$(grep -o '[^ ]*://[^ ]*' /etc/apt/sources.list | head -n 1)
	# A suite's Valid-Until may have passed.
	for suite in "${suites[@]}"; do echo "deb [check-valid-until=no] $uri $suite main"; done >sources.list
	printf '%s\n' 'Dir::Etc::SourceList "/tmp/sources.list";' 'Dir::Etc::SourceParts "-";' 'Acquire::Languages "none";' \
		'APT::Architectures { "amd64"; "arm64"; };' >apt.conf
	export APT_CONFIG=/tmp/apt.conf
	apt-get -qq update >&2
	apt-cache pkgnames linux- >names
	# The first suite counts, in lines "NAME | VERSION | URI SUITE/main ARCH Packages".
	pattern='^linux-headers-\(\(6\.12\|7\)\.[0-9.]*\(+[^-]*\)\?\)-\(\(cloud-\|rt-\)\?amd64\|arm64\)$'
	sed -n "/$pattern/p" names | xargs -r apt-cache madison | awk -v suites="${suites[*]}" '
		BEGIN { n = split(suites, of); for (i = 1; i <= n; i++) rank[of[i] "/main"] = i }
		{
			sub(/:.*/, "", $1)
			if (!($1 in best) || rank[$6] < best[$1]) { best[$1] = rank[$6]; version[$1] = $3 }
		}
		END { for (name in best) print name, best[name], of[best[name]], version[name] }' | sort -k2,2n -k4,4V -k1,1 >found
	for suite in forky sid; do
		rustc_of[$suite]=$(apt-cache madison rustc | awk -v suite="$suite/main" '$6 == suite { sub(/[^0-9.].*/, "", $3); print "rustc", $3; exit }')
	done
	rustc_of[$own]=$(rustc --version)
	while read -r package _ suite version; do
		release=${package#linux-headers-}
		# shellcheck disable=SC2001 # a pattern
		flavour=$(sed "s/$pattern/\4/" <<<"$package")
		arch=${flavour##*-}
		image=$(archive_image "$release")
		for name in $image; do
			grep -qxF -e "$name" names || continue 2
		done
		# All flavours of a version are built by the same compilers.
		if [[ -z ${asked[$version/$arch]:-} ]]; then
			rm -f ./*.deb
			apt-get -qq download "$package:$arch=$version" >&2
			# Reads the whole archive, else dpkg-deb complains of a closed pipe.
			dpkg-deb --fsys-tarfile ./*.deb | tar -xO "./usr/src/$package/.config" >config
			asked[$version/$arch]=$(awk -F '"' '
				/^CONFIG_RUST=y/ { has = 1 }
				/^CONFIG_RUSTC_VERSION_TEXT=/ { rustc = $2 }
				/^CONFIG_CC_VERSION_TEXT=/ { cc = $2 }
				END { printf "%s\t%s\n", has && rustc ? rustc : "-", cc ? cc : "-" }' config)
		fi
		IFS=$'\t' read -r rustc cc <<<"${asked[$version/$arch]}"
		# A kernel that was built without Rust takes the rustc of its own suite.
		[[ $suite != "$own" || $rustc != - ]] || rustc=${rustc_of[$own]}
		compilers=-
		for other in sid forky "$own"; do
			[[ "$rustc " != "${rustc_of[$other]} "* ]] || compilers=$other
		done
		printf 'kernel\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$release" "$suite" "$flavour" "$arch" "$version" "$compilers" "$rustc" "$cc"
		# shellcheck disable=SC2046,SC2086 # several words
		[[ $rustc == - ]] ||
			printf '%s\n' "$package:$arch=$version" $(printf "%s:$arch=$version " $image) \
				$(printf "%s=$version " $(archive_headers_of_rt "$release")) \
				"linux-source-$(series_of "$release")=$version" >>wanted
	done <found
	sort -u wanted | xargs apt-cache show | awk '
		/^Package:/ { name = $2 }
		/^Version:/ { version = $2 }
		/^Filename:/ { file = $2 }
		/^SHA256:/ { printf "package\t%s\t%s\t%s\t%s\n", name, version, file, $2 }' | sort -u
}

# series_of RELEASE: print its series, such as 7.3.
series_of() { grep -o '^[0-9]*\.[0-9]*' <<<"$1"; }

# archive_image RELEASE: print the packages of the kernel and its modules.
archive_image() {
	case $1 in
	6.12.*) echo "linux-image-$1-unsigned" ;;
	*) echo "linux-binary-unsigned-$1" "linux-modules-$1" ;;
	esac
}

# archive_headers_of_rt RELEASE: print the package whose headers are not the source's.
archive_headers_of_rt() { [[ $1 != 6.12.*-rt-* ]] || echo "linux-headers-${1%-rt-*}-common-rt"; }

# archive_prune: remove kernels from the cache that left the archive.
archive_prune() {
	local path left
	for path in "$CACHE"/{,new-}{debian,source,9p}-*; do
		left=$(sed -E 's/^(new-)?[^-]*-(.*)-[^-]*$/\2/;s/-linked$//' <<<"${path##*/}")
		cut -f 2,6 "$ARCHIVE" | sed 's/~bpo.*//' | tr '\t' '\n' | grep -qxF -e "$left" || cache_drop "$path"
	done
}

# archive_files VERSION PACKAGE...: print each one's file in the archive, and its SHA-256.
archive_files() {
	local name
	for name in "${@:2}"; do
		awk -F '\t' -v name="$name" -v version="$1" '$1 == "package" && $2 == name && $3 == version { print $4, $5; found = 1; exit }
			END { exit !found }' "$ARCHIVE" || die "the archive has no $name, $1."
	done
}

# archive_kernel RELEASE: use that kernel instead of the stock one.
archive_kernel() {
	local release=${1%-linked} entry=$1 suite arch version compilers rustc files source headers nine_p=
	archive_list
	IFS=$'\t' read -r _ _ suite _ arch version compilers rustc _ < <(awk -F '\t' -v release="$release" '
		$1 == "kernel" && $2 == release && $8 != "-"' "$ARCHIVE") ||
		die "the Debian archive has no kernel '$release' that the module serves: 'selftests/machine/kernels list' shows those it has."
	[[ $compilers != - && $entry == "$release" ]] || compilers=$SUITE rustc=$SUITE
	export USER_EVENTS_COMPILERS=$USER_EVENTS_ROOT
	if [[ $compilers/$arch != "$SUITE/amd64" ]]; then
		cache_entry "compilers-$compilers-$arch" "$(key_of compilers "$rustc")" make_compilers
		USER_EVENTS_COMPILERS=$CACHE_ENTRY
	fi
	headers=$(archive_headers_of_rt "$release")
	source=${version%%~bpo*}
	[[ -z $headers ]] || source=$release
	# shellcheck disable=SC2086 # no or one word
	cache_entry "source-$source" "$(key_of source)" fetch_source archive_source "the source of $version" "source-$version" "$release" "$version" $headers
	export USER_EVENTS_SOURCE=$CACHE_ENTRY
	if [[ $release == *-cloud-* ]]; then
		cache_entry "9p-$source" "$(key_of 9p)" fetch_source archive_9p_source "9p of $version" "9p-$version" "$release" "$version"
		nine_p=$CACHE_ENTRY
	fi
	cache_entry "debian-$entry" "$(key_of archive-tree "${USER_EVENTS_COMPILERS##*/}" "$version${nine_p:+ ${nine_p##*/}}")" make_archive_kernel
	export USER_EVENTS_KERNEL=$CACHE_ENTRY/$entry
	[[ $arch != arm64 ]] || ready_arm64
}

# This and make_archive_kernel get DIR, and the variables of archive_kernel.
make_compilers() {
	local packages=rustc,rust-src,rustfmt,bindgen,gcc,libc6-dev,make,bc,bison,flex,libelf-dev,libdw-dev,libssl-dev,pahole,python3,rsync,cpio,kmod,zstd,xz-utils,ca-certificates
	[[ $arch != arm64 ]] || packages+=,gcc-aarch64-linux-gnu,libc6-dev-arm64-cross
	# Only what preparing a tree and building a module need, without what these do not read.
	make_debian "Debian $compilers with the compilers for $arch (once)" "compilers-$compilers-$arch" "$compilers" "$1" "$packages" "${FOR_BUILDING[@]}" "${OF_OTHERS[@]}" \
		--customize-hook='rm -r "$1"/usr/src/rustc-*/src "$1"/usr/src/rustc-*/compiler "$1"/usr/lib/llvm-*/include "$1"/usr/lib/llvm-*/lib/*.a'
}

make_archive_kernel() {
	# Mount points of in-root for the source.
	mkdir -p "$1/$entry/"{source,selftests}
	[[ -z $nine_p ]] || cp -r "$nine_p" "$1/$entry/9p"
	# shellcheck disable=SC2046 # several words
	files=$(archive_files "$version" "linux-headers-$release" $(archive_image "$release")) || exit
	# shellcheck disable=SC2086 # several words
	in_compilers fill "download and prepare $entry" "kernel-$entry" archive_tree "$release" "$arch" $files "$1/$entry"
}

# whole_source SERIES: use the whole source of its newest kernel, for the project's own kernels.
whole_source() {
	local release version
	archive_list
	read -r release version < <(awk -F '\t' -v series="$1." '
		$1 == "kernel" && index($2, series) == 1 && $4 == "amd64" { print $2, $6 }' "$ARCHIVE" | tail -n 1) ||
		die "the Debian archive has no kernel of $1."
	cache_entry "whole-source-$1" "$release-$(recipe source | cache_key)" \
		fetch_source archive_whole_source "the source of $release" "source-$release" "$release" "$version"
	export USER_EVENTS_SOURCE=$CACHE_ENTRY
}

# fetch_source FUNCTION TEXT LOG RELEASE VERSION [PACKAGE] DIR: fill DIR by one of the functions for
# sources below, which gets SERIES, and FILE and SHA256 of the source and of PACKAGE.
fetch_source() {
	local series files
	series=$(series_of "$4")
	files=$(archive_files "$5" "linux-source-$series" "${@:6:$#-6}") || exit
	# shellcheck disable=SC2086 # several words
	USER_EVENTS_SOURCE='' fill "download and unpack $2" "$3" "$1" "$series" $files "${!#}"
	[[ $1 != archive_whole_source ]] || echo "$4" >"${!#}/version"
}

# in_compilers COMMAND...: run in_root or inside in the root with the kernel's compilers.
in_compilers() { USER_EVENTS_ROOT=${USER_EVENTS_COMPILERS:-$USER_EVENTS_ROOT} "$@"; }

# make_options: print make's arguments for the kernel in use, one a line.
make_options() {
	[[ $(cat "$USER_EVENTS_KERNEL/version") != *-arm64 ]] || printf '%s\n' ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-
	[[ $(cat "$USER_EVENTS_KERNEL/version") != *-uml ]] || echo ARCH=um
	[[ ! -e $USER_EVENTS_KERNEL/linked ]] || printf '%s\n' "${rust_of_ours[@]}"
}

# make_module OPTION...: build the module for the kernel in use. With W= the makefiles of 6.12 check
# comments, too, which takes more of perl than compilers' roots have.
make_module() {
	local option options=() out
	if [[ $(cat "$USER_EVENTS_KERNEL/version") != 6.12.* ]]; then
		in_compilers in_root make -C /kernel/tree M=/src "$@" modules
		return
	fi
	for option; do
		case $option in
		MO=*) out=${option#MO=} ;;
		W=e) options+=(CONFIG_WERROR=y) ;;
		*) options+=("$option") ;;
		esac
	done
	in_compilers inside make_beside /kernel/tree /src "$out" "${options[@]}" modules
}

# archive_fetch FILE SHA256: inside a root, download a file of the archive into this directory.
archive_fetch() {
	local uri
	uri=$(grep -o '[^ ]*://[^ ]*' /etc/apt/sources.list | head -n 1)
	/usr/lib/apt/apt-helper download-file "${uri%/}/$1" "${1##*/}" "SHA256:$2"
}

# archive_unpack SERIES FILE SHA256 DIR [ARGUMENT-OF-TAR...]: inside a root, unpack a source.
archive_unpack() {
	cd /tmp || return
	archive_fetch "$2" "$3"
	mkdir -p "$4"
	dpkg-deb --fsys-tarfile "./${2##*/}" | tar -xO "./usr/src/linux-source-$1.tar.xz" | xz -dc -T0 |
		tar -xC "$4" --strip-components=1 "${@:5}"
}

# archive_source SERIES FILE SHA256 [FILE SHA256]: inside a root, fill /kernel/source with the sixth
# of it that a tree and the kernel's own selftests need; and with other headers.
archive_source() {
	local left_out=() pattern
	for pattern in 'drivers/*.[cS]' 'drivers/*.rs' 'drivers/gpu/drm/*.h' 'sound/*.[ch]' 'fs/*.[ch]' 'net/*.[ch]' \
		'arch/[b-w]*.[chS]' 'arch/*.dts*' 'Documentation/[a-z]*' 'tools/perf/*' 'tools/testing/selftests/[a-jm-tv-z]*'; do
		left_out+=(--exclude="linux-source-$1/$pattern")
	done
	archive_unpack "${@:1:3}" /kernel/source --anchored --wildcards "${left_out[@]}"
	[[ -z ${4:-} ]] || {
		archive_fetch "$4" "$5"
		dpkg-deb -x "./${4##*/}" headers
		cp -r headers/usr/src/*/{arch,include} /kernel/source/
	}
}

# archive_whole_source SERIES FILE SHA256: inside the root, fill /kernel.
archive_whole_source() {
	archive_unpack "$@" /kernel/source
	cd /kernel/source || return
	own_selftests O=/tmp/tree
}

# archive_9p_source SERIES FILE SHA256
archive_9p_source() { archive_unpack "$@" /kernel "linux-source-$1"/{net,fs}/9p; }

# archive_tree RELEASE ARCH [FILE SHA256]...: inside the root of its compilers, fill /kernel.
archive_tree() {
	local release=$1 arch=$2
	shift 2
	echo "== download"
	cd /tmp || return
	while (($# > 0)); do
		archive_fetch "$1" "$2"
		shift 2
	done
	debian_tree "$release" "$arch"
	[[ -e /kernel/linked ]] || find /kernel/tree/rust -name '*.o' -delete
	find /kernel/tree/{rust,tools} \( -name '*.a' -o -name '*.rlib' \) -delete
	find /kernel/tree/tools -name '*.o' -delete
}

# debian_tree RELEASE ARCH: inside a root, fill /kernel from the packages in /tmp and
# /kernel/source.
debian_tree() {
	local release=$1 arch=$2 make=(O=/kernel/tree) kdir deb cc
	[[ $arch != arm64 ]] || make+=(ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-)
	echo "== unpack"
	mkdir /kernel/stock /kernel/tree
	for deb in ./*.deb; do
		dpkg-deb -x "$deb" /kernel/stock
		rm "$deb"
	done
	# Moves the image to where newer packages have it.
	[[ ! -e /kernel/stock/boot/vmlinuz-$release ]] ||
		mv "/kernel/stock/boot/vmlinuz-$release" "/kernel/stock/usr/lib/modules/$release/vmlinuz.unsigned"

	echo "== prepare"
	kdir=/kernel/stock/usr/src/linux-headers-$release
	cd /kernel/source || return
	if [[ $release == 6.12.* ]]; then
		configured_as "$kdir" /kernel/source /kernel/tree
		cc=gcc
		[[ $arch != arm64 ]] || cc=aarch64-linux-gnu-gcc
		sed -i "s/^CONFIG_CC_VERSION_TEXT=.*/CONFIG_CC_VERSION_TEXT=$($cc --version | head -n 1)/" /kernel/tree/include/config/auto.conf
	else
		cp "$kdir/.config" /kernel/tree/.config
		make -s "${make[@]}" olddefconfig
		if ! diff <(options "$kdir/.config") <(options /kernel/tree/.config); then
			echo "error: the configuration differs from the stock kernel's as shown above"
			return 1
		fi
	fi
	if has_our_rust; then
		make -j"$(nproc)" "${make[@]}" modules_prepare
	else
		make -j"$(nproc)" "${make[@]}" "${rust_in_sections[@]}" modules_prepare rust/helpers/helpers.o
		touch /kernel/linked
	fi
	cp "$kdir/Module.symvers" /kernel/tree/
	cp "$kdir/include/config/kernel.release" /kernel/tree/include/config/
	cp "$kdir/include/generated/utsrelease.h" /kernel/tree/include/generated/

	if [[ -d /kernel/9p ]]; then
		echo "== 9p"
		echo 'obj-m := net/9p/ fs/9p/' >/kernel/9p/Kbuild
		make -C /kernel/tree M=/kernel/9p KCFLAGS=-g0 CONFIG_{NET_9P,NET_9P_VIRTIO,9P_FS}=m modules
		cp /kernel/9p/{net,fs}/9p/*.ko "/kernel/stock/usr/lib/modules/$release/kernel/"
		rm -r /kernel/9p
	fi
	depmod -b /kernel/stock/usr "$release" 2>/dev/null || depmod -b /kernel/stock "$release"

	own_selftests "${make[@]}"
	echo "$release" >/kernel/version
}
