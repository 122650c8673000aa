// SPDX-License-Identifier: GPL-2.0

//! "Register": accepted requests, and the errors of others.

use super::check::{expect, in_child_then_delete, sizes, Check, Row, ValidRequest, NAME, TEXT};
use crate::kit::abi::Data;
use crate::kit::abi::{Register, DIAG_IOCSREG};
use crate::kit::errno::{Errno, Result};
use crate::kit::memory::{Mapping, KERNEL, NON_CANONICAL, PAGE, READ};
use crate::kit::os::{self, Capability};

/// The kernel's direct map.
const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;
const SIZE: Row = Row::new(
    "register",
    "size < 28 → EINVAL; size > 4096 → E2BIG; bytes past 28 must be zero, else E2BIG",
);
const FLAGS: Row = Row::new("register", "flags outside 0–3 → EINVAL");
const WORD: Row = Row::new(
    "register",
    "enable_size must be 4 or 8, enable_addr a multiple of it, enable_bit < 8 × enable_size, \
     else EINVAL; an address outside user space → EFAULT",
);
const POINTER: Row = Row::new("register", "bad pointer → EFAULT");
const NAME_ARGS: Row = Row::new(
    "register",
    "name_args: at most 511 bytes before the NUL; longer → EINVAL; bad pointer → EFAULT",
);
const PERSIST: Row = Row::new(
    "register",
    "PERSIST needs CAP_PERFMON or CAP_SYS_ADMIN, else EPERM",
);
const UNWRITABLE: Row = Row::better_than_c(
    1,
    "register",
    "an enable_addr that cannot be written → EFAULT",
    "got Err(ENOMEM)",
);

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        SIZE.cases(sized, &sizes(28)),
        FLAGS.cases(
            flagged,
            &[
                ("no_flags_are_taken", 0, Ok(0)),
                ("flag_persist_is_taken", 1, Ok(0)),
                ("flag_multi_format_is_taken", 2, Ok(0)),
                ("both_flags_are_taken", 3, Ok(0)),
                ("flag_4_is_einval", 4, Err(Errno::EINVAL)),
                ("flag_4_with_persist_is_einval", 5, Err(Errno::EINVAL)),
                ("flag_4_with_others_is_einval", 7, Err(Errno::EINVAL)),
                ("flag_8_is_einval", 8, Err(Errno::EINVAL)),
                ("flag_256_is_einval", 0x100, Err(Errno::EINVAL)),
                ("highest_flag_is_einval", 0x8000, Err(Errno::EINVAL)),
                ("all_flags_are_einval", 0xffff, Err(Errno::EINVAL)),
            ],
        ),
        WORD.cases(
            word,
            &[
                ("enable_size_0_is_einval", (0, 0, 0), Err(Errno::EINVAL)),
                ("enable_size_1_is_einval", (1, 0, 0), Err(Errno::EINVAL)),
                ("enable_size_2_is_einval", (2, 0, 0), Err(Errno::EINVAL)),
                ("enable_size_3_is_einval", (3, 0, 0), Err(Errno::EINVAL)),
                ("enable_size_5_is_einval", (5, 0, 0), Err(Errno::EINVAL)),
                ("enable_size_6_is_einval", (6, 0, 0), Err(Errno::EINVAL)),
                ("enable_size_7_is_einval", (7, 0, 0), Err(Errno::EINVAL)),
                ("enable_size_9_is_einval", (9, 0, 0), Err(Errno::EINVAL)),
                ("enable_size_16_is_einval", (16, 0, 0), Err(Errno::EINVAL)),
                ("enable_size_32_is_einval", (32, 0, 0), Err(Errno::EINVAL)),
                ("enable_size_64_is_einval", (64, 0, 0), Err(Errno::EINVAL)),
                ("enable_size_255_is_einval", (255, 0, 0), Err(Errno::EINVAL)),
                ("4_bytes_at_1_are_einval", (4, 1, 0), Err(Errno::EINVAL)),
                ("4_bytes_at_2_are_einval", (4, 2, 0), Err(Errno::EINVAL)),
                ("4_bytes_at_3_are_einval", (4, 3, 0), Err(Errno::EINVAL)),
                ("4_bytes_at_4_are_taken", (4, 4, 0), Ok(0)),
                (
                    "4_bytes_at_the_end_of_a_page_are_taken",
                    (4, 4092, 0),
                    Ok(0),
                ),
                ("8_bytes_at_1_are_einval", (8, 1, 0), Err(Errno::EINVAL)),
                ("8_bytes_at_2_are_einval", (8, 2, 0), Err(Errno::EINVAL)),
                ("8_bytes_at_4_are_einval", (8, 4, 0), Err(Errno::EINVAL)),
                ("8_bytes_at_7_are_einval", (8, 7, 0), Err(Errno::EINVAL)),
                ("8_bytes_at_8_are_taken", (8, 8, 0), Ok(0)),
                (
                    "8_bytes_at_the_end_of_a_page_are_taken",
                    (8, 4088, 0),
                    Ok(0),
                ),
                ("bit_31_of_4_bytes_is_taken", (4, 0, 31), Ok(0)),
                (
                    "bit_32_of_4_bytes_is_einval",
                    (4, 0, 32),
                    Err(Errno::EINVAL),
                ),
                (
                    "bit_63_of_4_bytes_is_einval",
                    (4, 0, 63),
                    Err(Errno::EINVAL),
                ),
                (
                    "bit_255_of_4_bytes_is_einval",
                    (4, 0, 255),
                    Err(Errno::EINVAL),
                ),
                ("bit_32_of_8_bytes_is_taken", (8, 0, 32), Ok(0)),
                ("bit_63_of_8_bytes_is_taken", (8, 0, 63), Ok(0)),
                (
                    "bit_64_of_8_bytes_is_einval",
                    (8, 0, 64),
                    Err(Errno::EINVAL),
                ),
                (
                    "bit_128_of_8_bytes_is_einval",
                    (8, 0, 128),
                    Err(Errno::EINVAL),
                ),
                (
                    "bit_255_of_8_bytes_is_einval",
                    (8, 0, 255),
                    Err(Errno::EINVAL),
                ),
            ],
        ),
        WORD.all(
            word_at,
            Err(Errno::EFAULT),
            &[
                ("4_bytes_in_the_kernel_are_efault", (4, KERNEL)),
                ("8_bytes_in_the_kernel_are_efault", (8, KERNEL)),
                ("4_bytes_in_the_direct_map_are_efault", (4, DIRECT_MAP)),
                ("8_bytes_in_the_direct_map_are_efault", (8, DIRECT_MAP)),
                ("4_bytes_at_the_half_of_memory_are_efault", (4, 1 << 63)),
                ("8_bytes_at_the_half_of_memory_are_efault", (8, 1 << 63)),
                ("a_non_canonical_word_is_efault", (8, NON_CANONICAL)),
                ("the_last_4_bytes_but_4_are_efault", (4, u64::MAX - 7)),
                ("the_last_word_of_memory_is_efault", (8, u64::MAX - 7)),
            ],
        ),
        WORD.all(
            every_bit,
            (),
            &[
                ("every_bit_of_4_bytes_is_taken", (4, &[0, 4, 4092])),
                ("every_bit_of_8_bytes_is_taken", (8, &[8, 4080])),
            ],
        ),
        WORD.scenarios(&[
            (
                "a_word_of_the_caller_with_a_bit_too_many_is_efault",
                word_with_a_bit_too_many,
            ),
            (
                "a_word_before_one_that_is_registered_is_taken",
                word_before_one_that_is_registered,
            ),
        ]),
        POINTER.all(
            argument_at,
            Err(Errno::EFAULT),
            &[
                ("argument_null_is_efault", Place::Null),
                ("argument_unmapped_is_efault", Place::Unmapped),
                ("argument_in_the_kernel_is_efault", Place::At(KERNEL)),
                ("argument_non_canonical_is_efault", Place::At(NON_CANONICAL)),
                ("argument_at_the_last_byte_is_efault", Place::At(u64::MAX)),
                ("argument_half_readable_is_efault", Place::OverTheEdge(8)),
                ("argument_with_a_size_only_is_efault", Place::OverTheEdge(4)),
            ],
        ),
        NAME_ARGS.all(
            name_at,
            Err(Errno::EFAULT),
            &[
                ("name_args_null_is_efault", Place::Null),
                ("name_args_unmapped_is_efault", Place::Unmapped),
                ("name_args_in_the_kernel_is_efault", Place::At(KERNEL)),
                (
                    "name_args_non_canonical_is_efault",
                    Place::At(NON_CANONICAL),
                ),
                ("name_args_at_the_last_byte_is_efault", Place::At(u64::MAX)),
                (
                    "name_args_that_run_off_their_page_are_efault",
                    Place::OverTheEdge(64),
                ),
            ],
        ),
        NAME_ARGS.cases(
            long_name_args,
            &[
                ("509_bytes_of_name_args_are_taken", 509, Ok(0)),
                ("510_bytes_of_name_args_are_taken", 510, Ok(0)),
                ("511_bytes_of_name_args_are_taken", 511, Ok(0)),
                ("512_bytes_of_name_args_are_einval", 512, Err(Errno::EINVAL)),
                ("513_bytes_of_name_args_are_einval", 513, Err(Errno::EINVAL)),
                (
                    "1000_bytes_of_name_args_are_einval",
                    1000,
                    Err(Errno::EINVAL),
                ),
                (
                    "5000_bytes_of_name_args_are_einval",
                    5000,
                    Err(Errno::EINVAL),
                ),
            ],
        ),
        PERSIST.cases(
            unprivileged,
            &[
                (
                    "persist_without_capabilities_is_eperm",
                    (1, None),
                    Err(Errno::EPERM),
                ),
                (
                    "persist_multi_format_without_capabilities_is_eperm",
                    (3, None),
                    Err(Errno::EPERM),
                ),
                ("no_flags_need_no_capability", (0, None), Ok(0)),
                ("multi_format_needs_no_capability", (2, None), Ok(0)),
                (
                    "persist_with_cap_perfmon_is_taken",
                    (1, Some(Capability::Perfmon)),
                    Ok(0),
                ),
                (
                    "persist_with_cap_sys_admin_is_taken",
                    (1, Some(Capability::SysAdmin)),
                    Ok(0),
                ),
                (
                    "persist_multi_format_with_cap_perfmon_is_taken",
                    (3, Some(Capability::Perfmon)),
                    Ok(0),
                ),
                (
                    "persist_multi_format_with_cap_sys_admin_is_taken",
                    (3, Some(Capability::SysAdmin)),
                    Ok(0),
                ),
                (
                    "persist_with_another_capability_is_eperm",
                    (1, Some(Capability::SysNice)),
                    Err(Errno::EPERM),
                ),
            ],
        ),
        UNWRITABLE.all(
            unwritable,
            Err(Errno::EFAULT),
            &[
                ("read_only_memory_is_efault", Bad::Protected(READ)),
                (
                    "protected_memory_is_efault",
                    Bad::Protected(libc::PROT_NONE),
                ),
                (
                    "a_read_only_shared_mapping_is_efault",
                    Bad::File(libc::MAP_SHARED),
                ),
                (
                    "a_read_only_private_mapping_is_efault",
                    Bad::File(libc::MAP_PRIVATE),
                ),
                ("unmapped_memory_is_efault", Bad::Unmapped),
                ("address_0_is_efault", Bad::Null),
            ],
        ),
    ]
}

