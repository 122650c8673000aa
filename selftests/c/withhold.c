// SPDX-License-Identifier: GPL-2.0
/*
 * A FUSE file system that replies to requests on command:
 *
 *   withhold DIRECTORY FILES BYTES
 *
 * mounts it at DIRECTORY. It has FILES files, "0", "1", ..., of BYTES bytes each, whose
 * contents it keeps in memory. Each line of its standard input is a command:
 *
 *   hold write   take the data of writes from now on, and hold their replies
 *   hold read    hold the replies to reads from now on
 *   release      send all held replies, and reply at once from now on
 *   drop         invalidate the cached pages of all files; refused between hold and release
 *   drop at open invalidate the cached pages of each file that is opened from now on
 *
 * It prints "mounted", "done" or "refused" after each command, and "write N" or "read N" when the
 * Nth request since the last "release" is held. It ends with its input, with the task that started
 * it, or by a signal, even while requests are held: the kernel fails these with ECONNABORTED.
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 14)

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <fuse_lowlevel.h>

#define MAX_HELD 65536

/* Time for which the kernel may cache attributes and entries, in seconds. */
#define LONG 1e6

/* A held request: a write of which size bytes were taken, or a read. */
struct held {
	fuse_req_t req;
	const char *from;
	size_t size;
};

static unsigned long files, bytes;
static char *contents;
static struct fuse_session *session;

/* Protects the following variables, and standard output. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool hold_writes, hold_reads, drop_at_open;
static struct held held[MAX_HELD];
static unsigned int held_count;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static char *contents_of(fuse_ino_t ino)
{
	return contents + (ino - FUSE_ROOT_ID - 1) * bytes;
}

static void answer(const struct held *one)
{
	if (one->from)
		fuse_reply_buf(one->req, one->from, one->size);
	else
		fuse_reply_write(one->req, one->size);
}

/* Replies to a request, or holds the request and prints it. */
static void answer_or_hold(const struct held *one)
{
	const bool *holds = one->from ? &hold_reads : &hold_writes;
	bool now;

	pthread_mutex_lock(&lock);
	now = !*holds || held_count == MAX_HELD;
	if (!now) {
		held[held_count++] = *one;
		printf("%s %u\n", one->from ? "read" : "write", held_count);
	}
	pthread_mutex_unlock(&lock);
	if (now)
		answer(one);
}

static void attributes(fuse_ino_t ino, struct stat *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->st_ino = ino;
	attr->st_nlink = 1;
	attr->st_uid = getuid();
	attr->st_gid = getgid();
	attr->st_mode = S_IFREG | 0600;
	attr->st_size = bytes;
	if (ino == FUSE_ROOT_ID) {
		attr->st_mode = S_IFDIR | 0700;
		attr->st_size = 0;
	}
}

static void withhold_init(void *data, struct fuse_conn_info *conn)
{
	(void)data;
	/* With lower limits the kernel would queue further requests instead of sending them. */
	conn->max_background = 65535;
	conn->congestion_threshold = 65535;
	/* Notifications to the kernel are possible from here on. */
	puts("mounted");
}

static void withhold_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = { .attr_timeout = LONG, .entry_timeout = LONG };
	unsigned long number;
	char *end;

	number = strtoul(name, &end, 10);
	if (parent != FUSE_ROOT_ID || *end || number >= files) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	entry.ino = FUSE_ROOT_ID + 1 + number;
	attributes(entry.ino, &entry.attr);
	fuse_reply_entry(req, &entry);
}

static void withhold_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	struct stat attr;

	(void)file;
	attributes(ino, &attr);
	fuse_reply_attr(req, &attr, LONG);
}

/* Accepts and ignores times and modes. */
static void withhold_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
			     struct fuse_file_info *file)
{
	(void)attr;
	if (to_set & FUSE_SET_ATTR_SIZE)
		fuse_reply_err(req, EPERM);
	else
		withhold_getattr(req, ino, file);
}

