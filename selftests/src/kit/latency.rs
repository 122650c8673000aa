// SPDX-License-Identifier: GPL-2.0

//! The time that an operation takes under a load that may delay it.
//!
//! A real delay occurs each time, whereas the host of a virtual machine delays it now and then. So
//! the median has a tight limit, and the longest time a generous one.

use crate::kit::machine;
use std::time::{Duration, Instant};

const MAX_TIME: Duration = Duration::from_secs(20);

#[derive(Default)]
pub struct Latencies {
    times: Vec<Duration>,
}

impl Latencies {
    pub fn add(&mut self, time: Duration) {
        self.times.push(time);
    }

    pub fn during<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        self.add(start.elapsed());
        result
    }

    pub fn count(&self) -> usize {
        self.times.len()
    }

    pub fn add_all(&mut self, other: &Latencies) {
        self.times.extend(&other.times);
    }

    /// The median, the lower one of two; zero if there are no times.
    pub fn median(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort();
        let middle = times.len().saturating_sub(1) / 2;
        times.get(middle).copied().unwrap_or_default()
    }

    pub fn longest(&self) -> Duration {
        self.times.iter().max().copied().unwrap_or_default()
    }

    #[track_caller]
    pub fn judge_median(&self, what: &str, most: Duration) {
        let median = self.median();
        let is_short = median <= most;
        assert!(
            is_short,
            "{what}: took {median:?}, and was to take {most:?}"
        );
    }

    /// Prints the times of `what`, and panics if the median exceeds `most` milliseconds, some
    /// twenty times the usual.
    #[track_caller]
    pub fn judge(&self, what: &str, most: u64) {
        assert!(!self.times.is_empty(), "{what}: never done");
        let (median, longest) = (self.median(), self.longest());
        let [usual, at_most] = [median, longest].map(|time| time.as_millis());
        println!("  # {what}: {usual} ms, at most {at_most} ms");
        self.judge_median(what, Duration::from_millis(most) * machine::slowness());
        let most = MAX_TIME * machine::slowness();
        assert!(longest <= most, "{what}: took {longest:?} once");
    }
}
