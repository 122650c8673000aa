# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What a person sees while something runs. Sourced, not run.

# say TEXT...: one line of the story.
say() { printf '%s\n' "$*"; }

# die TEXT...: the one sentence that says what is missing and how to get it.
die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# pause SECONDS: wait without starting a process, which would keep the caller's
# output open and its locks held after the caller is gone.
pause() {
	local fd
	exec {fd}<> <(:)
	read -r -t "$1" -u "$fd" || true
	exec {fd}>&-
}

# tick OWNER TEXT: show that a long step of process OWNER is alive, every second on a terminal, else
# twice a minute. To be started in the background; tock ends it.
tick() {
	local start=$SECONDS seconds=0
	while pause 1 && kill -0 "$1" 2>/dev/null; do
		seconds=$((SECONDS - start))
		if [[ -t 1 ]]; then
			printf '\r  %s ... %d s' "$2" "$seconds"
		elif ((seconds > 0 && seconds % 30 == 0)); then
			printf '  %s ... %d s so far\n' "$2" "$seconds"
		fi
	done
}

# tock TICKER: end the ticker and clear its line.
tock() {
	kill "$1" 2>/dev/null || true
	wait "$1" 2>/dev/null || true
	[[ ! -t 1 ]] || printf '\r\e[K'
}

# step TEXT LOG COMMAND...: run COMMAND with its output in LOG; say how long it took,
# or show the end of LOG and return COMMAND's status.
step() {
	local text=$1 log=$2 start=$SECONDS status=0 ticker
	shift 2
	mkdir -p "$(dirname "$log")"
	[[ -t 1 ]] || printf '  %s ...\n' "$text"
	tick "$$" "$text" &
	ticker=$!
	"$@" >"$log" 2>&1 || status=$?
	tock "$ticker"
	if [[ $status -eq 0 ]]; then
		printf '  %s: done in %d s\n' "$text" $((SECONDS - start))
	else
		printf '  %s: FAILED after %d s; the end of %s:\n' "$text" $((SECONDS - start)) "$log"
		tail -n 40 "$log" | sed 's/^/    | /'
	fi
	return "$status"
}
