// SPDX-License-Identifier: GPL-2.0

//! The sizes of descriptions, fields and records, in bytes.

/// Largest description, without the NUL that ends it.
///
/// C: `MAX_EVENT_DESC` less one (kernel/trace/trace_events_user.c).
pub const MAX_DESCRIPTION: usize = 511;

/// Longest name of an event: what a directory entry can hold.
///
/// C: `NAME_MAX` (include/uapi/linux/limits.h).
pub(super) const MAX_NAME: usize = 255;

/// Most words of a field: `struct TAG NAME SIZE`, or `__rel_loc unsigned TYPE[] NAME`.
pub(super) const MAX_WORDS: usize = 4;

/// Most elements of an array.
///
/// C: `MAX_FIELD_ARRAY_SIZE` (kernel/trace/trace_events_user.c).
pub(super) const MAX_ARRAY: u32 = 1024;

/// Longest number between the brackets of an array.
///
/// C: the buffer of `user_field_array_size()` holds this, the `]` and a NUL.
pub(super) const MAX_ARRAY_DIGITS: usize = 6;

/// Size of the common fields, with which the kernel begins each record.
///
/// C: the size of `struct trace_entry` (include/linux/trace_events.h).
pub const COMMON_SIZE: u32 = 8;

/// Size of the largest record that a trace buffer can be set up to hold.
///
/// A record lies within one sub-buffer, and `buffer_subbuf_size_kb` allows these up to 128 pages
/// (order 7), of 4096 bytes here. Of that go 16 bytes for the time stamp and the commit counter of
/// the sub-buffer, 4 for the header of the record and 4 for its length, which all but small records
/// need. perf holds less. Where pages are larger, the bound stays the same: megabytes of fixed
/// fields are a mistake there, too.
///
/// C: `BUF_PAGE_HDR_SIZE` and `rb_subbuf_max_data_size()` (kernel/trace/ring_buffer.c).
pub(super) const MAX_RECORD: u32 = 128 * 4096 - 16 - 4 - 4;

/// Largest fixed part of a record: the sum of the sizes of an event's fields.
pub const MAX_FIXED: u32 = MAX_RECORD - COMMON_SIZE;
