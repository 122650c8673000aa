// SPDX-License-Identifier: GPL-2.0

//! Processes that inherit a registration by fork, and follow the test's orders.

use crate::kit::child::{self, Child, Line, Word};
use crate::kit::event::Event;
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait;
use std::sync::atomic::Ordering;

/// A second bit, beside the one that an [`Event`] starts with, for later registrations.
const SECOND: u8 = 1;

/// Registers a bit for an event whose description is `NAME u32 a`.
#[track_caller]
fn register(event: &Event, bit: u8) {
    let text = format!("{} u32 a", event.short_name());
    let index = event.data.register_text(&text, event.page.address(), bit);
    assert_eq!(index, Ok(event.index));
}

/// Follows one order with the process's own registrations.
#[track_caller]
pub fn obey(word: Word, event: &Event) {
    let second = || event.page.word(0).load(Ordering::Relaxed) & (1 << SECOND) != 0;
    match word {
        Word::Set => event.wait_set(),
        Word::Clear => event.wait_clear(),
        Word::SecondSet => wait::until("the second bit to be set", second),
        Word::SecondClear => wait::until("the second bit to be cleared", || !second()),
        Word::Register => register(event, 0),
        Word::RegisterSecond => register(event, SECOND),
        Word::Unregister => event.unregister().expect("unregister"),
        Word::UnregisterSecond => {
            let address = event.page.address();
            let result = event.data.unregister_bit(address, SECOND);
            result.expect("unregister the second bit");
        }
        Word::Drop => event
            .page
            .advise(libc::MADV_DONTNEED)
            .expect("MADV_DONTNEED"),
        word => panic!("told to {word:?}"),
    }
}

/// Serves in a child, for an event that was registered before the fork. [`Word::Fork`] makes the
/// child fork one of its own, to which it passes on all orders.
pub fn serve(line: &mut Line, event: &Event) {
    let mut next: Option<Child> = None;
    loop {
        let word = line.listen();
        if let Some(next) = &mut next {
            next.tell(word);
        }
        match word {
            Word::Fork if next.is_none() => next = Some(child::fork(|line| serve(line, event))),
            Word::Fork | Word::End => {}
            word => obey(word, event),
        }
        line.say(word);
        if word == Word::End {
            if let Some(next) = next {
                next.join();
            }
            return;
        }
    }
}

/// Forks a child that serves.
pub fn fork(event: &Event) -> Child {
    child::fork(|line| serve(line, event))
}

/// Gives all children an order, and waits until each has followed it.
#[track_caller]
pub fn tell(children: &mut [Child], word: Word) {
    children.iter_mut().for_each(|child| child.line.say(word));
    children.iter_mut().for_each(|child| child.line.hear(word));
}

/// Ends all children, and waits for them.
#[track_caller]
pub fn end(mut children: Vec<Child>) {
    tell(&mut children, Word::End);
    children.into_iter().for_each(|child| child.join());
}

/// Attaches and detaches ftrace, and waits for the bits of this process and all children to follow.
#[track_caller]
pub fn toggle(event: &Event, children: &mut [Child]) {
    let top = TraceInstance::top();
    top.enable(&event.name);
    event.wait_set();
    tell(children, Word::Set);
    top.disable(&event.name);
    event.wait_clear();
    tell(children, Word::Clear);
}
