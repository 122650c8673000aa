// SPDX-License-Identifier: GPL-2.0

//! An event with a trace of its records.

use crate::kit::event::Event;
use crate::kit::group::Group;
use crate::kit::tracefs::TraceInstance;

/// An event, and a ftrace instance attached to it only.
pub struct Traced {
    pub event: Event,
    pub tracer: TraceInstance,
}

impl Traced {
    /// Registers the event, makes an instance of the same name and attaches it.
    pub fn new(text: &str) -> Traced {
        let event = Event::new(text);
        let instance = event.name.clone();
        Traced::by(event, &instance)
    }

    /// The same in another group, whose name is part of the instance's.
    pub fn new_in(group: &Group, text: &str) -> Traced {
        let event = Event::new_in(group, text);
        let (_, name) = event.name.rsplit_once('/').expect("an event of a group");
        let instance = format!("{}_{name}", group.name);
        Traced::by(event, &instance)
    }

    fn by(event: Event, instance: &str) -> Traced {
        let tracer = TraceInstance::instance(instance);
        tracer.enable(&event.name);
        event.wait_set();
        Traced { event, tracer }
    }

    pub fn detach(&self) {
        self.tracer.disable(&self.event.name);
        self.event.wait_clear();
    }

    /// Takes the payloads recorded so far, each of `length` bytes.
    #[track_caller]
    pub fn recorded(&self, length: usize) -> Vec<Vec<u8>> {
        self.tracer.take_payloads(&self.event.name, length)
    }

    /// Writes a record, checks that it is the only one in the trace, and detaches.
    #[track_caller]
    pub fn only_this_is_recorded(self, payload: &[u8]) {
        assert_eq!(self.event.write(payload), Ok(4 + payload.len()));
        let records = self.tracer.take_records(self.event.id());
        assert_eq!(records.len(), 1, "records of failed writes: {records:?}");
        assert_eq!(records[0].payload(payload.len()), payload);
        self.tracer.disable(&self.event.name);
    }
}
