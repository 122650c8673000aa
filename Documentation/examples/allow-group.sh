#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# allow-group.sh GROUP: lets the members of GROUP register and write events, but read no trace. As root,
# each time the module was loaded.
set -e
cd /sys/kernel/tracing

# The way to the file. Not by changing the group of the directory: that would change the group of
# every file below that nobody has given another one, and let GROUP read all traces.
chmod o+x .

# The file.
chgrp "$1" user_events_data
chmod g+rw user_events_data
