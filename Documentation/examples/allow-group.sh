#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# allow-group.sh GROUP: lets the members of GROUP register and write events, but read no trace. As root,
# after each load of the module.
set -e
cd /sys/kernel/tracing

# What events there are stays hidden.
chmod o-rx events

# The way to the file. Do not change the group of the directory instead: every file below it whose group
# was not set would change with it, and GROUP could read all traces.
chmod o+x .
# Members of a group that tracefs was mounted for (gid=) pass as such.
[ "$(stat -c %g .)" = 0 ] || chmod g+x .

# The file.
chgrp "$1" user_events_data
chmod g+rw user_events_data
