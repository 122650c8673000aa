// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of the emulator that measures, in instructions, how long preemption
 * is off, and how long modules have interrupts off. The machine has one
 * processor, and runs the benchmark.
 *
 * The plugin watches all writes to per-CPU variables for those to the preempt
 * count, whose address the benchmark marks. Interrupts are off from a CLI in a
 * module to an STI, or a POPF that enables them, in a module. The result of a
 * row goes to standard output, behind the benchmark's output of the row:
 *
 *	off LENGTH BEGIN END module LENGTH BEGIN END interrupts LENGTH BEGIN END
 *
 * These are the longest section with preemption off, the longest one in which
 * code of modules ran, and the longest one in which a module had interrupts off,
 * with the addresses of the instructions that began and ended it. Of several
 * measurements of a row the least result counts: interrupts hit few of them.
 * Instructions of interrupts, or between measurements, are not counted. A length
 * is exact to within a block of instructions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The emulator's interface for plugins, which comes without a header. */
#define PLUGIN_VERSION 4
#define NO_REGISTERS 0
#define READS 1
#define WRITES 2

struct qemu_plugin_tb;
struct qemu_plugin_insn;

struct qemu_plugin_mem_value {
	int type;
	union {
		uint32_t u32;
		uint64_t u64;
		uint64_t u128[2];
	} data;
};

typedef void (*translated_t)(uint64_t id, struct qemu_plugin_tb *block);
typedef void (*executed_t)(unsigned int cpu, void *data);
typedef void (*accessed_t)(unsigned int cpu, uint32_t info, uint64_t address, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, translated_t call);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block, executed_t call,
					  int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, executed_t call,
					    int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, accessed_t call, int flags,
				      int accesses, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t at);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t len);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
struct qemu_plugin_mem_value qemu_plugin_mem_get_value(uint32_t info);

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int qemu_plugin_version = PLUGIN_VERSION;

/* The benchmark's marks: "nopl MARK(%rax)". */
enum mark {
	BEGIN = 0x12345601,
	END = 0x12345602,
	ROW = 0x12345603,
	/* The next instruction stores the address of the preempt count. */
	COUNT = 0x12345604,
};

/* Masks of the count: the bits that are 0 if preemption is on, and those of interrupts. */
#define OFF 0xffffffffu
#define INTERRUPTS 0xff000000u

/* Where modules lie, without randomization. */
#define MODULES 0xffffffffc0000000u
#define MODULES_END 0xffffffffff000000u

#define CLI 0xfa
#define STI 0xfb
#define POPF 0x9d
/* The interrupt flag among the flags that POPF pops. */
#define INTERRUPTS_ON 0x200

struct section {
	uint64_t length;
	uint64_t begin;
	uint64_t end;
};

/* The longest sections of a measurement, or the least of these in a row. */
struct longest {
	struct section of_all;
	struct section of_modules;
	struct section of_interrupts;
};

/* An instruction, and the symbol's address of the per-CPU variable that it accesses. */
struct access {
	uint64_t pc;
	uint64_t variable;
};

static uint64_t count_at;
static uint64_t executed;
static bool measuring;
static uint32_t count;
static struct section now;
static uint64_t now_since;
static bool in_modules;
static bool are_interrupts_off;
static struct section off;
static uint64_t off_since;
static struct longest measured, row;
static bool row_has_any;

static void end_section(uint64_t end)
{
	now.end = end;
	now.length += executed - now_since;
	if (!measuring)
		return;
	if (now.length > measured.of_all.length)
		measured.of_all = now;
	if (in_modules && now.length > measured.of_modules.length)
		measured.of_modules = now;
}

static void on_write(unsigned int cpu, uint32_t info, uint64_t address, void *data)
{
	const struct access *access = data;
	uint64_t pc = access->pc;
	uint32_t was = count;

	if (access->variable != count_at || !count_at)
		return;
	count = qemu_plugin_mem_get_value(info).data.u32 & OFF;
	if (!was && count) {
		now = (struct section){ .begin = pc };
		now_since = executed;
		in_modules = false;
	}
	if (!(was & INTERRUPTS) && (count & INTERRUPTS))
		now.length += executed - now_since;
	else if ((was & INTERRUPTS) && !(count & INTERRUPTS))
		now_since = executed;
	if (was && !count)
		end_section(pc);
}

static void on_cli(unsigned int cpu, void *data)
{
	if (are_interrupts_off)
		return;
	are_interrupts_off = true;
	off = (struct section){ .begin = (uintptr_t)data };
	off_since = executed;
}

static void on_sti(unsigned int cpu, void *data)
{
	if (!are_interrupts_off)
		return;
	are_interrupts_off = false;
	off.end = (uintptr_t)data;
	off.length = executed - off_since;
	if (measuring && off.length > measured.of_interrupts.length)
		measured.of_interrupts = off;
}

static void on_popf(unsigned int cpu, uint32_t info, uint64_t address, void *data)
{
	if (qemu_plugin_mem_get_value(info).data.u64 & INTERRUPTS_ON)
		on_sti(cpu, data);
}