/// Registers a request that may be invalid. If it fails, the same without the defect must succeed.
#[track_caller]
fn register(valid: &ValidRequest, request: &Register, want: Result<u32>) {
    expect(valid.data.register(request), want);
    if want.is_err() {
        expect(valid.data.register(&valid.request()), Ok(0));
    }
}

fn sized((size, not_zero): (u32, Option<usize>), want: Result<()>) {
    let valid = ValidRequest::new(TEXT);
    let mut tail = vec![0; 8192];
    if let Some(place) = not_zero {
        tail[place - 28] = 1;
    }
    let request = Register {
        size,
        tail,
        ..valid.request()
    };
    register(&valid, &request, want.map(|()| 0));
}

fn flagged(flags: u16, want: Result<u32>) {
    in_child_then_delete(NAME, || {
        let valid = ValidRequest::new(TEXT);
        let request = Register {
            flags,
            ..valid.request()
        };
        register(&valid, &request, want);
    });
}

fn word((enable_size, offset, enable_bit): (u8, u64, u8), want: Result<u32>) {
    let valid = ValidRequest::new(TEXT);
    let request = Register {
        enable_size,
        enable_bit,
        enable_addr: valid.page.address() + offset,
        ..valid.request()
    };
    register(&valid, &request, want);
}

