// SPDX-License-Identifier: GPL-2.0

//! Groups of events, and the events in them.
//!
//! | an event is | when | goes on to |
//! |---|---|---|
//! | unregistered | it is being made, with `event_mutex` held; then only the tables know it | *in use*; or is freed, if the trace core does not take it |
//! | in use | there is an [`EventRef`] | *unused*, when the last is dropped |
//! | unused, persistent | it was made so, and there is no reference | *in use*, when it is registered again; *removed*, when it is deleted |
//! | unused, idle | it is not persistent: it is on the list `idle`, or just taken from there | *in use*, when it is registered again; *removed*, by the work queue, when it is deleted, or when its name is registered with other fields |
//! | removed | the trace core and the tables have forgotten it | *kept*, if there may be records of it; is freed with the last pointer to it |
//! | kept | it has its number still: [`kept`] | gives its number to the next that is like it; or is *removed*, when there are too many |
//!
//! The trace core can refer to an event that is unused (an event probe, a histogram, a trigger), and does not tell
//! when it stops. Such an event cannot be removed: the work queue looks at it again, and so does unloading.
//!
//! - [`group`]: the events of a group by name; [`removal`]: taking some away; [`closing`]: its use and its end;
//!   [`group_events`]: the tables of them; [`open_files`]: how many there are; [`limits`]: how many
//!   events and bytes it may have.
//! - [`idle`]: the work that removes idle events, of all groups; [`kept`]: those of which there may be records.
//! - [`event`]: one event; [`naming`]: its name in tracefs; [`misses`]: records that consumers could not take.
//! - [`toggle`]: the bits that show its state; [`changes`]: what open files report of it.

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
