// SPDX-License-Identifier: GPL-2.0

//! "Register" in the contract.

use crate::abi::{Data, Register, DIAG_IOCSREG};
use crate::child;
use crate::errno::Errno;
use crate::event::Event;
use crate::harness::tests;
use crate::memory::{Mapping, PAGE, READ};
use crate::rows::Rows;
use crate::{os, tracefs};
use std::sync::atomic::Ordering;
use std::thread;

tests!("register":
    rows_about_size,
    rows_about_bit_size_and_address,
    rows_about_bad_pointers,
    row_name_args_of_512_bytes_is_einval_511_is_not,
    row_same_address_and_bit_is_eaddrinuse,
    row_other_fields_under_a_name_is_eaddrinuse,
    better_than_c_1_memory_that_cannot_be_written_is_efault,
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
);

const ADDRESS_OF_THE_KERNEL: u64 = 0xffff_ffff_8100_0000;

/// A request that is right in everything, for the tests to spoil.
struct Good {
    data: Data,
    page: Mapping,
    name: Vec<u8>,
}

impl Good {
    fn new(description: &str) -> Good {
        let name = [description.as_bytes(), b"\0"].concat();
        Good {
            data: Data::open(),
            page: Mapping::new(1),
            name,
        }
    }

    fn request(&self) -> Register {
        Register::new(self.page.address(), self.name.as_ptr() as u64)
    }

    /// Shows that nothing but what a test spoiled was wrong.
    fn must_work(&self, rows: &mut Rows) {
        let got = self.data.register(&self.request());
        rows.gives("a good request after bad ones", "index", got, Ok(0));
    }
}

fn rows_about_size() {
    let good = Good::new("st_reg_size u32 a");
    let mut rows = Rows::new();
    let mut try_one = |row: &str, size: u32, tail: Vec<u8>, want| {
        let case = format!("size {size}, last byte {:?}", tail.last());
        let request = Register {
            size,
            tail,
            ..good.request()
        };
        rows.fails(row, &case, good.data.register(&request), want);
    };

    for size in [0, 1, 4, 27] {
        try_one("size < 28 → EINVAL", size, Vec::new(), Errno::EINVAL);
    }
    for size in [4097, 8192, u32::MAX] {
        try_one("size > 4096 → E2BIG", size, vec![0; 8192], Errno::E2BIG);
    }
    for (length, place) in [
        (1, 0),
        (4, 3),
        (36, 35),
        (100, 0),
        (4068, 2000),
        (4068, 4067),
    ] {
        let mut tail = vec![0; length];
        tail[place] = 1;
        let row = "bytes past 28 must be zero, else E2BIG";
        try_one(row, 28 + length as u32, tail, Errno::E2BIG);
    }
    good.must_work(&mut rows);
    rows.finish();
}

fn rows_about_bit_size_and_address() {
    let good = Good::new("st_reg_word u32 a");
    let mut rows = Rows::new();
    let mut try_one = |row: &str, case: String, request: Register, want| {
        rows.fails(row, &case, good.data.register(&request), want);
    };

    for flags in [4, 5, 8, 0x100, 0x8000, 0xffff] {
        let request = Register {
            flags,
            ..good.request()
        };
        try_one(
            "flags outside 0–3 → EINVAL",
            format!("{flags:#x}"),
            request,
            Errno::EINVAL,
        );
    }
    for enable_size in [0, 1, 2, 3, 5, 6, 7, 9, 16, 32, 64, 255] {
        let request = Register {
            enable_size,
            ..good.request()
        };
        let row = "enable_size must be 4 or 8";
        try_one(row, format!("{enable_size}"), request, Errno::EINVAL);
    }
    for (enable_size, offset) in [(4, 1), (4, 2), (4, 3), (8, 1), (8, 2), (8, 4), (8, 7)] {
        let enable_addr = good.page.address() + offset;
        let request = Register {
            enable_size,
            enable_addr,
            ..good.request()
        };
        let row = "enable_addr a multiple of it";
        try_one(
            row,
            format!("size {enable_size}, +{offset}"),
            request,
            Errno::EINVAL,
        );
    }
    for (enable_size, enable_bit) in [(4, 32), (4, 63), (4, 255), (8, 64), (8, 128), (8, 255)] {
        let request = Register {
            enable_size,
            enable_bit,
            ..good.request()
        };
        let row = "enable_bit < 8 × enable_size";
        try_one(
            row,
            format!("size {enable_size}, bit {enable_bit}"),
            request,
            Errno::EINVAL,
        );
    }
    for enable_addr in [
        ADDRESS_OF_THE_KERNEL,
        0xffff_8880_0000_0000,
        1 << 63,
        u64::MAX - 7,
    ] {
        for enable_size in [4, 8] {
            let request = Register {
                enable_size,
                enable_addr,
                ..good.request()
            };
            let row = "an address outside user space → EFAULT";
            try_one(row, format!("{enable_addr:#x}"), request, Errno::EFAULT);
        }
    }
    good.must_work(&mut rows);
    rows.finish();
}