fn word_at((enable_size, enable_addr): (u8, u64), want: Result<u32>) {
    let valid = ValidRequest::new(TEXT);
    let request = Register {
        enable_size,
        enable_addr,
        ..valid.request()
    };
    register(&valid, &request, want);
}

/// An address outside user space, which without the extra bit would be valid.
fn word_with_a_bit_too_many() {
    for bit in 59..63 {
        let valid = ValidRequest::new(TEXT);
        let request = Register {
            enable_addr: valid.request().enable_addr | (1 << bit),
            ..valid.request()
        };
        register(&valid, &request, Err(Errno::EFAULT));
    }
}

fn word_before_one_that_is_registered() {
    let valid = ValidRequest::new(TEXT);
    for offset in [64, 0] {
        let request = Register {
            enable_addr: valid.request().enable_addr + offset,
            ..valid.request()
        };
        register(&valid, &request, Ok(0));
    }
}

fn every_bit((enable_size, offsets): (u8, &[u64]), (): ()) {
    let valid = ValidRequest::new(TEXT);
    for offset in offsets {
        for enable_bit in 0..8 * enable_size {
            let request = Register {
                enable_size,
                enable_bit,
                enable_addr: valid.page.address() + offset,
                ..valid.request()
            };
            expect(valid.data.register(&request), Ok(0));
        }
    }
}

