# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The Debian archive as seen from inside the root. Sourced there.

# archive_sources SUITE: the mirror that the root was made from, or $MIRROR, with its backports.
archive_sources() {
	local mirror=${MIRROR:-}
	[[ -n $mirror ]] || mirror=$(awk '$1 == "deb" { print $2; exit }' /etc/apt/sources.list)
	printf 'deb %s %s main\n' "$mirror" "$1" "$mirror" "$1-backports"
}

# archive_options: fills the array APT. The host's certificates count for apt, too.
archive_options() {
	APT=(-qq -o APT::Update::Error-Mode=any -o Acquire::Retries=2 -o Acquire::http::Timeout=30
		-o APT::Install-Recommends=false -o Dpkg::Use-Pty=false -o APT::Sandbox::User=root)
	[[ ! -e /run/host-ca.crt ]] || APT+=(-o Acquire::https::CAInfo=/run/host-ca.crt)
}

# archive_elsewhere SUITE: the same in a root that cannot be written to: lists and packages in /tmp.
archive_elsewhere() {
	archive_options
	mkdir -p /tmp/apt/lists /tmp/apt/cache/archives/partial
	archive_sources "$1" >/tmp/apt/sources.list
	APT+=(-o Dir::State::Lists=/tmp/apt/lists -o Dir::Cache=/tmp/apt/cache
		-o Dir::Etc::SourceList=/tmp/apt/sources.list -o Dir::Etc::SourceParts=/dev/null)
}
