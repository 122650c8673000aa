// SPDX-License-Identifier: GPL-2.0

//! "Unregister" in the contract.

use crate::harness::tests;
use crate::kit::abi::{Data, Unregister, DIAG_IOCSUNREG};
use crate::kit::child;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::memory::Mapping;
use crate::kit::os;
use crate::kit::rows::Rows;
use crate::kit::tracefs::Tracer;
use crate::kit::wait;
use std::sync::atomic::Ordering;
use std::thread;

tests!("unregister":
    rows_about_size,
    rows_about_bad_pointers,
    row_reserved_fields_not_0_is_einval,
    row_nothing_registered_there_is_enoent,
    row_the_bit_is_cleared_and_no_longer_updated,
    row_any_thread_may_do_it,
    row_a_bit_whose_page_is_gone_is_efault_and_unregistered,
    sizes_above_16_with_zeros_are_accepted,
    through_any_open_file,
    a_64_bit_word_keeps_its_other_bits,
    other_registrations_stay,
);

fn rows_about_size() {
    let event = Event::new("st_unreg_size u32 a");
    let mut rows = Rows::new();
    let mut try_one = |row: &str, size: u32, tail: Vec<u8>, want| {
        let case = format!("size {size}, last byte {:?}", tail.last());
        let request = Unregister {
            size,
            tail,
            ..Unregister::new(event.page.address(), 0)
        };
        rows.fails(row, &case, event.data.unregister(&request), want);
    };

    for size in [0, 1, 4, 15] {
        try_one("size < 16 → EINVAL", size, Vec::new(), Errno::EINVAL);
    }
    for size in [4097, 8192, u32::MAX] {
        try_one("size > 4096 → E2BIG", size, vec![0; 8192], Errno::E2BIG);
    }
    for (length, place) in [(1, 0), (8, 7), (48, 47), (4080, 2000), (4080, 4079)] {
        let mut tail = vec![0; length];
        tail[place] = 1;
        let row = "bytes past 16 must be zero, else E2BIG";
        try_one(row, 16 + length as u32, tail, Errno::E2BIG);
    }
    rows.gives("still registered", "unregister", event.unregister(), Ok(()));
    rows.finish();
}

fn rows_about_bad_pointers() {
    let event = Event::new("st_unreg_pointer u32 a");
    let mut rows = Rows::new();
    let mut gone = Mapping::new(1);
    gone.unmap();
    let cases = [0, gone.address(), 0xffff_ffff_8100_0000, 1 << 62, u64::MAX];
    for address in cases {
        let got = os::ioctl(&event.data.file, DIAG_IOCSUNREG, address);
        rows.fails(
            "bad pointer → EFAULT",
            &format!("{address:#x}"),
            got,
            Errno::EFAULT,
        );
    }
    rows.gives("still registered", "unregister", event.unregister(), Ok(()));
    rows.finish();
}

fn row_reserved_fields_not_0_is_einval() {
    let event = Event::new("st_unreg_reserved u32 a");
    let good = Unregister::new(event.page.address(), 0);
    let mut rows = Rows::new();
    for (reserved, reserved2) in [(1, 0), (255, 0), (0, 1), (0, 0x100), (0, 0xffff), (1, 1)] {
        let request = Unregister {
            reserved,
            reserved2,
            ..good.clone()
        };
        let case = format!("{reserved} {reserved2}");
        let got = event.data.unregister(&request);
        rows.fails("reserved fields ≠ 0 → EINVAL", &case, got, Errno::EINVAL);
    }
    rows.gives("still registered", "unregister", event.unregister(), Ok(()));
    rows.finish();
}

fn row_nothing_registered_there_is_enoent() {
    let page = Mapping::new(1);
    let data = Data::open();
    let row = "nothing registered there → ENOENT";
    let mut rows = Rows::new();
    let got = data.unregister_bit(page.address(), 0);
    rows.fails(row, "a process that never registered", got, Errno::ENOENT);

    let event = Event::new("st_unreg_none u32 a");
    let address = event.page.address();
    for (case, address, bit) in [
        ("other bit", address, 1),
        ("bit past the word", address, 32),
        ("last bit", address, 255),
        ("next word", address + 4, 0),
        ("unaligned", address + 1, 0),
        ("other page", page.address(), 0),
        ("null", 0, 0),
        ("kernel", 0xffff_ffff_8100_0000, 0),
    ] {
        rows.fails(
            row,
            case,
            event.data.unregister_bit(address, bit),
            Errno::ENOENT,
        );
    }
    rows.gives("unregister", "once", event.unregister(), Ok(()));
    rows.fails(row, "twice", event.unregister(), Errno::ENOENT);

    // Another address space cannot reach this one's registrations.
    let event = Event::new("st_unreg_none u32 a");
    let parent = event.page.address();
    let mut child = child::fork(|line| {
        // Not what this process inherited: a page that its parent never registered.
        let data = Data::open();
        let got = data.unregister_bit(parent + 8, 0);
        assert_eq!(got, Err(Errno::ENOENT));
        line.say("tried");
    });
    child.line.hear("tried");
    child.join();
    rows.gives(
        "unregister",
        "after a child tried",
        event.unregister(),
        Ok(()),
    );
    rows.finish();
}

