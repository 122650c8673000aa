// SPDX-License-Identifier: GPL-2.0

//! Addresses with a tag: arm64 ignores the top byte, and so does the kernel if the program has
//! enabled that (Documentation/arch/arm64/tagged-address-abi.rst). The emulated x86-64 processors
//! have no tags.

use crate::harness::tests;
use crate::kit::abi::{Register, DIAG_IOCSREG, REGISTRATIONS};
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::os;
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait;
use std::ffi::CString;
use std::fs;

tests!("tags":
    a_word_with_a_tag_is_efault_unless_tags_were_asked_for,
    a_word_with_a_tag_is_the_one_without,
    a_word_is_unregistered_by_any_tag,
    arguments_and_records_may_have_tags,
);

/// The same address with a tag.
const fn tagged(address: u64, tag: u8) -> u64 {
    address | ((tag as u64) << 56)
}

const TAG: u8 = 0x2a;

fn a_word_with_a_tag_is_efault_unless_tags_were_asked_for() {
    let event = Event::new("st_tag_none u32 a");
    let address = tagged(event.page.address() + 8, TAG);
    let register = || event.register(address, 1);
    assert_eq!(register(), Err(Errno::EFAULT));
    os::allow_tags();
    assert_eq!(register(), Ok(event.index));
}

fn a_word_with_a_tag_is_the_one_without() {
    os::allow_tags();
    let event = Event::new("st_tag_word u32 a");
    let address = event.page.address() + 8;
    let register = |tag: u8| event.register(tagged(address, tag), 5);
    assert_eq!(register(TAG), Ok(event.index));
    // A registered bit is found by any tag.
    for tag in [0, TAG, 0xff] {
        assert_eq!(register(tag), Err(Errno::EADDRINUSE), "tag {tag:#x}");
    }
    let is = |value: u32| event.page.get(8) == value;
    for _ in 0..3 {
        event.switch(true);
        wait::until("the bit to be set", || is(1 << 5));
        event.switch(false);
        wait::until("the bit to be cleared", || is(0));
    }
    let listing = fs::read_to_string(REGISTRATIONS).expect("read the listing");
    assert!(listing.contains(&format!("{address:x}")), "{listing}");
    let with_tag = format!("{:x}", tagged(address, TAG));
    assert!(!listing.contains(&with_tag), "{listing}");
}

fn a_word_is_unregistered_by_any_tag() {
    os::allow_tags();
    let event = Event::new("st_tag_gone u32 a");
    let address = event.page.address() + 16;
    for (came, goes) in [(0, TAG), (TAG, 0), (TAG, 0x80), (TAG, TAG)] {
        event.add_bit(tagged(address, came), 2);
        let unregister = || event.data.unregister_bit(tagged(address, goes), 2);
        assert_eq!(unregister(), Ok(()), "{came:#x}, then {goes:#x}");
        assert_eq!(
            unregister(),
            Err(Errno::ENOENT),
            "{came:#x}, then {goes:#x}"
        );
    }
}

fn arguments_and_records_may_have_tags() {
    os::allow_tags();
    let event = Event::new("st_tag_record u32 a");
    let text = CString::new("st_tag_record u32 a").unwrap();
    let name_args = tagged(text.as_ptr() as u64, TAG);
    let mut request = Register::new(event.page.address() + 24, name_args).bytes();
    let argument = tagged(request.as_mut_ptr() as u64, TAG);
    assert_eq!(os::ioctl(&event.data.file, DIAG_IOCSREG, argument), Ok(0));
    assert_eq!(request[24..28], event.index.to_ne_bytes());

    let top = TraceInstance::top();
    event.follows(true);
    let record = |value: u32| [event.index, value].map(u32::to_ne_bytes).concat();
    let (one, two) = (record(1), record(2));
    let at = |bytes: &[u8]| tagged(bytes.as_ptr() as u64, TAG);
    let file = &event.data.file;
    assert_eq!(os::write_from(file, at(&one), one.len()), Ok(8));
    let parts = [(at(&two[..4]), 4), (at(&two[4..]), 4)];
    assert_eq!(os::writev_from(file, &parts), Ok(8));
    assert_eq!(crate::kit::event::values(&top, &event), [1, 2]);
    event.switch(false);
}
