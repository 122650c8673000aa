// SPDX-License-Identifier: GPL-2.0
/*
 * Checks layouts.h against the trace core's private headers. Compiled only if the kernel tree has
 * them; contains no code.
 */

#include "trace_dynevent.h"
#include "trace_output.h"

#include "layouts.h"

/* symbols.rs takes the last entry of the list for the top instance. */
static_assert(offsetof(struct trace_array, list) == 0,
	      "struct trace_array has list at another offset");
