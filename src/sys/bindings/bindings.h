/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For bindgen, besides the wrappers in helpers.c: the kernel headers that src/sys/ uses and the
 * kernel crate does not bind, and declarations that Rust and the wrappers share.
 */
#ifndef USER_EVENTS_BINDINGS_H
#define USER_EVENTS_BINDINGS_H

#include <linux/cdev.h>
#include <linux/kprobes.h>
#include <linux/magic.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/perf_event.h>
#include <linux/ring_buffer.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <linux/task_work.h>
#include <linux/trace_events.h>
#include <linux/tracefs.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "../../../include/uapi/linux/user_events.h"
#include "of_6_12.h"
#include "trace_private.h"

/* Macros that bindgen cannot evaluate. */
static const unsigned int USER_EVENTS_IOCSREG = DIAG_IOCSREG;
static const unsigned int USER_EVENTS_IOCSDEL = DIAG_IOCSDEL;
static const unsigned int USER_EVENTS_IOCSUNREG = DIAG_IOCSUNREG;
static const gfp_t USER_EVENTS_GFP_NOFAIL = __GFP_NOFAIL;
static const fop_flags_t USER_EVENTS_FOP_BUFFER_WASYNC = FOP_BUFFER_WASYNC;
static const fmode_t USER_EVENTS_FMODE_ATOMIC_POS = FMODE_ATOMIC_POS;

/**
 * struct user_events_call_ops - operations of a trace event call of the module
 * @reg: adds or removes a consumer; @type is an enum trace_reg, as a plain number because kCFI's
 *       type hash of a Rust function with an enum differs from that of C
 *
 * The data pointer of the call.
 */
struct user_events_call_ops {
	int	(*reg)(struct trace_event_call *call, int type, void *data);
};

/**
 * struct user_events_fork_probe - data of user_events_on_fork()
 * @forked: called when @parent, the current task, has forked @child, which does not run yet
 */
struct user_events_fork_probe {
	void	(*forked)(struct user_events_fork_probe *probe, struct task_struct *parent,
			  struct task_struct *child);
};

/**
 * struct user_events_exit_probe - data of user_events_on_exit() and user_events_on_exec()
 * @exit: called when the current task exits, with @group_dead if as the last of its thread group
 * @exec: called when the current task leaves its address space in an exec
 */
struct user_events_exit_probe {
	void	(*exit)(struct user_events_exit_probe *probe, bool group_dead);
	void	(*exec)(struct user_events_exit_probe *probe);
};

#endif /* USER_EVENTS_BINDINGS_H */
