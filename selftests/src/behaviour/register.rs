// SPDX-License-Identifier: GPL-2.0

//! What "Register" in the contract takes, and what comes of it.

use super::register_rows::ValidRequest;
use crate::harness::tests;
use crate::kit::abi::{Data, Register, PERSIST};
use crate::kit::child;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::memory::Mapping;
use crate::kit::os;
use crate::kit::rows::Rows;
use crate::kit::tracefs;
use std::sync::atomic::Ordering;

tests!("register":
    sizes_above_28_with_zeros_are_accepted,
    every_word_size_and_bit_is_accepted,
    bits_of_one_word_may_belong_to_different_events,
    same_address_in_another_process_is_another_bit,
    same_fields_are_shared_by_files_and_processes,
    white_space_after_semicolons_does_not_matter,
    a_file_opened_read_only_registers,
    write_index_counts_from_0_on_each_file,
    the_same_event_again_on_a_file_has_the_same_index,
    failures_leave_the_index_sequence_alone,
    a_failed_register_leaves_no_event,
    the_bit_is_cleared_by_register_when_nobody_listens,
    row_persist_without_the_capability_is_eperm,
);

fn sizes_above_28_with_zeros_are_accepted() {
    let good = ValidRequest::new("st_reg_long u32 a");
    let mut rows = Rows::new();
    for (bit, size) in [28, 29, 32, 64, 128, 4095, 4096].into_iter().enumerate() {
        let tail = vec![0; size - 28];
        let size = size as u32;
        let request = Register {
            size,
            tail,
            enable_bit: bit as u8,
            ..good.request()
        };
        let got = good.data.register(&request);
        rows.gives(
            "size up to 4096, zeros past 28",
            &format!("{size}"),
            got,
            Ok(0),
        );
    }
    rows.finish();
}

fn every_word_size_and_bit_is_accepted() {
    let good = ValidRequest::new("st_reg_bits u32 a");
    let mut rows = Rows::new();
    for (enable_size, offset) in [(4u8, 0u64), (4, 4), (4, 4092), (8, 8), (8, 4088 - 8)] {
        for enable_bit in 0..enable_size * 8 {
            let enable_addr = good.page.address() + offset;
            let request = Register {
                enable_size,
                enable_bit,
                enable_addr,
                ..good.request()
            };
            let case = format!("size {enable_size} at {offset}, bit {enable_bit}");
            rows.gives(
                "any bit of a word",
                &case,
                good.data.register(&request),
                Ok(0),
            );
        }
    }
    rows.finish();
}

fn bits_of_one_word_may_belong_to_different_events() {
    let data = Data::open();
    let page = Mapping::new(1);
    for bit in 0..32u8 {
        let text = format!("st_reg_word{bit} u32 a");
        assert_eq!(
            data.register_text(&text, page.address(), bit),
            Ok(bit.into())
        );
    }
}

fn same_address_in_another_process_is_another_bit() {
    let page = Mapping::new(1);
    let mut child = child::fork(|line| {
        let data = Data::open();
        assert_eq!(
            data.register_text("st_reg_spaces u32 a", page.address(), 0),
            Ok(0)
        );
        line.say("registered");
        line.hear("end");
    });
    child.line.hear("registered");
    let data = Data::open();
    assert_eq!(
        data.register_text("st_reg_spaces u32 a", page.address(), 0),
        Ok(0)
    );
    child.line.say("end");
    child.join();
}

fn same_fields_are_shared_by_files_and_processes() {
    let event = Event::new("st_reg_shared u32 a; u64 b");
    let id = event.id();
    let other = Data::open();
    let got = other.register_text("st_reg_shared u32 a; u64 b", event.page.address(), 1);
    assert_eq!(got, Ok(0));
    let mut child = child::fork(|line| {
        let event = Event::new("st_reg_shared u32 a; u64 b");
        assert_eq!(event.index, 0);
        line.say("registered");
        line.hear("end");
    });
    child.line.hear("registered");
    assert_eq!(tracefs::event_id("st_reg_shared"), id);
    assert_eq!(tracefs::events_of_tests(), ["st_reg_shared"]);
    child.line.say("end");
    child.join();
}

