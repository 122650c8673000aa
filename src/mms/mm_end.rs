// SPDX-License-Identifier: GPL-2.0

//! How it is found out that an mm has ended.
//!
//! Each thread group tells when it leaves an mm: when its last thread exits, or one execs. If no other task or
//! context uses the mm then, it is over. Else it is looked at again, by a read of `mm_users`, after pauses that
//! double. When that has been tried for long, the processes of the system are gone through once: if one of
//! them is going to tell, there is nothing left to be found out.

use super::mm::UserMm;
use super::repair::MAX_DOUBLINGS;
use super::UserMms;
use crate::sys::exit_probe::ExitListener;
use crate::sys::{
    mm_users,
    process_list,
    task_work, //
};
use kernel::mm::MmWithUser;
use kernel::sync::Arc;

impl ExitListener for UserMms {
    fn leaving(&self, mm: &MmWithUser) {
        let Some(user_mm) = self.find(mm) else {
            return;
        };
        if mm_users::is_shared(mm) {
            // Threads that exit at the same time, another process with this mm, a reference that is held to
            // look into it.
            user_mm.check_end_later();
        } else if self.forget(&user_mm) {
            user_mm.end();
        }
    }
}

impl UserMm {
    /// A task has left the mm that is perhaps the last. Does not sleep.
    fn check_end_later(self: &Arc<Self>) {
        let mut repairs = self.repairs.lock();
        repairs.may_have_ended = true;
        repairs.tries = 0;
        drop(repairs);
        self.pause(0, MAX_DOUBLINGS);
    }

    /// The last user of the mm leaves it. Gives up the set at once if it is short and the current context may
    /// sleep; else has the work queue do that, since a reader of the tracepoint holds up the tasks that wait
    /// for all of them.
    fn end(self: &Arc<Self>) {
        self.repairs.lock().has_ended = true;
        if self.is_cheap_to_drop() && task_work::may_sleep() {
            self.leave_set();
        } else {
            self.enqueue();
        }
    }

    /// Gives up the set if the mm has ended, which is looked into as long as it is in doubt. Returns whether
    /// it has. May sleep.
    pub(super) fn check_end(self: &Arc<Self>) -> bool {
        if self.repairs.lock().has_ended || mm_users::has_ended(&self.mm) {
            self.mms.forget(self);
            self.leave_set();
            return true;
        }
        let mut repairs = self.repairs.lock();
        let (is_in_doubt, tries) = (repairs.may_have_ended, repairs.tries);
        if !is_in_doubt {
            return false;
        }
        // Cleared before the check: a task that exits from here on sets it again.
        let is_last_try = tries >= MAX_DOUBLINGS;
        repairs.may_have_ended = !is_last_try;
        repairs.tries = tries.saturating_add(1);
        drop(repairs);
        if is_last_try && !process_list::will_report_exit(&self.mm) {
            self.repairs.lock().may_have_ended = true;
        } else if is_last_try {
            return false;
        }
        self.pause(tries, MAX_DOUBLINGS);
        false
    }
}
