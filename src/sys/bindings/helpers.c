// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers for what Rust cannot call itself: macros, inline functions, per-CPU variables, static
 * calls, and functions whose type the compiler compares. As in rust/helpers/, there are no
 * prototypes: bindgen reads this file. Each wraps one thing, but for pairs that belong together,
 * the step of a list, the state of a rate limit, submitting to perf, and the two that read user
 * memory: these fail as a copy may, and no function may be called within user access. What each
 * write calls is notrace, as it would be were it inline.
 */

#include "bindings.h"

#include "mm.c"
#include "symbols.c"
#include "tasks.c"
#include "trace.c"
#include "uaccess.c"
#ifdef USER_EVENTS_KERNEL_6_12
#include "of_6_12.c"
#endif

#include "layouts.h"

#ifdef USER_EVENTS_FAIL_LOAD
int user_events_fail_load_at;
module_param_named(fail_load_at, user_events_fail_load_at, int, 0);
MODULE_PARM_DESC(fail_load_at, "Let this step of loading fail (0: none)");
#endif

MODULE_VERSION(__stringify(USER_EVENTS_VERSION));
