// SPDX-License-Identifier: GPL-2.0

//! Polling for a condition with a timeout.

use crate::kit::errno::{Errno, Result};
use crate::kit::machine;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// In seconds, and generous for emulated machines on a busy host.
const LIMIT: u64 = 40;

/// The timeout of every wait; longer on a kernel with sanitizers.
pub fn limit() -> Duration {
    Duration::from_secs(LIMIT) * machine::slowness()
}

/// Returns whether the condition holds within [`limit`].
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
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

/// Waits until the condition holds. Panics with `what` after [`limit`].
#[track_caller]
pub fn until(what: &str, condition: impl FnMut() -> bool) {
    let seconds = limit().as_secs();
    assert!(
        eventually(condition),
        "waited {seconds} s in vain for: {what}"
    );
}

/// Repeats a call until it fails with none of the `busy` errors, or the time is over. Returns the
/// last result.
pub fn until_idle(busy: &[Errno], mut call: impl FnMut() -> Result<()>) -> Result<()> {
    let mut last = Ok(());
    eventually(|| {
        last = call();
        !last.is_err_and(|errno| busy.contains(&errno))
    });
    last
}

/// Checks that the condition holds now and for some time. Cannot prove that it always does; what a
/// fault changes, it changes within milliseconds.
#[track_caller]
pub fn holds(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        assert!(condition(), "not for long: {what}");
        sleep(Duration::from_millis(10));
    }
}

/// Sets a flag when dropped, which ends the threads that poll it even if the test fails.
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls `again` in a second thread, over and over, until `run` has ended. Returns how often.
pub fn beside(mut again: impl FnMut() + Send, run: impl FnOnce()) -> usize {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        let other = scope.spawn(move || {
            let mut times = 0;
            while !is_over.load(Ordering::Relaxed) {
                again();
                times += 1;
            }
            times
        });
        let over = SetOnDrop(is_over);
        run();
        drop(over);
        other.join().expect("the second thread")
    })
}
