// SPDX-License-Identifier: GPL-2.0

//! `user_events_registrations`: which programs have registered what, and how their bits are.

use super::data::Context;
use crate::process::Process;
use crate::sys::process_list;
use crate::sys::tracefs::{Listing, ListingFile};
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;

/// The listing. One line a registration and process, the oldest process first, and in it by
/// address.
pub(crate) struct RegistrationsFile;

/// An address space that has registrations.
struct Entry {
    process: Arc<Process>,
    has_owner: bool,
}

/// Who runs in an address space, as the reader knows it.
struct Owner {
    process: Arc<Process>,
    pid: i32,
    name: [u8; process_list::NAME_LEN],
}

impl ListingFile for RegistrationsFile {
    type Context = Context;
    const NAME: &'static CStr = c"user_events_registrations";
    const MODE: u16 = 0o400;

    fn show(context: &Context, out: &Listing<'_>) -> Result {
        out.bytes(b"# EVENT PID COMMAND ADDRESS BIT/WIDTH STATE\n");
        let mut entries = entries(context)?;
        for owner in &owners(&mut entries)? {
            show_process(&owner.process, Some(owner), out);
        }
        // What nobody runs in any more, and is about to end, comes last.
        for entry in entries.iter().filter(|entry| !entry.has_owner) {
            show_process(&entry.process, None, out);
        }
        Ok(())
    }
}

/// All address spaces, by key.
fn entries(context: &Context) -> Result<KVVec<Entry>> {
    let mut entries = KVVec::new();
    let mut next = Some(0);
    while let Some(process) = next.and_then(|key| context.processes.find_from(key)) {
        next = process.key().checked_add(1);
        let entry = Entry {
            process,
            has_owner: false,
        };
        entries.push(entry, GFP_KERNEL)?;
    }
    Ok(entries)
}

/// Who runs in the `entries`, which are sorted by key: the oldest process first.
fn owners(entries: &mut [Entry]) -> Result<KVVec<Owner>> {
    // A registration knows its address space only: whoever runs in that may change. So the
    // processes are gone through once for each listing, rather than watched. Of several in one
    // address space the oldest is shown.
    let mut owners = KVVec::with_capacity(entries.len(), GFP_KERNEL)?;
    process_list::for_each(|listed| {
        let mm = listed.mm();
        let found = entries.binary_search_by_key(&mm, |entry| entry.process.key());
        let entry = found.ok().and_then(|index| entries.get_mut(index));
        if let Some(entry) = entry.filter(|entry| !entry.has_owner) {
            let owner = Owner {
                process: entry.process.clone(),
                pid: listed.id(),
                name: listed.name(),
            };
            entry.has_owner = owners.push_within_capacity(owner).is_ok();
        }
    });
    Ok(owners)
}

/// Shows all registrations of one process.
fn show_process(process: &Process, owner: Option<&Owner>, out: &Listing<'_>) {
    let mut from = (0, 0);
    while let Some(enabler) = process.registration_from(&from) {
        let (address, bit) = enabler.site();
        from = (address, bit + 1);
        let Some(sight) = process.look(&enabler) else {
            continue;
        };
        out.bytes(enabler.event().name());
        match owner {
            Some(owner) => {
                out.text(fmt!(" {} ", owner.pid));
                show_name(&owner.name, out);
            }
            None => out.bytes(b" 0 -"),
        }
        let width = enabler.bit().width();
        out.text(fmt!(" {address:#x} {bit}/{width} "));
        out.bytes(match sight.is_set {
            Some(true) => b"set",
            Some(false) => b"clear",
            None => b"?",
        });
        if sight.is_due {
            out.bytes(b" repair");
        }
        out.bytes(b"\n");
    }
}

/// Shows a command name as one word: a program can give itself any.
fn show_name(name: &[u8], out: &Listing<'_>) {
    let mut bytes = name.iter().take_while(|byte| **byte != 0).peekable();
    if bytes.peek().is_none() {
        out.bytes(b"-");
    }
    for byte in bytes {
        match byte {
            0..=b' ' | b'\\' | 0x7f => out.text(fmt!("\\{byte:03o}")),
            byte => out.bytes(&[*byte]),
        }
    }
}
