// SPDX-License-Identifier: GPL-2.0
/*
 * Reading a record from user memory: a write index, and a payload behind it.
 *
 * What is short is read by words, which takes less than to begin with a copy.
 * What is long is copied by the processor's own loop, where it has one, of words
 * and not of bytes: that is no slower where bytes are fast, and does not depend
 * on it.
 */

#include <linux/fault-inject-usercopy.h>
#include <linux/instrumented.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/unaligned.h>

#include "helpers.h"

/* The longest payload that is read by words. */
#define SHORT_PAYLOAD 128

/* Bytes of the index. */
#define INDEX sizeof(u32)

/*
 * Begins to read user memory, from where @from points to after this. It may be
 * made to fail, as a copy may.
 */
static __always_inline bool begin_reading(const void __user **from, size_t size)
{
	if (should_fail_usercopy())
		return false;
	if (can_do_masked_user_access()) {
		*from = masked_user_read_access_begin(*from);
		return true;
	}
	return user_read_access_begin(*from, size);
}

/* Reads a value of a type from @at bytes behind @from to @at bytes behind @to. */
#define read_one(type, to, from, at, fault)						\
	do {										\
		const size_t __at = (at);						\
		type __one;								\
											\
		unsafe_get_user(__one, (const type __user *)((from) + __at), fault);	\
		put_unaligned(__one, (type *)((to) + __at));				\
	} while (0)

/*
 * Front to back, as an address that was masked wants it. The last word may
 * overlap the one before it: what is read last counts.
 */
static __always_inline bool read_words(void *to, const void __user *from, size_t size)
{
	size_t at;

	if (!begin_reading(&from, size))
		return false;
	if (size >= sizeof(u64)) {
		for (at = 0; at < size - sizeof(u64); at += sizeof(u64))
			read_one(u64, to, from, at, fault);
		read_one(u64, to, from, size - sizeof(u64), fault);
	} else if (size >= sizeof(u32)) {
		read_one(u32, to, from, 0, fault);
		read_one(u32, to, from, size - sizeof(u32), fault);
	} else {
		for (at = 0; at < size; at++)
			read_one(u8, to, from, at, fault);
	}
	user_read_access_end();
	return true;
fault:
	user_read_access_end();
	return false;
}

/* Reads more than a few words. */
#ifdef CONFIG_X86_64
static bool read_long(void *to, const void __user *from, size_t size)
{
	const size_t last = size - sizeof(u64);
	size_t words = size / sizeof(u64);
	const void __user *at;
	void *room = to;

	instrument_copy_from_user_before(to, from, size);
	if (!begin_reading(&from, size))
		return false;
	at = from;
	asm volatile("1: rep movsq\n"
		     "2:\n"
		     _ASM_EXTABLE_UA(1b, 2b)
		     : "+c" (words), "+D" (room), "+S" (at) : : "memory");
	if (words)
		goto fault;
	read_one(u64, to, from, last, fault);
	user_read_access_end();
	instrument_copy_from_user_after(to, from, size, 0);
	return true;
fault:
	user_read_access_end();
	instrument_copy_from_user_after(to, from, size, size);
	return false;
}
#else
static bool read_long(void *to, const void __user *from, size_t size)
{
	return copy_from_user(to, from, size) == 0;
}
#endif

/**
 * user_events_read_index - read an index from user memory
 * @from: where from, which may be anything
 *
 * Context: process context, may sleep.
 * Return: the 32 bits that are there, or -EFAULT.
 */
s64 user_events_read_index(const void __user *from)
{
	u32 index;

	might_fault();
	if (!begin_reading(&from, sizeof(index)))
		return -EFAULT;
	unsafe_get_user(index, (const u32 __user *)from, fault);
	user_read_access_end();
	return index;
fault:
	user_read_access_end();
	return -EFAULT;
}

/**
 * user_events_read_user - copy from user memory
 * @to: where to
 * @from: where from, which may be anything
 * @size: how many bytes
 *
 * Context: process context, may sleep.
 * Return: were all of them copied?
 */
bool user_events_read_user(void *to, const void __user *from, size_t size)
{
	might_fault();
	if (IS_ENABLED(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS) && size <= SHORT_PAYLOAD)
		return read_words(to, from, size);
	return read_long(to, from, size);
}

/* The index at the start of what is not in one piece, or not in user memory. */
static noinline s64 copy_index(struct iov_iter *from)
{
	u32 index;
	size_t copied;

	copied = copy_from_iter(&index, sizeof(index), from);
	iov_iter_revert(from, copied);
	if (copied < sizeof(index))
		return -EFAULT;
	return index;
}

/**
 * user_events_peek_index - read the index of a record
 * @from: the record, of at least that many bytes, which is not advanced
 *
 * Context: process context, may sleep.
 * Return: the 32 bits that are there, or -EFAULT.
 */
s64 user_events_peek_index(struct iov_iter *from)
{
	if (user_backed_iter(from) && iter_iov_len(from) >= INDEX)
		return user_events_read_index(iter_iov_addr(from));
	return copy_index(from);
}

/**
 * user_events_read_payload - read the payload of a record
 * @to: where to
 * @from: the record, which has that many bytes behind the index. Nobody who
 *        calls write_iter() looks how far it was advanced when all of it was
 *        written: where that takes time, it is not
 * @size: how many bytes
 *
 * Context: process context, may sleep.
 * Return: were all of them read?
 */
bool user_events_read_payload(void *to, struct iov_iter *from, size_t size)
{
	const struct iovec *part;
	size_t skip, here;

	if (iter_is_ubuf(from))
		return user_events_read_user(to, iter_iov_addr(from) + INDEX, size);
	if (!iter_is_iovec(from)) {
		iov_iter_advance(from, INDEX);
		return copy_from_iter(to, size, from) == size;
	}
	skip = from->iov_offset + INDEX;
	for (part = iter_iov(from); size; part++) {
		if (skip >= part->iov_len) {
			skip -= part->iov_len;
			continue;
		}
		here = min(size, part->iov_len - skip);
		if (!user_events_read_user(to, part->iov_base + skip, here))
			return false;
		to += here;
		size -= here;
		skip = 0;
	}
	return true;
}
