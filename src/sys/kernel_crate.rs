// SPDX-License-Identifier: GPL-2.0

//! What the module takes of the `kernel` crate that older kernels lack: here are the crate's own items.
//!
//! What the crate of an older kernel has not, a file beside this one has, for each series that `Kbuild` names, with the
//! names and types that newer crates give it. So the day a series is not supported any more, its file goes, with the lines
//! that name its `cfg`, and no other file changes.

#[cfg(USER_EVENTS_KERNEL_7_2)]
mod of_7_2;

/// For the files that use something of the crate's prelude which an older one lacks, in place of that.
pub(crate) mod prelude {
    #[cfg(USER_EVENTS_KERNEL_7_2)]
    pub(crate) use super::of_7_2::prelude::*;
    pub(crate) use kernel::prelude::*;
}

#[cfg(USER_EVENTS_KERNEL_7_2)]
pub(super) use self::of_7_2::this_module;
#[cfg(not(USER_EVENTS_KERNEL_7_2))]
pub(super) use kernel::module::this_module;
