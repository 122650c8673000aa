// SPDX-License-Identifier: GPL-2.0

//! `user_events_registrations`: the enablers of each mm, and the state of their bits.

use super::data::FileContext;
use crate::mms::{
    Enabler,
    UserMm, //
};
use crate::sys::mm_owner::MmOwner;
use crate::sys::tracefs::{
    ListingFile, //
    SeqWriter,
};
use crate::sys::user_bit::BitAddr;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;

/// The listing of all groups. One line for each enabler in each mm: those of one mm together, by
/// address.
pub(crate) struct RegistrationsFile;

/// A place in the listing: in front of the enablers from `addr` on in the mm `mm_key`, and of those
/// in mms with a higher key. It only rises, so a listing ends, although enablers come and go
/// meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    mm_key: usize,
    addr: BitAddr,
    /// The owner of the mm when the first line of the mm was shown.
    owner: Option<MmOwner>,
}

impl ListingFile for RegistrationsFile {
    type Context = FileContext;
    /// `None`: in front of the line that names the columns.
    type Cursor = Option<Place>;
    const NAME: &'static CStr = c"user_events_registrations";
    const MODE: u16 = 0o400;

    fn begin(_: &FileContext) -> Option<Place> {
        None
    }

    fn show(
        context: &FileContext,
        cursor: &Option<Place>,
        out: &SeqWriter<'_>,
    ) -> Result<Option<Self::Cursor>> {
        let place = match cursor {
            None => {
                out.bytes(b"# EVENT PID COMMAND ADDRESS BIT/WIDTH STATE\n");
                Some(Place {
                    mm_key: 0,
                    addr: BitAddr::FIRST,
                    owner: None,
                })
            }
            Some(place) => show_from(context, *place, out),
        };
        Ok(place.map(Some))
    }
}

/// Shows the enabler behind a place, unless its mm has no more. Returns the next place; `None` at
/// the end of the listing. May sleep.
fn show_from(context: &FileContext, place: Place, out: &SeqWriter<'_>) -> Option<Place> {
    let user_mm = context.mms.find_from(place.mm_key)?;
    let mm_key = user_mm.key();
    let (addr, owner) = match place.addr {
        addr if mm_key == place.mm_key && addr != BitAddr::FIRST => (addr, place.owner),
        _ => (BitAddr::FIRST, MmOwner::of(user_mm.mm())),
    };
    let Some(enabler) = user_mm.enabler_from(addr) else {
        return Some(Place {
            mm_key: mm_key.checked_add(1)?,
            addr: BitAddr::FIRST,
            owner: None,
        });
    };
    show_line(&user_mm, &enabler, owner.as_ref(), out);
    Some(Place {
        mm_key,
        addr: enabler.addr().next(),
        owner,
    })
}

/// Shows an enabler, if it still exists.
fn show_line(
    user_mm: &UserMm,
    enabler: &Arc<Enabler>,
    owner: Option<&MmOwner>,
    out: &SeqWriter<'_>,
) {
    let Some(state) = user_mm.peek_bit(enabler) else {
        return;
    };
    let event = enabler.event();
    if event.group().systems().group_name().is_some() {
        out.bytes(event.system());
        out.bytes(b"/");
    }
    out.bytes(event.name());
    match owner {
        Some(owner) => {
            out.text(fmt!(" {} ", owner.pid()));
            show_name(owner.name(), out);
        }
        None => out.bytes(b" 0 -"),
    }
    let (addr, bit) = (enabler.bit().address(), enabler.bit().bit());
    let width = enabler.bit().width();
    out.text(fmt!(" {addr:#x} {bit}/{width} "));
    out.bytes(match state.value {
        Some(true) => b"set",
        Some(false) => b"clear",
        None => b"?",
    });
    if state.repair_pending {
        out.bytes(b" repair");
    }
    out.bytes(b"\n");
}

/// Shows a command name, which may hold any bytes, as one word.
fn show_name(name: &[u8], out: &SeqWriter<'_>) {
    if name.is_empty() {
        out.bytes(b"-");
    }
    for byte in name {
        match byte {
            0..=b' ' | b'\\' | 0x7f => out.text(fmt!("\\{byte:03o}")),
            byte => out.bytes(&[*byte]),
        }
    }
}
