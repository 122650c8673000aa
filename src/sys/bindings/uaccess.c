// SPDX-License-Identifier: GPL-2.0
/* User memory. Short reads are by words, which is faster than the setup of a copy. */

#include <linux/fault-inject-usercopy.h>
#include <linux/unaligned.h>
#include <linux/unroll.h>
#include <asm/futex.h>

#include "bindings.h"

/*
 * Begins access to @size bytes of user memory at *@from, which may change and must be read in
 * ascending order. Returns whether the access is allowed.
 */
static __always_inline bool begin_read(const void __user **from, size_t size)
{
	if (can_do_masked_user_access()) {
		/* A kernel address becomes one that faults. */
		*from = masked_user_access_begin(*from);
		return true;
	}
	return user_read_access_begin(*from, size);
}

/*
 * Returns the u32 at @from, an unchecked address, or -EFAULT. Fault injection applies as to
 * copy_from_user(). May sleep.
 */
notrace s64 user_events_read_u32(const void __user *from)
{
	u32 value;

	might_fault();
	if (should_fail_usercopy() || !begin_read(&from, sizeof(value)))
		return -EFAULT;
	unsafe_get_user(value, (const u32 __user *)from, fault);
	user_read_access_end();
	return value;
fault:
	user_read_access_end();
	return -EFAULT;
}

/* Copies a value of a type at the offset @at. */
#define read_one(type, to, from, at, fault)						\
	do {										\
		const size_t __at = (at);						\
		type __one;								\
											\
		unsafe_get_user(__one, (const type __user *)((from) + __at), fault);	\
		put_unaligned(__one, (type *)((to) + __at));				\
	} while (0)

/* Copies @count words at the offset @at. */
#define read_words(count, to, from, at, fault)						\
	do {										\
		const size_t __first = (at);						\
		size_t __word;								\
											\
		unrolled_full								\
		for (__word = 0; __word < (count); __word++)				\
			read_one(u64, to, from, __first + __word * sizeof(u64), fault);	\
	} while (0)

/*
 * Copies @size bytes, at most 128, from @from, an unchecked address, and returns whether all were
 * copied. Reads in ascending order, as a masked address requires. The last words may overlap the
 * previous ones, and overwrite them. Fault injection applies as to copy_from_user(). May sleep.
 */
notrace bool user_events_read_words(void *to, const void __user *from, size_t size)
{
	size_t at;

	might_fault();
	if (should_fail_usercopy() || !begin_read(&from, size))
		return false;
	if (size > 8 * sizeof(u64)) {
		read_words(8, to, from, 0, fault);
		read_words(8, to, from, size - 8 * sizeof(u64), fault);
	} else if (size > 2 * sizeof(u64)) {
		if (size > 4 * sizeof(u64)) {
			read_words(4, to, from, 0, fault);
			read_words(4, to, from, size - 4 * sizeof(u64), fault);
		} else {
			read_words(2, to, from, 0, fault);
			read_words(2, to, from, size - 2 * sizeof(u64), fault);
		}
	} else if (size >= sizeof(u64)) {
		read_one(u64, to, from, 0, fault);
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

/*
 * Clears the bits of @mask in a word of the current task's memory atomically. Returns 0, or an
 * error if the page has to be faulted in or the operation fails otherwise. Any context.
 */
int user_events_clear_current(u32 __user *word, u32 mask)
{
	int old, ret;

	pagefault_disable();
	ret = arch_futex_atomic_op_inuser(FUTEX_OP_ANDN, mask, &old, word);
	pagefault_enable();
	return ret;
}

/* The address without the tag that the current task's address space allows. */
unsigned long user_events_untagged_addr(unsigned long addr)
{
	return untagged_addr(addr);
}

bool user_events_access_ok(const void __user *addr, unsigned long size)
{
	return access_ok(addr, size);
}
