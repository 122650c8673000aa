/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Events of LTTng-UST with the benchmark's payloads. The header of LTTng
 * includes this file several times.
 */

#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./events.h"

#if !defined(BENCH_LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_LTTNG_EVENTS_H

#include <lttng/tracepoint.h>
#include <stddef.h>
#include <stdint.h>

/* Never enabled. */
LTTNG_UST_TRACEPOINT_EVENT(bench, off,
			   LTTNG_UST_TP_ARGS(uint32_t, a, uint32_t, b, uint32_t, c),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, a, a)
					       lttng_ust_field_integer(uint32_t, b, b)
					       lttng_ust_field_integer(uint32_t, c, c)))

LTTNG_UST_TRACEPOINT_EVENT(bench, numbers,
			   LTTNG_UST_TP_ARGS(uint32_t, a, uint32_t, b, uint32_t, c),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, a, a)
					       lttng_ust_field_integer(uint32_t, b, b)
					       lttng_ust_field_integer(uint32_t, c, c)))

LTTNG_UST_TRACEPOINT_EVENT(bench, string,
			   LTTNG_UST_TP_ARGS(const char *, text),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text, text)))

/* The length is known: no search for the NUL. */
LTTNG_UST_TRACEPOINT_EVENT(bench, bytes,
			   LTTNG_UST_TP_ARGS(const char *, text, size_t, length),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_sequence_text(char, text, text,
									     size_t, length)))

#endif

#include <lttng/tracepoint-event.h>
