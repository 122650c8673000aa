// SPDX-License-Identifier: GPL-2.0

//! What a child gets of its parent when an mm is forked.
//!
//! The tracepoint fires in the parent, when the memory is copied and the child does not run yet. There an
//! [`Inheritance`] is taken; the child makes a [`UserMm`] of it before its first instruction in user space.
//! Its copy of a bit may be old: the bit may have changed between the copy and the moment at which the child
//! becomes a member of the set. So it looks at all of its bits, if any has changed since its memory was
//! copied, by the numbers of [`members`](super::members); and it clears those that were unregistered
//! meanwhile, by [`stale_bits`](super::stale_bits).

use super::enabler::EnableAddr;
use super::enablers::EnablerSetRef;
use super::fault_in::clear_bit;
use super::mm::{
    key,
    UserMm,
    ALLOC_RETRY, //
};
use super::stale_bits::{
    InheritedBits,
    StaleBits, //
};
use super::{
    members,
    UserMms, //
};
use crate::sys::fork::ForkListener;
use crate::sys::task_work;
use crate::sys::user_bit::LockedMm;
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::delay::fsleep;

/// How often a child asks for memory to clear a bit.
const MAX_TRIES: usize = 1000;

/// What a child gets of its parent.
pub(crate) struct Inheritance {
    set: EnablerSetRef,
    /// The number of a change that was made before the child's memory was copied; `None` if the copy may
    /// be wrong in any case.
    known: Option<u64>,
    stale_bits: Option<InheritedBits>,
}

impl Inheritance {
    /// May a registered bit be wrong in the child's memory? Asked by the child, as a member.
    fn may_be_stale(&self) -> bool {
        self.known
            .is_none_or(|known| self.set.members.may_have_changed_since(known))
    }
}

impl UserMm {
    /// What a child of the current task gets. `mm` is the current task's, and this mm; `None` if it has ended.
    /// Does not sleep.
    fn inheritance(&self, mm: &MmWithUser) -> Option<Inheritance> {
        let has_repairs = self.has_repairs();
        let task = task_work::current_task();
        let mut state = self.state.lock();
        let set = state.set.as_ref()?.clone_for_child();
        // What had changed when this task forked the last time is in the memory that it has just copied.
        let known = match state.last_fork {
            (last, change) if last == task => change,
            _ => 0,
        };
        state.last_fork = (task, members::last_change());
        let stale_bits = state.stale_bits.as_ref().and_then(StaleBits::inherit);
        drop(state);
        if let Some(bits) = &stale_bits {
            bits.note_unknown_over(mm);
        }
        Some(Inheritance {
            set,
            known: (!has_repairs).then_some(known),
            stale_bits,
        })
    }

    /// Clears bits in the memory of this mm, which is the current task's and has not run yet: they were
    /// unregistered in its parent's, and are registered here no more. May sleep.
    fn clear_stale_bits(&self, mm: &MmWithUser, bits: &InheritedBits) {
        bits.for_each(|bit| {
            // A page that is shared is the parent's, too, and was cleared there.
            let is_copy = LockedMm::lock(mm).is_private(bit.address());
            if !is_copy || self.has_enabler(&EnableAddr::of(bit)) {
                return;
            }
            // What cannot be cleared as things are is left as it is.
            let mut tries = 0..MAX_TRIES;
            while clear_bit(mm, bit) == Err(ENOMEM)
                && tries.next().is_some()
                && !task_work::fatal_signal_pending()
            {
                fsleep(ALLOC_RETRY);
            }
        });
    }
}

impl ForkListener for UserMms {
    type Inheritance = Inheritance;

    fn may_inherit(&self, parent: &MmWithUser) -> bool {
        self.may_have_enablers(key(parent))
    }

    fn forked(&self, parent: &MmWithUser) -> Option<Inheritance> {
        self.find(parent)?.inheritance(parent)
    }

    fn inherit(self: &Arc<Self>, child: &MmWithUser, mut inheritance: Inheritance) {
        // The child has not run yet, and it must not run without its enablers.
        while !task_work::fatal_signal_pending() {
            if let Ok(user_mm) = self.add(child, inheritance.set.clone_for_child()) {
                inheritance.set.wait_for_changes();
                if let Some(bits) = inheritance.stale_bits.take() {
                    user_mm.clear_stale_bits(child, &bits);
                }
                if inheritance.may_be_stale() {
                    user_mm.check_current(child);
                }
                return;
            }
            fsleep(ALLOC_RETRY);
        }
    }
}
