// SPDX-License-Identifier: GPL-2.0

//! Operations besides the steps of processes: starting and ending them, attaching tracers, making
//! and deleting events.

use super::{new_instance, Process, Sampler, Worker};
use crate::fuzz::child::{order, CHILDREN};
use crate::fuzz::large;
use crate::fuzz::model::{Key, Page, TraceInstance as Listener, PERFS};
use crate::fuzz::step::*;
use crate::kit::errno::Errno;
use crate::kit::perf::{Perf, ANY_CPU};
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::{dynamic, machine, os, wait};
use std::fs;
use std::io::Write;

/// The size of a perf event's ring in pages: enough for the records of a burst, some of them large.
const PAGES: usize = 512;

impl Worker {
    /// Does one operation.
    pub(super) fn op(&mut self) {
        // Soon made again once removed.
        let instance = if self.instance.is_none() { 40 } else { 2 };
        let op: fn(&mut Worker) = self.random.weighted(&[
            (60, Worker::switch as fn(&mut Worker)),
            (12, Worker::histogram),
            (12, Worker::filter),
            (16, Worker::perf),
            (10, Worker::dynamic),
            (6, Worker::list),
            (10, Worker::records),
            (14, Worker::fork),
            (2, Worker::exec),
            (10, Worker::end_one),
            (instance, Worker::instance),
            (if self.groups { 40 } else { 0 }, Worker::group),
            // More frequent with groups, which add events and close files.
            (if self.groups { 60 } else { 0 }, Worker::switch),
            (if self.groups { 14 } else { 0 }, Worker::fork),
            (if self.groups { 16 } else { 0 }, Worker::end_one),
        ]);
        op(self);
        self.look_at_all();
    }

    /// An event that exists.
    fn event(&mut self) -> Option<Key> {
        let keys: Vec<Key> = self.model.events.iter().map(|event| event.key).collect();
        let key = self.random.one(&keys)?;
        self.settle(key.group, key.name);
        Some(key)
    }

    /// The directory of an event.
    fn directory(&self, key: Key) -> String {
        let name = name_of(self.number, key.name);
        let system = system_of(self.number, key.group);
        if !key.multi {
            return format!("{system}/{name}");
        }
        let events = self.model.events.iter();
        let formats: Vec<Key> = events
            .map(|event| event.key)
            .filter(|one| one.is_called(key.group, key.name))
            .collect();
        let at = formats.iter().position(|one| *one == key);
        tracefs::formats_in(&format!("{system}_multi"), &name)[at.expect("an event that exists")]
            .clone()
    }

    /// Records the id of an existing event.
    fn know_id(&mut self, key: Key, directory: &str) {
        let serial = self.model.find(key).expect("an event that exists").serial;
        self.ids.insert(serial, tracefs::event_id(directory));
    }

    /// Writes an event's file that attaches or detaches a listener.
    pub(super) fn attach(
        &mut self,
        key: Key,
        listener: Listener,
        file: &str,
        value: &str,
        on: bool,
    ) {
        let directory = self.directory(key);
        if on {
            self.know_id(key, &directory);
        }
        let want = self.model.attach(key, listener, on);
        let top = TraceInstance::top();
        let tracer = match listener {
            Listener::Top => &top,
            _ => self.instance.as_ref().expect("an instance"),
        };
        // Opened without O_TRUNC, which would remove all triggers, and possibly the event.
        let path = tracer.file(&directory, file);
        let open = fs::OpenOptions::new().write(true).open(path);
        let got = open.and_then(|mut file| file.write_all(value.as_bytes()));
        let got = got.map_err(Errno::from);
        self.tell_op(|| format!("{directory}/{file} of {listener:?}: {value} -> {got:?}"));
        self.compare(file, got, want);
    }

    fn switch(&mut self) {
        let Some(key) = self.event() else { return };
        let on = self.random.thousandths(500);
        if self.random.thousandths(200) {
            self.page_out();
        }
        let listener = match self.random.thousandths(500) && self.instance.is_some() {
            true => Listener::Instance,
            false => Listener::Top,
        };
        self.attach(key, listener, "enable", if on { "1" } else { "0" }, on);
    }

    /// Swaps out the pages of all processes, if there is swap, and drops caches at times, so that
    /// the next bits to change are not in memory.
    fn page_out(&mut self) {
        for slot in self.slots() {
            let pages = match self.model.child(slot).page {
                Page::Unmapped => 1,
                _ => 2,
            };
            let steps = [0, 1].map(|value| Step {
                value,
                ..Step::new(Call::PageOut)
            });
            let results = self.results(slot, steps.iter().take(pages));
            self.compare("paging out", results, vec![0; pages]);
        }
        if self.random.thousandths(100) {
            machine::drop_caches();
        }
        self.tell_op(|| "all pages out".into());
    }

    fn histogram(&mut self) {
        let Some(key) = self.event() else { return };
        if self.instance.is_none() {
            return;
        }
        let event = self.model.find(key).expect("it was just found");
        let is_on = event.tracers.contains(&Listener::Histogram);
        let value = match is_on {
            true => "!hist:keys=common_pid",
            false => "hist:keys=common_pid",
        };
        self.attach(key, Listener::Histogram, "trigger", value, !is_on);
    }

    fn filter(&mut self) {
        let Some(key) = self.event() else { return };
        let Some(instance) = &self.instance else {
            return;
        };
        let on = self.random.thousandths(300);
        let directory = self.directory(key);
        let value = if on { "common_pid == 0" } else { "0" };
        let got = instance.set(&directory, "filter", value);
        let event = self.model.find_mut(key).expect("it was just found");
        event.filtered = on;
        self.tell_op(|| format!("{directory}/filter: {value} -> {got:?}"));
        self.compare("filter", got, Ok(()));
    }

