// SPDX-License-Identifier: GPL-2.0

//! How long something takes beside what may hold it up.
//!
//! What holds it up does so each time; a busy host, which runs an emulated machine when it likes, does so now and
//! then. So half of the times must be within what is usual, and any of them within a generous limit.

use crate::kit::machine;
use std::time::{Duration, Instant};

/// No time may be longer than this.
const LONGEST: Duration = Duration::from_secs(20);

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

    /// Half of them were shorter; of two, the shorter one.
    pub fn median(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort();
        times[(times.len() - 1) / 2]
    }

    /// Says how long `what` took, and panics unless it usually took at most `most` milliseconds, which is some
    /// twenty times what it does.
    #[track_caller]
    pub fn judge(&self, what: &str, most: u64) {
        let (median, longest) = (self.median(), self.times.iter().max().copied());
        let longest = longest.unwrap_or_default();
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
        let most = LONGEST * machine::slowness();
        assert!(longest <= most, "{what}: took {longest:?} once");
    }
}
