// SPDX-License-Identifier: GPL-2.0

//! "Unregister".

use super::bit::register;
use super::check::{expect, sizes, Check, Row, TEXT};
use super::register::Place;
use crate::kit::abi::{Data, Unregister, DIAG_IOCSUNREG};
use crate::kit::child::{self, Word};
use crate::kit::errno::{Errno, Result};
use crate::kit::event::Event;
use crate::kit::memory::{Mapping, KERNEL, NON_CANONICAL, READ, READ_WRITE};
use crate::kit::os;
use crate::kit::tracefs::TraceInstance;
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
        NOTHING.scenarios(&[
            (
                "a_process_that_never_registered_gets_enoent",
                never_registered,
            ),
            ("twice_is_enoent", twice),
            ("a_failed_registration_is_enoent", failed_registration),
            (
                "what_another_process_registered_is_enoent",
                of_another_process,
            ),
            (
                "what_the_parent_registered_after_the_fork_is_enoent",
                of_the_parent,
            ),
        ]),
        CLEARED.each(
            "no_other_bit_is_cleared",
            cleared_alone,
            (),
            &[(4, 0), (4, 31), (8, 0), (8, 31), (8, 32), (8, 63)],
        ),
        CLEARED.scenarios(&[
            ("the_bit_is_no_longer_updated", not_updated),
            ("the_other_registrations_of_the_word_stay", others_stay),
            ("another_thread_may_do_it", another_thread),
            (
                "the_main_thread_may_for_a_thread_that_ended",
                thread_that_ended,
            ),
            ("through_a_file_opened_read_only", read_only_file),
            ("after_its_file_was_closed", closed_file),
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
    let got = event
        .data
        .unregister_bit(event.page.address() + offset, bit);
    expect(got, want);
    expect(event.unregister(), Ok(()));
}

fn at(address: u64, want: Result<()>) {
    let event = Event::new(TEXT);
    expect(event.data.unregister_bit(address, 0), want);
}

fn never_registered() {
    let page = Mapping::new(1);
    let got = Data::open().unregister_bit(page.address(), 0);
    expect(got, Err(Errno::ENOENT));
}

fn twice() {
    let event = Event::new(TEXT);
    expect(event.unregister(), Ok(()));
    expect(event.unregister(), Err(Errno::ENOENT));
}

fn failed_registration() {
    let event = Event::new(TEXT);
    let address = event.page.address();
    let got = event.data.register_text("st_other nonsense a", address, 1);
    expect(got, Err(Errno::EINVAL));
    let got = event.data.unregister_bit(address, 1);
    expect(got, Err(Errno::ENOENT));
}

fn of_another_process() {
    let page = Mapping::new(1);
    let address = page.address();
    let mut child = child::fork(|line| {
        let data = Data::open();
        expect(data.register_text(TEXT, address, 0), Ok(0));
        line.say(Word::Registered);
        line.hear(Word::End);
    });
    child.line.hear(Word::Registered);
    let data = Data::open();
    expect(data.unregister_bit(address, 0), Err(Errno::ENOENT));
    expect(data.register_text(TEXT, address, 1), Ok(0));
    expect(data.unregister_bit(address, 0), Err(Errno::ENOENT));
    child.line.say(Word::End);
    child.join();
}

fn of_the_parent() {
    let event = Event::new(TEXT);
    let address = event.page.address();
    let mut child = child::fork(|line| {
        line.hear(Word::Registered);
        let got = Data::open().unregister_bit(address, 5);
        expect(got, Err(Errno::ENOENT));
    });
    expect(event.data.register_text(TEXT, address, 5), Ok(0));
    child.line.say(Word::Registered);
    child.join();
}

fn not_updated() {
    let event = Event::new(TEXT);
    expect(event.unregister(), Ok(()));
    // A second registration follows each change, after which the first one can be checked.
    let other = Event::new(TEXT);
    let top = TraceInstance::top();
    for _ in 0..3 {
        event.page.word(0).store(0, Ordering::Relaxed);
        top.enable(&event.name);
        other.wait_set();
        expect(event.bit(), false);
        event.page.word(0).store(1, Ordering::Relaxed);
        top.disable(&event.name);
        other.wait_clear();
        expect(event.bit(), true);
    }
}

/// A bit set by its registration, in a word whose other bits are all set.
fn cleared_alone((size, bit): (u8, u8), (): ()) {
    let event = Event::new(TEXT);
    let top = TraceInstance::top();
    top.enable(&event.name);
    let (word, without) = (event.page.long(64), !(1 << bit));
    word.store(without, Ordering::Relaxed);
    register(&event, 64, size, bit);
    expect(word.load(Ordering::Relaxed), u64::MAX);
    let got = event.data.unregister_bit(event.page.address() + 64, bit);
    expect(got, Ok(()));
    expect(word.load(Ordering::Relaxed), without);
    top.disable(&event.name);
}

fn others_stay() {
    let event = Event::new(TEXT);
    for bit in 1..4 {
        register(&event, 0, 4, bit);
    }
    expect(event.data.unregister_bit(event.page.address(), 2), Ok(()));
    let word = || event.page.word(0).load(Ordering::Relaxed);
    let top = TraceInstance::top();
    top.enable(&event.name);
    wait::until("the other three bits", || word() == 0b1011);
    top.disable(&event.name);
    wait::until("all bits to be cleared", || word() == 0);
}

fn another_thread() {
    let event = Event::new(TEXT);
    let address = event.page.address();
    let other = thread::spawn(move || Data::open().unregister_bit(address, 0));
    expect(other.join().unwrap(), Ok(()));
}

fn thread_that_ended() {
    let event = Event::new(TEXT);
    let address = event.page.address();
    let other = thread::spawn(move || Data::open().register_text(TEXT, address, 3));
    expect(other.join().unwrap(), Ok(0));
    expect(event.data.unregister_bit(address, 3), Ok(()));
}

fn read_only_file() {
    let event = Event::new(TEXT);
    let got = Data::open_read_only().unregister_bit(event.page.address(), 0);
    expect(got, Ok(()));
}

fn closed_file() {
    let Event { data, page, .. } = Event::new(TEXT);
    drop(data);
    expect(Data::open().unregister_bit(page.address(), 0), Ok(()));
}

fn child_for_itself() {
    let event = Event::new(TEXT);
    child::fork(|_| expect(event.unregister(), Ok(()))).join();
    let top = TraceInstance::top();
    top.enable(&event.name);
    event.wait_set();
    top.disable(&event.name);
    event.wait_clear();
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
