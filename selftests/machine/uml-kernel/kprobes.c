// SPDX-License-Identifier: GPL-2.0
/* The functions of kprobes that are never armed; see kprobes.h. */
#include <linux/kprobes.h>

#ifdef CONFIG_KPROBES
/* A kprobe can be registered, and stays without effect. */
DEFINE_PER_CPU(struct kprobe *, current_kprobe);
DEFINE_PER_CPU(struct kprobe_ctlblk, kprobe_ctlblk);

int arch_prepare_kprobe(struct kprobe *p)
{
	return 0;
}

void arch_arm_kprobe(struct kprobe *p)
{
}

void arch_disarm_kprobe(struct kprobe *p)
{
}

int __init arch_init_kprobes(void)
{
	return 0;
}
#endif
