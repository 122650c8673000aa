// SPDX-License-Identifier: GPL-2.0
/*
 * Tests the ABI of 32-bit programs on a 64-bit kernel. Compiled for both widths:
 *
 *   compat PEER   the tests; PEER is the same program compiled for 64 bits
 *   compat        the peer: registers st_c_beside and follows its bit, line by line
 *
 * Prints KTAP. behaviour/compat.rs of the selftests runs it.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <linux/user_events.h>

#include "tracefs.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* An address that no pointer of a 32-bit program can hold. */
#define PAST_4_GB 0x100000000ULL

#define BESIDE "st_c_beside u32 width"

static const char *peer;
static bool failed;

/* Reports a failed condition. */
static bool check(bool holds, const char *what)
{
	if (!holds) {
		printf("# not so: %s\n", what);
		failed = true;
	}
	return holds;
}

/* The call must have failed with this error. */
static void fails(const char *what, long got, int want)
{
	int error = errno;

	if (got >= 0)
		printf("# %s: gave %ld instead of %s\n", what, got, strerrorname_np(want));
	else if (error != want)
		printf("# %s: gave %s instead of %s\n", what, strerrorname_np(error),
		       strerrorname_np(want));
	failed |= got >= 0 || error != want;
}

static __u64 address(const void *pointer)
{
	return (uintptr_t)pointer;
}

static int open_data(void)
{
	return open(DATA, O_RDWR | O_CLOEXEC);
}

static struct user_reg request(const char *text, const void *word, int size, int bit)
{
	return (struct user_reg) {
		.size = sizeof(struct user_reg),
		.enable_bit = bit,
		.enable_size = size,
		.enable_addr = address(word),
		.name_args = address(text),
		.write_index = 0xdeadbeef,
	};
}

static int unregister_bit(int fd, const void *word, int bit)
{
	struct user_unreg unreg = {
		.size = sizeof(unreg),
		.disable_bit = bit,
		.disable_addr = address(word),
	};

	return ioctl(fd, DIAG_IOCSUNREG, &unreg);
}

static void test_the_header_is_for_32_bits(void)
{
	check(sizeof(void *) == 4, "this is a 32-bit program");
	check(DIAG_IOCSREG == 0xc0042a00, "DIAG_IOCSREG");
	check(DIAG_IOCSDEL == 0x40042a01, "DIAG_IOCSDEL");
	check(DIAG_IOCSUNREG == 0x40042a02, "DIAG_IOCSUNREG");
	check(sizeof(struct user_reg) == 28, "size of user_reg");
	check(offsetof(struct user_reg, enable_addr) == 8, "place of enable_addr");
	check(offsetof(struct user_reg, name_args) == 16, "place of name_args");
	check(offsetof(struct user_reg, write_index) == 24, "place of write_index");
	check(sizeof(struct user_unreg) == 16, "size of user_unreg");
	check(offsetof(struct user_unreg, disable_addr) == 8, "place of disable_addr");
}

static void test_calls_of_64_bit_programs_are_none(void)
{
	static __u32 word;
	struct user_reg reg = request("st_c_wide u32 a", &word, 4, 0);
	int fd = open_data();

	fails("register", ioctl(fd, 0xc0082a00, &reg), ENOTTY);
	fails("delete", ioctl(fd, 0x40082a01, "st_c_wide"), ENOTTY);
	fails("unregister", ioctl(fd, 0x40082a02, &reg), ENOTTY);
	fails("a number past the last", ioctl(fd, 0x40042a03, &reg), ENOTTY);
	check(!events("user_events/st_c_wide"), "no event was made");
	close(fd);
}

/* The event's bit follows the listener, and the other bits of the word stay. */
static void follow_bit(const char *name, void *word, int size, int bit, __u64 others)
{
	char event[64], text[64];
	__u64 mask = 1ULL << bit, all = size == 8 ? ~0ULL : ~0U;
	int fd = open_data(), i;
	struct user_reg reg;

	snprintf(event, sizeof(event), "user_events/%s", name);
	snprintf(text, sizeof(text), "%s u32 a", name);
	reg = request(text, word, size, bit);
	check(!ioctl(fd, DIAG_IOCSREG, &reg), "registered");
	check(reg.write_index == 0, "the first write index is 0");
	check(await_bits(word, size, all, others), "the bit is clear at first");
	for (i = 0; i < 3; i++) {
		check(!listen_to(event, true), "enabled");
		check(await_bits(word, size, all, others | mask), "the bit alone is set");
		check(!listen_to(event, false), "disabled");
		check(await_bits(word, size, all, others), "the bit alone is cleared");
	}
	check(!unregister_bit(fd, word, bit), "unregistered");
	close(fd);
	check(await_gone(event), "the event is gone");
}