static void on_count_address(unsigned int cpu, uint32_t info, uint64_t address, void *data)
{
	count_at = qemu_plugin_mem_get_value(info).data.u64;
}

static void on_block(unsigned int cpu, void *data)
{
	executed += (uintptr_t)data;
}

static void on_module_block(unsigned int cpu, void *data)
{
	executed += (uintptr_t)data;
	if (count && !(count & INTERRUPTS))
		in_modules = true;
}

static void end_measurement(void)
{
	if (!row_has_any || measured.of_modules.length < row.of_modules.length)
		row.of_modules = measured.of_modules;
	if (!row_has_any || measured.of_all.length < row.of_all.length)
		row.of_all = measured.of_all;
	if (!row_has_any || measured.of_interrupts.length < row.of_interrupts.length)
		row.of_interrupts = measured.of_interrupts;
	row_has_any = true;
	measuring = false;
}

static void print_section(const char *what, const struct section *section)
{
	printf("%s %llu %llx %llx", what, (unsigned long long)section->length,
	       (unsigned long long)section->begin, (unsigned long long)section->end);
}

static void on_mark(unsigned int cpu, void *data)
{
	switch ((uintptr_t)data) {
	case BEGIN:
		measured = (struct longest){ 0 };
		measuring = true;
		break;
	case END:
		if (measuring)
			end_measurement();
		break;
	case ROW:
		print_section("off", &row.of_all);
		print_section(" module", &row.of_modules);
		print_section(" interrupts", &row.of_interrupts);
		putchar('\n');
		fflush(stdout);
		row = (struct longest){ 0 };
		row_has_any = false;
		break;
	}
}

/* Returns the number of a mark, or 0. */
static uint32_t mark_of(const uint8_t *code, size_t len)
{
	uint32_t mark;

	if (len != 7 || memcmp(code, "\x0f\x1f\x80", 3))
		return 0;
	memcpy(&mark, code + 3, sizeof(mark));
	return mark >= BEGIN && mark <= COUNT ? mark : 0;
}

/*
 * Returns the instruction's access to a per-CPU variable, relative to %gs and
 * %rip, or NULL. The result is never freed.
 */
static struct access *access_of(const uint8_t *code, size_t len, uint64_t pc)
{
	struct access *access;
	int32_t distance;
	size_t at = 0;

	if (len < 7 || code[at++] != 0x65)
		return NULL;
	if (code[at] == 0x66)
		at++;
	if ((code[at] & 0xf0) == 0x40)
		at++;
	if (code[at] == 0x0f)
		at++;
	at++;
	if (at + 1 + sizeof(distance) > len || (code[at] & 0xc7) != 0x05)
		return NULL;
	memcpy(&distance, code + at + 1, sizeof(distance));
	access = malloc(sizeof(*access));
	if (access)
		*access = (struct access){ .pc = pc, .variable = pc + len + distance };
	return access;
}

static void watch_access(struct qemu_plugin_insn *insn, const uint8_t *code, size_t len)
{
	struct access *access = access_of(code, len, qemu_plugin_insn_vaddr(insn));

	if (access)
		qemu_plugin_register_vcpu_mem_cb(insn, on_write, NO_REGISTERS, WRITES, access);
}

static void watch_interrupts(struct qemu_plugin_insn *insn, uint8_t code)
{
	void *pc = (void *)(uintptr_t)qemu_plugin_insn_vaddr(insn);

	if (code == CLI)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_cli, NO_REGISTERS, pc);
	else if (code == STI)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_sti, NO_REGISTERS, pc);
	else if (code == POPF)
		qemu_plugin_register_vcpu_mem_cb(insn, on_popf, NO_REGISTERS, READS, pc);
}

static void watch_mark(struct qemu_plugin_insn *insn, uintptr_t mark)
{
	qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, NO_REGISTERS, (void *)mark);
}

static void on_translated(uint64_t id, struct qemu_plugin_tb *block)
{
	size_t insns = qemu_plugin_tb_n_insns(block), i;
	uint64_t start = qemu_plugin_tb_vaddr(block);
	bool is_module = start >= MODULES && start < MODULES_END;
	bool is_address_next = false;

	qemu_plugin_register_vcpu_tb_exec_cb(block, is_module ? on_module_block : on_block,
					     NO_REGISTERS, (void *)(uintptr_t)insns);
	for (i = 0; i < insns; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(block, i);
		uint8_t code[16];
		size_t len = qemu_plugin_insn_size(insn);
		uint32_t mark;

		if (len > sizeof(code) || qemu_plugin_insn_data(insn, code, len) != len)
			continue;
		mark = mark_of(code, len);
		if (is_address_next)
			qemu_plugin_register_vcpu_mem_cb(insn, on_count_address, NO_REGISTERS,
							 WRITES, NULL);
		is_address_next = mark == COUNT;
		if (mark)
			watch_mark(insn, mark);
		else
			watch_access(insn, code, len);
		if (is_module && len == 1)
			watch_interrupts(insn, code[0]);
	}
}

EXPORTED int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translated);
	return 0;
}
