#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# record.sh ftrace|trace-cmd|perf|bpftrace PROGRAM: run PROGRAM, the example "first", and record its
# event with that tool. Needs root.
set -e
event=/sys/kernel/tracing/events/user_events/first
program=$2

# The tool needs the event before the program registers it. An event of dynamic_events stays until
# it is deleted.
echo 'u:first u32 count; char[8] unit' >>/sys/kernel/tracing/dynamic_events

case $1 in
ftrace)
	echo 'count > 1' >$event/filter
	echo 1 >$event/enable
	"$program"
	cat /sys/kernel/tracing/trace
	echo 0 >$event/enable
	;;
trace-cmd)
	trace-cmd record -q -o /tmp/first.dat -e user_events:first -f 'count > 1' "$program"
	trace-cmd report -i /tmp/first.dat
	;;
perf)
	perf record -q -o /tmp/first.data -e user_events:first --filter 'count > 1' -- "$program"
	perf script -i /tmp/first.data
	;;
bpftrace)
	bpftrace -c "$program" -e '
	tracepoint:user_events:first /args.count > 1/ {
		printf("count=%u unit=%s\n", args.count, args.unit);
	}'
	;;
esac

echo '-:first' >>/sys/kernel/tracing/dynamic_events
