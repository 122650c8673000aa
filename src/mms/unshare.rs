// SPDX-License-Identifier: GPL-2.0

//! The copy of a shared set for one of its mms, before a task of the mm registers or unregisters.

use super::enabler::Enabler;
use super::enabler_set::{
    EnablerSet,
    EnablerSetRef,
    ListMemory,
    NoRoom,
    PartialWrite,
    MAX_BITS_AT_ONCE,
    NO_LIST_MEMORY, //
};
use super::mm::UserMm;
use crate::sys::kernel_crate::prelude::*;
use crate::sys::task;
use crate::sys::user_bit::{
    BitAddr,
    Written, //
};
use core::{
    array,
    mem,
    slice, //
};
use kernel::rbtree::RBTreeNode;
use kernel::sync::Arc;

impl UserMm {
    /// The exclusive set of the mm: a copy, if its set is shared. `reg_mutex` is held. May sleep.
    ///
    /// # Errors
    ///
    /// `ESRCH` when the mm has ended, and those of [`EnablerSet::copy_for`].
    pub(super) fn exclusive_set(self: &Arc<Self>) -> Result<Arc<EnablerSet>> {
        let (shared, is_exclusive) = self.set().ok_or(ESRCH)?;
        if is_exclusive {
            return Ok(shared);
        }
        let partly = PartialWrite::new(&shared);
        let copied = shared.copy_for(self);
        let copy = copied.inspect_err(|_| shared.members.begin_write().changed = true)?;
        let own = (*copy).clone();
        shared.members.leave(self.key());
        // The memory of a child that is forked from here on may lack writes of the shared set.
        copy.members.follow(&shared.members);
        let mut state = self.state.lock();
        // An exec of another thread may have ended the mm.
        let replaced = match &mut state.set {
            Some(set) => Ok(mem::replace(set, copy)),
            None => Err(copy),
        };
        drop(state);
        // A child that was forked before joins the shared set, and may lack writes of this one.
        shared.members.follow(&own.members);
        drop(partly);
        replaced.map(|_| own).map_err(|_| ESRCH)
    }
}

impl EnablerSet {
    /// A copy of the set for one of its members, which is in both sets after this. The caller
    /// removes it from this one. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINTR` when the current task is killed; `ENODEV` when the module is being
    /// unloaded.
    fn copy_for(&self, user_mm: &Arc<UserMm>) -> Result<EnablerSetRef> {
        let copy = EnablerSetRef::new()?;
        let member = RBTreeNode::new(user_mm.key(), user_mm.clone(), GFP_KERNEL_ACCOUNT)?;
        copy.members.join(member);
        let mut from = BitAddr::FIRST;
        loop {
            let mut originals: [_; MAX_BITS_AT_ONCE] = array::from_fn(|_| None);
            self.get_page(from, &mut originals);
            let mut originals = originals.iter().flatten().peekable();
            if originals.peek().is_none() {
                return Ok(copy);
            }
            // The number is up to the program, so the copy can take long.
            if task::fatal_signal_pending() {
                return Err(EINTR);
            }
            for original in originals {
                let enabler = Enabler::new(&copy, *original.bit(), original.event().get())?;
                let mut memory = NO_LIST_MEMORY;
                while let Err((memory, shortfall)) =
                    copy.try_add_copy(user_mm, &enabler, &mut memory)
                {
                    memory.fill(shortfall)?;
                }
                from = enabler.addr().next();
            }
        }
    }

    /// Adds the copy of an enabler. Its bit is right, or the original enabler will have it written.
    /// Exception: a change of the event's state that is being written may have passed the place of
    /// the copy, and not have reached the original.
    fn try_add_copy<'a>(
        &self,
        user_mm: &Arc<UserMm>,
        enabler: &Arc<Enabler>,
        [for_set, for_event]: &'a mut ListMemory,
    ) -> Result<(), NoRoom<'a>> {
        let mut of_set = self.lock();
        let mut of_event = enabler.event().lock_enablers();
        let value = of_event.value();
        let is_being_written = of_event.is_being_written();
        let in_set = (of_set.try_insert(enabler, for_set)).map_err(|lack| (for_set, lack))?;
        let in_event =
            (of_event.try_insert(enabler, for_event)).map_err(|lack| (for_event, lack))?;
        if is_being_written {
            let mut write = self.members.begin_write();
            write.changed = user_mm.write(slice::from_ref(enabler), value) == Written::Changed;
        }
        in_event.keep();
        in_set.keep();
        Ok(())
    }
}
