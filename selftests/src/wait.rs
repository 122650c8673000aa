// SPDX-License-Identifier: GPL-2.0

//! Waiting for something to become so.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything may take. Generous: an emulated machine is slow, and a busy host makes it
/// slower still.
pub const LIMIT: Duration = Duration::from_secs(40);

/// Does it become so within [`LIMIT`]?
pub fn comes(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if start.elapsed() > LIMIT {
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
        LIMIT.as_secs()
    );
}