static void withhold_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	if (ino == FUSE_ROOT_ID) {
		fuse_reply_err(req, EISDIR);
		return;
	}
	/* Without keep_cache the kernel drops the file's pages, each locked until written back. */
	pthread_mutex_lock(&lock);
	file->keep_cache = !drop_at_open;
	pthread_mutex_unlock(&lock);
	fuse_reply_open(req, file);
}

static void withhold_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
			  struct fuse_file_info *file)
{
	struct held one = { .req = req };
	size_t from = offset;

	(void)file;
	if (from > bytes)
		from = bytes;
	if (size > bytes - from)
		size = bytes - from;
	one.from = contents_of(ino) + from;
	one.size = size;
	answer_or_hold(&one);
}

static void withhold_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size,
			   off_t offset, struct fuse_file_info *file)
{
	struct held one = { .req = req, .size = size };

	(void)file;
	if ((size_t)offset > bytes || size > bytes - offset) {
		fuse_reply_err(req, ENOSPC);
		return;
	}
	memcpy(contents_of(ino) + offset, data, size);
	answer_or_hold(&one);
}

/* libfuse answers other operations with ENOSYS, after which the kernel does not repeat them. */
static const struct fuse_lowlevel_ops operations = {
	.init = withhold_init,
	.lookup = withhold_lookup,
	.getattr = withhold_getattr,
	.setattr = withhold_setattr,
	.open = withhold_open,
	.read = withhold_read,
	.write = withhold_write,
};

static void release(void)
{
	unsigned int count;

	pthread_mutex_lock(&lock);
	hold_writes = false;
	hold_reads = false;
	count = held_count;
	held_count = 0;
	/* New requests wait for the lock, and are not held. */
	for (unsigned int i = 0; i < count; i++)
		answer(&held[i]);
	pthread_mutex_unlock(&lock);
}

/*
 * The kernel waits uninterruptibly for pages under I/O. So this is refused while requests
 * may be held: the file system could not be ended any more.
 */
static bool drop(void)
{
	int error;

	if (hold_writes || hold_reads)
		return false;
	for (unsigned long i = 0; i < files; i++) {
		error = fuse_lowlevel_notify_inval_inode(session, FUSE_ROOT_ID + 1 + i, 0, 0);
		/* ENOENT: the kernel has not looked up the file. */
		if (error && error != -ENOENT)
			return false;
	}
	return true;
}

static bool obey(const char *command)
{
	if (!strcmp(command, "release\n")) {
		release();
	} else if (!strcmp(command, "drop\n")) {
		return drop();
	} else if (!strcmp(command, "drop at open\n")) {
		pthread_mutex_lock(&lock);
		drop_at_open = true;
		pthread_mutex_unlock(&lock);
	} else if (!strcmp(command, "hold write\n") || !strcmp(command, "hold read\n")) {
		pthread_mutex_lock(&lock);
		if (command[5] == 'w')
			hold_writes = true;
		else
			hold_reads = true;
		pthread_mutex_unlock(&lock);
	} else {
		return false;
	}
	return true;
}

/* Runs the commands, in parallel with the thread that answers requests. */
static void *listen(void *unused)
{
	char line[64];

	(void)unused;
	while (fgets(line, sizeof(line), stdin)) {
		bool done = obey(line);

		pthread_mutex_lock(&lock);
		puts(done ? "done" : "refused");
		pthread_mutex_unlock(&lock);
	}
	_exit(0);
}

int main(int argc, char *argv[])
{
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	pthread_t listener;
	int error;

	if (argc != 4) {
		fprintf(stderr, "usage: withhold DIRECTORY FILES BYTES\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	files = strtoul(argv[2], NULL, 10);
	bytes = strtoul(argv[3], NULL, 10);
	contents = calloc(files, bytes);
	if (!contents)
		die("calloc");
	session = fuse_session_new(&args, &operations, sizeof(operations), NULL);
	if (!session || fuse_session_mount(session, argv[1]))
		die(argv[1]);
	error = pthread_create(&listener, NULL, listen, NULL);
	if (error) {
		errno = error;
		die("pthread_create");
	}
	fuse_session_loop(session);
	return 0;
}