static void test_a_bit_of_a_4_byte_word(void)
{
	static __u32 word = 0x40000010;

	follow_bit("st_c_word", &word, sizeof(word), 0, word);
	follow_bit("st_c_word", &word, sizeof(word), 31, word);
}

static void test_a_bit_of_an_8_byte_word(void)
{
	static __u64 word __attribute__((__aligned__(8))) = 0x1000000000000008;

	follow_bit("st_c_long", &word, sizeof(word), 0, word);
	follow_bit("st_c_long", &word, sizeof(word), 33, word);
	follow_bit("st_c_long", &word, sizeof(word), 63, word);
}

static void test_a_set_bit_is_told_at_once(void)
{
	static __u32 words[2];
	struct user_reg reg = request("st_c_once u32 a", &words[0], 4, 5);
	int fd = open_data();

	check(!ioctl(fd, DIAG_IOCSREG, &reg), "registered");
	check(!listen_to("user_events/st_c_once", true), "enabled");
	reg = request("st_c_once u32 a", &words[1], 4, 6);
	check(!ioctl(fd, DIAG_IOCSREG, &reg), "registered again");
	check(reg.write_index == 0, "the write index is the same");
	check(words[1] == 1 << 6, "the bit is set on return");
	check(await_bits(&words[0], 4, ~0U, 1 << 5), "the other bit is set");
	check(!unregister_bit(fd, &words[1], 6), "unregistered");
	check(words[1] == 0, "the bit is clear on return");
	fails("unregister again", unregister_bit(fd, &words[1], 6), ENOENT);
	check(words[0] == 1 << 5, "the other bit stays");
	check(!listen_to("user_events/st_c_once", false), "disabled");
	check(!unregister_bit(fd, &words[0], 5), "unregistered");
	close(fd);
	check(await_gone("user_events/st_c_once"), "the event is gone");
}

static void test_records(void)
{
	static __u32 word;
	static const char text[] = "text behind";
	static const char shown[] =
		"st_c_record: a=0x123456789a (78187493530) b=0xfffffffd (-3) c=text behind\n";
	struct {
		__u32 index;
		__u64 a;
		__s32 b;
		__u32 c;
	} __attribute__((__packed__)) record = {
		.a = 0x123456789aULL,
		.b = -3,
		.c = DYN_LOC(0, sizeof(text)),
	};
	struct user_reg reg = request("st_c_record u64 a; s32 b; __rel_loc char[] c", &word, 4, 0);
	char *bytes = (char *)&record, line[256] = "", whole[sizeof(record) + sizeof(text)];
	struct iovec parts[] = {
		{ .iov_base = bytes, .iov_len = 3 },
		{ .iov_base = bytes + 3, .iov_len = 5 },
		{ .iov_base = bytes + 8, .iov_len = 0 },
		{ .iov_base = bytes + 8, .iov_len = sizeof(record) - 8 },
		{ .iov_base = (char *)text, .iov_len = sizeof(text) },
	};
	int fd = open_data();

	check(!ioctl(fd, DIAG_IOCSREG, &reg), "registered");
	record.index = reg.write_index;
	memcpy(whole, &record, sizeof(record));
	memcpy(whole + sizeof(record), text, sizeof(text));
	fails("write without a consumer", write(fd, whole, sizeof(whole)), EBADF);
	check(!listen_to("user_events/st_c_record", true), "enabled");
	check(await_bits(&word, 4, 1, 1), "the bit is set");

	check(write(fd, whole, sizeof(whole)) == sizeof(whole), "write");
	check(traced("st_c_record: ", line, sizeof(line)) == 1, "one record is traced");
	check(!strcmp(line, shown), "the record is traced as it was written");
	check(writev(fd, parts, ARRAY_SIZE(parts)) == sizeof(whole), "writev");
	check(traced("c=text behind\n", NULL, 0) == 2, "two records are traced");

	fails("a part of an index", write(fd, whole, 3), EFAULT);
	fails("a part of the fields", write(fd, whole, sizeof(record) - 1), EINVAL);
	fails("a string that ends past the record", write(fd, whole, sizeof(whole) - 1), EFAULT);
	record.index = 1;
	fails("no such index", write(fd, &record, sizeof(record)), ENOENT);
	record.index = -1;
	fails("a negative index", write(fd, &record, sizeof(record)), EINVAL);
	record.index = reg.write_index;
	parts[4].iov_base = NULL;
	fails("a part that is not there", writev(fd, parts, ARRAY_SIZE(parts)), EFAULT);
	check(traced("st_c_record: ", NULL, 0) == 2, "none of these is traced");

	check(!listen_to("user_events/st_c_record", false), "disabled");
	check(!unregister_bit(fd, &word, 0), "unregistered");
	close(fd);
}

