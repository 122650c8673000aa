#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# dynamic-events.sh: makes, lists, saves, deletes and restores an event without a program. As root.
set -e
cd /sys/kernel/tracing

# Make the event. A plain ">" would first delete all dynamic events of all kinds.
echo 'u:by_shell u32 count; __rel_loc char[] text' >>dynamic_events
cat events/user_events/by_shell/format

# Save the event: its listed line makes it again.
saved=$(grep '^u:by_shell' dynamic_events)

# Delete the event by its name.
echo '-:by_shell' >>dynamic_events

# Restore the event.
echo "$saved" >>dynamic_events
grep '^u:by_shell' dynamic_events

# Delete the event only if its system and its fields match, too.
echo '-:user_events/by_shell u32 count; __rel_loc char[] text' >>dynamic_events
