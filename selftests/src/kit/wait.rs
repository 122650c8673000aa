// SPDX-License-Identifier: GPL-2.0

//! Waiting for something to become so, and telling others to wait no more.

use crate::kit::machine;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// In seconds. Generous: an emulated machine is slow, and a busy host makes it slower still.
const LIMIT: u64 = 40;

/// How long anything may take; longer on a kernel that watches itself.
pub fn limit() -> Duration {
    Duration::from_secs(LIMIT) * machine::slowness()
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