static void test_delete(void)
{
	static __u32 word;
	struct user_reg reg = request("st_c_kept u32 a", &word, 4, 0);
	int fd = open_data();

	fails("an event that is not there", ioctl(fd, DIAG_IOCSDEL, "st_c_kept"), ENOENT);
	fails("a name that is not there", ioctl(fd, DIAG_IOCSDEL, NULL), EFAULT);
	reg.flags = USER_EVENT_REG_PERSIST;
	check(!ioctl(fd, DIAG_IOCSREG, &reg), "registered to stay");
	fails("an event in use", ioctl(fd, DIAG_IOCSDEL, "st_c_kept"), EBUSY);
	check(!unregister_bit(fd, &word, 0), "unregistered");
	close(fd);
	fd = open_data();
	check(events("user_events/st_c_kept") == 1, "it has stayed");
	check(!ioctl(fd, DIAG_IOCSDEL, "st_c_kept"), "deleted");
	check(!events("user_events/st_c_kept"), "it is gone");
	close(fd);
}

/* A request with one wrong member must fail with this error. */
struct bad_request {
	const char *what;
	int error;
	void (*spoil)(struct user_reg *reg);
};

static void small(struct user_reg *reg)
{
	reg->size = 27;
}

static void large(struct user_reg *reg)
{
	reg->size = 4097;
}

static void flagged(struct user_reg *reg)
{
	reg->flags = USER_EVENT_REG_MAX;
}

static void wide(struct user_reg *reg)
{
	reg->enable_bit = 32;
}

static void odd_size(struct user_reg *reg)
{
	reg->enable_size = 2;
}

static void unaligned(struct user_reg *reg)
{
	reg->enable_addr += 2;
}

static void at_0(struct user_reg *reg)
{
	reg->enable_addr = 0;
}

static void past_4_gb(struct user_reg *reg)
{
	reg->enable_addr += PAST_4_GB;
}

static void in_the_kernel(struct user_reg *reg)
{
	reg->enable_addr |= ~0ULL << 32;
}

static void text_at_0(struct user_reg *reg)
{
	reg->name_args = 0;
}

static void text_past_4_gb(struct user_reg *reg)
{
	reg->name_args += PAST_4_GB;
}

static void text_in_the_kernel(struct user_reg *reg)
{
	reg->name_args |= ~0ULL << 32;
}

static void bad_text(struct user_reg *reg)
{
	reg->name_args = address("st_c_bad long a");
}

static void other_fields(struct user_reg *reg)
{
	reg->enable_bit = 1;
	reg->name_args = address("st_c_other u64 a");
}

static void same_bit(struct user_reg *reg)
{
	reg->name_args = address("st_c_bad u32 a");
}

static const struct bad_request bad_requests[] = {
	{ "too small", EINVAL, small },
	{ "larger than a page", E2BIG, large },
	{ "an unknown flag", EINVAL, flagged },
	{ "a bit past the word", EINVAL, wide },
	{ "a word of 2 bytes", EINVAL, odd_size },
	{ "a word that is not aligned", EINVAL, unaligned },
	{ "a word at 0", EFAULT, at_0 },
	{ "a word past 4 GB", EFAULT, past_4_gb },
	{ "a word in the kernel", EFAULT, in_the_kernel },
	{ "a description at 0", EFAULT, text_at_0 },
	{ "a description past 4 GB", EFAULT, text_past_4_gb },
	{ "a description in the kernel", EFAULT, text_in_the_kernel },
	{ "a bad description", EINVAL, bad_text },
	{ "an event with other fields", EADDRINUSE, other_fields },
	{ "a bit that is registered", EADDRINUSE, same_bit },
};

