// SPDX-License-Identifier: GPL-2.0

//! `user_events_status`: which events there are, and who listens to them.

use super::data::Context;
use crate::sys::tracefs::{Listing, ListingFile};
use kernel::prelude::*;
use kernel::str::CStr;

/// The listing. One line an event, the oldest first; then totals.
pub(crate) struct StatusFile;

impl ListingFile for StatusFile {
    type Context = Context;
    const NAME: &'static CStr = c"user_events_status";
    const MODE: u16 = 0o440;

    fn show(context: &Context, out: &Listing<'_>) -> Result {
        let (mut active, mut busy) = (0usize, 0usize);
        context.registry.for_each(|event| {
            let consumers = event.consumers();
            active += 1;
            out.bytes(event.name());
            if !consumers.is_none() {
                busy += 1;
                out.bytes(b" # Used by");
                if consumers.has_ftrace() {
                    out.bytes(b" ftrace");
                }
                if consumers.has_perf() {
                    out.bytes(b" perf");
                }
            }
            out.bytes(b"\n");
        });
        out.text(fmt!("\nActive: {active}\nBusy: {busy}\n"));
        Ok(())
    }
}
