// SPDX-License-Identifier: GPL-2.0

//! What a user event looks like, and whether bytes are one.
//!
//! A program describes an event as text, `NAME[ FIELD[;FIELD...]]`, and then writes records of that
//! shape. This module reads the description ([`Description::parse`]), lays the fields out
//! ([`Field`]), writes the texts that the tracing files show ([`write_listing`],
//! [`write_print_fmt`]) and decides whether a written payload is a valid record
//! ([`check_payload`]).
//!
//! It is pure: nothing of the kernel, no allocation, checked Rust only, and no way to panic, since
//! all it reads comes from user space. The same files are part of the kernel module and of a host
//! crate, where they are tested; so they name only [`core`] and, among themselves, `super`. Both
//! say `pub mod schema`: it is the whole interface of the one, and more than the other uses.
//!
//! | file | idea |
//! |---|---|
//! | `error.rs` | why something was refused, and which errno that is |
//! | `command.rs` | the text of a description, cut into its parts |
//! | `field.rs` | one field: type, size, sign, what it may point to |
//! | `layout.rs` | all fields together: the fixed size, listing, print format, matching |
//! | `line.rs` | lines of `dynamic_events` |
//! | `payload.rs` | is this byte string a valid record? |
//!
//! All sizes and offsets are in bytes. Offsets count from the start of the *record*, which begins
//! with the [`COMMON_SIZE`] bytes of the kernel's common fields; the *payload*, what the program
//! wrote, follows.

// Nothing here may panic. rustc ignores these, clippy checks them on the host.
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod command;
mod error;
mod field;
mod layout;
mod line;
mod payload;

pub use self::command::{check_name, Description, MAX_DESCRIPTION, MAX_NAME};
pub use self::error::{Errno, Error};
pub use self::field::{Field, Kind};
pub use self::layout::{write_listing, write_print_fmt, Fields, Sink};
pub use self::layout::{COMMON_SIZE, MAX_FIXED, MAX_RECORD};
pub use self::line::GROUP;
pub use self::payload::{check_payload, Ending, Location};
