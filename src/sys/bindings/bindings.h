/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads: the kernel headers that src/sys/ wraps and the kernel
 * crate does not, and the helpers that stand for their macros and inline
 * functions.
 */
#ifndef USER_EVENTS_BINDINGS_H
#define USER_EVENTS_BINDINGS_H

#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/ring_buffer.h>
#include <linux/seq_file.h>
#include <linux/sysctl.h>
#include <linux/trace_events.h>
#include <linux/tracefs.h>
#include <linux/workqueue.h>

#include "helpers.h"

#endif /* USER_EVENTS_BINDINGS_H */
