/* SPDX-License-Identifier: GPL-2.0 */
/*
 * User Mode Linux walks the page tables of the program for each access to its memory, also for
 * that of one word. An address of the kernel's own memory, which the benchmark passes for one of a
 * program's, is read as on x86: by a load, or by the instruction that copies best where the
 * processor has FSRM.
 */
extern unsigned long uml_physmem, high_physmem;
extern unsigned long raw_copy_from_program(void *to, const void __user *from, unsigned long n);

static __always_inline unsigned long raw_copy_from_user(void *to, const void __user *from,
							unsigned long n)
{
	if (unlikely((unsigned long)from - uml_physmem >= high_physmem - uml_physmem))
		return raw_copy_from_program(to, from, n);
	if (__builtin_constant_p(n) && (n == 1 || n == 2 || n == 4 || n == 8))
		__builtin_memcpy(to, (const void __force *)from, n);
	else
		asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) :: "memory");
	return 0;
}

static __always_inline int __get_user_fn(size_t size, const void __user *ptr, void *x)
{
	return unlikely(raw_copy_from_user(x, ptr, size)) ? -EFAULT : 0;
}

#define __get_user_fn(size, ptr, x) __get_user_fn(size, ptr, x)