/// Places of data that the kernel is to read.
#[derive(Clone, Copy)]
pub enum Place {
    Null,
    At(u64),
    Unmapped,
    Protected,
    /// The given number of bytes can be read, but none behind them.
    OverTheEdge(usize),
}

impl Place {
    /// The address of such a place. Its readable bytes are the first ones of `content`.
    pub fn address(self, content: &[u8]) -> u64 {
        match self {
            Place::Null => 0,
            Place::At(address) => address,
            Place::Unmapped => {
                let mut gone = Mapping::new(2);
                gone.unmap();
                gone.address()
            }
            Place::Protected => {
                let page = Mapping::kept(1);
                page.protect(libc::PROT_NONE);
                page.address()
            }
            Place::OverTheEdge(bytes) => {
                let edge = Mapping::kept(2);
                edge.put(PAGE - bytes, &content[..bytes]);
                edge.protect_from(PAGE, libc::PROT_NONE);
                edge.address() + (PAGE - bytes) as u64
            }
        }
    }
}

fn argument_at(place: Place, want: Result<u32>) {
    let valid = ValidRequest::new(TEXT);
    let address = place.address(&valid.request().bytes());
    let got = os::ioctl(&valid.data.file, DIAG_IOCSREG, address);
    expect(got.map(|_| 0), want);
    expect(valid.data.register(&valid.request()), Ok(0));
}

fn name_at(place: Place, want: Result<u32>) {
    let valid = ValidRequest::new(TEXT);
    let request = Register {
        name_args: place.address(&[b'a'; 64]),
        ..valid.request()
    };
    register(&valid, &request, want);
}

fn long_name_args(length: usize, want: Result<u32>) {
    // Empty fields are skipped, so semicolons can pad a description.
    let valid = ValidRequest::new(&format!("{TEXT:;<length$}"));
    expect(valid.data.register(&valid.request()), want);
}

fn unprivileged((flags, capability): (u16, Option<Capability>), want: Result<u32>) {
    in_child_then_delete(NAME, || {
        let valid = ValidRequest::new(TEXT);
        os::become_unprivileged_but(capability);
        let request = Register {
            flags,
            ..valid.request()
        };
        expect(valid.data.register(&request), want);
    });
}

/// Memory that cannot be written.
#[derive(Clone, Copy)]
enum Bad {
    Protected(i32),
    File(i32),
    Unmapped,
    Null,
}

fn unwritable(bad: Bad, want: Result<u32>) {
    let data = Data::open();
    let mut page = Mapping::kept(1);
    let file = os::memory_file(PAGE as u64);
    match bad {
        Bad::Protected(protection) => page.protect(protection),
        Bad::File(flags) => page = Mapping::of_file(&file, 1, READ, flags).expect("mmap"),
        Bad::Unmapped => page.unmap(),
        Bad::Null => {}
    }
    let address = if matches!(bad, Bad::Null) {
        0
    } else {
        page.address()
    };
    expect(data.register_text(TEXT, address, 0), want);
}
