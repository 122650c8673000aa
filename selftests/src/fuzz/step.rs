// SPDX-License-Identifier: GPL-2.0

//! One step of a process of the fuzzer: small numbers, which fit into a few bytes and a line of
//! the log.

use crate::kit::model::{self, Type};
use crate::kit::tracefs::GROUP;
use std::fmt;
use std::sync::LazyLock;

/// The maximum of open files of a process.
pub const FILES: usize = 4;
/// 32-bit words for bits: half of them on each of two pages.
pub const PLACES: usize = 64;
/// The number of events' names of a worker.
pub const NAMES: usize = 8;
/// From this name on, events are registered as one of several formats only.
pub const FIRST_MULTI: usize = 6;
/// The number of groups of a worker, numbered from 1.
pub const GROUPS: usize = 3;
/// The number of the first group, which has no name and always exists.
pub const FIRST_GROUP: u8 = 0;

macro_rules! calls {
    ($($(#[$about:meta])* $call:ident,)*) => {
        /// The kind of a step, with the numbers that it uses.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Call { $($(#[$about])* $call,)* }

        const CALLS: &[Call] = &[$(Call::$call,)*];
    };
}

calls! {
    /// `file`; `value` is a [`mode`].
    Open,
    /// `file`
    Close,
    /// `file` to the slot `value`.
    Duplicate,
    /// `file`, `name`, `fields`, `place`, `bit`, [`flag`]s, `defect`; `value` & 1: description
    /// without spaces.
    Register,
    /// `file`, `place`, `bit`, [`flag`]s, `defect`.
    Unregister,
    /// `file`, `name`, [`flag`]s, `defect`.
    Delete,
    /// `file`, `value` as the index, `fields` of the event, `defect`; `bit` determines the split
    /// and the amount of data, `serial` their content.
    Write,
    /// `file`, `value`: a call that the file does not support.
    Unsupported,
    /// Changes of the second page.
    Protect,
    Unprotect,
    Unmap,
    MapAgain,
    Discard,
    /// `value`: the page.
    PageOut,
    /// `place`, `bit`: the process changes an unregistered bit.
    Flip,
    /// The process gives up its privileges.
    DropPrivileges,
    /// `file`; `value` is a [`mode`]; `name` is the number of a group, whose data file is opened by
    /// its path.
    OpenIn,
    /// The process opens the data file of the group `name` with O_PATH.
    Hold,
    /// `file`; `value` is a [`mode`]: opened through the O_PATH descriptor.
    OpenHeld,
    /// `file`; `value` is a [`way`].
    Poll,
}

/// The mode of opening.
pub mod mode {
    pub const READ_WRITE: u8 = 0;
    pub const READ_ONLY: u8 = 1;
    pub const WRITE_ONLY: u8 = 2;
}

/// Variants of a step.
pub mod flag {
    /// The event is persistent.
    pub const PERSIST: u8 = 1;
    /// The event is one of several formats.
    pub const MULTI_FORMAT: u8 = 2;
    /// The word has 8 bytes.
    pub const WIDE: u8 = 4;
    /// As a 32-bit program.
    pub const COMPAT: u8 = 8;
    /// By another thread.
    pub const THREAD: u8 = 16;
    /// Repeated while the event is in use, as its last user has just ended; or with a timeout for
    /// the expected report.
    pub const PATIENT: u8 = 32;
}

/// No defect.
pub const RIGHT: u8 = 0;

macro_rules! numbers {
    (from $first:literal: $($(#[$about:meta])* $name:ident),* $(,)?) => {
        numbers!(@ $first; $($(#[$about])* $name,)*);
    };
    (@ $number:expr; $(#[$about:meta])* $name:ident, $($rest:tt)*) => {
        $(#[$about])*
        pub const $name: u8 = $number;
        numbers!(@ $number + 1; $($rest)*);
    };
    (@ $number:expr;) => {
        /// The end of these numbers.
        pub const END: u8 = $number;
    };
}

/// Defects of a registration.
pub mod register {
    numbers!(from 1:
        /// A size of 32 bytes, the last four of them 0, which is valid.
        LONGER,
        SHORT,
        SIZE_OF_ALL_ONES,
        LONGER_THAN_A_PAGE,
        UNKNOWN_BYTES,
        UNKNOWN_FLAG,
        HIGHEST_FLAG,
        WORD_OF_3_BYTES,
        MISALIGNED,
        BIT_TOO_HIGH,
        WORD_IN_THE_KERNEL,
        NULL_ARGUMENT,
        ARGUMENT_OVER_THE_EDGE,
        NAME_UNMAPPED,
        NAME_OVER_THE_EDGE,
        NAME_TOO_LONG,
        /// The argument is read-only, so the index cannot be written.
        READ_ONLY_ARGUMENT,
        UNKNOWN_TYPE,
        NO_FIELD_NAME,
        TWO_SPACES,
        NO_NAME,
        FLAGS_IN_NAME,
    );
}

/// Defects of an unregistration.
pub mod unregister {
    numbers!(from 1:
        LONGER,
        SHORT,
        LONGER_THAN_A_PAGE,
        UNKNOWN_BYTES,
        RESERVED,
        RESERVED2,
        WORD_IN_THE_KERNEL,
        NULL_ARGUMENT,
        ARGUMENT_OVER_THE_EDGE,
    );
}

/// Defects of a deletion.
pub mod delete {
    numbers!(from 1: NULL_ARGUMENT, TOO_LONG, UNKNOWN, OVER_THE_EDGE);
}

/// Defects and variants of a record.
pub mod write {
    numbers!(from 1:
        /// More bytes than the fields and their data.
        MORE,
        /// Too many bytes for any buffer.
        TOO_MUCH,
        PART_OF_AN_INDEX,
        NEGATIVE_INDEX,
        ONE_BYTE_LESS,
        UNREADABLE,
        ALL_UNREADABLE,
        /// Data beyond the end.
        OUTSIDE,
        NO_NUL,
        /// A location of no data.
        EMPTY,
        /// A location in front of the payload.
        IN_FRONT,
        /// Too large for an instance, and possibly for perf: see [`large`](super::super::large).
        LARGE,
    );
}

/// Calls that a file does not support.
pub mod unsupported {
    numbers!(from 0: READ, SEEK, MMAP, UNKNOWN_IOCTL, WRITE_AT_AN_OFFSET);
}

/// Ways to poll a file for changes.
pub mod way {
    numbers!(from 0: POLL, SELECT, EPOLL, EPOLL_EDGE);
}

macro_rules! step {
    ($($number:ident)*) => {
        #[derive(Clone, Copy)]
        pub struct Step {
            pub call: Call,
            $(pub $number: u8,)*
            /// The number of the write in its worker.
            pub serial: u32,
        }

        impl Step {
            /// A step with all numbers 0.
            pub fn new(call: Call) -> Step {
                Step { call, $($number: 0,)* serial: 0 }
            }

            pub fn bytes(&self) -> [u8; Step::SIZE] {
                let [s0, s1, s2, s3] = self.serial.to_ne_bytes();
                [self.call as u8, $(self.$number,)* s0, s1, s2, s3]
            }

            pub fn from_bytes(bytes: &[u8; Step::SIZE]) -> Step {
                let [call, $($number,)* serial @ ..] = *bytes;
                let (call, serial) = (CALLS[usize::from(call)], u32::from_ne_bytes(serial));
                Step { call, $($number,)* serial }
            }
        }

        impl fmt::Debug for Step {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.call)?;
                let numbers = [
                    $((stringify!($number), self.$number.into()),)*
                    ("serial", self.serial),
                ];
                for (name, number) in numbers.into_iter().filter(|(_, number)| *number != 0) {
                    write!(f, " {name} {number}")?;
                }
                Ok(())
            }
        }
    };
}

step!(file name fields place bit flags defect value);

impl Step {
    pub const SIZE: usize = 13;

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The fields of an event, and the layout of its records.
pub struct Fields {
    pub text: &'static str,
    /// The size of the fields.
    pub fixed: usize,
    pub location: Option<Location>,
    /// One of them is an array of characters.
    pub has_chars: bool,
    /// Only the C implementation accepts them.
    pub only_in_c: bool,
}

/// A field with the location of data behind the fields.
#[derive(Clone, Copy)]
pub struct Location {
    /// The offset of the field in the payload.
    pub at: usize,
    /// Relative to the end of the field, not the start of the record.
    pub relative: bool,
    /// The data is text with a NUL at the end.
    pub text: bool,
}

/// The fields of events, by number.
pub static FIELDS: LazyLock<[Fields; 10]> = LazyLock::new(|| {
    let texts = [
        "",
        "u32 a",
        "u64 a; u8 b",
        "u32 a; __rel_loc char[] s",
        "__data_loc char[] s",
        "char[20] c; s16 d",
        "struct p q 16; unsigned short e",
        "__rel_loc u8[] r; u32 z",
        "u32 b",
        "u32 a; u32 a",
    ];
    texts.map(Fields::of)
});

impl Fields {
    fn of(text: &'static str) -> Fields {
        let mut fields = Fields {
            text,
            fixed: 0,
            location: None,
            has_chars: false,
            only_in_c: model::parse(format!("e {text}").as_bytes()).is_err(),
        };
        for field in text.split("; ") {
            let (_, parsed) = model::parse(format!("e {field}").as_bytes()).expect("a field");
            for field in &parsed {
                match field.what {
                    Type::Location(relative, _) => {
                        fields.location = Some(Location {
                            at: fields.fixed,
                            relative,
                            text: field.is_string(),
                        });
                    }
                    Type::Chars(..) => fields.has_chars = true,
                    _ => {}
                }
                fields.fixed += field.size() as usize;
            }
        }
        fields
    }
}

/// A description for registration.
pub fn description(name: &str, fields: u8, unspaced: bool) -> String {
    match FIELDS[usize::from(fields)].text {
        "" => name.to_string(),
        text if unspaced => format!("{name} {}", text.replace("; ", ";")),
        text => format!("{name} {text}"),
    }
}

/// The name number `name` of a worker.
pub fn name_of(worker: u32, name: u8) -> String {
    format!("st_fuzz{worker}_{}", char::from(b'a' + name))
}

/// The name of a group of a worker. The last one has the maximum length.
pub fn group_of(worker: u32, group: u8) -> String {
    assert!(group != FIRST_GROUP, "the first group has no name");
    let name = format!("st_fuzz{worker}_{}", char::from(b'p' + group));
    match usize::from(group) {
        GROUPS => format!("{name:_<32}"),
        _ => name,
    }
}

/// The system of a group's events that are alone with their name; that of the formats has the
/// suffix `_multi`.
pub fn system_of(worker: u32, group: u8) -> String {
    match group {
        FIRST_GROUP => GROUP.into(),
        _ => format!("{GROUP}_{}", group_of(worker, group)),
    }
}

/// One of a group's files, by the name of its counterpart in the first group.
pub fn file_of(worker: u32, group: u8, of_the_first: &str) -> String {
    match group {
        FIRST_GROUP => of_the_first.into(),
        _ => format!("{of_the_first}.{}", group_of(worker, group)),
    }
}
