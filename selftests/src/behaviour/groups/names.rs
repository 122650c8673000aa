// SPDX-License-Identifier: GPL-2.0

//! Valid names of a group's events. `tools::names` tests how a tenant's names affect perf.

use crate::harness::tests;
use crate::kit::abi::{Data, MULTI_FORMAT};
use crate::kit::dynamic;
use crate::kit::errno::{Errno, Result};
use crate::kit::event::Event;
use crate::kit::group::{self, Group};
use crate::kit::memory::Mapping;
use crate::kit::tracefs;

tests!("groups::names":
    a_group_takes_plain_names_only,
    a_group_takes_any_name_while_its_line_says_so,
);

/// Names that not all tools read as one word.
const ODD: [&str; 4] = ["st_g.odd", "st_g-odd", "st_g\u{fc}", "st_g@"];

/// Registers and unregisters an event.
fn register(data: &Data, page: &Mapping, name: &str, flags: u16) -> Result<()> {
    let text = format!("{name} u32 a");
    data.register_flags(&text, page.address(), 0, flags)?;
    data.unregister_bit(page.address(), 0)
}

fn a_group_takes_plain_names_only() {
    let group = Group::new("st_g_plain");
    let (data, first, page) = (Data::open_in(&group), Data::open(), Mapping::kept(1));
    for byte in 1..0x7f_u8 {
        let plain = byte.is_ascii_alphanumeric() || byte == b'_';
        let byte = char::from(byte);
        for name in [
            format!("st_g{byte}"),
            format!("st_g{byte}x"),
            format!("{byte}st_g"),
        ] {
            // The fields begin at the space.
            let plain = plain || name == "st_g ";
            let want = if plain { Ok(()) } else { Err(Errno::EINVAL) };
            assert_eq!(register(&data, &page, &name, 0), want, "{name:?}");
        }
    }
    for name in ODD {
        assert_eq!(
            register(&data, &page, name, 0),
            Err(Errno::EINVAL),
            "{name}"
        );
        let line = format!("u:{} u32 a", group.event(name));
        assert_eq!(dynamic::run(&line), Err(Errno::EINVAL), "{line}");
        assert_eq!(register(&first, &page, name, 0), Ok(()), "{name}");
    }
    let format = |data| register(data, &page, "st_g_format", MULTI_FORMAT);
    assert_eq!(format(&data), Err(Errno::EINVAL));
    assert_eq!(format(&first), Ok(()));
    // A type or field that tools cannot read spoils its own event only, and is allowed.
    for fields in ["u32 a.b", "struct a.b a 4", "__rel_loc a.b[] a"] {
        let text = format!("st_g_fields{} {fields}", fields.len());
        let got = data.register_text(&text, page.address(), 0);
        assert!(got.is_ok(), "{text}: {got:?}");
        data.unregister_bit(page.address(), 0).unwrap();
    }
    assert_eq!(group.formats_of("st_g_format"), [""; 0]);
}

/// A change is one for later registrations.
fn a_group_takes_any_name_while_its_line_says_so() {
    let group = Group::of_any_names("st_g_change");
    let names = || group.line().unwrap().contains(" names=any ");
    let set = |names: &str| group::run(&format!("g:st_g_change {names}"));
    let odd = Event::new_in(&group, "st_g.odd u32 a");
    let (data, page) = (Data::open_in(&group), Mapping::kept(1));
    for _ in 0..2 {
        for name in ODD {
            assert_eq!(register(&data, &page, name, 0), Ok(()), "{name}");
            let event = group.event(&format!("{name}_line"));
            assert_eq!(dynamic::run(&format!("u:{event} u32 a")), Ok(()), "{name}");
            assert_eq!(dynamic::run(&format!("-:{event}")), Ok(()), "{name}");
        }
        assert_eq!(set("names=plain"), Ok(()));
        assert!(!names());
        // The event stays and can be used; registering it again is refused.
        assert!(tracefs::event_exists(&odd.name));
        assert_eq!(odd.write(&[0; 4]), Err(Errno::EBADF));
        let got = register(&data, &page, "st_g.odd", 0);
        assert_eq!(got, Err(Errno::EINVAL));
        // Another limit does not change `names`, and a refused line changes nothing.
        assert_eq!(set("events=9"), Ok(()));
        assert!(!names());
        assert_eq!(set("names=any names=plain"), Err(Errno::EINVAL));
        assert_eq!(set("names=any"), Ok(()));
        assert_eq!(set("events=1024"), Ok(()));
        assert!(names());
    }
    let more = Event::new_in(&group, "st_g_more u32 a");
    assert_eq!(set("events=1 names=plain"), Err(Errno::EBUSY));
    assert!(names());
    more.end();
    odd.end();
}
