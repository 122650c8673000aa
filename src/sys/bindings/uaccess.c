// SPDX-License-Identifier: GPL-2.0
/* User memory. What is short is read by words, which takes less than to begin with a copy. */

#include <linux/fault-inject-usercopy.h>
#include <linux/unaligned.h>
#include <linux/unroll.h>
#include <asm/futex.h>

#include "bindings.h"

/* Begins to read @size bytes of user memory at *@from, front to back: may that be done? */
static __always_inline bool begin_read(const void __user **from, size_t size)
{
	if (can_do_masked_user_access()) {
		/* An address of the kernel's becomes one that faults. */
		*from = masked_user_access_begin(*from);
		return true;
	}
	return user_read_access_begin(*from, size);
}

/*
 * The 32 bits at @from, which may be any address, or -EFAULT. Fails as a copy may. May sleep.
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

/* Reads a value of a type from @at bytes behind @from to @at bytes behind @to. */
#define read_one(type, to, from, at, fault)						\
	do {										\
		const size_t __at = (at);						\
		type __one;								\
											\
		unsafe_get_user(__one, (const type __user *)((from) + __at), fault);	\
		put_unaligned(__one, (type *)((to) + __at));				\
	} while (0)

/* The same of so many words. */
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
 * Copies @size bytes, 128 at most, from @from, which may be any address: were all copied? Front to
 * back, as an address that was masked wants it. The last words may overlap those before them: what
 * is read last counts. Fails as a copy may. May sleep.
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
 * Clears bits of a word of the current task's memory, atomically, if that takes no fault that
 * sleeps. Any context.
 */
int user_events_clear_current(u32 __user *word, u32 mask)
{
	int old, ret;

	pagefault_disable();
	ret = arch_futex_atomic_op_inuser(FUTEX_OP_ANDN, mask, &old, word);
	pagefault_enable();
	return ret;
}

/* The address without the tag that the current task's address space allows it. */
unsigned long user_events_untagged_addr(unsigned long addr)
{
	return untagged_addr(addr);
}

bool user_events_access_ok(const void __user *addr, unsigned long size)
{
	return access_ok(addr, size);
}