fn white_space_after_semicolons_does_not_matter() {
    let event = Event::new("st_reg_space u32 a;u64 b; u8 c");
    let mut rows = Rows::new();
    for (bit, text) in [
        "st_reg_space u32 a; u64 b; u8 c",
        "st_reg_space u32 a;u64 b;u8 c",
        "st_reg_space u32 a;  u64 b;    u8 c",
        "st_reg_space u32 a; u64 b; u8 c;",
    ]
    .into_iter()
    .enumerate()
    {
        let got = event
            .data
            .register_text(text, event.page.address(), 1 + bit as u8);
        rows.gives(
            "White space after ; does not matter",
            text,
            got,
            Ok(event.index),
        );
    }
    rows.finish();
}

fn a_file_opened_read_only_registers() {
    let data = Data::open_read_only();
    let page = Mapping::new(1);
    assert_eq!(
        data.register_text("st_reg_reader u32 a", page.address(), 0),
        Ok(0)
    );
    assert_eq!(data.unregister_bit(page.address(), 0), Ok(()));
}

fn write_index_counts_from_0_on_each_file() {
    let page = Mapping::new(1);
    let files = [Data::open(), Data::open()];
    for i in 0..20u8 {
        // The second file has them in the opposite order.
        for (file, n) in [(0, i), (1, 19 - i)] {
            let text = format!("st_reg_index{n} u32 a");
            let address = page.address() + 4 * file as u64;
            assert_eq!(
                files[file].register_text(&text, address, i),
                Ok(i.into()),
                "{text}"
            );
        }
    }
}

fn the_same_event_again_on_a_file_has_the_same_index() {
    let page = Mapping::new(1);
    let data = Data::open();
    let register = |text, bit| data.register_text(text, page.address(), bit);
    assert_eq!(register("st_reg_again1 u32 a", 0), Ok(0));
    assert_eq!(register("st_reg_again2 u32 a", 1), Ok(1));
    assert_eq!(register("st_reg_again1 u32 a", 2), Ok(0));
    assert_eq!(register("st_reg_again2 u32 a", 3), Ok(1));
    assert_eq!(register("st_reg_again3 u32 a", 4), Ok(2));
    data.unregister_bit(page.address(), 0).unwrap();
    assert_eq!(register("st_reg_again1 u32 a", 0), Ok(0));
}

fn failures_leave_the_index_sequence_alone() {
    let page = Mapping::new(1);
    let data = Data::open();
    let register = |text, bit| data.register_text(text, page.address(), bit);
    assert_eq!(register("st_reg_fail1 u32 a", 0), Ok(0));
    assert_eq!(register("st_reg_fail2 nonsense a", 1), Err(Errno::EINVAL));
    assert_eq!(register("st_reg_fail1 u64 a", 1), Err(Errno::EADDRINUSE));
    assert_eq!(register("st_reg_fail2 u32 a", 0), Err(Errno::EADDRINUSE));
    assert_eq!(register("st_reg_fail3 u32 a", 1), Ok(1));
}

fn a_failed_register_leaves_no_event() {
    let page = Mapping::new(1);
    let data = Data::open();
    assert_eq!(
        data.register_text("st_reg_kept u32 a", page.address(), 0),
        Ok(0)
    );
    let got = data.register_text("st_reg_none nonsense a", page.address(), 1);
    assert_eq!(got, Err(Errno::EINVAL));
    let got = data.register_text("st_reg_none u32 a", page.address(), 0);
    assert_eq!(got, Err(Errno::EADDRINUSE));
    let got = data.register_text("st_reg_none u32 a", page.address() + 1, 0);
    assert_eq!(got, Err(Errno::EINVAL));
    assert_eq!(tracefs::events_of_tests(), ["st_reg_kept"]);
}

fn the_bit_is_cleared_by_register_when_nobody_listens() {
    let data = Data::open();
    let page = Mapping::new(1);
    page.word(0).store(u32::MAX, Ordering::Relaxed);
    data.register_text("st_reg_clear u32 a", page.address(), 5)
        .unwrap();
    assert_eq!(
        page.word(0).load(Ordering::Relaxed),
        !(1 << 5),
        "only bit 5 is the kernel's"
    );
}

fn row_persist_without_the_capability_is_eperm() {
    let data = Data::open();
    let page = Mapping::kept(1);
    os::become_unprivileged();
    let text = c"st_reg_persist u32 a";
    let mut request = Register::new(page.address(), text.as_ptr() as u64);
    request.flags = PERSIST;
    assert_eq!(data.register(&request), Err(Errno::EPERM));
    // It is the flag alone that needs it.
    request.flags = 0;
    assert_eq!(data.register(&request), Ok(0));
}
