// SPDX-License-Identifier: GPL-2.0

//! `user_events_registrations`: which mms have registered what, and how their bits are.

use super::data::Context;
use crate::mms::{
    EnableAddr,
    Enabler,
    UserMm, //
};
use crate::sys::owner::Owner;
use crate::sys::tracefs::{
    Listing,
    ListingFile, //
};
use kernel::prelude::*;
use kernel::str::CStr;

/// The listing. One line an enabler and mm, of all groups, the mm first that has had enablers for longest, and in it by
/// address.
pub(crate) struct RegistrationsFile;

/// A place in the listing.
pub(crate) enum Cursor {
    /// In front of the line that names the columns.
    Head,
    /// In front of an enabler.
    At(Place),
}

/// In front of an enabler: all are behind it that are in an mm of a higher number, or in the same one at a higher
/// address and bit.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    mm_number: u64,
    addr: EnableAddr,
    /// The owner of the mm as it was when its first line was shown.
    owner: Option<Owner>,
    /// The first mm that is not listed: it has come since the listing was begun, which so comes
    /// to its end.
    end: u64,
}

impl ListingFile for RegistrationsFile {
    type Context = Context;
    type Cursor = Cursor;
    const NAME: &'static CStr = c"user_events_registrations";
    const MODE: u16 = 0o400;

    fn begin(_: &Context) -> Cursor {
        Cursor::Head
    }

    fn show(context: &Context, cursor: &Cursor, out: &Listing<'_>) -> Result<Option<Cursor>> {
        let place = match cursor {
            Cursor::Head => {
                out.bytes(b"# EVENT PID COMMAND ADDRESS BIT/WIDTH STATE\n");
                Some(Place {
                    mm_number: 0,
                    addr: EnableAddr::FIRST,
                    owner: None,
                    end: context.mms.next_number(),
                })
            }
            Cursor::At(place) => show_from(context, *place, out),
        };
        Ok(place.map(Cursor::At))
    }
}

/// Shows the enabler behind a place, unless its mm has none any more. Returns the place
/// behind that; `None` at the end of the listing.
fn show_from(context: &Context, place: Place, out: &Listing<'_>) -> Option<Place> {
    let (number, user_mm) = context.mms.find_from(place.mm_number)?;
    if number >= place.end {
        return None;
    }
    let (addr, owner) = match place.addr {
        addr if number == place.mm_number && addr != EnableAddr::FIRST => (addr, place.owner),
        _ => (EnableAddr::FIRST, Owner::of(user_mm.mm())),
    };
    let Some(enabler) = user_mm.enabler_from(&addr) else {
        return Some(Place {
            mm_number: number + 1,
            addr: EnableAddr::FIRST,
            owner: None,
            end: place.end,
        });
    };
    show_line(&user_mm, &enabler, owner.as_ref(), out);
    Some(Place {
        mm_number: number,
        addr: enabler.addr().next(),
        owner,
        end: place.end,
    })
}

/// Shows an enabler, if it is still there.
fn show_line(user_mm: &UserMm, enabler: &Enabler, owner: Option<&Owner>, out: &Listing<'_>) {
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
    let EnableAddr { addr, bit } = enabler.addr();
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

/// Shows a command name as one word: a program can give itself any.
fn show_name(name: &[u8], out: &Listing<'_>) {
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
