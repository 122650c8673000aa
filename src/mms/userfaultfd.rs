// SPDX-License-Identifier: GPL-2.0

//! Bits in pages that a handler of userfaultfd has to be asked for.
//!
//! A work queue of its own waits for handlers, each time for a short time, so that what they take keeps no other
//! work waiting. C: `handle_userfault()` (fs/userfaultfd.c).

use super::mm::UserMm;
use super::repair::Outcome;
use super::writers::Writer;
use crate::sys::user_bit::LockedMm;
use crate::sys::work_queue::Delayed;
use kernel::sync::Arc;
use kernel::workqueue::WorkItem;

/// The longest pause before a handler is asked again is so many doublings longer than the first: 10.24 s.
pub(super) const MAX_DOUBLINGS: u32 = 10;

/// How long a handler is waited for at first, in milliseconds, and how many doublings longer at most: 80 ms.
const FIRST_WAIT: u32 = 10;
const MAX_WAIT_DOUBLINGS: u32 = 3;

impl UserMm {
    /// Asks the handlers of userfaultfd for pages, and waits for one of them for a short time.
    fn ask_handlers(self: &Arc<Self>) {
        let repairs = self.repairs.lock();
        let (last_asked, tries) = (repairs.last_asked, repairs.handlers.tries);
        drop(repairs);
        let wait = FIRST_WAIT << tries.min(MAX_WAIT_DOUBLINGS);
        // One page a turn, and another one the next time: no mm keeps a worker of the queue for longer than that,
        // and no page keeps others from being asked for.
        let mut now_asked = None;
        self.take_turn(Writer::Handlers, |enablers, force| {
            let outcome = self.try_write(enablers, Writer::Handlers, force);
            let Some(first) = enablers.iter().flatten().next() else {
                return outcome;
            };
            let page = first.bit().page();
            if outcome != Outcome::Other(Writer::Handlers) {
                return outcome;
            }
            if now_asked.is_some() || page <= last_asked {
                return Outcome::Again;
            }
            now_asked = Some(page);
            self.with_mm(|mm| {
                if let Some(locked_mm) = LockedMm::try_lock(mm) {
                    locked_mm.fault_userfaultfd(page, wait);
                }
            });
            match self.try_write(enablers, Writer::Handlers, force) {
                Outcome::Other(Writer::Handlers) => Outcome::Again,
                outcome => outcome,
            }
        });
        self.repairs.lock().last_asked = now_asked.unwrap_or(0);
        if now_asked.is_none() && last_asked > 0 {
            // All have had their turn: from the first one on again.
            self.run_later(Writer::Handlers, 0);
        }
    }
}

impl WorkItem<2> for UserMm {
    type Pointer = Delayed<Self, 2>;

    fn run(this: Delayed<Self, 2>) {
        this.ask_handlers();
    }
}
