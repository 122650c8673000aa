// SPDX-License-Identifier: GPL-2.0

//! The end of an mm: no process runs user code in it any more.
//!
//! That is decided once, when a process leaves it: when its last thread exits, or one execs. The mm
//! has ended if no other process will leave it later. A process that exits has no live thread by
//! then, and one that execs is noted before it looks for others; so of several that leave at the
//! same time, the last one to be noted finds none. Other users of the memory (a reader of
//! `/proc/PID/pagemap`, `process_vm_readv()`, vhost, an exec that waits) are not asked.

use super::mm::UserMm;
use super::UserMms;
use crate::sys::exit_probe::{
    ExitListener,
    Leaving, //
};
use crate::sys::process_list::{
    self,
    ProcessId, //
};
use crate::sys::{
    mm_users,
    task, //
};
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::sync::Arc;

impl ExitListener for UserMms {
    fn leaving(&self, mm: &MmWithUser, how: Leaving) {
        let Some(user_mm) = self.find(mm) else {
            return;
        };
        let is_left = mm_users::is_shared(mm) && user_mm.has_later_user(mm, how);
        if !is_left && self.forget(&user_mm) {
            user_mm.end();
        }
    }
}

impl UserMm {
    /// Will another task leave the mm later than the current one? Does not sleep.
    fn has_later_user(&self, mm: &MmWithUser, how: Leaving) -> bool {
        let in_exec = |process| self.state.lock().in_exec.contains(&process);
        // The threads of a process that execs run until they are ended, and the last of them exits.
        let leaves = match how {
            Leaving::Exit => true,
            Leaving::LastButOne => {
                let is_ended = process_list::is_killed_by_exec();
                if is_ended {
                    // It may have been before there was a place for the note.
                    self.note_exec(mm);
                }
                is_ended || ProcessId::current().is_some_and(in_exec)
            }
            Leaving::Exec => {
                self.note_exec(mm);
                process_list::one_live_thread_left()
            }
        };
        !leaves
            || !process_list::is_last_mm_user(mm) && process_list::mm_has_other_process(mm, in_exec)
    }

    /// Notes that the current process leaves the mm by an exec, and forgets those that have left
    /// it. Does not sleep.
    ///
    /// Without a note, as there is no memory, or nothing was registered yet, a process that exits
    /// while this one still has the mm leaves it to this one. Then the mm ends when one of its bits
    /// is to be written, or [`UserMms::add`] comes across it.
    fn note_exec(&self, mm: &MmWithUser) {
        let mut state = self.state.lock();
        state.in_exec.retain(|process| process.has_mm(mm));
        if let Some(process) = ProcessId::current() {
            let _ = state.in_exec.push(process, GFP_ATOMIC | __GFP_NOWARN);
        }
    }

    /// The mm has ended. Gives up the set at once if it is short and the current context may sleep;
    /// else has the work queue do that, since a reader of the tracepoint holds up the tasks that
    /// wait for all of them.
    fn end(self: &Arc<Self>) {
        if self.is_cheap_to_drop() && task::may_sleep() {
            self.leave_set();
        } else {
            self.end_repairs();
            self.enqueue();
        }
    }
}
