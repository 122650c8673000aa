/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * user_events: trace events that user programs define and write.
 *
 * A program opens user_events_data in the root of tracefs and, on that file,
 *   - registers events with DIAG_IOCSREG,
 *   - writes records with write() or writev(): first the event's 32-bit write
 *     index, native byte order, then the payload,
 *   - drops registrations with DIAG_IOCSUNREG, deletes events with DIAG_IOCSDEL.
 *
 * With each registration it names one bit of its own memory. The kernel sets
 * the bit while a consumer is attached to the event and clears it when the last
 * one detaches, so a program that is not traced pays for a load from its own
 * memory and nothing else.
 */
#ifndef _UAPI_LINUX_USER_EVENTS_H
#define _UAPI_LINUX_USER_EVENTS_H

#include <linux/types.h>
#include <linux/ioctl.h>

/* The groups below tracefs's events directory in which the events appear. */
#define USER_EVENTS_SYSTEM "user_events"
#define USER_EVENTS_MULTI_SYSTEM "user_events_multi"

/* What a line about a user event starts with in tracefs's dynamic_events. */
#define USER_EVENTS_PREFIX "u:"

/*
 * The value of a __data_loc or __rel_loc field: @size bytes of data that start
 * at @offset. For __data_loc the offset counts from the start of the record,
 * whose payload starts at 8; for __rel_loc from the end of the field itself.
 */
#define DYN_LOC(offset, size) ((size) << 16 | (offset))

/* Bits of user_reg.flags. */
enum user_reg_flag {
	/* The event stays when its last user leaves, until it is deleted. */
	USER_EVENT_REG_PERSIST = 1U << 0,

	/* Events of this name but with other fields may exist beside this one. */
	USER_EVENT_REG_MULTI_FORMAT = 1U << 1,

	/* Not a flag: every flag is smaller. */
	USER_EVENT_REG_MAX = 1U << 2
};

/* DIAG_IOCSREG: makes the event if there is none, and registers the bit. */
struct user_reg {
	/* In: the size of this structure. */
	__u32 size;

	/* In: which bit of the word at enable_addr, 0 the least significant. */
	__u8 enable_bit;

	/* In: the size of that word in bytes, 4 or 8. */
	__u8 enable_size;

	/* In: bits of enum user_reg_flag. */
	__u16 flags;

	/* In: address of the word, a multiple of enable_size. */
	__u64 enable_addr;

	/* In: address of the description "NAME[ FIELD[;FIELD...]]", with its NUL. */
	__u64 name_args;

	/* Out: what a record of this event starts with on this open file. */
	__u32 write_index;
} __attribute__((__packed__));

/* DIAG_IOCSUNREG: ends the registration of one bit, and clears the bit. */
struct user_unreg {
	/* In: the size of this structure. */
	__u32 size;

	/* In: the bit that was registered. */
	__u8 disable_bit;

	/* In: zero. */
	__u8 __reserved;

	/* In: zero. */
	__u16 __reserved2;

	/* In: the address that was registered. */
	__u64 disable_addr;
} __attribute__((__packed__));

#define DIAG_IOC_MAGIC '*'

/* Register an event and its bit. */
#define DIAG_IOCSREG _IOWR(DIAG_IOC_MAGIC, 0, struct user_reg *)

/* Delete the event of the given name, NUL-terminated, if it is not in use. */
#define DIAG_IOCSDEL _IOW(DIAG_IOC_MAGIC, 1, char *)

/* Drop the registration of a bit. */
#define DIAG_IOCSUNREG _IOW(DIAG_IOC_MAGIC, 2, struct user_unreg *)

#endif /* _UAPI_LINUX_USER_EVENTS_H */
