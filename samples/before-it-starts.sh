#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# before-it-starts.sh COMMAND ARGUMENT...: traces a program that writes the event "requests" from its very
# first record on, with files of tracefs alone and no other tool. The event is made through dynamic_events
# before the program that it belongs to starts; that one then finds it, with all that is attached to it.
set -eu
tracing=/sys/kernel/tracing
event=$tracing/events/user_events/requests

undo() {
	echo 0 >"$event/enable"
	echo '!hist:keys=path,status:vals=ns' >"$event/trigger"
	# An event that was made here stays until it is deleted here.
	echo '-:requests' 2>/dev/null >>"$tracing/dynamic_events" || echo "$0: the event stays, as others use it" >&2
}

# The fields must be those that the program registers. >> adds; > would delete all other dynamic events.
echo 'u:requests u64 ns; u32 status; __data_loc char[] path' >>"$tracing/dynamic_events"
trap undo EXIT

# Each failure is a record in the trace; all requests are counted, and their time added up, in the kernel.
echo >"$tracing/trace"
echo 'status >= 400' >"$event/filter"
echo 'hist:keys=path,status:vals=ns' >"$event/trigger"
echo 1 >"$event/enable"

"$@"

cat "$event/hist"
grep ' requests: ' "$tracing/trace"
