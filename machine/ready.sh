# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Makes the Debian root and a kernel ready and holds them. Sourced after say.sh.

machine=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=machine/host.sh
. "$machine/host.sh"
# shellcheck source=machine/cache.sh
. "$machine/cache.sh"

SUITE=trixie
LOGS=${machine%/*}/build/log

# ready [KERNEL]: exports USER_EVENTS_ROOT and USER_EVENTS_KERNEL, the two cache entries that machine/namespace mounts. A child of a
# process that did this already uses the same ones. KERNEL is stock, or what own_kernel knows.
ready() {
	local key
	# Whose end is the end of all that runs inside.
	export USER_EVENTS_OWNER=${USER_EVENTS_OWNER:-$$}
	[[ -n ${USER_EVENTS_ROOT:-} && -n ${USER_EVENTS_KERNEL:-} ]] && return
	host_can_run
	key=$(cd "$machine" && { uname -m; echo "$SUITE"; sha256sum packages root-make root-packages archive.sh; } | cache_key)
	cache_entry root "$key" make_root
	export USER_EVENTS_ROOT=$CACHE_ENTRY
	newest_kernel "$key"
	key=$(cd "$machine" && { echo "$key"; sha256sum kernel-make archive.sh; } | cache_key)
	cache_entry kernel "$VERSION-$key" make_kernel
	export USER_EVENTS_KERNEL=$CACHE_ENTRY
	# Whichever kernel is used, the source and the kernel's own selftests are these.
	export USER_EVENTS_STOCK=$CACHE_ENTRY
	[[ ${1:-stock} == stock ]] || own_kernel "$1"
}

# own_entry NAME: sets KIND and ENTRY to the cache entry of a kernel of our own: c, which has the C
# implementation built in, custom, which is the same without, or debug and kcsan, which are custom and
# watch themselves.
own_entry() {
	local recipe key
	case $1 in
	c | custom) KIND=small recipe="small-make small.config" ;;
	debug) KIND=debug recipe="debug-make small.config debug.config kasan.config" ;;
	kcsan) KIND=kcsan recipe="debug-make small.config debug.config kcsan.config" ;;
	*) die "there is no kernel '$1': stock, c, custom, debug or kcsan." ;;
	esac
	# shellcheck disable=SC2086 # several files
	key=$(cd "$machine" && { basename "$USER_EVENTS_ROOT"; sha256sum kernel-build.sh $recipe; } | cache_key)
	ENTRY=$(cat "$USER_EVENTS_STOCK/version")-$key
}

# own_kernel NAME: use a kernel of our own instead of the stock one.
own_kernel() {
	own_entry "$1"
	cache_entry "$KIND" "$ENTRY" "make_$KIND"
	export USER_EVENTS_KERNEL=$CACHE_ENTRY/$1
}

# kernel_log COMMAND...: have kernel-log judge a kernel's log; it is built with the selftests, or now. Files are named from
# the clone's directory.
kernel_log() {
	[[ -x ${machine%/*}/build/target/release/kernel-log ]] || "$machine/build" kernel-log || return 2
	"$machine/namespace" /build/target/release/kernel-log "$@"
}

make_root() { # DIR
	say "Making the Debian root (once; about two minutes)"
	host_can_make_root "$CACHE"
	SUITE=$SUITE LOGS=$LOGS "$machine/root-make" "$1"
}

# newest_kernel KEY: set VERSION to the newest stock kernel the archive has; it is asked once a day.
newest_kernel() {
	local stamp=$CACHE/newest-kernel-$1 found
	VERSION=$(cat "$stamp" 2>/dev/null || true)
	if [[ -n $VERSION && -z $(find "$stamp" -mmin +1440) ]]; then
		return
	fi
	say "  asking the Debian archive for its newest kernel with Rust"
	mkdir -p "$LOGS"
	if found=$(NETWORK=1 USER_EVENTS_KERNEL='' "$machine/namespace" /src/machine/kernel-newest "$SUITE" 2>"$LOGS/kernel-newest"); then
		VERSION=$found
		echo "$VERSION" >"$stamp.$$"
		mv "$stamp.$$" "$stamp"
	elif [[ -n $VERSION ]]; then
		say "  the archive does not answer: staying with $VERSION"
	else
		tail -n 20 "$LOGS/kernel-newest" >&2
		die "the Debian archive does not say which kernels it has (see above): check the network, or name another mirror with MIRROR=..."
	fi
}

make_kernel() { # DIR
	say "Preparing $VERSION for building Rust modules (once; about three minutes)"
	chmod 755 "$1"
	NETWORK=1 KERNEL_WRITABLE=1 USER_EVENTS_KERNEL=$1 step "download, unpack and prepare the kernel" "$LOGS/kernel-make" \
		"$machine/namespace" /src/machine/kernel-make "$SUITE" "$VERSION" ||
		die "the kernel tree could not be prepared: the log above says why."
}

make_small() { # DIR
	make_own "$1" "Building two small kernels, with and without the C implementation (once; 10 to 30 minutes)" \
		small-make c custom
}

make_debug() { # DIR
	make_own "$1" "Building the debug kernel with KASAN (once; 15 to 45 minutes)" debug-make debug
}

make_kcsan() { # DIR
	make_own "$1" "Building the debug kernel with KCSAN (once; 15 to 45 minutes)" debug-make kcsan
}

# make_own DIR TEXT SCRIPT NAME...: build the kernels NAME..., with SCRIPT NAME...
make_own() {
	local dir=$1 script=$3 name
	say "$2"
	chmod 755 "$dir"
	# Where machine/namespace mounts what they share with the stock kernel.
	for name in . "${@:4}"; do
		mkdir -p "$dir/$name/"{source,selftests}
	done
	KERNEL_WRITABLE=1 USER_EVENTS_KERNEL=$dir step "configure and build" "$LOGS/$script-$4" \
		"$machine/namespace" "/src/machine/$script" "${@:4}" ||
		die "the kernel could not be built: the log above says why."
}
