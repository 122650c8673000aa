// SPDX-License-Identifier: GPL-2.0

//! Bits in pages that a handler of userfaultfd has to be asked for.
//!
//! A work queue of its own waits for handlers, each time for a short time, so that what they take keeps no other
//! work waiting. C: `handle_userfault()` (fs/userfaultfd.c).

use super::super::mm::UserMm;
use super::list::Writer;
use super::Outcome;
use crate::sys::user_bit::LockedMm;
use crate::sys::work_queue::Delayed;
use kernel::sync::Arc;
use kernel::workqueue::WorkItem;

/// How long a handler is waited for at first, in milliseconds, and how many doublings longer at
/// most: 80 ms.
const FIRST_WAIT: u32 = 10;
const WAIT_MAX_SHIFT: u32 = 3;

impl UserMm {
    /// Asks the handlers of userfaultfd for pages, and waits for one of them for a short time.
    fn ask_handlers(self: &Arc<Self>) {
        let (last_asked, tries) = self.repairs.lock().asked();
        let wait = FIRST_WAIT << tries.min(WAIT_MAX_SHIFT);
        // One page a turn, and another one the next time: no mm keeps a worker of the queue for longer than that,
        // and no page keeps others from being asked for.
        let mut now_asked = None;
        self.write_listed(Writer::Handlers, |enablers, force| {
            let outcome = self.try_fix_page(enablers, Writer::Handlers, force);
            let Some(first) = enablers.iter().flatten().next() else {
                return outcome;
            };
            let page = first.bit().page();
            if outcome != Outcome::LeftTo(Writer::Handlers) {
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
            match self.try_fix_page(enablers, Writer::Handlers, force) {
                Outcome::LeftTo(Writer::Handlers) => Outcome::Again,
                outcome => outcome,
            }
        });
        self.repairs.lock().set_asked(now_asked.unwrap_or(0));
        if now_asked.is_none() && last_asked > 0 {
            // All have had their turn: from the first one on again.
            self.queue_writer(Writer::Handlers, 0);
        }
    }
}

impl WorkItem<2> for UserMm {
    type Pointer = Delayed<Self, 2>;

    fn run(this: Delayed<Self, 2>) {
        this.ask_handlers();
    }
}
