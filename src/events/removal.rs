// SPDX-License-Identifier: GPL-2.0

//! Going through the events of a group, a few at a time, and removing them.
//!
//! C: `destroy_user_event()` (kernel/trace/trace_events_user.c).

use super::event::{
    Event,
    UserEvent, //
};
use super::group::Group;
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

/// What is done to events in one hold of `event_mutex`, for which others wait, and what of that it
/// takes to look at one, or to remove one, for which the trace core has to search.
const HOLD: usize = 256;
pub(super) const LOOK: usize = 1;
const REMOVAL: usize = HOLD / 16;

/// The time between two holds.
const PAUSE: Delta = Delta::from_micros(20);

/// The time between two looks whether the work has removed some.
const WORK_POLL: Delta = Delta::from_millis(1);

/// How many events may be removed in any order: few beside those that the trace core looks at in
/// each search anyway.
const FEW: usize = 64;

impl Group {
    /// Calls `visit` for all events, the newest first, or for those registered as `name`, until it
    /// fails. It returns its part of a [`HOLD`], after which the mutex is dropped. May sleep.
    pub(super) fn walk(
        &self,
        name: Option<&[u8]>,
        mut visit: impl FnMut(&Arc<Event>, &mut EventMutexGuard) -> Result<usize>,
    ) -> Result {
        let mut last: Option<Arc<Event>> = None;
        loop {
            let mut held = EventMutexGuard::lock(self.symbols);
            let mut left = HOLD;
            while left > 0 {
                let events = self.events.get(&held);
                let Some(event) = events.before(name, last.as_deref()).cloned() else {
                    return Ok(());
                };
                left = left.saturating_sub(visit(&event, &mut held)?);
                last = Some(event);
            }
            drop(held);
            // Who spins for the mutex on another processor would not come before this task.
            fsleep(PAUSE);
        }
    }

    /// Deletes the event registered as `name`, in all its formats. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when there is none; `EBUSY` when one of them is used; `EPERM` when one is
    /// persistent and `may_delete_persistent` denies that, which is not called else: the security
    /// modules may log the answer. None is deleted then, unless that one has come, or has become
    /// used, while others were deleted.
    pub(crate) fn delete(
        &self,
        name: &[u8],
        may_delete_persistent: impl FnOnce() -> bool,
    ) -> Result {
        let (mut found, mut persistent) = (0, false);
        self.walk(Some(name), |event, held| {
            found += 1;
            persistent |= event.is_persistent();
            match event.is_busy(held) {
                true => Err(EBUSY),
                false => Ok(LOOK),
            }
        })?;
        if found == 0 {
            return Err(ENOENT);
        }
        if persistent && !may_delete_persistent() {
            return Err(EPERM);
        }
        self.walk((found <= FEW).then_some(name), |event, held| {
            if event.registered_name() != name {
                return Ok(LOOK);
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

    /// Takes an unused event away from the trace core and forgets it. Returns its part of a hold.
    ///
    /// # Errors
    ///
    /// `EBUSY` when it is used, or something in the trace core refers to it.
    pub(crate) fn remove(&self, removal: Removal<'_, UserEvent>) -> Result<usize> {
        let (event, kept, held) = removal.unregister()?;
        self.events.get_mut(held).remove(event);
        match kept.is_some_and(|kept| self.idle().kept.add(kept, held)) {
            true => Ok(HOLD),
            false => Ok(REMOVAL),
        }
    }

    /// Makes room where there are `count` events: removes some that wait for that, which others'
    /// may hold up. Where very many that were so removed are on the work's list still, it waits for
    /// the work, which frees their memory. May sleep.
    ///
    /// # Errors
    ///
    /// `EMFILE` when none wait; `EINTR` when the current task is killed.
    pub(super) fn retire_some(&self, count: u32) -> Result {
        if task::fatal_signal_pending() {
            return Err(EINTR);
        }
        let listed = self.listed_idle.load(Relaxed);
        // Those that are not removed may stay on the list as long as the trace core refers to them.
        if listed > count as usize + HOLD {
            fsleep(WORK_POLL);
            return Ok(());
        }
        let mut removed = 0;
        if listed != 0 {
            let _ = self.walk(None, |event, held| {
                if removed >= HOLD {
                    return Err(EMFILE);
                }
                if event.is_used() || event.is_persistent() {
                    return Ok(LOOK);
                }
                let part = self.remove(event.removal(held)).unwrap_or(0);
                removed += part;
                Ok(part.max(LOOK))
            });
        }
        // The work may have been first.
        let is_full = || self.events.get(&EventMutexGuard::lock(self.symbols)).count == count;
        if removed == 0 && is_full() {
            return Err(EMFILE);
        }
        Ok(())
    }

    /// Removes an event, unless it is used or has been removed.
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
