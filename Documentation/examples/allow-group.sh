#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# allow-group.sh GROUP: let the members of GROUP register and write events, but read no trace.
# Run it as root after each load of the module.
set -e
cd /sys/kernel/tracing

# Keep the list of events hidden.
chmod o-rx events

# Make the file reachable. Do not change the group of the directory instead: the files below it
# without a group of their own would change with it, and GROUP could read all traces.
chmod o+x .
# With the mount option gid=, members of that group need the group's bit.
[ "$(stat -c %g .)" = 0 ] || chmod g+x .

# Permit registering and writing.
chgrp "$1" user_events_data
chmod g+rw user_events_data
