// SPDX-License-Identifier: GPL-2.0

//! How long something takes beside what may hold it up.
//!
//! What holds it up does so each time; a busy host, which runs an emulated machine when it likes, does so now and
//! then. So half of the times must be within what is usual, and any of them within a generous limit.

use crate::kit::machine;
use std::time::{Duration, Instant};

/// No time may be longer than this.
const MAX_TIME: Duration = Duration::from_secs(20);

/// How long the same thing took, each time.
#[derive(Default)]
pub struct Latencies {
    times: Vec<Duration>,
}

impl Latencies {
    pub fn add(&mut self, time: Duration) {
        self.times.push(time);
    }

    /// Does it once more.
    pub fn during<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        self.add(start.elapsed());
        result
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.times.len()
    }

    /// Adds those of another kind.
    pub fn add_all(&mut self, other: &Latencies) {
        self.times.extend(&other.times);
    }

    /// Half of them were shorter; of two, the shorter one. Of none it is nothing.
    pub fn median(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort();
        let middle = times.len().saturating_sub(1) / 2;
        times.get(middle).copied().unwrap_or_default()
    }

    /// The longest.
    pub fn longest(&self) -> Duration {
        self.times.iter().max().copied().unwrap_or_default()
    }

    /// Says how long `what` took, and panics unless it usually took at most `most` milliseconds, which is some
    /// twenty times what it does.
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

/// How long an event takes to be switched, and all bits that the test looks at to follow. Rounds in which their pages were
/// dropped before have times of their own.
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

    /// Panics unless attaching, and switching with all bits, usually took that many milliseconds at most.
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
