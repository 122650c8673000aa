// SPDX-License-Identifier: GPL-2.0

//! Items of the `kernel` crate that the crate of 7.2 lacks. That of 6.12 lacks so much that the
//! crate in `of_6_12/` takes its place.
//!
//! When the support of a series ends, the lines with its `cfg` go, and the files that only they
//! name; no other line changes.

// The errors are `pub` for the crate of 6.12.
#[cfg(USER_EVENTS_KERNEL_7_2)]
#[allow(unreachable_pub)]
mod errnos;
#[cfg(USER_EVENTS_KERNEL_7_2)]
use kernel::{
    bindings,
    error::Error, //
};

/// Replaces the crate's prelude in the files that use an error which an older prelude lacks.
pub(crate) mod prelude {
    #[cfg(USER_EVENTS_KERNEL_7_2)]
    pub(crate) use super::errnos::*;
    pub(crate) use kernel::prelude::*;
}
