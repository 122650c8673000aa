// SPDX-License-Identifier: GPL-2.0

//! The module's events in the kernel's `dynamic_events`.

use super::groups::Groups;
use crate::events::{
    Event,
    EventDesc,
    RegFlags,
    UserEvent, //
};
use crate::schema::{
    self,
    Description, //
};
use crate::sys::dyn_event::{
    Args, //
    DynEventOwner,
};
use crate::sys::kernel_crate::prelude::*;
use crate::sys::module_ref::ModuleRef;
use crate::sys::task::perfmon_capable;
use crate::sys::trace_event::Removal;
use crate::sys::tracefs::SeqWriter;
use kernel::str::CStr;
use kernel::sync::Arc;

/// The beginning of a line that makes or shows an event. C: `USER_EVENTS_PREFIX`.
const PREFIX: &[u8] = b"u:";

impl DynEventOwner for UserEvent {
    type CreateData = Groups;

    fn create(groups: &Arc<Groups>, line: &CStr) -> Result {
        let text = line.to_bytes().strip_prefix(PREFIX).ok_or(ECANCELED)?;
        let (name, description) = Description::parse_line(text)?;
        let desc = EventDesc::new(description)?;
        if !perfmon_capable() {
            return Err(EPERM);
        }
        // Without a reference an event that is not persistent would be removed at once.
        let flags = RegFlags {
            persistent: true,
            multi_format: false,
        };
        let _module = ModuleRef::get()?;
        // The group is in use until the event exists, so that it is not removed meanwhile.
        let group = groups.open(name).map_err(|_| EINVAL)?;
        group.register(&desc, flags).map(drop)
    }

    fn show(event: &Event, out: &SeqWriter<'_>) {
        out.bytes(PREFIX);
        let systems = event.group().systems();
        if systems.group_name().is_some() {
            // The system of a line that makes an event, also for one of several formats.
            out.bytes(systems.single());
            out.bytes(b"/");
        }
        out.bytes(event.listing());
        out.bytes(b"\n");
    }

    fn delete(removal: Removal<'_, UserEvent>) -> Result {
        let event = removal.event();
        if event.is_used() {
            return Err(EBUSY);
        }
        if event.is_persistent() && !perfmon_capable() {
            return Err(EPERM);
        }
        event.group().remove(removal).map(drop)
    }

    fn matches(event: &Event, system: Option<&CStr>, name: &CStr, args: Args<'_>) -> bool {
        let systems = event.group().systems();
        let is_meant = match system {
            Some(system) => systems.contains(system.to_bytes()),
            // A name without a system is that of the first group.
            None => systems.group_name().is_none(),
        };
        is_meant
            && name.to_bytes() == event.registered_name()
            && schema::fields_match(event.listing(), args)
    }
}
