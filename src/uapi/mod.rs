// SPDX-License-Identifier: GPL-2.0

//! The files in tracefs, the ioctls, and the module's lines in `dynamic_events`.

mod data;
mod dynamic_events;
mod event_index;
mod event_range;
mod file_events;
mod groups;
mod groups_file;
mod ioctl_args;
mod profile;
mod registrations;
mod status;

pub(crate) use data::{
    DataFile, //
    FileContext,
};
pub(crate) use groups::Groups;
pub(crate) use groups_file::GroupsFile;
pub(crate) use profile::ProfileFile;
pub(crate) use registrations::RegistrationsFile;
pub(crate) use status::StatusFile;
