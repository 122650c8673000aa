#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# requests-perf.sh [SECONDS]: print the failed requests of all services in the next SECONDS (5), by
# path. A service must run, so that the event exists. Without -o perf writes its data to standard
# output if that is a pipe.
set -e
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
cd "$dir"
perf record -q -o perf.data -a -e user_events:requests --filter 'status >= 400' -- sleep "${1:-5}" &&
	perf report -q -i perf.data --stdio -F overhead,sample -s comm,requests.status,requests.path
