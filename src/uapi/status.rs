// SPDX-License-Identifier: GPL-2.0

//! `user_events_status`: the events of a group, and their consumers.

use super::data::FileContext;
use super::event_range::EventRange;
use crate::events::Event;
use crate::sys::tracefs::{
    ListingFile, //
    SeqWriter,
};
use kernel::prelude::*;
use kernel::str::CStr;

/// The listing. One line an event of the group, the oldest first; then totals of the lines.
pub(crate) struct StatusFile;

/// In front of a line, or of the totals.
pub(crate) struct Cursor {
    rest: EventRange,
    /// Events in the lines so far.
    active: usize,
    /// Those with consumers.
    busy: usize,
}

impl ListingFile for StatusFile {
    type Context = FileContext;
    type Cursor = Cursor;
    const NAME: &'static CStr = c"user_events_status";
    const MODE: u16 = 0o440;

    fn begin(context: &FileContext) -> Cursor {
        Cursor {
            rest: EventRange::all(&context.group),
            active: 0,
            busy: 0,
        }
    }

    fn show(context: &FileContext, cursor: &Cursor, out: &SeqWriter<'_>) -> Result<Option<Cursor>> {
        let &Cursor { rest, active, busy } = cursor;
        let shown = rest.with_first(&context.group, |event| show_event(event, out));
        let Some((rest, is_busy)) = shown else {
            out.text(fmt!("\nActive: {active}\nBusy: {busy}\n"));
            return Ok(None);
        };
        Ok(Some(Cursor {
            rest,
            active: active + 1,
            busy: busy + usize::from(is_busy),
        }))
    }
}

/// Shows an event. Returns whether it has consumers.
fn show_event(event: &Event, out: &SeqWriter<'_>) -> bool {
    let consumers = event.consumers();
    out.bytes(event.name());
    if !consumers.is_none() {
        out.bytes(b" # Used by");
        if consumers.has_ftrace() {
            out.bytes(b" ftrace");
        }
        if consumers.has_perf() {
            out.bytes(b" perf");
        }
    }
    out.bytes(b"\n");
    !consumers.is_none()
}
