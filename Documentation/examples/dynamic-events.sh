#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# dynamic-events.sh: makes, lists, saves, deletes and restores an event without a program. As root.
set -e
cd /sys/kernel/tracing

# Make it. Mind the ">>": a plain ">" would first delete all dynamic events of all kinds.
echo 'u:by_shell u32 count; __rel_loc char[] text' >>dynamic_events
cat events/user_events/by_shell/format

# What is listed is what makes the event: save it, ...
saved=$(grep '^u:by_shell' dynamic_events)

# ... delete the event, its name is enough, ...
echo '-:by_shell' >>dynamic_events

# ... and make it again.
echo "$saved" >>dynamic_events
grep '^u:by_shell' dynamic_events

# The group and the fields may be named to be sure which event it is that goes.
echo '-:user_events/by_shell u32 count; __rel_loc char[] text' >>dynamic_events
