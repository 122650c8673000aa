// SPDX-License-Identifier: GPL-2.0
/*
 * Compares the trace core's private headers with what the module takes them for. Only
 * compiled where the tree that is built against has them; makes no code.
 */

#include "trace_dynevent.h"
#include "trace_output.h"

#include "layouts.h"

/* The last entry of the list is taken for the top instance. */
static_assert(offsetof(struct trace_array, list) == 0,
	      "struct trace_array has list at another offset");
