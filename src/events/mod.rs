// SPDX-License-Identifier: GPL-2.0

//! Groups of events, and the events in them. An event is in one of these states:
//!
//! - *unregistered*: being made, with `event_mutex` held; then listed in the group only. Goes on to
//!   *in use*, or is freed if the trace core refuses it.
//! - *in use*: there is an [`EventRef`]. Goes on to *unused* when the last one is dropped.
//! - *unused, persistent*: goes on to *in use* when it is registered again, or to *removed* when it
//!   is deleted.
//! - *unused, idle*: not persistent, and on a list of [`idle`], or just taken off. Goes on to *in
//!   use* when it is registered again, or to *removed*: by the work queue, when it is deleted, or
//!   when its name is registered with other fields.
//! - *removed*: forgotten by the trace core and the group. Goes on to *kept* if there may be
//!   records of it, or is freed with the last pointer to it.
//! - *kept*: has its number still ([`kept`]). Gives the number to the next event that is the same,
//!   or is freed when too many are kept.
//!
//! The trace core can refer to an event that is unused (an event probe, a histogram, a trigger),
//! and gives no notice when it stops. Such an event cannot be removed: the work queue tries again,
//! and so does unloading.
//!
//! - [`group`]: the events of a group; [`group_events`]: their tables; [`removal`]: deleting
//!   events; [`open_files`], [`closing`]: the use and the end of a group; [`limits`]: its limits.
//! - [`idle`]: the work that removes idle events; [`kept`]: removed events of which there may be
//!   records.
//! - [`event`]: one event; [`naming`]: its name in tracefs; [`misses`]: records that consumers
//!   missed.
//! - [`toggle`]: the bits that show its state; [`changes`]: the numbers by which files report it.

mod changes;
mod closing;
mod event;
mod group;
mod group_events;
mod idle;
mod kept;
mod limits;
mod misses;
mod naming;
mod open_files;
mod removal;
mod toggle;

pub(crate) use changes::Changes;
pub(crate) use closing::OpenGroup;
pub(crate) use event::{
    Event,
    EventDesc,
    EventRef,
    RegFlags,
    UserEvent, //
};
pub(crate) use group::{
    Group,
    Usage, //
};
pub(crate) use idle::{
    IdleEvents,
    MAX_RECHECK_DELAY,
    RECHECK_DELAY, //
};
pub(crate) use limits::ByteRate;
pub(crate) use misses::Tally;
