// SPDX-License-Identifier: GPL-2.0
/*
 * Prints the definitions of linux/user_events.h, and the results of using them.
 * Compiled against the kernel's header and against the module's; both programs
 * must print the same.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include <linux/user_events.h>

#include "tracefs.h"

#define EVENT USER_EVENTS_SYSTEM "/st_c_header"
#define FORMATS USER_EVENTS_MULTI_SYSTEM "/st_c_header.*"
#define KEPT "st_c_kept u32 a"

#define SHOW_TEXT(name) printf(#name "=%s\n", name)
#define SHOW(value) printf(#value "=%#llx, %zu bytes\n", (unsigned long long)(value), sizeof(value))
#define SHOW_TYPE(type) \
	printf(#type ": %zu bytes, aligned to %zu\n", sizeof(type), __alignof__(type))
#define SHOW_MEMBER(type, member) \
	printf(#type "." #member ": at %zu, %zu bytes, %s\n", offsetof(type, member), \
	       sizeof(((type *)0)->member), \
	       (__typeof__(((type *)0)->member))(-1) > 0 ? "unsigned" : "signed")

static int failures;

/* Prints the result of a call. Another result than the wanted is a failure. */
static long gave(const char *call, long got, long want)
{
	int error = errno;

	if (got < 0)
		printf("%s: %s\n", call, strerror(error));
	else
		printf("%s: %ld\n", call, got);
	failures += got != want;
	return got;
}

static void show_constants(void)
{
	SHOW_TEXT(USER_EVENTS_SYSTEM);
	SHOW_TEXT(USER_EVENTS_MULTI_SYSTEM);
	SHOW_TEXT(USER_EVENTS_PREFIX);
	SHOW(USER_EVENT_REG_PERSIST);
	SHOW(USER_EVENT_REG_MULTI_FORMAT);
	SHOW(USER_EVENT_REG_MAX);
	SHOW(DYN_LOC(0, 1));
	SHOW(DYN_LOC(16, 5));
	SHOW(DYN_LOC(0xffff, 0x7fff));
	SHOW(DYN_LOC(1 + 1, 2 | 1));
	SHOW(DIAG_IOC_MAGIC);
	SHOW(DIAG_IOCSREG);
	SHOW(DIAG_IOCSDEL);
	SHOW(DIAG_IOCSUNREG);
}

static void show_types(void)
{
	SHOW_TYPE(enum user_reg_flag);
	SHOW_TYPE(struct user_reg);
	SHOW_MEMBER(struct user_reg, size);
	SHOW_MEMBER(struct user_reg, enable_bit);
	SHOW_MEMBER(struct user_reg, enable_size);
	SHOW_MEMBER(struct user_reg, flags);
	SHOW_MEMBER(struct user_reg, enable_addr);
	SHOW_MEMBER(struct user_reg, name_args);
	SHOW_MEMBER(struct user_reg, write_index);
	SHOW_TYPE(struct user_unreg);
	SHOW_MEMBER(struct user_unreg, size);
	SHOW_MEMBER(struct user_unreg, disable_bit);
	SHOW_MEMBER(struct user_unreg, __reserved);
	SHOW_MEMBER(struct user_unreg, __reserved2);
	SHOW_MEMBER(struct user_unreg, disable_addr);
}

/* Registers with this bit of the word. */
static long register_bit(int fd, struct user_reg *reg, __u32 *word, int bit, const char *text)
{
	memset(reg, 0, sizeof(*reg));
	reg->size = sizeof(*reg);
	reg->enable_bit = bit;
	reg->enable_size = sizeof(*word);
	reg->enable_addr = (unsigned long)word;
	reg->name_args = (unsigned long)text;
	return ioctl(fd, DIAG_IOCSREG, reg);
}

static long unregister_bit(int fd, __u32 *word, int bit)
{
	struct user_unreg unreg = {
		.size = sizeof(unreg),
		.disable_bit = bit,
		.disable_addr = (unsigned long)word,
	};

	return ioctl(fd, DIAG_IOCSUNREG, &unreg);
}

