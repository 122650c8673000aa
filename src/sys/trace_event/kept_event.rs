// SPDX-License-Identifier: GPL-2.0

//! Events that have a number, and that the trace core does not know.
//!
//! C: `unregister_trace_event()` (linux/trace_events.h).

use super::super::bindings;
use super::super::event_mutex::{
    EventMutexHeld,
    EventMutexLocked, //
};
use super::number::move_number;
use super::{
    ConsumerState,
    TraceEvent,
    TraceEventOwner, //
};
use core::mem::ManuallyDrop;
use core::{
    iter,
    ptr, //
};
use kernel::prelude::*;
use kernel::sync::Arc;

/// An event that has got the number of another one, and that one.
pub(super) type NumberMoved<O> = (KeptEvent<O>, Arc<TraceEvent<O>>);

/// An event that the trace core does not know any more, and that has its number.
///
/// # Invariants
///
/// As just said.
pub(crate) struct KeptEvent<O: TraceEventOwner>(Arc<TraceEvent<O>>);

impl<O: TraceEventOwner> KeptEvent<O> {
    /// An event that gets a number that is free. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENODEV` when none is.
    pub(super) fn with_new_number(event: Arc<TraceEvent<O>>) -> Result<Self> {
        // SAFETY: The call has all that it takes to print records, and stays, as the result holds
        // it. It has no number, as it is not registered yet.
        match unsafe { bindings::register_trace_event(&raw mut (*event.call.get()).event) } {
            0 => Err(ENODEV),
            // INVARIANT: Just made so.
            _ => Ok(Self(event)),
        }
    }

    /// # Safety
    ///
    /// The invariants must hold.
    pub(super) unsafe fn new(event: Arc<TraceEvent<O>>) -> Self {
        // INVARIANT: Promised by the caller.
        Self(event)
    }

    /// The event.
    pub(crate) fn event(&self) -> &Arc<TraceEvent<O>> {
        &self.0
    }

    /// Gives its number to an event that has none, and is not known to the trace core. Returns this
    /// one, too, which has none any more. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    pub(super) fn give_number_to(
        self,
        event: Arc<TraceEvent<O>>,
        held: &mut EventMutexHeld,
    ) -> Result<NumberMoved<O>, (Error, Self)> {
        let recorded_in = self.0.recorded_in(held);
        let state = match event.consumer_state.get_or_new(ConsumerState::new, held) {
            Ok(state) => state,
            Err(error) => return Err((error, self)),
        };
        state.recorded_in.get_mut(held).add_all(recorded_in);
        // SAFETY: By the invariant this one has a number, and the other has none, says the caller.
        // It is complete, and stays, as the result holds it.
        unsafe { move_number(self.0.call.get(), event.call.get()) };
        // INVARIANT: It has the number now.
        Ok((Self(event), self.into_event()))
    }

    /// The event, whose number is given to another one, or with the event to the trace core.
    pub(super) fn into_event(self) -> Arc<TraceEvent<O>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: It is not dropped.
        unsafe { ptr::read(&this.0) }
    }
}

impl<O: TraceEventOwner> Drop for KeptEvent<O> {
    fn drop(&mut self) {
        // SAFETY: By the invariant it has a number, which is known no more after that.
        unsafe { bindings::unregister_trace_event(&raw mut (*self.0.call.get()).event) };
    }
}

/// A list of such events, the one that was added last first. Takes no memory.
///
/// # Invariants
///
/// The next of each is in [`ConsumerState::next`].
pub(crate) struct KeptList<O: TraceEventOwner>(EventMutexLocked<Option<KeptEvent<O>>>);

impl<O: TraceEventOwner> KeptList<O> {
    /// None.
    pub(crate) const fn new() -> Self {
        Self(EventMutexLocked::new(None))
    }

    /// Adds one, of which there may be records.
    pub(crate) fn push(&self, kept: KeptEvent<O>, held: &mut EventMutexHeld) {
        if let Some(state) = kept.0.consumer_state.get() {
            let first = self.0.get_mut(held).take();
            *state.next.get_mut(held) = first;
            *self.0.get_mut(held) = Some(kept);
        }
    }

    /// Takes the first out.
    pub(crate) fn pop(&self, held: &mut EventMutexHeld) -> Option<KeptEvent<O>> {
        let first = self.0.get_mut(held).take()?;
        let next = first.0.consumer_state.get()?.next.get_mut(held).take();
        *self.0.get_mut(held) = next;
        Some(first)
    }

    /// Takes out those for which `is_wanted`, which are in the other order then.
    pub(crate) fn extract(
        &self,
        is_wanted: impl Fn(&KeptEvent<O>, &EventMutexHeld) -> bool,
        held: &mut EventMutexHeld,
    ) -> Self {
        let (wanted, others) = (Self::new(), Self::new());
        while let Some(kept) = self.pop(held) {
            let is_wanted = is_wanted(&kept, held);
            let list = if is_wanted { &wanted } else { &others };
            list.push(kept, held);
        }
        while let Some(kept) = others.pop(held) {
            self.push(kept, held);
        }
        wanted
    }

    /// The events.
    pub(crate) fn iter<'a>(
        &'a self,
        held: &'a EventMutexHeld,
    ) -> impl Iterator<Item = &'a KeptEvent<O>> {
        iter::successors(self.0.get(held).as_ref(), |kept| {
            kept.0.consumer_state.get()?.next.get(held).as_ref()
        })
    }
}
