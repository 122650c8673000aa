// SPDX-License-Identifier: GPL-2.0

//! Removing events of a group. C: `destroy_user_event()` (kernel/trace/trace_events_user.c).

use super::event::{
    Event,
    UserEvent, //
};
use super::group::{
    Group,
    LOOK_COST,
    MAX_COST,
    REMOVAL_COST, //
};
use crate::sys::event_mutex::EventMutexGuard;
use crate::sys::task;
use crate::sys::trace_event::Removal;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::time::{
    delay::fsleep,
    Delta, //
};

/// The pause before the progress of the work that removes idle events is checked again.
const WORK_POLL: Delta = Delta::from_millis(1);

/// The most events of a name that are removed in the order of their listings, which costs little
/// for a few. More are removed the newest first, as the trace core searches its events from the
/// newest one for each removal.
const FEW: usize = 64;

impl Group {
    /// Deletes the event registered as `name`, in all its formats. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when there is none; `EBUSY` when one of them is used; `EPERM` when one is
    /// persistent and `may_delete_persistent` denies that. No event is deleted then, unless one was
    /// made, or came into use, while others were deleted. `may_delete_persistent` is called only
    /// where it matters, as security modules may log it.
    pub(crate) fn delete(
        &self,
        name: &[u8],
        may_delete_persistent: impl FnOnce() -> bool,
    ) -> Result {
        let (mut found, mut persistent) = (0, false);
        self.for_each_event(Some(name), |event, held| {
            found += 1;
            persistent |= event.is_persistent();
            match event.is_busy(held) {
                true => Err(EBUSY),
                false => Ok(LOOK_COST),
            }
        })?;
        if found == 0 {
            return Err(ENOENT);
        }
        if persistent && !may_delete_persistent() {
            return Err(EPERM);
        }
        self.for_each_event((found <= FEW).then_some(name), |event, held| {
            if event.registered_name() != name {
                return Ok(LOOK_COST);
            }
            if event.is_busy(held) {
                return Err(EBUSY);
            }
            if event.is_persistent() && !persistent {
                return Err(EPERM);
            }
            self.remove(event.removal(held))
        })
    }

    /// Unregisters an unused event from the trace core, and removes it from the group. Returns the
    /// cost.
    ///
    /// # Errors
    ///
    /// `EBUSY` when the event is used, or something in the trace core refers to it.
    pub(crate) fn remove(&self, removal: Removal<'_, UserEvent>) -> Result<usize> {
        let (event, kept, held) = removal.unregister()?;
        self.events.get_mut(held).remove(event);
        match kept.is_some_and(|kept| self.idle().kept.add(kept, held)) {
            true => Ok(MAX_COST),
            false => Ok(REMOVAL_COST),
        }
    }

    /// Makes room in a group of `count` events: removes some of its idle events, which the work
    /// might reach only after those of other groups. If very many removed ones are still on the
    /// list of the work, waits for the work instead, which frees their memory. May sleep.
    ///
    /// # Errors
    ///
    /// `EMFILE` when no event is idle; `EINTR` when the current task is killed.
    pub(super) fn make_room(&self, count: u32) -> Result {
        if task::fatal_signal_pending() {
            return Err(EINTR);
        }
        let listed = self.idle_count.load(Relaxed);
        // Up to `count` of the listed events are not removed yet, some for long, as the trace core
        // refers to them.
        if listed > count as usize + MAX_COST {
            fsleep(WORK_POLL);
            return Ok(());
        }
        let mut removed = 0;
        if listed != 0 {
            let _ = self.for_each_event(None, |event, held| {
                if removed >= MAX_COST {
                    return Err(EMFILE);
                }
                if event.is_used() || event.is_persistent() {
                    return Ok(LOOK_COST);
                }
                let part = self.remove(event.removal(held)).unwrap_or(0);
                removed += part;
                Ok(part.max(LOOK_COST))
            });
        }
        // The work may have removed some meanwhile.
        let is_full = || self.events.get(&EventMutexGuard::lock(self.symbols)).count == count;
        if removed == 0 && is_full() {
            return Err(EMFILE);
        }
        Ok(())
    }

    /// Removes an event, unless it is in use or has been removed.
    ///
    /// # Errors
    ///
    /// `EBUSY` when the trace core refers to it.
    pub(super) fn retire(&self, event: &Arc<Event>) -> Result {
        let mut held = EventMutexGuard::lock(self.symbols);
        if !event.is_used() {
            self.remove(event.removal(&mut held))?;
        }
        Ok(())
    }
}