/* Uses an event as nearly every program does. */
static void use_event(void)
{
	static const char text[] = "st_c_header u32 a; __rel_loc char[] b; __data_loc char[] c";
	static __u32 word;
	struct {
		__u32 a, b, c;
		char data[8];
	} __attribute__((__packed__)) record = {
		.a = 7,
		.b = DYN_LOC(4, 4),
		.c = DYN_LOC(8 + 16, 4),
		.data = "one\0two",
	};
	struct user_reg reg;
	struct iovec parts[] = {
		{ .iov_base = (char *)&reg + offsetof(struct user_reg, write_index), .iov_len = 4 },
		{ .iov_base = &record, .iov_len = sizeof(record) },
	};
	char line[256] = "";
	int fd = open(DATA, O_RDWR | O_CLOEXEC);

	gave("register", register_bit(fd, &reg, &word, 3, text), 0);
	printf("write_index %u, word %#x\n", reg.write_index, word);
	gave("write without a consumer", writev(fd, parts, 2), -1);
	gave("listen", listen_to(EVENT, true), 0);
	gave("bit is set", await_bits(&word, sizeof(word), ~0, 1 << 3), true);
	gave("write", writev(fd, parts, 2), sizeof(__u32) + sizeof(record));
	gave("traced", traced("st_c_header: ", line, sizeof(line)), 1);
	printf("%s", line);
	gave("delete while used", ioctl(fd, DIAG_IOCSDEL, "st_c_header"), -1);
	gave("unregister", unregister_bit(fd, &word, 3), 0);
	gave("bit is clear", word == 0, true);
	gave("unregister again", unregister_bit(fd, &word, 3), -1);
	gave("leave", listen_to(EVENT, false), 0);
	close(fd);
	gave("gone", await_gone(EVENT), true);
}

/* Uses the flags of a registration. */
static void use_flags(void)
{
	static const char text[] = "st_c_header u32 a";
	static __u32 word;
	struct user_reg reg;
	int fd = open(DATA, O_RDWR | O_CLOEXEC);

	memset(&reg, 0, sizeof(reg));
	reg.size = sizeof(reg);
	reg.flags = USER_EVENT_REG_PERSIST;
	reg.enable_size = sizeof(word);
	reg.enable_addr = (unsigned long)&word;
	reg.name_args = (unsigned long)KEPT;
	gave("register to stay", ioctl(fd, DIAG_IOCSREG, &reg), 0);
	reg.flags = USER_EVENT_REG_MAX;
	reg.enable_bit = 1;
	gave("register with the first flag that is none", ioctl(fd, DIAG_IOCSREG, &reg), -1);
	reg.flags = USER_EVENT_REG_MULTI_FORMAT;
	reg.name_args = (unsigned long)text;
	gave("register a format", ioctl(fd, DIAG_IOCSREG, &reg), 0);
	gave("formats", events(FORMATS), 1);
	gave("unregister", unregister_bit(fd, &word, 0), 0);
	gave("unregister the format", unregister_bit(fd, &word, 1), 0);
	close(fd);
	gave("the format is gone", await_gone(FORMATS), true);

	fd = open(DATA, O_RDWR | O_CLOEXEC);
	gave("has stayed", events(USER_EVENTS_SYSTEM "/st_c_kept"), 1);
	gave("delete", ioctl(fd, DIAG_IOCSDEL, "st_c_kept"), 0);
	gave("has gone", events(USER_EVENTS_SYSTEM "/st_c_kept"), 0);
	gave("made by its prefix", put_text(TRACEFS "/dynamic_events", USER_EVENTS_PREFIX KEPT), 0);
	gave("delete", ioctl(fd, DIAG_IOCSDEL, "st_c_kept"), 0);
	close(fd);
}

int main(void)
{
	show_constants();
	show_types();
	if (gave("make an instance", make_instance(), 0) < 0)
		return 1;
	use_event();
	use_flags();
	gave("remove the instance", remove_instance(), 0);
	return failures != 0;
}
