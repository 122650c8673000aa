// SPDX-License-Identifier: GPL-2.0

//! `user_events_registrations`: which programs have registered what, and how their bits are.

use super::data::Context;
use crate::mms::enabler::Enabler;
use crate::mms::enablers::EnableAddr;
use crate::mms::mm::UserMm;
use crate::sys::owner::Owner;
use crate::sys::tracefs::{Listing, ListingFile};
use kernel::prelude::*;
use kernel::str::CStr;

/// The listing. One line a registration and process, the process first that has had registrations
/// for longest, and in it by address.
pub(crate) struct RegistrationsFile;

/// A place in the listing.
pub(crate) enum Cursor {
    /// In front of the line that names the columns.
    Head,
    /// In front of a registration.
    At(Place),
}

/// In front of a registration: all are behind it that have a process of a higher number, or the same
/// process and a higher address and bit.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    user_mm: u64,
    site: EnableAddr,
    /// The process as it was when its first line was shown.
    owner: Option<Owner>,
    /// The first process that is not listed: it has come since the listing was begun, which so comes
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
                    user_mm: 0,
                    site: (0, 0),
                    owner: None,
                    end: context.mms.next_number(),
                })
            }
            Cursor::At(place) => show_from(context, *place, out),
        };
        Ok(place.map(Cursor::At))
    }
}

/// Shows the registration behind a place, unless its process has none any more. Returns the place
/// behind that; `None` at the end of the listing.
fn show_from(context: &Context, place: Place, out: &Listing<'_>) -> Option<Place> {
    let (number, user_mm) = context.mms.find_from(place.user_mm)?;
    if number >= place.end {
        return None;
    }
    let (site, owner) = match place.site {
        site if number == place.user_mm && site != (0, 0) => (site, place.owner),
        _ => ((0, 0), Owner::of(user_mm.mm())),
    };
    let Some(enabler) = user_mm.enabler_from(&site) else {
        return Some(Place {
            user_mm: number + 1,
            site: (0, 0),
            owner: None,
            end: place.end,
        });
    };
    show_line(&user_mm, &enabler, owner.as_ref(), out);
    let (address, bit) = enabler.site();
    Some(Place {
        user_mm: number,
        site: (address, bit + 1),
        owner,
        end: place.end,
    })
}

/// Shows a registration, if it is still there.
fn show_line(user_mm: &UserMm, enabler: &Enabler, owner: Option<&Owner>, out: &Listing<'_>) {
    let Some(state) = user_mm.peek_bit(enabler) else {
        return;
    };
    out.bytes(enabler.event().name());
    match owner {
        Some(owner) => {
            out.text(fmt!(" {} ", owner.pid()));
            show_name(owner.name(), out);
        }
        None => out.bytes(b" 0 -"),
    }
    let (address, bit) = enabler.site();
    let width = enabler.bit().width();
    out.text(fmt!(" {address:#x} {bit}/{width} "));
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
