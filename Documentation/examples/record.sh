#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# record.sh ftrace|trace-cmd|perf|bpftrace PROGRAM: runs PROGRAM, the example "first", and records its
# event with that tool. As root.
set -e
event=/sys/kernel/tracing/events/user_events/first
program=$2

# The program makes the event when it starts, but the tool looks for it before: make it first. An event
# that is made this way stays until it is deleted.
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
