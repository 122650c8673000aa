// SPDX-License-Identifier: GPL-2.0

//! Lines of `dynamic_events`: making, listing and deleting events by text.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child;
use crate::kit::dynamic;
use crate::kit::errno::Errno;
use crate::kit::group::Group;
use crate::kit::os;
use crate::kit::status::Status;
use crate::kit::tracefs;

tests!("dynamic_events":
    lines_longer_than_511_bytes_are_einval,
    a_line_that_makes_an_event_needs_the_capability,
    what_is_referred_to_is_busy_before_it_is_persistent,
);

fn what_is_referred_to_is_busy_before_it_is_persistent() {
    const NAME: &str = "st_dyn_probed";
    dynamic::run("u:st_dyn_probed u32 a").unwrap();
    // The eprobe is not enabled, so not attached to the event, but holds a reference to it.
    dynamic::run("e:st_kinds/st_dyn_eprobe user_events/st_dyn_probed a=$a:u32").unwrap();
    let is_refused = |want| {
        let child = child::fork(|_| {
            os::keep_capabilities(0);
            assert_eq!(Data::open().delete(NAME), Err(want));
        });
        child.join();
        assert!(tracefs::event_exists(NAME));
    };
    is_refused(Errno::EBUSY);
    dynamic::run("-:st_kinds/st_dyn_eprobe").unwrap();
    is_refused(Errno::EPERM);
    Data::open().delete(NAME).unwrap();
}

/// Such an event is persistent, and needs the same capability as one with `USER_EVENT_REG_PERSIST`.
fn a_line_that_makes_an_event_needs_the_capability() {
    let group = Group::new("st_dyn_capable");
    let made = format!("u:{} u32 a", group.event("st_dyn_made"));
    dynamic::run(&made).unwrap();
    let child = child::fork(|_| {
        os::keep_capabilities(0);
        for system in ["", "user_events/", "user_events_st_dyn_capable/"] {
            let line = format!("u:{system}st_dyn_event u32 a");
            assert_eq!(dynamic::run(&line), Err(Errno::EPERM), "{line}");
            // The syntax is checked first.
            let line = format!("u:{system}st_dyn_event u33 a");
            assert_eq!(dynamic::run(&line), Err(Errno::EINVAL), "{line}");
        }
        let deleted = Data::open_in(&group).delete("st_dyn_made");
        assert_eq!(deleted, Err(Errno::EPERM));
    });
    child.join();
    assert_eq!(dynamic::user_lines(), [made]);
}

fn lines_longer_than_511_bytes_are_einval() {
    let fields: Vec<_> = (0..41).map(|i| format!("u8 abcdef{i:02}")).collect();
    let text = |name: &str| format!("{name} {}", fields.join(";"));
    let (longest, longer) = ("st_dyn_long_abcdefg", "st_dyn_long_abcdefgh");
    assert_eq!(text(longest).len(), 511);
    assert_eq!(dynamic::run(&format!("u:{}", text(longest))), Ok(()));
    assert_eq!(Data::open().delete(longest), Ok(()));
    let got = dynamic::run(&format!("u:{}", text(longer)));
    assert_eq!(got, Err(Errno::EINVAL));
    // The space behind a semicolon of a description does not count.
    let spaced = |name: &str| format!("u:{}", text(name).replace(';', "; "));
    assert_eq!(dynamic::run(&spaced(longest)), Ok(()));
    assert_eq!(Data::open().delete(longest), Ok(()));
    assert_eq!(dynamic::run(&spaced(longer)), Err(Errno::EINVAL));
    assert_eq!(Status::now().active, 0);
}
