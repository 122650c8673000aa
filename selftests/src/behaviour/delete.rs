// SPDX-License-Identifier: GPL-2.0

//! `DIAG_IOCSDEL`.

use crate::harness::tests;
use crate::kit::abi::{Data, DIAG_IOCSDEL};
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::memory::Mapping;
use crate::kit::os;
use crate::kit::rows::Rows;
use crate::kit::tracefs::{self, Tracer};
use crate::kit::wait;

tests!("delete":
    row_unknown_is_enoent,
    row_in_use_by_a_file_is_ebusy,
    row_in_use_by_a_registration_is_ebusy,
    row_in_use_by_a_tracer_is_ebusy,
    rows_about_bad_pointers,
    an_unused_event_goes_and_can_be_made_anew,
);

fn row_unknown_is_enoent() {
    let data = Data::open();
    let _event = Event::new("st_del_known u32 a");
    let mut rows = Rows::new();
    // Not by a part of the name either, and not by a description.
    for name in [
        "st_del_unknown",
        "st_del_know",
        "st_del_known2",
        "",
        "st_del_known u32 a",
    ] {
        rows.fails("unknown → ENOENT", name, data.delete(name), Errno::ENOENT);
    }
    rows.finish();
}

fn row_in_use_by_a_file_is_ebusy() {
    let event = Event::new("st_del_file u32 a");
    event.unregister().unwrap();
    assert_eq!(event.data.delete(&event.name), Err(Errno::EBUSY));
    assert_eq!(Data::open().delete(&event.name), Err(Errno::EBUSY));
    assert!(tracefs::event_exists(&event.name));
}

fn row_in_use_by_a_registration_is_ebusy() {
    let Event {
        name, data, page, ..
    } = Event::new("st_del_bit u32 a");
    drop(data);
    let data = Data::open();
    assert_eq!(data.delete(&name), Err(Errno::EBUSY));
    assert!(tracefs::event_exists(&name));
    data.unregister_bit(page.address(), 0).unwrap();
    wait_gone(&name);
}

fn row_in_use_by_a_tracer_is_ebusy() {
    let event = Event::new("st_del_tracer u32 a");
    let top = Tracer::top();
    top.enable(&event.name);
    event.unregister().unwrap();
    let name = event.name.clone();
    drop(event);
    assert_eq!(Data::open().delete(&name), Err(Errno::EBUSY));
    assert!(tracefs::event_exists(&name));
    top.disable(&name);
    wait_gone(&name);
}

fn rows_about_bad_pointers() {
    let data = Data::open();
    let mut gone = Mapping::new(1);
    gone.unmap();
    let mut rows = Rows::new();
    for address in [0, gone.address(), 0xffff_ffff_8100_0000, 1 << 62] {
        let got = os::ioctl(&data.file, DIAG_IOCSDEL, address);
        rows.fails(
            "bad pointer → EFAULT",
            &format!("{address:#x}"),
            got,
            Errno::EFAULT,
        );
    }
    let got = data.delete(&"x".repeat(512));
    rows.fails("longer than 511 bytes → EINVAL", "512", got, Errno::EINVAL);
    rows.finish();
}

fn an_unused_event_goes_and_can_be_made_anew() {
    for round in 0..5 {
        let event = Event::new("st_del_unused u32 a");
        event.unregister().unwrap();
        let name = event.name.clone();
        drop(event);
        // It goes by itself: deleting it either comes first or finds nothing.
        let data = Data::open();
        let mut last = Ok(());
        wait::until("the unused event to be deletable", || {
            last = data.delete(&name);
            last != Err(Errno::EBUSY)
        });
        assert!(
            matches!(last, Ok(()) | Err(Errno::ENOENT)),
            "round {round}: {last:?}"
        );
        wait_gone(&name);
        assert_eq!(data.delete(&name), Err(Errno::ENOENT));
    }
}
