/* SPDX-License-Identifier: GPL-2.0 */
/*
 * User Mode Linux has no kprobes. One that is never armed, which is how the module learns an
 * address, needs these alone; see kprobes.c.
 */
#if defined(CONFIG_UML) && defined(CONFIG_KPROBES) && !defined(__ASSEMBLER__)
#include <linux/types.h>

struct kprobe;
struct pt_regs;

typedef u8 kprobe_opcode_t;
#define kretprobe_blacklist_size 0

struct arch_specific_insn {
	kprobe_opcode_t *insn;
};

struct kprobe_ctlblk {
	unsigned long kprobe_status;
};

static inline void arch_remove_kprobe(struct kprobe *probe)
{
}

static inline void flush_insn_slot(struct kprobe *probe)
{
}

static inline int kprobe_fault_handler(struct pt_regs *regs, int trap)
{
	return 0;
}
#endif
