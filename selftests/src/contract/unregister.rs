// SPDX-License-Identifier: GPL-2.0

//! "Unregister".

use super::check::{expect, sizes, Check, Row, TEXT};
use super::register::Place;
use crate::kit::abi::{Data, Unregister, DIAG_IOCSUNREG};
use crate::kit::child::{self, Word};
use crate::kit::errno::{Errno, Result};
use crate::kit::event::Event;
use crate::kit::memory::{Mapping, KERNEL, NON_CANONICAL, READ, READ_WRITE};
use crate::kit::os;
use crate::kit::wait;
use std::sync::atomic::Ordering;
use std::thread;

const SIZE: Row = Row::new(
    "unregister",
    "size < 16 → EINVAL; size > 4096 → E2BIG; bytes past 16 must be zero, else E2BIG; \
     bad pointer → EFAULT",
);
const RESERVED: Row = Row::new("unregister", "reserved fields ≠ 0 → EINVAL");
const NOTHING: Row = Row::new("unregister", "nothing registered there → ENOENT");
const CLEARED: Row = Row::new(
    "unregister",
    "else the bit is cleared and no longer updated. Any thread of the address space may do it",
);
const GONE: Row = Row::new(
    "unregister",
    "a bit whose page is gone → EFAULT, still unregistered",
);

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        SIZE.table("a_size_that_is_known_is_taken", sized, &sizes(16)),
        SIZE.each(
            "an_argument_that_cannot_be_read_is_efault",
            argument_at,
            Err(Errno::EFAULT),
            &[&Place::BAD[..], &[Place::OverTheEdge(8)]].concat(),
        ),
        RESERVED.each(
            "reserved_fields_that_are_not_0_are_einval",
            reserved,
            Err(Errno::EINVAL),
            &[
                (1, 0),
                (255, 0),
                (0, 1),
                (0, 0x100),
                (0, 0xffff),
                (1, 1),
                (0xff, 0xffff),
            ],
        ),
        NOTHING.each(
            "any_other_bit_is_enoent",
            elsewhere,
            Err(Errno::ENOENT),
            &[
                (0, 1),
                (0, 32),
                (0, 64),
                (0, 255),
                (4, 0),
                (1, 0),
                (4096, 0),
            ],
        ),
        NOTHING.each(
            "an_address_outside_user_space_is_enoent",
            at,
            Err(Errno::ENOENT),
            &[0, KERNEL, NON_CANONICAL],
        ),
        NOTHING.scenarios(&[(
            "what_another_process_registered_is_enoent",
            of_another_process,
        )]),
        CLEARED.each(
            "no_other_bit_is_cleared",
            cleared_alone,
            (),
            &[(4, 0), (4, 31), (8, 0), (8, 31), (8, 32), (8, 63)],
        ),
        CLEARED.scenarios(&[
            ("the_bit_is_no_longer_updated", not_updated),
            ("the_other_registrations_of_the_word_stay", others_stay),
            ("any_thread_may_do_it", any_thread),
            ("a_child_unregisters_for_itself_alone", child_for_itself),
        ]),
        GONE.each(
            "a_bit_whose_page_is_gone_is_efault_and_unregistered",
            gone,
            (),
            &[None, Some(READ), Some(libc::PROT_NONE)],
        ),
    ]
}

fn sized((size, not_zero): (u32, Option<usize>), want: Result<()>) {
    let event = Event::new(TEXT);
    let mut tail = vec![0; 8192];
    if let Some(place) = not_zero {
        tail[place - 16] = 1;
    }
    let request = Unregister {
        size,
        tail,
        ..Unregister::new(event.page.address(), 0)
    };
    expect(event.data.unregister(&request), want);
    if want.is_err() {
        expect(event.unregister(), Ok(()));
    }
}

fn argument_at(place: Place, want: Result<()>) {
    let event = Event::new(TEXT);
    let bytes = Unregister::new(event.page.address(), 0).bytes();
    let got = os::ioctl(&event.data.file, DIAG_IOCSUNREG, place.address(&bytes));
    expect(got.map(drop), want);
    expect(event.unregister(), Ok(()));
}

