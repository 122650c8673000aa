// SPDX-License-Identifier: GPL-2.0

//! One registered event with its bit and an open file: the start of most tests.

use crate::harness::options;
use crate::kit::abi::{Data, Register, REGISTRATIONS};
use crate::kit::child::{Child, Word};
use crate::kit::errno::Result;
use crate::kit::group::Group;
use crate::kit::memory::Mapping;
use crate::kit::tracefs::TraceInstance;
use crate::kit::{child, dynamic, machine, tracefs, wait};
use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// An event that this process registered with bit 0 of a 32-bit word, alone on its page.
///
/// Both the registration and the page stay until the process ends, even if this is dropped.
pub struct Event {
    /// The name in tracefs: `NAME` of an event of the first group, else `GROUP/NAME`.
    pub name: String,
    pub text: String,
    pub data: Data,
    pub page: Mapping,
    pub index: u32,
}

impl Event {
    /// Opens a file, and registers the event that the text describes.
    #[track_caller]
    pub fn new(text: &str) -> Event {
        Event::in_memory(text, Mapping::kept(1))
    }

    /// The same with the bit in the first word of this page.
    #[track_caller]
    pub fn in_memory(text: &str, page: Mapping) -> Event {
        Event::on(Data::open(), text, page)
    }

    /// The same in another group.
    #[track_caller]
    pub fn new_in(group: &Group, text: &str) -> Event {
        let mut event = Event::on(Data::open_in(group), text, Mapping::kept(1));
        event.name = group.event(&event.name);
        event
    }

    #[track_caller]
    fn on(data: Data, text: &str, page: Mapping) -> Event {
        let index = data.register_text(text, page.address(), 0);
        let index = index.unwrap_or_else(|errno| panic!("register {text:?}: {errno:?}"));
        Event {
            name: text.split(' ').next().unwrap().into(),
            text: text.into(),
            data,
            page,
            index,
        }
    }

    pub fn write(&self, payload: &[u8]) -> Result<usize> {
        self.data.write(self.index, payload)
    }

    pub fn bit(&self) -> bool {
        self.page.word(0).load(Ordering::Relaxed) & 1 != 0
    }

    #[track_caller]
    pub fn wait_set(&self) {
        wait::until("the enable bit to be set", || self.bit());
    }

    #[track_caller]
    pub fn wait_clear(&self) {
        wait::until("the enable bit to be cleared", || !self.bit());
    }

    pub fn id(&self) -> u64 {
        tracefs::event_id(&self.name)
    }

    /// Attaches ftrace, or detaches it.
    #[track_caller]
    pub fn switch(&self, on: bool) {
        match on {
            true => TraceInstance::top().enable(&self.name),
            false => TraceInstance::top().disable(&self.name),
        }
    }

    /// The same, which must not wait for memory: it takes a few milliseconds.
    #[track_caller]
    pub fn switch_promptly(&self, on: bool) {
        let start = Instant::now();
        self.switch(on);
        let took = start.elapsed();
        let limit = Duration::from_secs(2) * machine::slowness();
        assert!(took < limit, "a change of the event took {took:?}");
    }

    /// Attaches ftrace, or detaches it, and waits until the bit follows.
    #[track_caller]
    pub fn follows(&self, on: bool) {
        self.switch(on);
        match on {
            true => self.wait_set(),
            false => self.wait_clear(),
        }
    }

    /// Attaches ftrace and detaches it; each time the bit follows.
    #[track_caller]
    pub fn toggle(&self) {
        self.follows(true);
        self.follows(false);
    }

    /// Registers another bit of the event.
    pub fn register(&self, address: u64, bit: u8) -> Result<u32> {
        self.data.register_text(&self.text, address, bit)
    }

    /// The same, which must succeed.
    #[track_caller]
    pub fn add_bit(&self, address: u64, bit: u8) {
        assert_eq!(self.register(address, bit), Ok(self.index), "register");
    }

