// SPDX-License-Identifier: GPL-2.0

//! Waiting for something to become so, and telling others to wait no more.

use crate::kit::machine;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// In seconds. Generous: an emulated machine is slow, and a busy host makes it slower still.
const LIMIT: u64 = 40;

/// What was asked for instead; 0 if nothing was.
static SET: AtomicU64 = AtomicU64::new(0);

/// Says how many seconds anything may take.
pub fn set_limit(seconds: u64) {
    SET.store(seconds, Ordering::Relaxed);
}

/// How long anything may take; longer on a kernel that watches itself.
pub fn limit() -> Duration {
    let seconds = match SET.load(Ordering::Relaxed) {
        0 => LIMIT,
        seconds => seconds,
    };
    Duration::from_secs(seconds) * machine::slowness()
}

/// How long a test may take at most, if less is to be waited for than is usual.
pub fn limit_of_a_test() -> Duration {
    match SET.load(Ordering::Relaxed) {
        0 => Duration::MAX,
        _ => 6 * limit(),
    }
}

/// Does it become so within [`limit`]?
pub fn comes(mut condition: impl FnMut() -> bool) -> bool {
    let (start, limit) = (Instant::now(), limit());
    loop {
        if condition() {
            return true;
        }
        if start.elapsed() > limit {
            return false;
        }
        sleep(Duration::from_millis(2));
    }
}

/// Waits until it is so; panics, saying what was waited for, if that takes too long.
#[track_caller]
pub fn until(what: &str, condition: impl FnMut() -> bool) {
    assert!(
        comes(condition),
        "waited {} s in vain for: {what}",
        limit().as_secs()
    );
}

/// Sets a flag when dropped, and so ends the threads that look at it, even if the test fails.
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
