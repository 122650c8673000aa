// SPDX-License-Identifier: GPL-2.0

//! A bit that is right is not written: after a fork its page stays shared, and takes no memory.

use crate::harness::tests;
use crate::kit::child::{self, Child, Word};
use crate::kit::event::{repair_pending, Event};
use crate::kit::memory::Mapping;
use crate::kit::tracefs::TraceInstance;
use crate::kit::{tasks, wait};
use std::process;

tests!("right_bits":
    a_set_is_copied_and_leaves_pages_shared,
    a_switch_leaves_pages_shared_whose_bits_are_right,
);

const TEXT: &str = "st_right u32 a";

/// A process and its child with the same registrations: a bit in the event's own page, whose
/// sharing is tested, and one in a page at a higher address.
struct Two {
    event: Event,
    child: Child,
    /// Bit 0 of its first word is registered, too. All others are free.
    other: Mapping,
}

impl Two {
    /// Both share the page, whose bit is as given.
    fn new(bit: u32) -> Two {
        // Bits are written in the order of their addresses, the tested one first.
        let mut pages = [Mapping::kept(1), Mapping::kept(1)];
        pages.sort_by_key(Mapping::address);
        let [page, other] = pages;
        let event = Event::in_memory(TEXT, page);
        let at = other.address();
        event.add_bit(at, 0);
        event.page.set(0, bit);
        let child = child::fork(|line| loop {
            let word = line.listen();
            match word {
                Word::Register => event.add_bit(at, 7),
                _ => event.data.unregister_bit(at, 7).expect("unregister"),
            }
            line.say(word);
        });
        Two {
            event,
            child,
            other,
        }
    }

    fn shares_the_page(&self) -> bool {
        let frame = |pid: u32| self.event.page.frame_in(pid as i32);
        frame(process::id()) == frame(self.child.pid as u32)
    }

    /// The child's word of a page, read without an access by the child.
    fn childs(&self, page: &Mapping) -> Option<u32> {
        tasks::word_of(self.child.pid, page.address())
    }

    /// Waits until the other bits are `on`, and no repair is pending.
    #[track_caller]
    fn wait_for_others(&self, on: u32) {
        wait::until("the other bits", || {
            self.other.get(0) & 1 == on && self.childs(&self.other).map(|word| word & 1) == Some(on)
        });
        wait::until("no repair to be pending", || {
            !repair_pending(process::id() as i32) && !repair_pending(self.child.pid)
        });
    }

    #[track_caller]
    fn change(&mut self, by_child: bool, word: Word) {
        let at = self.other.address();
        match (by_child, word) {
            (true, word) => self.child.tell(word),
            (false, Word::Register) => self.event.add_bit(at, 7),
            (false, _) => self.event.data.unregister_bit(at, 7).expect("unregister"),
        }
    }
}

/// By the parent or the child: its first change copies the set.
fn a_set_is_copied_and_leaves_pages_shared() {
    for by_child in [false, true] {
        for on in [0, 1] {
            let mut two = Two::new(0);
            if on == 1 {
                two.event.switch(true);
                two.wait_for_others(1);
                two.event.wait_set();
                // Start over: the copy-on-write page is no longer shared.
                drop(two.child);
                two.event
                    .data
                    .unregister_bit(two.other.address(), 0)
                    .expect("unregister");
                two.event.unregister().expect("unregister");
                drop(two.event);
                two = Two::new(1);
            }
            assert!(two.shares_the_page());
            for word in [Word::Register, Word::Unregister, Word::Register] {
                two.change(by_child, word);
                assert!(
                    two.shares_the_page(),
                    "not after {word:?} by the child: {by_child}"
                );
            }
            // Now by the other process.
            two.change(!by_child, Word::Register);
            assert!(two.shares_the_page());
            // The bits still follow the event.
            two.event.follows(on == 0);
            two.wait_for_others(1 - on);
            assert_eq!(two.childs(&two.event.page), Some(1 - on));
            assert!(!two.shares_the_page());
            two.event.follows(false);
            two.wait_for_others(0);
            assert_eq!(two.childs(&two.event.page), Some(0));
        }
    }
}

/// The program itself has set the bit.
fn a_switch_leaves_pages_shared_whose_bits_are_right() {
    let two = Two::new(1);
    assert!(two.shares_the_page());
    two.event.switch(true);
    two.wait_for_others(1);
    assert!(two.event.bit() && two.childs(&two.event.page) == Some(1));
    assert!(two.shares_the_page(), "a bit was written that was right");
    // A second consumer is no change.
    let instance = TraceInstance::instance("st_right");
    instance.enable(&two.event.name);
    instance.disable(&two.event.name);
    assert!(two.shares_the_page());
    two.event.switch(false);
    two.wait_for_others(0);
    assert!(!two.event.bit() && two.childs(&two.event.page) == Some(0));
    assert!(!two.shares_the_page());
}
