// SPDX-License-Identifier: GPL-2.0

//! The end of an mm: no process runs user code in it any more.
//!
//! The end is decided once, when a process leaves the mm: its last thread exits, or one of its
//! threads execs. The mm has ended if no other process will leave it later. A process that exits
//! has no live thread by then, and one that execs is noted before it looks for others; so if
//! several leave at the same time, the last one finds no other. Other users of the memory do not
//! count: a reader of `/proc/PID/pagemap`, `process_vm_readv()`, vhost, an exec that waits.

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
    /// Whether a process will leave the mm later than the current task. Does not sleep.
    fn has_later_user(&self, mm: &MmWithUser, how: Leaving) -> bool {
        let in_exec = |process| self.state.lock().in_exec.contains(&process);
        // The other threads of a process that execs run until they are killed, and the last of them
        // calls this when it exits.
        let leaves = match how {
            Leaving::Exit => true,
            Leaving::LastButOne => {
                let is_ended = process_list::is_killed_by_exec();
                if is_ended {
                    // The exec may have started before it could be noted.
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

    /// Notes that the current process leaves the mm by an exec, and forgets the processes that have
    /// left it. Does not sleep.
    ///
    /// An exec is not noted if there is no memory, or if nothing was registered yet. Then a process
    /// that exits meanwhile leaves the end to the exec. The mm ends when one of its bits is to be
    /// written, or [`UserMms::add`] finds it.
    fn note_exec(&self, mm: &MmWithUser) {
        let mut state = self.state.lock();
        state.in_exec.retain(|process| process.has_mm(mm));
        if let Some(process) = ProcessId::current() {
            let _ = state.in_exec.push(process, GFP_ATOMIC | __GFP_NOWARN);
        }
    }

    /// Ends the mm. Gives up the set at once if that is cheap and the context may sleep; otherwise
    /// on the work queue, as a reader of the tracepoint delays all tasks that wait for its readers.
    fn end(self: &Arc<Self>) {
        if self.is_cheap_to_drop() && task::may_sleep() {
            self.leave_set();
        } else {
            self.end_repairs();
            self.enqueue();
        }
    }
}
