// SPDX-License-Identifier: GPL-2.0

//! The use of a group, and its closing: of an unused group, and of all groups on unload.

use super::group::{
    Group,
    LOOK_COST, //
};
use super::idle::RECHECK_DELAY;
use crate::sys::event_mutex::EventMutexGuard;
use core::ops::Deref;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::delay::fsleep;

/// How many times a reset of the trace buffers is tried on unload.
const FORGET_TRIES: usize = 100;

/// A group in use by an open file or for one call, which is not removed meanwhile.
///
/// # Invariants
///
/// The group's `open_files` counts it.
pub(crate) struct OpenGroup(Arc<Group>);

impl OpenGroup {
    /// Uses a group.
    ///
    /// # Errors
    ///
    /// `EIO` when the group is being removed.
    pub(crate) fn new(group: &Arc<Group>) -> Result<Self> {
        group.open_files.open()?;
        // INVARIANT: Just counted.
        Ok(Self(group.clone()))
    }
}

impl Deref for OpenGroup {
    type Target = Arc<Group>;

    fn deref(&self) -> &Arc<Group> {
        &self.0
    }
}

impl Drop for OpenGroup {
    fn drop(&mut self) {
        self.0.open_files.release();
    }
}

impl Group {
    /// Lets no further file of the group be opened. Returns whether files could be opened before.
    pub(crate) fn set_ending(&self) -> bool {
        self.open_files.set_ending()
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.open_files.are_ending()
    }

    /// Removes all events, and lets no file of the group be opened. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` when an event is used, or the trace core refers to one, or a data file is open.
    /// Nothing has changed then, unless an event probe or a trigger came to refer to an event while
    /// others were removed.
    pub(crate) fn close_if_unused(&self) -> Result {
        // A group in use stays open to programs and consumers.
        if self.usage().used_events != 0 {
            return Err(EBUSY);
        }
        self.open_files.close()?;
        // An event that is unused now stays unused: no file is open, and consumers are refused.
        let removed = match self.usage().used_events {
            0 => self.for_each_event(None, |event, held| self.remove(event.removal(held))),
            _ => Err(EBUSY),
        };
        if removed.is_err() {
            self.open_files.reopen();
        }
        removed
    }

    /// Removes all events. For the module's exit, when there can be no reference to an event. May
    /// sleep.
    ///
    /// Waits for events that the trace core still refers to; the log names the cause.
    pub(crate) fn close(&self) {
        let mut warned = false;
        loop {
            let _ = self.for_each_event(None, |event, held| {
                Ok(self.remove(event.removal(held)).unwrap_or(LOOK_COST))
            });
            if self.usage().events == 0 {
                return;
            }
            if !warned {
                warned = true;
                pr_warn!(
                    "unloading waits for event probes and triggers that refer to its events\n"
                );
            }
            fsleep(RECHECK_DELAY);
        }
    }

    /// Gives back the numbers of all kept events of all groups. For the module's exit, when there
    /// are no other events. May sleep.
    pub(crate) fn forget_kept(&self) {
        for _ in 0..FORGET_TRIES {
            let mut held = EventMutexGuard::lock(self.symbols);
            if self.idle().kept.forget_all(&mut held).is_ok() {
                return;
            }
            drop(held);
            // A reset lacks memory, which may be there later.
            fsleep(RECHECK_DELAY);
        }
        pr_warn!("records of its events are left in trace buffers, which could not be reset\n");
        self.idle()
            .kept
            .drop_all(&mut EventMutexGuard::lock(self.symbols));
    }
}
