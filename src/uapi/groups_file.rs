// SPDX-License-Identifier: GPL-2.0

//! `user_events_groups`: the lines that make, change and remove groups, and their listing.

use super::groups::{
    Groups,
    NamedGroup, //
};
use crate::events::Usage;
use crate::schema::GroupLine;
use crate::sys::loading::LoadComplete;
use crate::sys::tracefs::{
    ListingFile,
    SeqWriter,
    Write, //
};
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;
use kernel::uaccess::UserSlice;

/// The longest line that can be written, in bytes, without its newline.
const MAX_LINE: usize = 255;

/// The listing. One line a group, by name: the line that makes it, and a comment with its usage.
pub(crate) struct GroupsFile;

impl ListingFile for GroupsFile {
    type Context = Groups;
    /// Behind the group with this name, which need not exist; `None`: in front of all.
    type Cursor = Option<KVec<u8>>;
    const NAME: &'static CStr = c"user_events_groups";
    const MODE: u16 = 0o600;
    const WRITE: Option<Write<Groups>> = Some(write);

    fn begin(_: &Groups) -> Self::Cursor {
        None
    }

    fn show(
        groups: &Groups,
        cursor: &Self::Cursor,
        out: &SeqWriter<'_>,
    ) -> Result<Option<Self::Cursor>> {
        let named = groups.named.lock();
        let Some(group) = named.next_after(cursor.as_deref()) else {
            return Ok(None);
        };
        let mut name = KVec::with_capacity(group.name().len(), GFP_KERNEL)?;
        name.extend_from_slice(group.name(), GFP_KERNEL)?;
        show_group(group, out);
        Ok(Some(Some(name)))
    }
}

/// Executes each line of a write. The end of a write ends a line. Stops after a line if a signal is
/// pending. Returns the length in bytes of the lines that were executed. May sleep.
///
/// # Errors
///
/// Those of the first line: `EFAULT`; `EINVAL` when it is too long; or those of [`write_line`].
fn write(groups: &Arc<Groups>, from: UserSlice, complete: &LoadComplete) -> Result<usize> {
    let mut left = from.reader();
    let count = left.len();
    while !(left.is_empty() || left.len() < count && current!().signal_pending()) {
        let mut buf = [0; MAX_LINE + 1];
        let buf = buf.get_mut(..left.len().min(MAX_LINE + 1));
        let buf = buf.ok_or(EINVAL)?;
        let result = (left.clone_reader().read_slice(buf))
            .and_then(|()| match buf.iter().position(|byte| *byte == b'\n') {
                Some(end) => write_line(groups, buf.get(..end).unwrap_or_default(), complete)
                    .map(|()| end + 1),
                None if buf.len() > MAX_LINE => Err(EINVAL),
                None => write_line(groups, buf, complete).map(|()| buf.len()),
            })
            .and_then(|len| left.skip(len));
        match result {
            Ok(()) => {}
            Err(error) if left.len() == count => return Err(error),
            Err(_) => break,
        }
    }
    Ok(count - left.len())
}

/// Executes a line. May sleep.
///
/// # Errors
///
/// Those of [`GroupLine::parse`], [`Groups::create_or_change`] and [`Groups::remove`].
fn write_line(groups: &Arc<Groups>, line: &[u8], complete: &LoadComplete) -> Result {
    match GroupLine::parse(line)? {
        GroupLine::Nothing => Ok(()),
        GroupLine::Set(name, options) => groups.create_or_change(name, options, complete),
        GroupLine::Remove(name, when) => groups.remove(name, when),
    }
}

fn show_group(group: &NamedGroup, out: &SeqWriter<'_>) {
    out.bytes(b"g:");
    out.bytes(group.name());
    let limits = group.group.limits();
    out.text(fmt!(" events={}", limits.events));
    if limits.bytes_per_second != 0 {
        out.text(fmt!(" bytes_per_second={}", limits.bytes_per_second));
    }
    if limits.any_names {
        out.bytes(b" names=any");
    }
    let Usage {
        events,
        used_events,
        open_files,
    } = group.group.usage();
    out.text(fmt!(
        " # {events} events, {used_events} used, {open_files} open files"
    ));
    if let Some(rate) = group.group.byte_rate() {
        out.text(fmt!(", {} refused", rate.refused()));
    }
    if group.group.is_ending() {
        out.bytes(b", removed when unused");
    }
    out.bytes(b"\n");
}
