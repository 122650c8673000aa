# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Shared by the scripts whose tests run in a Debian of their own, or in a made-up machine
# (own-debian.sh).

set -uo pipefail
exec 2>&1
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2034 # for those who read this
T=/sys/kernel/tracing
results=0

# fresh: what a script does before each test.
fresh() { :; }

# judge NAME COMMAND...: a test that passes if COMMAND succeeds.
judge() {
	local said status=0
	results=$((results + 1))
	said=$({ fresh && "${@:2}"; } 2>&1) || status=$?
	if [[ $status -eq 0 ]]; then
		echo "ok $results $1"
	else
		echo "not ok $results $1 # status $status"
		printf '# %s\n' "${said//$'\n'/$'\n'# }"
	fi
}

# all_tests: the tests that are the script's functions test_NAME, in their order.
all_tests() {
	local function functions
	mapfile -t functions < <(sed -n 's/^test_\(.*\)() .*/\1/p' "$0")
	for function in "${functions[@]}"; do judge "${function//_/ }" "test_$function"; done
}

# says PATTERN COMMAND...: the output must match, with any status.
says() {
	local said
	said=$("${@:2}" 2>&1)
	echo "$said"
	grep -qE -e "$1" <<<"$said"
}

# comes COMMAND...: wait up to a minute until COMMAND succeeds.
comes() {
	local end=$((SECONDS + 60))
	until "$@"; do
		((SECONDS < end)) || return
		sleep 0.2
	done
}

# as USER COMMAND...
as() { setpriv --reuid "$1" --regid "$1" --init-groups -- "${@:2}"; }

# run_part PART: print the results of PART, a function, as KTAP.
run_part() {
	echo "TAP version 13"
	"$1"
	echo "1..$results"
}
