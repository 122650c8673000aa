// SPDX-License-Identifier: GPL-2.0

//! Bits in pages that a handler of userfaultfd provides. C: `handle_userfault()`
//! (fs/userfaultfd.c).
//!
//! A work queue of its own waits for handlers, each time for a short time, so that a slow handler
//! delays no other work. The tasks of the mm do not request pages: a handler that is a thread of
//! the same process would wait for itself.

use super::super::mm::UserMm;
use super::list::Writer;
use super::Outcome;
use crate::sys::user_bit::LockedMm;
use crate::sys::work_queue::Delayed;
use kernel::sync::Arc;
use kernel::workqueue::WorkItem;

/// How long a handler is waited for, in milliseconds, and the doublings up to the longest wait: 80
/// ms.
const FIRST_WAIT: u32 = 10;
const WAIT_MAX_SHIFT: u32 = 3;

impl UserMm {
    /// Requests a page from its handler of userfaultfd, and waits for the page for a short time.
    fn ask_handlers(self: &Arc<Self>) {
        let (last_asked, tries) = self.repairs.lock().asked();
        let wait = FIRST_WAIT << tries.min(WAIT_MAX_SHIFT);
        // One page a turn, and the next page in the next turn: no mm keeps a worker for longer, and
        // no page keeps others from their turn.
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
            // All pages have had their turn: starts over with the first.
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