static void test_register_errors(void)
{
	static __u32 words[2];
	struct user_reg good = request("st_c_other u32 a", &words[0], 4, 0);
	struct user_reg reg;
	struct {
		struct user_reg reg;
		__u8 more;
	} __attribute__((__packed__)) longer;
	int fd = open_data();
	size_t i;

	check(!ioctl(fd, DIAG_IOCSREG, &good), "registered");
	for (i = 0; i < ARRAY_SIZE(bad_requests); i++) {
		bool same = bad_requests[i].spoil == same_bit;

		reg = request("st_c_bad u32 a", &words[!same], 4, 0);
		bad_requests[i].spoil(&reg);
		fails(bad_requests[i].what, ioctl(fd, DIAG_IOCSREG, &reg), bad_requests[i].error);
		check(reg.write_index == 0xdeadbeef, "a failure leaves write_index alone");
	}
	fails("no request", ioctl(fd, DIAG_IOCSREG, NULL), EFAULT);
	fails("a request at the end of memory", ioctl(fd, DIAG_IOCSREG, 0xfffffff0), EFAULT);

	longer.reg = request("st_c_bad u32 a", &words[1], 4, 0);
	longer.reg.size = sizeof(longer);
	longer.more = 1;
	fails("something set past the end", ioctl(fd, DIAG_IOCSREG, &longer), E2BIG);
	check(await_gone("user_events/st_c_bad"), "none of these made an event");
	check(words[1] == 0, "none of these touched the word");
	longer.more = 0;
	check(!ioctl(fd, DIAG_IOCSREG, &longer), "zeros past the end");
	check(!unregister_bit(fd, &words[1], 0), "unregistered");

	check(!unregister_bit(fd, &words[0], 0), "unregistered");
	close(fd);
}

static void test_unregister_errors(void)
{
	static __u32 word;
	struct user_reg reg = request("st_c_unreg u32 a", &word, 4, 0);
	const struct user_unreg good = { .size = sizeof(good), .disable_addr = address(&word) };
	struct user_unreg unreg;
	int fd = open_data();

	check(!ioctl(fd, DIAG_IOCSREG, &reg), "registered");
	unreg = good;
	unreg.size = 15;
	fails("too small", ioctl(fd, DIAG_IOCSUNREG, &unreg), EINVAL);
	unreg = good;
	unreg.__reserved = 1;
	fails("reserved", ioctl(fd, DIAG_IOCSUNREG, &unreg), EINVAL);
	unreg = good;
	unreg.__reserved2 = 1;
	fails("reserved, too", ioctl(fd, DIAG_IOCSUNREG, &unreg), EINVAL);
	unreg = good;
	unreg.disable_bit = 1;
	fails("another bit", ioctl(fd, DIAG_IOCSUNREG, &unreg), ENOENT);
	unreg = good;
	unreg.disable_addr += PAST_4_GB;
	fails("the word's address past 4 GB", ioctl(fd, DIAG_IOCSUNREG, &unreg), ENOENT);
	fails("no request", ioctl(fd, DIAG_IOCSUNREG, NULL), EFAULT);
	unreg = good;
	check(!ioctl(fd, DIAG_IOCSUNREG, &unreg), "unregistered");
	close(fd);
}

static void test_a_child_inherits(void)
{
	static __u64 word __attribute__((__aligned__(8)));
	struct user_reg reg = request("st_c_fork u32 is_child", &word, 8, 40);
	__u32 record[2] = { 0, 1 };
	int fd = open_data(), status = -1;
	pid_t child;

	check(!ioctl(fd, DIAG_IOCSREG, &reg), "registered");
	fflush(stdout);
	child = fork();
	if (child == 0) {
		failed = false;
		check(await_bits(&word, 8, ~0ULL, 1ULL << 40), "the child's bit is set");
		check(write(fd, record, sizeof(record)) == sizeof(record), "the child writes");
		check(!unregister_bit(fd, &word, 40), "the child unregisters");
		check(word == 0, "the child's bit is clear");
		fflush(stdout);
		_exit(failed);
	}
	check(!listen_to("user_events/st_c_fork", true), "enabled");
	check(child > 0 && waitpid(child, &status, 0) == child && !status, "the child did well");
	check(traced("st_c_fork: is_child=0x1 (1)\n", NULL, 0) == 1, "its record is traced");
	check(await_bits(&word, 8, ~0ULL, 1ULL << 40), "the parent's bit is set");
	check(!listen_to("user_events/st_c_fork", false), "disabled");
	check(await_bits(&word, 8, ~0ULL, 0), "the parent's bit is cleared");
	check(!unregister_bit(fd, &word, 40), "unregistered");
	close(fd);
}

