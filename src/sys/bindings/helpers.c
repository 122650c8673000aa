// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers of macros, inline functions, per-CPU variables and static calls, which Rust cannot
 * call, and functions whose type the compiler has to check. As in rust/helpers/ there are no
 * prototypes: bindgen reads this file. Each function wraps one call, except for pairs that belong
 * together, a step in a list, a rate limit, submitting to perf, and the reads of user memory, which
 * need fault injection, and call nothing within user access. The functions that each write calls
 * are notrace, as inline functions are.
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
