#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# before-it-starts.sh COMMAND ARGUMENT...: trace a program that writes the event "requests" from its
# first record on, with the files of tracefs alone. The event is made through dynamic_events before
# the program starts, and has its consumers attached when the program registers it.
set -eu
tracing=/sys/kernel/tracing
event=$tracing/events/user_events/requests

undo() {
	echo 0 >"$event/enable"
	echo '!hist:keys=path,status:vals=ns' >"$event/trigger"
	# An event of dynamic_events stays until it is deleted.
	echo '-:requests' 2>/dev/null >>"$tracing/dynamic_events" || echo "$0: the event stays, as others use it" >&2
}

# The fields must match the program's. A plain > would first delete all other dynamic events.
echo 'u:requests u64 ns; u32 status; __data_loc char[] path' >>"$tracing/dynamic_events"
trap undo EXIT

# Record each failure; count all requests and add up their time in the kernel.
echo >"$tracing/trace"
echo 'status >= 400' >"$event/filter"
echo 'hist:keys=path,status:vals=ns' >"$event/trigger"
echo 1 >"$event/enable"

"$@"

cat "$event/hist"
grep ' requests: ' "$tracing/trace"