/* Runs the peer, which reports the state of its bit to the parent. */
static int serve_beside(void)
{
	static __u32 word;
	struct user_reg reg = request(BESIDE, &word, 4, 0);
	__u32 record[2] = { 0, 8 * sizeof(void *) };
	int fd = open_data();

	setlinebuf(stdout);
	if (ioctl(fd, DIAG_IOCSREG, &reg))
		return 1;
	puts("registered");
	if (!await_bits(&word, 4, ~0U, 1) || write(fd, record, sizeof(record)) < 0)
		return 1;
	puts("wrote");
	if (!await_bits(&word, 4, ~0U, 0))
		return 1;
	puts("cleared");
	return 0;
}

/* The next line of the peer must begin with this word. */
static void hear(FILE *line, const char *word)
{
	char heard[64] = "nothing";

	if (!fgets(heard, sizeof(heard), line) || strncmp(heard, word, strlen(word))) {
		printf("# the peer said %s instead of %s\n", heard, word);
		failed = true;
	}
}

static void test_beside_a_64_bit_process(void)
{
	static __u32 word;
	struct user_reg reg = request(BESIDE, &word, 4, 0);
	__u32 record[2] = { 0, 8 * sizeof(void *) };
	int fd = open_data();
	FILE *line;

	check(!ioctl(fd, DIAG_IOCSREG, &reg), "registered");
	line = popen(peer, "r");
	if (!check(line, "the peer runs"))
		return;
	hear(line, "registered");
	check(events("user_events/st_c_beside*") == 1, "both share one event");
	check(!listen_to("user_events/st_c_beside", true), "enabled");
	hear(line, "wrote");
	check(await_bits(&word, 4, ~0U, 1), "this bit is set, too");
	check(write(fd, record, sizeof(record)) == sizeof(record), "written");
	check(!listen_to("user_events/st_c_beside", false), "disabled");
	hear(line, "cleared");
	check(await_bits(&word, 4, ~0U, 0), "this bit is cleared, too");
	check(pclose(line) == 0, "the peer did well");
	check(traced("st_c_beside: width=0x40 (64)\n", NULL, 0) == 1, "its record is traced");
	check(traced("st_c_beside: width=0x20 (32)\n", NULL, 0) == 1, "this one's is, too");

	check(!listen_to("user_events/st_c_beside", true), "enabled");
	check(await_bits(&word, 4, ~0U, 1), "the bit is set after the other's end");
	check(!listen_to("user_events/st_c_beside", false), "disabled");
	check(!unregister_bit(fd, &word, 0), "unregistered");
	close(fd);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
#define TEST(name) { #name, test_##name }
	TEST(the_header_is_for_32_bits),
	TEST(calls_of_64_bit_programs_are_none),
	TEST(a_bit_of_a_4_byte_word),
	TEST(a_bit_of_an_8_byte_word),
	TEST(a_set_bit_is_told_at_once),
	TEST(records),
	TEST(delete),
	TEST(register_errors),
	TEST(unregister_errors),
	TEST(a_child_inherits),
	TEST(beside_a_64_bit_process),
};

int main(int argc, char **argv)
{
	size_t i, passed = 0;

	if (argc < 2)
		return serve_beside();
	peer = argv[1];
	printf("KTAP version 1\n1..%zu\n", ARRAY_SIZE(tests));
	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		failed = false;
		if (check(!make_instance(), "an instance is made")) {
			tests[i].run();
			check(!remove_instance(), "the instance is removed");
		}
		check(await_gone("user_events/st_c_*"), "no event is left");
		printf("%s %zu %s\n", failed ? "not ok" : "ok", i + 1, tests[i].name);
		fflush(stdout);
		passed += !failed;
	}
	return passed != ARRAY_SIZE(tests);
}
