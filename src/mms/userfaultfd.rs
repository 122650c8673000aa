// SPDX-License-Identifier: GPL-2.0

//! Bits in pages that a handler of userfaultfd has to be asked for.
//!
//! A work queue of its own waits for handlers, each time for a short time, so that what they take keeps no other
//! work waiting. C: `handle_userfault()` (fs/userfaultfd.c).

use super::addrs::EnableAddrs;
use super::mm::UserMm;
use super::repair::Outcome;
use crate::sys::user_bit::{
    Backing,
    LockedMm, //
};
use kernel::sync::Arc;
use kernel::workqueue::WorkItem;

/// The longest pause before a handler is asked again is so many doublings longer than the first: 10.24 s.
const MAX_PAUSE_DOUBLINGS: u32 = 10;

/// How long a handler is waited for at first, in milliseconds, and how many doublings longer at most: 80 ms.
const FIRST_WAIT: u32 = 10;
const MAX_WAIT_DOUBLINGS: u32 = 3;

impl UserMm {
    /// Asks the handlers of userfaultfd for pages, and waits for one of them for a short time.
    fn ask_handlers(self: &Arc<Self>) {
        let mut repairs = self.repairs.lock();
        let addrs = repairs.userfaultfd.take();
        if addrs.is_empty() {
            return;
        }
        let (tries, last_asked) = (repairs.tries, repairs.last_asked);
        repairs.tries = tries.saturating_add(1);
        repairs.in_progress += 1;
        drop(repairs);
        let wait = FIRST_WAIT << tries.min(MAX_WAIT_DOUBLINGS);
        let (mut again, mut queued) = (EnableAddrs::NONE, EnableAddrs::NONE);
        // One page a turn, and another one the next time: no mm keeps a worker of the queue for longer than that,
        // and no page keeps others from being asked for.
        let mut now_asked = None;
        self.for_each_page(&addrs, |enablers| {
            let Some(first) = enablers.iter().flatten().next() else {
                return;
            };
            let page = first.bit().page();
            let mut outcome = self.write_remote(enablers);
            if matches!(outcome, Outcome::Other(Backing::Userfaultfd))
                && now_asked.is_none()
                && page > last_asked
            {
                now_asked = Some(page);
                self.with_mm(|mm| {
                    if let Some(locked_mm) = LockedMm::try_lock(mm) {
                        locked_mm.ask_handler(page, wait);
                    }
                });
                outcome = self.write_remote(enablers);
            }
            let left = match outcome {
                Outcome::Done => return,
                Outcome::Other(Backing::Userfaultfd) => &mut again,
                _ => &mut queued,
            };
            for enabler in enablers.iter().flatten() {
                left.add(enabler.addr());
            }
        });
        // If the last of them was asked for before, the next turn begins with the first one, soon.
        let pause = if now_asked.is_some() { tries } else { 0 };
        let mut repairs = self.repairs.lock();
        repairs.in_progress -= 1;
        repairs.last_asked = now_asked.unwrap_or(0);
        repairs.queued.add_these(&queued);
        repairs.userfaultfd.add_these(&again);
        drop(repairs);
        if !queued.is_empty() {
            self.enqueue();
        }
        if !again.is_empty() {
            self.pause(pause, MAX_PAUSE_DOUBLINGS);
        }
    }
}

impl WorkItem<1> for UserMm {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.ask_handlers();
    }
}
