// SPDX-License-Identifier: GPL-2.0

//! `user_events_profile`: how many records each consumer missed, and how many writes failed.

use super::data::FileContext;
use super::event_range::EventRange;
use crate::events::Event;
use crate::sys::tracefs::{
    ListingFile, //
    SeqWriter,
};
use kernel::prelude::*;
use kernel::str::CStr;

/// The width of the column of names.
const NAME_WIDTH: usize = 44;

/// The listing. One line an event of the group, the oldest first: its name, records that ftrace
/// missed, records that perf missed, and writes that failed although a consumer was attached. In
/// the form of the kernel's kprobe_profile.
pub(crate) struct ProfileFile;

impl ListingFile for ProfileFile {
    type Context = FileContext;
    type Cursor = EventRange;
    const NAME: &'static CStr = c"user_events_profile";
    const MODE: u16 = 0o440;

    fn begin(context: &FileContext) -> EventRange {
        EventRange::all(&context.group)
    }

    fn show(
        context: &FileContext,
        rest: &EventRange,
        out: &SeqWriter<'_>,
    ) -> Result<Option<EventRange>> {
        let shown = rest.with_first(&context.group, |event| show_event(event, out));
        Ok(shown.map(|(rest, ())| rest))
    }
}

fn show_event(event: &Event, out: &SeqWriter<'_>) {
    let name = event.name();
    let padding = NAME_WIDTH.saturating_sub(name.len());
    let (ftrace, perf, failed) = (event.misses()).map_or((0, 0, 0), |misses| {
        (misses.ftrace(), misses.perf(), misses.failed_writes())
    });
    out.bytes(b"  ");
    out.bytes(name);
    out.text(fmt!(
        "{:padding$} {ftrace:>15} {perf:>15} {failed:>15}\n",
        ""
    ));
}
