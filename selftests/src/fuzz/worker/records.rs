// SPDX-License-Identifier: GPL-2.0

//! Comparison of the records of the worker's instance and perf events with those written: event,
//! process, payload and order.

use super::Worker;
use crate::fuzz::model::Record;
use crate::kit::memory::Mapping;
use crate::kit::ring;
use std::mem;
use std::sync::atomic::Ordering;

/// The number of times that workers made the trace core empty the buffers of removed events:
/// started and completed.
pub struct Emptied(Mapping);

impl Emptied {
    /// Makes counters shared with later children.
    pub fn new() -> Emptied {
        Emptied(Mapping::shared(1))
    }

    pub fn begun(&self) -> u64 {
        self.0.long(0).load(Ordering::SeqCst)
    }

    pub fn over(&self) -> u64 {
        self.0.long(8).load(Ordering::SeqCst)
    }

    /// Runs an operation that empties buffers.
    pub fn by<T>(&self, run: impl FnOnce() -> T) -> T {
        self.0.long(0).fetch_add(1, Ordering::SeqCst);
        let result = run();
        self.0.long(8).fetch_add(1, Ordering::SeqCst);
        result
    }
}

/// The maximum of records compared at once, for which the buffer has room.
pub const MAX_KEPT: usize = 2000;

impl Worker {
    /// Takes the instance's records, and compares them.
    pub(super) fn records(&mut self) {
        let Some(instance) = &self.instance else {
            return;
        };
        let got = instance.take_all_records();
        // This worker's processes are waiting, and no other process writes to its instance.
        assert_eq!(instance.total("entries"), 0, "records that cannot be read");
        assert_eq!(instance.total("overrun"), 0, "records that had no room");
        instance.control("trace", "");
        let want = mem::take(&mut self.model.recorded);

        // Some records written before a buffer was emptied may be missing. All steps so far have
        // completed, so an emptying that starts now does not matter.
        let begun = self.emptied.begun();
        let before = mem::take(&mut self.over_before);
        assert_eq!(before.len(), want.len());
        let unsure = match self.model.may_be_emptied {
            true => before.partition_point(|over| *over < begun),
            false => 0,
        };
        self.compare_records("the instance", &got, &want, unsure);
        self.compared += want.len() as u64;
        self.unsure += unsure as u64;
        self.tell_op(|| format!("{} records in the instance", got.len()));
    }

    /// Panics unless `got` are the records wanted, of which some of the first `unsure` may be
    /// missing.
    #[track_caller]
    pub(super) fn compare_records(
        &self,
        consumer: &str,
        got: &[ring::Record],
        want: &[Record],
        unsure: usize,
    ) {
        // From the end, where no record is missing.
        let mut left = want.len();
        for (at, record) in got.iter().enumerate().rev() {
            loop {
                let Some(next) = left.checked_sub(1) else {
                    panic!(
                        "{consumer}: record {at} of {} was not written there: {record:?}",
                        got.len()
                    );
                };
                left = next;
                if self.is_same(record, &want[left]) {
                    break;
                }
                assert!(
                    left < unsure,
                    "{consumer}: record {at} of {}: predicted {}: {:?} of {:?}, got {record:?}",
                    got.len(),
                    left,
                    want[left],
                    self.ids.get(&want[left].event),
                );
            }
        }
        assert!(
            left <= unsure,
            "{consumer}: {} records of {}: missing {:?}",
            got.len(),
            want.len(),
            want[left - 1]
        );
    }

    /// Returns whether it is this record, padded to whole words.
    fn is_same(&self, got: &ring::Record, want: &Record) -> bool {
        let payload = &got.bytes[8..];
        let mut processes = self.processes.iter().flatten();
        let by = match want.pid {
            Some(pid) => got.pid == pid,
            None => processes.all(|process| process.pid != got.pid),
        };
        by && self.ids.get(&want.event) == Some(&u64::from(got.kind))
            && payload.starts_with(&want.payload)
            // A NUL added by the module, and the padding of a sample to a multiple of eight bytes.
            && payload.len() <= want.payload.len() + 8
    }
}
