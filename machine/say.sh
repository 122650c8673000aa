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

# Shows that a long step is alive: every second on a terminal, else twice a minute.
tick() { # OWNER-PID TEXT
	local start=$SECONDS every=30
	[[ -t 1 ]] && every=1
	while pause "$every" && kill -0 "$1" 2>/dev/null; do
		if [[ -t 1 ]]; then
			printf '\r  %s ... %d s' "$2" $((SECONDS - start))
		else
			printf '  %s ... %d s so far\n' "$2" $((SECONDS - start))
		fi
	done
}

# step TEXT LOG COMMAND...: run COMMAND with its output in LOG; say how long it took,
# or show the end of LOG and return COMMAND's status.
step() {
	local text=$1 log=$2 start=$SECONDS status=0 ticker clear=''
	shift 2
	mkdir -p "$(dirname "$log")"
	[[ -t 1 ]] && clear=$'\r\e[K'
	[[ -t 1 ]] || printf '  %s ...\n' "$text"
	tick "$$" "$text" &
	ticker=$!
	"$@" >"$log" 2>&1 || status=$?
	kill "$ticker" 2>/dev/null || true
	wait "$ticker" 2>/dev/null || true
	if [[ $status -eq 0 ]]; then
		printf '%s  %s: done in %d s\n' "$clear" "$text" $((SECONDS - start))
	else
		printf '%s  %s: FAILED after %d s; the end of %s:\n' "$clear" "$text" $((SECONDS - start)) "$log"
		tail -n 40 "$log" | sed 's/^/    | /'
	fi
	return "$status"
}
