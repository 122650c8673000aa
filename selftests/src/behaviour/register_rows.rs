// SPDX-License-Identifier: GPL-2.0

//! What "Register" in the contract refuses, row by row.

use crate::harness::tests;
use crate::kit::abi::{Data, Register, DIAG_IOCSREG};
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::memory::{Mapping, PAGE, READ};
use crate::kit::os;
use crate::kit::rows::Rows;
use std::thread;

tests!("register":
    rows_about_size,
    rows_about_bit_size_and_address,
    rows_about_bad_pointers,
    row_name_args_of_512_bytes_is_einval_511_is_not,
    row_same_address_and_bit_is_eaddrinuse,
    row_other_fields_under_a_name_is_eaddrinuse,
    better_than_c_1_memory_that_cannot_be_written_is_efault,
);

const ADDRESS_OF_THE_KERNEL: u64 = 0xffff_ffff_8100_0000;

/// A request that is right in everything, for the tests to spoil.
pub struct ValidRequest {
    pub data: Data,
    pub page: Mapping,
    name: Vec<u8>,
}

impl ValidRequest {
    /// Opens a file; registers nothing.
    pub fn new(description: &str) -> ValidRequest {
        let name = [description.as_bytes(), b"\0"].concat();
        ValidRequest {
            data: Data::open(),
            page: Mapping::new(1),
            name,
        }
    }

    /// What to give to `data.register`.
    pub fn request(&self) -> Register {
        Register::new(self.page.address(), self.name.as_ptr() as u64)
    }

    /// Shows that nothing but what a test spoiled was wrong.
    fn must_work(&self, rows: &mut Rows) {
        let got = self.data.register(&self.request());
        rows.gives("a good request after bad ones", "index", got, Ok(0));
    }
}

fn rows_about_size() {
    let good = ValidRequest::new("st_reg_size u32 a");
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
    let good = ValidRequest::new("st_reg_word u32 a");
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
    let good = ValidRequest::new("st_reg_pointer u32 a");
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
