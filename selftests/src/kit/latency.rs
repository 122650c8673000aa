// SPDX-License-Identifier: GPL-2.0

//! The time that an operation takes under a load that may delay it.
//!
//! A real delay occurs each time, whereas the host of a virtual machine delays it now and then. So
//! the median has a tight limit, and the longest time a generous one.

use crate::kit::machine;
use std::time::{Duration, Instant};

/// The limit of the longest time.
const MAX_TIME: Duration = Duration::from_secs(20);

/// The times of one operation.
#[derive(Default)]
pub struct Latencies {
    times: Vec<Duration>,
}

impl Latencies {
    pub fn add(&mut self, time: Duration) {
        self.times.push(time);
    }

    /// Times another run.
    pub fn during<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        self.add(start.elapsed());
        result
    }

    /// The number of runs.
    pub fn count(&self) -> usize {
        self.times.len()
    }

    /// Adds the times of another operation.
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

    /// Prints the times of `what`, and panics if the median exceeds `most` milliseconds, some
    /// twenty times the usual.
    #[track_caller]
    pub fn judge(&self, what: &str, most: u64) {
        assert!(!self.times.is_empty(), "{what}: never done");
        let (median, longest) = (self.median(), self.longest());
        println!(
            "  # {what}: {} ms, at most {} ms",
            median.as_millis(),
            longest.as_millis()
        );
        let most = Duration::from_millis(most) * machine::slowness();
        assert!(
            median <= most,
            "{what}: took {median:?}, and was to take {most:?}"
        );
        let most = MAX_TIME * machine::slowness();
        assert!(longest <= most, "{what}: took {longest:?} once");
    }
}

/// The times to switch an event, and until all bits that the test watches follow. Rounds whose
/// pages were dropped before are counted separately.
#[derive(Default)]
pub struct SwitchTimes {
    pages_there: SwitchTimesOfKind,
    pages_dropped: SwitchTimesOfKind,
}

#[derive(Default)]
pub struct SwitchTimesOfKind {
    pub attaching: Latencies,
    pub until_set: Latencies,
    pub until_clear: Latencies,
}

impl SwitchTimes {
    pub fn of(&mut self, is_dropped: bool) -> &mut SwitchTimesOfKind {
        match is_dropped {
            true => &mut self.pages_dropped,
            false => &mut self.pages_there,
        }
    }

    /// Panics if a median exceeds its limit, in milliseconds, for attaching or for switching all
    /// bits.
    #[track_caller]
    pub fn judge(&self, most_of_attaching: u64, most: u64) {
        for (kind, pages) in [
            (&self.pages_there, ""),
            (&self.pages_dropped, ", pages dropped"),
        ] {
            let name = |what: &str| format!("{what}{pages}");
            kind.attaching.judge(&name("attaching"), most_of_attaching);
            kind.until_set
                .judge(&name("until all other bits were set"), most);
            kind.until_clear.judge(&name("until they were clear"), most);
        }
    }
}