fn reserved((reserved, reserved2): (u8, u16), want: Result<()>) {
    let event = Event::new(TEXT);
    let request = Unregister {
        reserved,
        reserved2,
        ..Unregister::new(event.page.address(), 0)
    };
    expect(event.data.unregister(&request), want);
    expect(event.unregister(), Ok(()));
}

fn elsewhere((offset, bit): (u64, u8), want: Result<()>) {
    let event = Event::new(TEXT);
    let address = event.page.address() + offset;
    expect(event.data.unregister_bit(address, bit), want);
    expect(event.unregister(), Ok(()));
}

fn at(address: u64, want: Result<()>) {
    let event = Event::new(TEXT);
    expect(event.data.unregister_bit(address, 0), want);
}

/// Each of two processes has the bit, at the same address.
fn of_another_process() {
    let page = Mapping::new(1);
    let address = page.address();
    let mut child = child::fork_until(Word::Registered, |line| {
        let data = Data::open();
        expect(data.register_text(TEXT, address, 0), Ok(0));
        line.say(Word::Registered);
        line.hear(Word::End);
    });
    let data = Data::open();
    expect(data.unregister_bit(address, 0), Err(Errno::ENOENT));
    expect(data.register_text(TEXT, address, 1), Ok(0));
    expect(data.unregister_bit(address, 0), Err(Errno::ENOENT));
    expect(data.register_text(TEXT, address, 0), Ok(0));
    child.line.say(Word::End);
    child.join();
}

fn not_updated() {
    let event = Event::new(TEXT);
    expect(event.unregister(), Ok(()));
    expect(event.unregister(), Err(Errno::ENOENT));
    // A second registration follows each change, after which the first one can be checked.
    let other = Event::new(TEXT);
    for on in [true, false, true, false] {
        event.page.set(0, (!on).into());
        other.follows(on);
        expect(event.bit(), !on);
    }
}

/// A bit set by its registration, in a word whose other bits are all set.
fn cleared_alone((size, bit): (u8, u8), (): ()) {
    let event = Event::new(TEXT);
    event.switch(true);
    let (word, without) = (event.page.long(64), !(1 << bit));
    let address = event.page.address() + 64;
    word.store(without, Ordering::Relaxed);
    event.add_bit_of(size, address, bit);
    expect(word.load(Ordering::Relaxed), u64::MAX);
    expect(event.data.unregister_bit(address, bit), Ok(()));
    expect(word.load(Ordering::Relaxed), without);
    event.switch(false);
}

fn others_stay() {
    let event = Event::new(TEXT);
    let address = event.page.address();
    for bit in 1..4 {
        event.add_bit(address, bit);
    }
    expect(event.data.unregister_bit(address, 2), Ok(()));
    event.switch(true);
    wait::until("the other three bits", || event.page.get(0) == 0b1011);
    event.switch(false);
    wait::until("all bits to be cleared", || event.page.get(0) == 0);
}

/// Also for a thread that has ended.
fn any_thread() {
    let event = Event::new(TEXT);
    let address = event.page.address();
    let other = thread::spawn(move || {
        let data = Data::open();
        (
            data.unregister_bit(address, 0),
            data.register_text(TEXT, address, 3),
        )
    });
    expect(other.join().unwrap(), (Ok(()), Ok(0)));
    expect(event.data.unregister_bit(address, 3), Ok(()));
}

fn child_for_itself() {
    let event = Event::new(TEXT);
    child::fork(|_| expect(event.unregister(), Ok(()))).join();
    event.toggle();
    expect(event.unregister(), Ok(()));
}

/// Unregisters a bit whose page was unmapped or protected.
fn gone(protection: Option<i32>, (): ()) {
    let mut event = Event::new(TEXT);
    match protection {
        Some(protection) => event.page.protect(protection),
        None => event.page.unmap(),
    }
    expect(event.unregister(), Err(Errno::EFAULT));
    expect(event.unregister(), Err(Errno::ENOENT));
    // The address is free for another registration.
    match protection {
        Some(_) => event.page.protect(READ_WRITE),
        None => event.page.map_again(),
    }
    let got = event.data.register_text(TEXT, event.page.address(), 0);
    expect(got, Ok(event.index));
}
