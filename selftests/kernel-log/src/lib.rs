// SPDX-License-Identifier: GPL-2.0

//! Judges a kernel's log, which must have neither reports nor messages of the module other than
//! those of loading and unloading.
//!
//! The selftests judge with [`unexpected`] the messages of each test. The program `kernel-log`
//! judges with [`check`] the log of a whole run, and with [`emulator_fault()`] the console of a
//! machine that died. Reports and allowed lines are listed in `lists/`, with a comment for each
//! entry.

#![forbid(unsafe_code)]

mod check;
mod emulator_fault;
mod judge;
mod lists;
mod module;
mod prefix;
mod race;

pub use check::{
    check,
    Extent,
    Finding, //
};
pub use emulator_fault::emulator_fault;
pub use judge::{
    unexpected,
    Allowed,
    LOST,
    TEST, //
};
pub use module::is_of_faults;
pub use prefix::kmsg_text;
