// SPDX-License-Identifier: GPL-2.0

//! What descriptions, lines of `dynamic_events` and payloads mean.
//!
//! A program describes an event as text, `NAME[ FIELD[;FIELD...]]`, and then writes records of that
//! shape. This module parses the description ([`Description`]), lays out the fields ([`Field`]),
//! writes the texts that the tracing files show ([`write_listing`], [`write_print_fmt`]) and
//! decides whether a payload is a valid record ([`check_payload`]).
//!
//! It is independent of the kernel: it allocates nothing, takes no lock, never sleeps and can be
//! called in any context. It is checked Rust only, and cannot panic, as all it reads comes from
//! user space. The same files are part of the kernel module and of a host crate, where they are
//! tested; so they name only [`core`] and, among themselves, `super`. Nothing here is for the tests
//! alone: the compiler warns of what the module does not use.
//!
//! Each file uses only those above it:
//!
//! | file | contents |
//! |---|---|
//! | `error.rs` | the reasons for a refusal, and their errnos |
//! | `limits.rs` | the sizes of descriptions, fields and records |
//! | `payload.rs` | the check whether a payload is a valid record |
//! | `text.rs` | texts: fields, words and numbers in them, and sinks to write them to |
//! | `field.rs` | one field: type, size, sign, whether it is a location |
//! | `description.rs` | name and fields of an event, and its print format |
//! | `group.rs` | names of groups, and the lines that make them |
//! | `listing.rs` | lines of `dynamic_events` |
//!
//! All sizes and offsets are in bytes. Offsets count from the start of the *record*, which begins
//! with the [`COMMON_SIZE`] bytes of the kernel's common fields; the *payload*, which the program
//! wrote, follows.
//!
//! C: kernel/trace/trace_events_user.c, the part about `struct user_event`.

// The interface is public in the host crate only. The module keeps it for itself, so that the
// compiler warns of what it does not use.
#![allow(unreachable_pub)]
// Nothing here may panic. rustc ignores these, clippy checks them on the host.
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod description;
mod error;
mod field;
mod group;
mod limits;
mod listing;
mod payload;
mod text;

pub use self::description::{
    check_name,
    write_print_fmt,
    Description, //
};
pub use self::error::{
    Errno,
    Error, //
};
pub use self::field::{
    Field,
    Kind, //
};
pub use self::group::{
    GroupLimits,
    GroupLine,
    GroupName,
    GroupOptions,
    When, //
};
pub use self::limits::{
    COMMON_SIZE,
    MAX_DESCRIPTION,
    MAX_FIXED, //
};
pub use self::listing::{
    fields_match,
    write_listing, //
};
pub use self::payload::{
    check_len,
    check_payload,
    Ending,
    Location, //
};
pub use self::text::Sink;
