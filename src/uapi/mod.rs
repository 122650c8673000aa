// SPDX-License-Identifier: GPL-2.0

//! The faces of the module: the files through which it is used.

pub(crate) mod data;
mod dynamic_events;
mod event_range;
mod ioctl_args;
pub(crate) mod profile;
pub(crate) mod registrations;
pub(crate) mod status;
