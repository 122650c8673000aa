// SPDX-License-Identifier: GPL-2.0

//! Processes that inherit a registration by fork, and follow the test's orders.

use crate::kit::child::{self, Child, Line, Word};
use crate::kit::event::Event;
use crate::kit::latency::Latencies;
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait;
use std::time::Instant;

/// A second bit, beside the one that an [`Event`] starts with, for later registrations.
const SECOND: u8 = 1;

/// Follows one order with the process's own registrations.
#[track_caller]
pub fn obey(word: Word, event: &Event) {
    let second = || event.page.get(0) & (1 << SECOND) != 0;
    match word {
        Word::Set => event.wait_set(),
        Word::Clear => event.wait_clear(),
        Word::SecondSet => wait::until("the second bit to be set", second),
        Word::SecondClear => wait::until("the second bit to be cleared", || !second()),
        Word::Register => event.add_bit(event.page.address(), 0),
        Word::RegisterSecond => event.add_bit(event.page.address(), SECOND),
        Word::Unregister => event.unregister().expect("unregister"),
        Word::UnregisterSecond => {
            let address = event.page.address();
            let result = event.data.unregister_bit(address, SECOND);
            result.expect("unregister the second bit");
        }
        Word::Drop => event.page.discard(),
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

pub fn fork(event: &Event) -> Child {
    child::fork(|line| serve(line, event))
}

/// Forks a child that registers an event of this name, and then serves.
pub fn serving(name: &str) -> Child {
    child::fork_until(Word::Registered, |line| {
        let event = Event::new(&format!("{name} u32 a"));
        line.say(Word::Registered);
        serve(line, &event);
    })
}

/// Gives all children an order, and waits until each has followed it.
#[track_caller]
pub fn tell(children: &mut [Child], word: Word) {
    children.iter_mut().for_each(|child| child.line.say(word));
    children.iter_mut().for_each(|child| child.line.hear(word));
}

#[track_caller]
pub fn end(mut children: Vec<Child>) {
    tell(&mut children, Word::End);
    children.into_iter().for_each(|child| child.join());
}

/// Attaches and detaches ftrace, and waits for the bits of this process and all children to follow.
#[track_caller]
pub fn toggle(event: &Event, children: &mut [Child]) {
    event.follows(true);
    tell(children, Word::Set);
    event.follows(false);
    tell(children, Word::Clear);
}

/// Toggles an event of children, and waits for their bits to follow.
#[track_caller]
pub fn toggle_of(name: &str, children: &mut [Child]) {
    TraceInstance::top().enable(name);
    tell(children, Word::Set);
    TraceInstance::top().disable(name);
    tell(children, Word::Clear);
}

/// Toggles the event ten times, and judges the times until all bits follow. In every second round
/// the pages have to be brought in. `on` is called while the event is enabled.
#[track_caller]
pub fn toggles_promptly(event: &Event, children: &mut [Child], mut on: impl FnMut()) {
    // The usual times, in milliseconds: to attach, and until all bits have followed.
    const STEPS: [(&str, u64); 3] = [
        ("attaching", 200),
        ("until all other bits were set", 400),
        ("until they were clear", 400),
    ];
    let mut times: [[Latencies; 3]; 2] = Default::default();
    for round in 0..10 {
        let [attaching, until_set, until_clear] = &mut times[round % 2];
        if round % 2 == 1 {
            tell(children, Word::Drop);
            event.page.discard();
        }
        let start = Instant::now();
        event.switch(true);
        attaching.add(start.elapsed());
        event.wait_set();
        tell(children, Word::Set);
        until_set.add(start.elapsed());
        on();
        until_clear.during(|| {
            event.follows(false);
            tell(children, Word::Clear);
        });
    }
    for (times, pages) in times.iter().zip(["", ", pages dropped"]) {
        for (times, (step, most)) in times.iter().zip(STEPS) {
            times.judge(&format!("{step}{pages}"), most);
        }
    }
}
