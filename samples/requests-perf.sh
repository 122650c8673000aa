#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# requests-perf.sh [SECONDS]: the failed requests of all services in the next seconds (5), by path. One line for
# perf, in a directory for its file, whose name keeps perf from writing to a pipe. The event must exist: a service
# that registers it runs already.
set -e
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
cd "$dir"
perf record -q -o perf.data -a -e user_events:requests --filter 'status >= 400' -- sleep "${1:-5}" &&
	perf report -q -i perf.data --stdio -F overhead,sample -s comm,requests.status,requests.path