fn rows_about_bad_pointers() {
    let good = Good::new("st_reg_pointer u32 a");
    let mut rows = Rows::new();
    let ioctl = |address| os::ioctl(&good.data.file, DIAG_IOCSREG, address);

    let mut two = Mapping::new(2);
    let bytes = good.request().bytes();
    // Starts on a page that can be read, and goes on where nothing can.
    let edge = Mapping::new(2);
    edge.put(PAGE - 8, &bytes[..8]);
    edge.protect_from(PAGE, libc::PROT_NONE);
    let over_the_edge = edge.address() + PAGE as u64 - 8;
    let nowhere = two.address();
    two.unmap();
    let row = "bad pointer → EFAULT";
    for (case, address) in [
        ("null", 0),
        ("unmapped", nowhere),
        ("kernel", ADDRESS_OF_THE_KERNEL),
        ("non-canonical", 1 << 62),
        ("last address", u64::MAX),
    ] {
        rows.fails(row, case, ioctl(address), Errno::EFAULT);
        let request = Register {
            name_args: address,
            ..good.request()
        };
        let case = format!("name_args {case}");
        rows.fails(row, &case, good.data.register(&request), Errno::EFAULT);
    }
    rows.fails(row, "half of it", ioctl(over_the_edge), Errno::EFAULT);

    // A description without its NUL before the memory ends.
    let text = Mapping::new(2);
    text.put(PAGE - 64, &[b'a'; 64]);
    text.protect_from(PAGE, libc::PROT_NONE);
    let name_args = text.address() + PAGE as u64 - 64;
    let request = Register {
        name_args,
        ..good.request()
    };
    rows.fails(
        row,
        "name_args runs off its page",
        good.data.register(&request),
        Errno::EFAULT,
    );
    good.must_work(&mut rows);
    rows.finish();
}

fn row_name_args_of_512_bytes_is_einval_511_is_not() {
    let data = Data::open();
    let page = Mapping::new(1);
    let mut rows = Rows::new();
    // Empty fields are skipped, so semicolons fill a description up.
    for (length, bit) in [(509, 0), (510, 1), (511, 2)] {
        let text = format!("{:;<length$}", format!("st_reg_length{length} u32 a"));
        let got = data.register_text(&text, page.address(), bit).map(drop);
        let row = "name_args: at most 511 bytes before the NUL";
        rows.gives(row, &format!("{length}"), got, Ok(()));
    }
    for length in [512, 513, 1000, 5000] {
        let text = format!("{:;<length$}", "st_reg_length u32 a");
        let got = data.register_text(&text, page.address(), 9);
        rows.fails("longer → EINVAL", &format!("{length}"), got, Errno::EINVAL);
    }
    rows.finish();
}

fn row_same_address_and_bit_is_eaddrinuse() {
    let event = Event::new("st_reg_twice u32 a");
    let address = event.page.address();
    let mut rows = Rows::new();
    let row = "same address and bit already registered in this address space → EADDRINUSE";
    let same = |data: &Data, text| data.register_text(text, address, 0);
    rows.fails(
        row,
        "same file",
        same(&event.data, "st_reg_twice u32 a"),
        Errno::EADDRINUSE,
    );
    rows.fails(
        row,
        "other event",
        same(&event.data, "st_reg_twice2 u32 a"),
        Errno::EADDRINUSE,
    );
    rows.fails(
        row,
        "other file",
        same(&Data::open(), "st_reg_twice u32 a"),
        Errno::EADDRINUSE,
    );
    let got = thread::spawn(move || Data::open().register_text("st_reg_twice3", address, 0)).join();
    rows.fails(row, "other thread", got.unwrap(), Errno::EADDRINUSE);

    // Once unregistered it is free again.
    event.unregister().unwrap();
    let got = same(&event.data, "st_reg_twice u32 a");
    rows.gives(row, "after unregistering", got, Ok(event.index));
    rows.finish();
}

fn row_other_fields_under_a_name_is_eaddrinuse() {
    let event = Event::new("st_reg_other u32 a; char[8] b");
    let address = event.page.address();
    let mut rows = Rows::new();
    for text in [
        "st_reg_other",
        "st_reg_other u32 a",
        "st_reg_other u32 a; char[8] b; u8 c",
        "st_reg_other s32 a; char[8] b",
        "st_reg_other u32 x; char[8] b",
        "st_reg_other u32 a; char[9] b",
        "st_reg_other char[8] b; u32 a",
        "st_reg_other u32 a; __rel_loc char[] b",
    ] {
        let row = "an event of that name with other fields → EADDRINUSE";
        rows.fails(
            row,
            text,
            event.data.register_text(text, address, 1),
            Errno::EADDRINUSE,
        );
        rows.fails(
            row,
            text,
            Data::open().register_text(text, address, 1),
            Errno::EADDRINUSE,
        );
    }
    rows.finish();
}

fn better_than_c_1_memory_that_cannot_be_written_is_efault() {
    let data = Data::open();
    let mut rows = Rows::new();
    let mut try_one = |case: &str, address| {
        let got = data.register_text("st_reg_readonly u32 a", address, 0);
        rows.fails(
            "an enable_addr that cannot be written → EFAULT",
            case,
            got,
            Errno::EFAULT,
        );
    };

    let page = Mapping::new(1);
    page.protect(READ);
    try_one("read-only private memory", page.address());
    page.protect(libc::PROT_NONE);
    try_one("PROT_NONE", page.address());

    let file = os::memory_file(PAGE as u64);
    for flags in [libc::MAP_SHARED, libc::MAP_PRIVATE] {
        let page = Mapping::of_file(&file, 1, READ, flags).unwrap();
        try_one("read-only mapping of a file", page.address());
    }
    let mut page = Mapping::new(1);
    page.unmap();
    try_one("unmapped", page.address());
    try_one("null", 0);
    rows.finish();
}

fn sizes_above_28_with_zeros_are_accepted() {
    let good = Good::new("st_reg_long u32 a");
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
    let good = Good::new("st_reg_bits u32 a");
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
