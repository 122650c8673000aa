// SPDX-License-Identifier: GPL-2.0

//! What a child inherits when an mm is forked.
//!
//! The tracepoint fires in the parent when the memory has been copied, and before the child runs.
//! There an [`Inheritance`] is made; the child makes its [`UserMm`] of it before its first
//! instruction in user space. The child's copy of a bit may be old: the bit may have changed after
//! the copy, and before the child became a member of the set. So the child checks all of its bits,
//! if any bit was written since its memory was copied, by the numbers of
//! [`members`](super::members).
//!
//! A bit that another thread unregisters meanwhile is not checked: the child's copy may have either
//! value.

use super::enabler_set::EnablerSetRef;
use super::mm::{
    key,
    UserMm,
    ALLOC_RETRY, //
};
use super::{
    members,
    UserMms, //
};
use crate::sys::fork::ForkListener;
use crate::sys::task;
use kernel::mm::MmWithUser;
use kernel::sync::Arc;
use kernel::time::delay::fsleep;

/// What a child gets of its parent.
pub(crate) struct Inheritance {
    set: EnablerSetRef,
    /// The number of a write that the child's copy of the memory includes; `None` if the copy may
    /// be wrong in any case.
    copied_seq: Option<u64>,
}

impl UserMm {
    /// The inheritance of a child of the current task, which has this mm; `None` if the mm has
    /// ended. Does not sleep.
    fn inheritance(&self) -> Option<Inheritance> {
        let has_repairs = self.has_repairs();
        let task = task::current_key();
        let mut state = self.state.lock();
        let set = state.set.as_ref()?.clone_for_child();
        // The memory that this task has just copied includes all writes before its previous fork.
        let copied_seq = match state.last_fork {
            (last, seq) if last == task => seq,
            _ => 0,
        };
        state.last_fork = (task, members::bit_write_seq());
        drop(state);
        Some(Inheritance {
            set,
            copied_seq: (!has_repairs).then_some(copied_seq),
        })
    }
}

impl ForkListener for UserMms {
    type Inheritance = Inheritance;
    const INHERITANCES: &'static str = "registrations";

    fn may_inherit(&self, parent: &MmWithUser) -> bool {
        self.may_have_enablers(key(parent))
    }

    fn forked(&self, parent: &MmWithUser) -> Option<Inheritance> {
        self.find(parent)?.inheritance()
    }

    fn inherit(self: &Arc<Self>, child: &MmWithUser, inheritance: Inheritance) {
        // The child must not run without its enablers.
        while !task::fatal_signal_pending() {
            if let Ok(user_mm) = self.add(child, inheritance.set.clone_for_child()) {
                inheritance.set.wait_for_registration();
                // As a member: later writes include this mm.
                let members = &inheritance.set.members;
                if (inheritance.copied_seq).is_none_or(|seq| members.may_have_changed_since(seq)) {
                    user_mm.fix_child_bits(child);
                }
                return;
            }
            fsleep(ALLOC_RETRY);
        }
    }
}
