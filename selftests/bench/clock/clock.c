// SPDX-License-Identifier: GPL-2.0
/*
 * Times system calls from within User Mode Linux. Its programs are other processes of the host:
 * entering the kernel takes as long as a hundred writes of a short record. So the function of the
 * system call is timed alone. The record lies in the kernel's memory, which this kernel reads as
 * x86 reads a program's.
 *
 * /proc/bench_clock takes an ioctl of any number, with a struct run.
 */

#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

/*
 * On some processors REP MOVSB takes ten times as long if the destination's offset in its page is a
 * little above the source's. Records lie near the start of a page, and allocations at the start.
 */
#define INTO_PAGE 512

enum call { CALL_GETPPID, CALL_WRITE, CALL_WRITEV };

/**
 * struct run - a measurement; the same in clock.rs
 * @record: the record, in the program's memory
 * @times: receives the time of each sample, in ticks of the time stamp counter
 * @samples: number of samples
 * @expected: return value of each call; unused for CALL_GETPPID
 * @length: length of the record
 * @call: enum call; CALL_WRITEV passes the first four bytes separately
 * @each: number of calls per sample
 * @file: descriptor to write to
 */
struct run {
	u64 record;
	u64 times;
	u64 samples;
	s64 expected;
	u32 length;
	u32 call;
	u32 each;
	s32 file;
};

static asmlinkage long (*call_getppid)(void);
static asmlinkage long (*call_write)(unsigned long file, void *bytes, unsigned long length);
static asmlinkage long (*call_writev)(unsigned long file, struct iovec *parts, unsigned long count);

static __always_inline u64 now(void)
{
	u32 low, high;

	asm volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) :: "memory");
	return (u64)high << 32 | low;
}

static long measure(const struct run *run, void *record, struct iovec *parts)
{
	u64 __user *times = u64_to_user_ptr(run->times);
	u64 sample, begin, end;
	bool is_wrong = false;
	u32 at;

	for (sample = 0; sample < run->samples; sample++) {
		begin = now();
		switch (run->call) {
		case CALL_GETPPID:
			for (at = 0; at < run->each; at++)
				call_getppid();
			break;
		case CALL_WRITE:
			for (at = 0; at < run->each; at++)
				is_wrong |= call_write(run->file, record, run->length) !=
					    run->expected;
			break;
		case CALL_WRITEV:
			for (at = 0; at < run->each; at++)
				is_wrong |= call_writev(run->file, parts, 2) != run->expected;
			break;
		}
		end = now();
		if (is_wrong)
			return -EIO;
		if (put_user(end - begin, times + sample))
			return -EFAULT;
		cond_resched();
		if (signal_pending(current))
			return -EINTR;
	}
	return 0;
}

static long clock_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct run run;
	struct iovec *parts;
	void *record, *memory;
	long ret = -EFAULT;

	if (copy_from_user(&run, (void __user *)argument, sizeof(run)))
		return -EFAULT;
	if (run.length < sizeof(u32))
		return -EINVAL;
	/* Not vmalloc(): UML reads only its physical memory directly. */
	memory = kmalloc(INTO_PAGE + run.length, GFP_KERNEL);
	record = memory + INTO_PAGE;
	parts = kmalloc_array(2, sizeof(*parts), GFP_KERNEL);
	if (!memory || !parts) {
		ret = -ENOMEM;
	} else if (!copy_from_user(record, u64_to_user_ptr(run.record), run.length)) {
		parts[0].iov_base = (void __user *)record;
		parts[0].iov_len = sizeof(u32);
		parts[1].iov_base = (void __user *)(record + sizeof(u32));
		parts[1].iov_len = run.length - sizeof(u32);
		ret = measure(&run, record, parts);
	}
	kfree(parts);
	kfree(memory);
	return ret;
}

static const struct proc_ops clock_ops = {
	.proc_ioctl = clock_ioctl,
};

static int __init clock_init(void)
{
	static struct kprobe probe = {
		.symbol_name = "kallsyms_lookup_name",
		.flags = KPROBE_FLAG_DISABLED,
	};
	unsigned long (*lookup)(const char *name);
	int ret = register_kprobe(&probe);

	if (ret)
		return ret;
	lookup = (void *)probe.addr;
	unregister_kprobe(&probe);
	call_getppid = (void *)lookup("sys_getppid");
	call_write = (void *)lookup("sys_write");
	call_writev = (void *)lookup("sys_writev");
	if (!call_getppid || !call_write || !call_writev)
		return -ENOENT;
	return proc_create("bench_clock", 0600, NULL, &clock_ops) ? 0 : -ENOMEM;
}

static void __exit clock_exit(void)
{
	remove_proc_entry("bench_clock", NULL);
}

module_init(clock_init);
module_exit(clock_exit);
MODULE_DESCRIPTION("Measures system calls by the clock, from within the kernel");
MODULE_LICENSE("GPL");