    /// The same with a bit of a word of `size` bytes.
    #[track_caller]
    pub fn add_bit_of(&self, size: u8, address: u64, bit: u8) {
        let text = CString::new(self.text.as_str()).unwrap();
        let index = self.data.register(&Register {
            enable_size: size,
            enable_bit: bit,
            ..Register::new(address, text.as_ptr() as u64)
        });
        assert_eq!(index, Ok(self.index), "register bit {bit} of {size} bytes");
    }

    /// Unregisters the bit and closes the file, after which this process does not keep the event.
    #[track_caller]
    pub fn end(self) {
        assert_eq!(self.unregister(), Ok(()), "unregister {}", self.name);
    }

    pub fn unregister(&self) -> Result<()> {
        self.data.unregister_bit(self.page.address(), 0)
    }
}

/// Forks a process that switches an event on and off until it is killed. Returns after ten rounds.
#[track_caller]
pub fn toggler(name: &str) -> Child {
    child::fork_until(Word::Toggling, |line| {
        let top = TraceInstance::top();
        for times in 0.. {
            top.enable(name);
            top.disable(name);
            if times == 10 {
                line.say(Word::Toggling);
            }
        }
    })
}

/// Registers an event of this name in a child, attaches ftrace, writes a record, and undoes it all.
#[track_caller]
pub fn use_in_child(name: &str) {
    let user = child::fork(|_| {
        let event = Event::new(&format!("{name} u32 a"));
        event.follows(true);
        assert_eq!(event.write(&[1; 4]), Ok(8));
        event.follows(false);
        event.end();
    });
    user.join();
}

fn listed(pid: i32) -> Vec<String> {
    let pid = pid.to_string();
    let text = std::fs::read_to_string(REGISTRATIONS).expect("read the listing");
    let is_its = |line: &&str| line.split(' ').nth(1) == Some(&pid);
    text.lines().filter(is_its).map(String::from).collect()
}

pub fn is_listed(pid: i32) -> bool {
    !listed(pid).is_empty()
}

/// Returns whether a bit of a process is listed with its repair pending.
pub fn repair_pending(pid: i32) -> bool {
    listed(pid).iter().any(|line| line.ends_with(" repair"))
}

#[track_caller]
pub fn wait_due(pid: i32) {
    wait::until("a repair to be pending", || repair_pending(pid));
}

/// Waits until no repair of a process is pending: nothing is written then until the next change.
#[track_caller]
pub fn wait_repaired(pid: i32) {
    wait::until("no repair to be pending", || !repair_pending(pid));
}

/// The same for this process.
#[track_caller]
pub fn settle() {
    wait_repaired(std::process::id() as i32);
}

/// Checks that a repair of a process stays pending while the process sleeps: a worker would have
/// written the bit in a fraction of the time.
#[track_caller]
pub fn stays_due(pid: i32) {
    wait_due(pid);
    wait::holds("its bit stays due while its process sleeps", || {
        repair_pending(pid)
    });
}

#[track_caller]
pub fn wait_gone(name: &str) {
    let what = format!("the event {name} to go");
    wait::until(&what, || !tracefs::event_exists(name));
    // The C implementation removes the files first, the line in `dynamic_events` later.
    if options().against_c {
        let line = format!("u:{name}");
        let is_its = |shown: &String| shown.split(' ').next() == Some(&line);
        let is_there = || dynamic::user_lines().iter().any(is_its);
        wait::until("its line to go", || !is_there());
    }
}

/// Checks that an event exists now and for some time.
#[track_caller]
pub fn stays(name: &str) {
    let what = format!("{name} stays while it is used");
    wait::holds(&what, || tracefs::event_exists(name));
}

/// Writes a record for each value of an event with a single field of four bytes.
pub fn write(event: &Event, values: impl IntoIterator<Item = u32>) {
    for value in values {
        assert_eq!(event.write(&value.to_ne_bytes()), Ok(8));
    }
}

/// The values in the trace of an event whose only field is `a`.
pub fn values(tracer: &TraceInstance, event: &Event) -> Vec<u32> {
    let lines = tracer.lines(&event.name).into_iter();
    let value = |line: String| line.split(['(', ')']).nth(1)?.parse().ok();
    lines.map(|line| value(line).expect("a value")).collect()
}
