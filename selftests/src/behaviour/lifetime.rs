// SPDX-License-Identifier: GPL-2.0

//! Events that come and go: none is taken for another, and one that goes does not block its name.

use crate::harness::tests;
use crate::kit::abi::{Data, Register, DIAG_IOCSREG};
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::memory::Mapping;
use crate::kit::os;
use crate::kit::traced::Traced;
use crate::kit::tracefs;

tests!("lifetime":
    ids_are_not_mixed_up_when_events_come_and_go,
    made_again_while_it_goes,
    goes_at_once_if_its_first_bit_cannot_be_written,
    has_no_bit_if_its_index_cannot_be_told,
);

fn ids_are_not_mixed_up_when_events_come_and_go() {
    let keep = Traced::new("st_life_keep u32 a");
    let id = keep.event.id();
    for i in 0..20u32 {
        let event = Event::new("st_life_come u32 a");
        assert_ne!(event.id(), id);
        keep.tracer.enable(&event.name);
        event.write(&[0xff; 4]).unwrap();
        keep.event.write(&i.to_ne_bytes()).unwrap();
        keep.tracer.disable(&event.name);
        event.end();
        wait_gone("st_life_come");
    }
    assert_eq!(keep.event.id(), id);
    // In the order of CPUs, not of time.
    let mut got = keep.recorded(4);
    got.sort();
    let want: Vec<_> = (0..20u32).map(u32::to_ne_bytes).collect();
    assert_eq!(got, want);
}

/// Registered again as fast as possible after its last use ended, whether the work queue has
/// removed it yet or not: it is either the old event or a new one, never an error and never one
/// that goes away under its user. Nor does an unused event block its name for other fields.
fn made_again_while_it_goes() {
    for round in 0..50 {
        Event::new("st_life_race u32 a").end();
        let event = Event::new("st_life_race u32 a");
        assert!(tracefs::event_exists("st_life_race"), "round {round}");
        if round % 10 == 0 {
            event.follows(true);
            assert_eq!(event.write(&[0; 4]), Ok(8), "round {round}");
            event.switch(false);
        }
        event.end();
        for fields in ["u32 a", "u64 a"] {
            Event::new(&format!("st_life_fields {fields}")).end();
        }
    }
}

/// Even if the file stays open.
fn goes_at_once_if_its_first_bit_cannot_be_written() {
    let (data, page) = (Data::open(), Mapping::new(1));
    page.protect(libc::PROT_READ);
    let register = |text, address| data.register_text(text, address, 0);
    let result = register("st_life_unwritten u32 a", page.address());
    assert_eq!(result, Err(Errno::EFAULT));
    wait_gone("st_life_unwritten");
    // It has no index of the file either.
    let other = Mapping::kept(1);
    assert_eq!(register("st_life_other u32 a", other.address()), Ok(0));
}

/// The request is in read-only memory, so the index cannot be stored, and the bit is not
/// registered.
fn has_no_bit_if_its_index_cannot_be_told() {
    let (data, words, place) = (Data::open(), Mapping::kept(1), Mapping::new(1));
    let name = c"st_life_untold u32 a";
    let request = Register::new(words.address(), name.as_ptr() as u64);
    place.put(0, &request.bytes());
    place.protect(libc::PROT_READ);
    let result = os::ioctl(&data.file, DIAG_IOCSREG, place.address());
    assert_eq!(result, Err(Errno::EFAULT));
    assert_eq!(data.unregister_bit(words.address(), 0), Err(Errno::ENOENT));
}
