// SPDX-License-Identifier: GPL-2.0

//! Records that were written, and that a consumer could not take.

use crate::sys::ring_buffer::NotRecorded;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// How many records of an event were missed since it was made, by kind of consumer.
///
/// Neither a record that a consumer does not want nor a write that fails counts as missed: the
/// records that a consumer has, and those that it missed, are together the writes that succeeded.
pub(crate) struct Misses {
    ftrace: Atomic<u64>,
    perf: Atomic<u64>,
    failed_writes: Atomic<u32>,
}

impl Misses {
    pub(crate) const fn new() -> Self {
        Self {
            ftrace: Atomic::new(0),
            perf: Atomic::new(0),
            failed_writes: Atomic::new(0),
        }
    }

    /// Writes that failed although a consumer was attached, modulo 2³².
    pub(crate) fn failed_writes(&self) -> u32 {
        self.failed_writes.load(Relaxed)
    }

    #[cold]
    #[inline(never)]
    fn add(&self, ftrace: u32, perf: u32) {
        if ftrace != 0 {
            self.ftrace.fetch_add(ftrace.into(), Relaxed);
        }
        if perf != 0 {
            self.perf.fetch_add(perf.into(), Relaxed);
        }
    }

    /// Counts a write that failed although a consumer was attached.
    pub(super) fn add_failed_write(&self) {
        self.failed_writes.fetch_add(1, Relaxed);
    }

    /// Missed by ring buffers of trace instances; a record counts once for each instance.
    pub(crate) fn ftrace(&self) -> u64 {
        self.ftrace.load(Relaxed)
    }

    /// Missed by perf and by eBPF programs.
    pub(crate) fn perf(&self) -> u64 {
        self.perf.load(Relaxed)
    }
}

/// The outcome of one record at all of its consumers.
#[derive(Default)]
pub(crate) struct Tally {
    /// A consumer has taken the record, does not want it, or can take another of that size.
    any_can: bool,
    /// A consumer has missed the record, or can never take it.
    any_missed: bool,
    ftrace: u32,
    perf: u32,
}

impl Tally {
    /// Notes the outcome at a trace instance.
    #[inline]
    pub(crate) fn ftrace(&mut self, result: Result<(), NotRecorded>) {
        match result {
            Ok(()) => self.any_can = true,
            Err(reason) => self.ftrace = self.ftrace.saturating_add(self.missed(reason)),
        }
    }

    /// Notes the outcome at perf.
    #[inline]
    pub(crate) fn perf(&mut self, result: Result<(), NotRecorded>) {
        match result {
            Ok(()) => self.any_can = true,
            Err(reason) => self.perf = self.missed(reason),
        }
    }

    #[cold]
    fn missed(&mut self, reason: NotRecorded) -> u32 {
        match reason {
            NotRecorded::Unwanted => {
                self.any_can = true;
                0
            }
            NotRecorded::Missed => {
                self.any_can = true;
                self.any_missed = true;
                1
            }
            NotRecorded::TooLarge { wanted } => {
                self.any_missed = true;
                wanted.into()
            }
        }
    }

    /// Adds the misses, if there are any, to those that `of_event` returns.
    ///
    /// # Errors
    ///
    /// `E2BIG` when no consumer can ever take a record of that size; nothing is added then.
    #[inline]
    pub(crate) fn add_to<'a>(self, of_event: impl FnOnce() -> Option<&'a Misses>) -> Result {
        if !self.any_missed {
            return Ok(());
        }
        if !self.any_can {
            return Err(E2BIG);
        }
        if let Some(misses) = of_event() {
            misses.add(self.ftrace, self.perf);
        }
        Ok(())
    }
}