    fn perf(&mut self) {
        let perf = self.random.below(PERFS);
        if self.perfs[perf].is_some() {
            self.close_perf(perf);
            return;
        }
        let Some(key) = self.event() else { return };
        let slot = self.slot();
        let directory = self.directory(key);
        self.know_id(key, &directory);
        let pid = self.process(slot).pid;
        let id = tracefs::event_id(&directory);
        let sample = large::sample(&mut self.random);
        self.perfs[perf] = Some(Sampler {
            perf: Perf::sample_with(id, pid, ANY_CPU, PAGES, sample),
            records: Vec::new(),
        });
        let want = self.model.open_perf(perf, key, slot, sample.max_payload());
        self.tell_op(|| format!("perf {perf} of {key:?} in process {slot}: {sample:?}"));
        self.compare("perf", Ok(()), want);
    }

    /// Closes a perf event if open, and compares its records.
    pub(super) fn close_perf(&mut self, perf: usize) {
        let Some(Sampler {
            perf: mut open,
            mut records,
        }) = self.perfs[perf].take()
        else {
            return;
        };
        records.extend(open.take());
        let (count, lost) = (open.count(), open.lost);
        drop(open);
        let want = self.model.close_perf(perf).expect("it was open");
        self.tell_op(|| format!("close perf {perf}: {count}"));
        self.compare("records that perf counted", count, want.len() as u64);
        self.compare("records that perf lost", lost, 0);
        self.compare_records("perf", &records, &want, 0);
        self.compared += want.len() as u64;
    }

    /// Writes a line of `dynamic_events`.
    fn dynamic(&mut self) {
        let name = self.random.byte_below(FIRST_MULTI as u8);
        let fields = self.random.byte_below(FIELDS.len() as u8);
        let group = match self.groups && self.random.thousandths(500) {
            true => 1 + self.random.byte_below(GROUPS as u8),
            false => FIRST_GROUP,
        };
        self.settle(group, name);
        let key = Key {
            group,
            name,
            multi: false,
            fields,
        };
        let event = self.line_name(group, name);
        let text = description(&event, fields, false);
        let kind = self.random.below(4);
        let deletes = kind > 1;
        if deletes {
            // The deletion may empty the buffer.
            self.records();
        }
        let (line, want) = match kind {
            0 => (format!("u:{text}"), self.model.make(key)),
            1 => (
                format!("u:{event} u32 a; long x"),
                self.model.make_nonsense(name),
            ),
            2 => (format!("-:{text}"), self.model.unmake(group, name, fields)),
            _ => (format!("-:{event}"), self.model.unmake(group, name, 0)),
        };
        let run = || {
            // The event's last user may have just ended.
            let mut got = want;
            wait::eventually(|| {
                got = dynamic::run(&line);
                got == want || got != Err(Errno::EBUSY)
            });
            got
        };
        let got = match deletes {
            true => self.emptied.by(run),
            false => run(),
        };
        if deletes && self.model.going.is_empty() {
            // Emptied, or not in need of it, until another event goes.
            self.model.may_be_emptied = false;
        }
        self.tell_op(|| format!("dynamic_events: {line} -> {got:?}"));
        self.compare("dynamic_events", got, want);
    }

    /// The name of an event in lines of `dynamic_events`.
    pub(super) fn line_name(&self, group: u8, name: u8) -> String {
        let name = name_of(self.number, name);
        match group {
            FIRST_GROUP => name,
            _ => format!("{}/{name}", system_of(self.number, group)),
        }
    }

    fn fork(&mut self) {
        let Some(new) = (0..CHILDREN).find(|slot| self.processes[*slot].is_none()) else {
            return;
        };
        let slot = self.slot();
        let pid = self.ask(slot, &[order::FORK, new as u8], 1)[0] as i32;
        assert!(pid > 0, "fork: {:?}", Errno(-pid));
        self.processes[new] = Some(Process::new(pid));
        self.model.fork(slot, new, pid);
        self.tell_op(|| format!("{slot} forks {new}"));
    }

    fn exec(&mut self) {
        let slot = self.slot();
        if !self.model.child(slot).is_root {
            // The process may lack permission to read the program.
            return;
        }
        self.ask(slot, &[order::EXEC, 0], 1);
        // Its memory is another one.
        self.processes[slot] = Some(Process::new(self.process(slot).pid));
        self.model.exec(slot);
        self.tell_op(|| format!("{slot} executes a program"));
    }

    fn end_one(&mut self) {
        let slot = self.slot();
        if slot == 0 {
            return;
        }
        let process = self.processes[slot].take().expect("a process");
        let killed = self.random.thousandths(400);
        match killed {
            true => os::kill(process.pid, libc::SIGKILL).expect("kill"),
            false => self.order(slot, &[order::EXIT, 0]),
        }
        match os::wait_for_end(process.pid, wait::limit()) {
            Ok(true) | Err(Errno::ESRCH) => {}
            other => panic!("process {slot} does not end: {other:?}"),
        }
        self.model.exit(slot);
        self.tell_op(|| format!("{slot} ends, killed: {killed}"));
    }

    fn instance(&mut self) {
        // The instance's records are lost with it.
        self.records();
        match self.instance.take() {
            Some(instance) => {
                drop(instance);
                self.model.remove_instance();
                self.tell_op(|| "the instance goes".into());
            }
            None => {
                self.instance = Some(new_instance(self.number));
                self.tell_op(|| "the instance comes".into());
            }
        }
    }
}