fn row_the_bit_is_cleared_and_no_longer_updated() {
    let event = Event::new("st_unreg_clear u32 a");
    let top = Tracer::top();
    top.enable(&event.name);
    event.wait_set();
    assert_eq!(event.unregister(), Ok(()));
    assert!(!event.bit(), "the bit is cleared when the call returns");

    // A second registration shows when an update has been made everywhere.
    let other = event.page.address() + 4;
    event
        .data
        .register_text("st_unreg_clear u32 a", other, 0)
        .unwrap();
    let seen = || event.page.word(4).load(Ordering::Relaxed) == 1;
    for _ in 0..3 {
        top.disable(&event.name);
        wait::until("the second bit to be cleared", || !seen());
        assert!(!event.bit());
        top.enable(&event.name);
        wait::until("the second bit to be set", seen);
        assert!(!event.bit(), "a bit that is not registered was set");
    }
    top.disable(&event.name);
}

fn row_any_thread_may_do_it() {
    let event = Event::new("st_unreg_thread u32 a");
    let address = event.page.address();
    let got = thread::spawn(move || Data::open().unregister_bit(address, 0)).join();
    assert_eq!(got.unwrap(), Ok(()));

    // And a thread may unregister what another one, which has ended, registered.
    let got = thread::spawn(move || {
        let data = Data::open();
        data.register_text("st_unreg_thread u32 a", address, 3)
            .map(|_| data)
    });
    let data = got
        .join()
        .unwrap()
        .unwrap_or_else(|errno| panic!("register: {errno:?}"));
    assert_eq!(data.unregister_bit(address, 3), Ok(()));
}

fn row_a_bit_whose_page_is_gone_is_efault_and_unregistered() {
    let mut event = Event::new("st_unreg_gone u32 a");
    event.page.unmap();
    assert_eq!(event.unregister(), Err(Errno::EFAULT));
    assert_eq!(event.unregister(), Err(Errno::ENOENT), "still unregistered");

    // The place is free for a new registration.
    event.page.map_again();
    let got = event
        .data
        .register_text("st_unreg_gone u32 a", event.page.address(), 0);
    assert_eq!(got, Ok(event.index));
}

fn sizes_above_16_with_zeros_are_accepted() {
    let event = Event::new("st_unreg_long u32 a");
    let mut rows = Rows::new();
    for size in [17, 32, 4095, 4096] {
        event
            .data
            .register_text("st_unreg_long u32 a", event.page.address(), 9)
            .unwrap();
        let tail = vec![0; size - 16];
        let good = Unregister::new(event.page.address(), 9);
        let got = event.data.unregister(&Unregister {
            size: size as u32,
            tail,
            ..good
        });
        rows.gives(
            "size up to 4096, zeros past 16",
            &format!("{size}"),
            got,
            Ok(()),
        );
    }
    rows.finish();
}

fn through_any_open_file() {
    let event = Event::new("st_unreg_file u32 a");
    let other = Data::open();
    assert_eq!(other.unregister_bit(event.page.address(), 0), Ok(()));
}

fn a_64_bit_word_keeps_its_other_bits() {
    let event = Event::new("st_unreg_wide u32 a");
    let top = Tracer::top();
    top.enable(&event.name);
    let word = event.page.long(64);
    let address = event.page.address() + 64;
    for bit in [0u8, 31, 32, 63] {
        word.store(!(1 << bit), Ordering::Relaxed);
        let name = b"st_unreg_wide u32 a\0";
        let request = crate::kit::abi::Register::new(address, name.as_ptr() as u64);
        let request = crate::kit::abi::Register {
            enable_size: 8,
            enable_bit: bit,
            ..request
        };
        assert_eq!(event.data.register(&request), Ok(event.index));
        assert_eq!(word.load(Ordering::Relaxed), u64::MAX, "bit {bit} set");
        assert_eq!(event.data.unregister_bit(address, bit), Ok(()));
        assert_eq!(
            word.load(Ordering::Relaxed),
            !(1 << bit),
            "bit {bit} cleared"
        );
    }
    top.disable(&event.name);
}

fn other_registrations_stay() {
    let event = Event::new("st_unreg_stay u32 a");
    let address = event.page.address();
    for bit in 1..4 {
        event
            .data
            .register_text("st_unreg_stay u32 a", address, bit)
            .unwrap();
    }
    assert_eq!(event.data.unregister_bit(address, 2), Ok(()));
    let top = Tracer::top();
    top.enable(&event.name);
    let word = event.page.word(0);
    wait::until("the other three bits", || {
        word.load(Ordering::Relaxed) == 0b1011
    });
    top.disable(&event.name);
    wait::until("all bits to be cleared", || {
        word.load(Ordering::Relaxed) == 0
    });
}
