// SPDX-License-Identifier: GPL-2.0
/*
 * The event "requests". See request_event.h. Compiles as C and as C++20.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/user_events.h>

#include "request_event.h"

#define DATA "/sys/kernel/tracing/user_events_data"

/*
 * Records have no padding. The widest field comes first, so that each is
 * aligned: eBPF programs read aligned fields only.
 */
#define DESCRIPTION "requests u64 ns; u32 status; __data_loc char[] path"

/* The fixed part of a record. The bytes of the path follow it. */
struct request_record {
	__u64 ns;
	__u32 status;
	__u32 path;
} __attribute__((__packed__));

/* The size of the fields that all events of the kernel have. */
#define COMMON_BYTES 8

/* Bytes of a path that are recorded. A record must fit into a page of a trace buffer. */
#define PATH_BYTES 255

__u32 request_event_word;

static int data_fd = -1;
static __u32 write_index;

int request_event_register(const char *data)
{
	struct user_reg reg = {
		.size = sizeof(reg),
		.enable_bit = REQUEST_EVENT_BIT,
		.enable_size = sizeof(request_event_word),
		.flags = 0,
		.enable_addr = (unsigned long)&request_event_word,
		.name_args = (unsigned long)DESCRIPTION,
		.write_index = 0,
	};
	int fd, error;

	fd = open(data ? data : DATA, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (ioctl(fd, DIAG_IOCSREG, &reg) < 0) {
		error = errno;
		close(fd);
		errno = error;
		return -1;
	}
	/* The bit may be set by now, but no thread tests it before this returns. */
	data_fd = fd;
	write_index = reg.write_index;
	return 0;
}

void request_event_unregister(void)
{
	struct user_unreg unreg = {
		.size = sizeof(unreg),
		.disable_bit = REQUEST_EVENT_BIT,
		.__reserved = 0,
		.__reserved2 = 0,
		.disable_addr = (unsigned long)&request_event_word,
	};

	if (data_fd < 0)
		return;
	/* Fails only if the bit is not registered. */
	ioctl(data_fd, DIAG_IOCSUNREG, &unreg);
	close(data_fd);
	data_fd = -1;
}

int request_event_write(__u64 ns, __u32 status, const char *path)
{
	static const char nul[1] = {};
	size_t length = strnlen(path, PATH_BYTES);
	struct request_record record = {
		.ns = ns,
		.status = status,
		/* The bytes follow the fields; the struct lacks the common ones. */
		.path = (__u32)DYN_LOC(COMMON_BYTES + sizeof(record), length + 1),
	};
	struct iovec parts[] = {
		{ &write_index, sizeof(write_index) },
		{ &record, sizeof(record) },
		{ (void *)path, length },
		{ (void *)nul, sizeof(nul) },
	};

	return writev(data_fd, parts, 4) < 0 ? -1 : 0;
}
