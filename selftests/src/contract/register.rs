// SPDX-License-Identifier: GPL-2.0

//! "Register": accepted requests, and the errors of others.

use super::check::{expect, sizes, Check, DeletedAtEnd, Row, ValidRequest, NAME, TEXT};
use crate::harness::begin_case;
use crate::kit::abi::{Data, Register, DIAG_IOCSREG};
use crate::kit::child;
use crate::kit::errno::{Errno, Result};
use crate::kit::memory::{Mapping, KERNEL, NON_CANONICAL, PAGE, READ};
use crate::kit::os;
use std::mem;

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
const UNWRITABLE: Row = Row::better_than_c(
    1,
    "register",
    "an enable_addr that cannot be written → EFAULT",
    "got Err(ENOMEM)",
);

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        SIZE.table("a_size_that_is_known_is_taken", sized, &sizes(28)),
        FLAGS.table(
            "known_flags_are_taken_and_others_einval",
            flagged,
            &[
                (0, Ok(0)),
                (1, Ok(0)),
                (2, Ok(0)),
                (3, Ok(0)),
                (4, Err(Errno::EINVAL)),
                (7, Err(Errno::EINVAL)),
                (8, Err(Errno::EINVAL)),
                (0x100, Err(Errno::EINVAL)),
                (0x8000, Err(Errno::EINVAL)),
                (0xffff, Err(Errno::EINVAL)),
            ],
        ),
        WORD.each(
            "a_word_outside_user_space_is_efault",
            word_at,
            Err(Errno::EFAULT),
            &[
                (4, KERNEL),
                (8, KERNEL),
                (4, DIRECT_MAP),
                (8, DIRECT_MAP),
                (4, 1 << 63),
                (8, 1 << 63),
                (8, NON_CANONICAL),
                (4, u64::MAX - 7),
                (8, u64::MAX - 7),
            ],
        ),
        WORD.scenarios(&[
            ("a_word_has_4_or_8_bytes", || {
                for size in 0..=255 {
                    word((size, 0, 0), size == 4 || size == 8);
                }
            }),
            ("a_word_lies_at_a_multiple_of_its_size", || {
                for size in [4, 8] {
                    for offset in (0..17).chain(4080..=4092) {
                        word((size, offset, 0), offset % u64::from(size) == 0);
                    }
                }
            }),
            ("a_word_has_no_bit_behind_its_last", || {
                for size in [4, 8] {
                    for bit in 0..=255 {
                        word((size, 0, bit), bit < 8 * size);
                    }
                }
            }),
            (
                "a_word_of_the_caller_with_a_bit_too_many_is_efault",
                word_with_a_bit_too_many,
            ),
        ]),
        POINTER.each(
            "an_argument_that_cannot_be_read_is_efault",
            argument_at,
            Err(Errno::EFAULT),
            &[
                &Place::BAD[..],
                &[Place::OverTheEdge(8), Place::OverTheEdge(4)],
            ]
            .concat(),
        ),
        NAME_ARGS.each(
            "name_args_that_cannot_be_read_are_efault",
            name_at,
            Err(Errno::EFAULT),
            &[&Place::BAD[..], &[Place::OverTheEdge(64)]].concat(),
        ),
        NAME_ARGS.table(
            "511_bytes_of_name_args_are_taken",
            long_name_args,
            &[
                (509, Ok(0)),
                (510, Ok(0)),
                (511, Ok(0)),
                (512, Err(Errno::EINVAL)),
                (513, Err(Errno::EINVAL)),
                (1000, Err(Errno::EINVAL)),
                (5000, Err(Errno::EINVAL)),
            ],
        ),
        UNWRITABLE.all(
            unwritable,
            Err(Errno::EFAULT),
            &[
                ("read_only_memory_is_efault", Place::ReadOnly),
                ("hidden_memory_is_efault", Place::Protected),
                ("a_shared_file_is_efault", Place::File(libc::MAP_SHARED)),
                ("a_private_file_is_efault", Place::File(libc::MAP_PRIVATE)),
                ("unmapped_memory_is_efault", Place::Unmapped),
                ("address_0_is_efault", Place::Null),
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
    let _deleted = DeletedAtEnd(NAME);
    child::fork(|_| {
        let valid = ValidRequest::new(TEXT);
        let request = Register {
            flags,
            ..valid.request()
        };
        register(&valid, &request, want);
    })
    .join();
}

fn word(case: (u8, u64, u8), is_taken: bool) {
    begin_case(case);
    let (enable_size, offset, enable_bit) = case;
    let valid = ValidRequest::new(TEXT);
    let request = Register {
        enable_size,
        enable_bit,
        enable_addr: valid.page.address() + offset,
        ..valid.request()
    };
    let want = if is_taken { Ok(0) } else { Err(Errno::EINVAL) };
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

/// Places that the kernel is to read or to write.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    Null,
    At(u64),
    Unmapped,
    Protected,
    ReadOnly,
    /// A file that is mapped with these flags, and cannot be written.
    File(i32),
    /// The given number of bytes can be read, but none behind them.
    OverTheEdge(usize),
}

impl Place {
    /// Places of which nothing can be read.
    pub const BAD: [Place; 5] = [
        Place::Null,
        Place::Unmapped,
        Place::At(KERNEL),
        Place::At(NON_CANONICAL),
        Place::At(u64::MAX),
    ];

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
            Place::Protected | Place::ReadOnly => {
                let page = Mapping::kept(1);
                page.protect(match self {
                    Place::ReadOnly => READ,
                    _ => libc::PROT_NONE,
                });
                page.address()
            }
            Place::File(flags) => {
                let file = os::memory_file(PAGE as u64);
                let page = Mapping::of_file(&file, 1, READ, flags).expect("mmap");
                let address = page.address();
                // The page stays mapped.
                mem::forget(page);
                address
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

fn unwritable(place: Place, want: Result<u32>) {
    let got = Data::open().register_text(TEXT, place.address(&[]), 0);
    expect(got, want);
}
