// SPDX-License-Identifier: GPL-2.0

//! Making a trace event known to the trace core, and taking it away again.

use super::super::bindings;
use super::super::c_list;
use super::super::dyn_event::{
    DynEventOwner,
    DynEvents, //
};
use super::super::event_mutex::{
    EventMutexGuard,
    EventMutexHeld, //
};
use super::super::symbols;
use super::number::find_file;
use super::{
    Instances,
    KeptEvent,
    TraceEvent,
    TraceEventOwner,
    UnregisteredEvent,
    EMPTY_LIST, //
};
use core::mem::ManuallyDrop;
use core::ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;
use kernel::types::Opaque;

impl<O: DynEventOwner> UnregisteredEvent<O> {
    /// The event.
    pub(crate) fn event(&self) -> &Arc<TraceEvent<O>> {
        &self.event
    }

    /// Makes the event known to the trace core: from now on tracefs shows it, `dynamic_events`
    /// lists it, and consumers can attach. It gets the number of one that was `kept`, if there is
    /// one. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` when no event number is left; `ENOMEM`, and what `trace_add_event_call()` fails
    /// with. One that was kept is given back, with the number.
    pub(crate) fn register(
        self,
        kept: Option<KeptEvent<O>>,
        held: &mut EventMutexGuard,
    ) -> Result<(), (Error, Option<KeptEvent<O>>)> {
        let Self { event } = self;
        let (numbered, had_number) = match kept {
            Some(kept) => (kept.give_number_to(event, held))
                .map(|(numbered, kept)| (numbered, Some(kept)))
                .map_err(|(error, kept)| (error, Some(kept)))?,
            None => (
                KeptEvent::with_new_number(event).map_err(|error| (error, None))?,
                None,
            ),
        };
        let event = numbered.event();
        let call = event.call.get();
        // SAFETY: The call is complete since `new_unregistered`, stays in place, and is not
        // registered yet: a value of this type is registered once. `numbered` keeps it alive until
        // it is removed again. `event_mutex`, with which the trace core looks for the event's file,
        // and for the fields of events that have none yet, is held: of that class only this one,
        // and others without any fields.
        let added = unsafe {
            let class = (*call).class;
            (*class).fields_array = event.format.fields_array();
            let added = to_result(bindings::trace_add_event_call(call));
            (*class).fields_array = EMPTY_LIST.array();
            // The trace core does not say when it runs out of memory on the way.
            let is_complete =
                || event.fields.len() == event.format.count() && Self::has_directory(call);
            match added {
                // It fails if a consumer is attached already; then the event is there, incomplete
                // as it is.
                Ok(()) if !is_complete() => match event.remove_call(held) {
                    Ok(()) => Err(ENOMEM),
                    Err(_) => Ok(()),
                },
                added => added,
            }
        };
        if let Err(error) = added {
            // This one may lack fields to print records with. It had a consumer, or it would not
            // have been kept.
            let kept =
                had_number.and_then(|kept| Some(numbered.give_number_to(kept, held).ok()?.0));
            return Err((error, kept));
        }
        // INVARIANT: The reference is the trace core's, from which the pointers to parts of the
        // event lead it back to that.
        let event = Arc::into_raw(numbered.into_event());
        // SAFETY: The event is alive.
        let event = unsafe { &*event };
        *event.registered.get_mut(held) = true;
        let entry = event.dyn_event.get();
        // SAFETY: The entry stays in place and is in no list yet; the operations are a constant
        // that is not written to, for entries of events of `O`. The list was found, as there is a
        // guard of its lock, which is held.
        unsafe {
            (*entry).ops = ptr::from_ref(DynEvents::<O>::OPERATIONS).cast_mut();
            c_list::add_tail(&raw mut (*entry).list, symbols::dyn_event_list());
        }
        Ok(())
    }

    /// Has the top instance made the event's directory? Not so when it ran out of memory there, of
    /// which it returns no error. Cheap for an event that is new: it is the first that the trace
    /// core comes upon.
    ///
    /// # Safety
    ///
    /// `call` must be one of ours that the trace core knows, and `event_mutex` be held by an
    /// [`EventMutexGuard`].
    unsafe fn has_directory(call: *mut bindings::trace_event_call) -> bool {
        // SAFETY: The symbols were found, as there is a guard; the rest is promised by the caller.
        unsafe {
            let file = find_file(call, symbols::top_trace_array());
            file.is_some_and(|file| !(*file.as_ptr()).ei.is_null())
        }
    }
}

impl<O: TraceEventOwner> TraceEvent<O> {
    /// Can it not be deleted, as there is a reference to it, or something in the trace core refers
    /// to it? The trace core asks this of all events before it deletes the first. C:
    /// `user_event_is_busy()`.
    pub(crate) fn is_busy(&self, held: &EventMutexHeld) -> bool {
        self.is_used() || self.is_referenced(held)
    }

    /// Does something in the trace core (an event probe, a histogram, a trigger of another event)
    /// refer to the event, so that it cannot be unregistered?
    fn is_referenced(&self, held: &EventMutexHeld) -> bool {
        if !*self.registered.get(held) {
            return false;
        }
        // SAFETY: While registered the call is alive, and of a dynamic event, so the union has its
        // count. That is only raised under `event_mutex`, so it cannot rise while that is held.
        let count = unsafe {
            let count = &raw mut (*self.call.get()).__bindgen_anon_2.refcnt;
            Atomic::<i32>::from_ptr(&raw mut (*count).counter)
        };
        count.load(Relaxed) != 0
    }

    /// The right to take the event away from the trace core.
    pub(crate) fn removal<'a>(
        self: &'a Arc<Self>,
        guard: &'a mut EventMutexGuard,
    ) -> Removal<'a, O> {
        // INVARIANT: The task with the guard has locked the mutex, so the trace core is not in the
        // middle of anything that it locks it for.
        Removal {
            event: self,
            held: guard,
        }
    }

    /// The event that an entry of `dynamic_events` lies in. The trace core's reference to it is
    /// lent.
    ///
    /// # Safety
    ///
    /// `entry` must be what `register` put into the list for a `TraceEvent<O>`, and be in there.
    /// `event_mutex` must be held for the use of the result.
    pub(in super::super) unsafe fn of_entry(
        entry: *mut bindings::dyn_event,
    ) -> ManuallyDrop<Arc<Self>> {
        let entry = Opaque::cast_from(entry.cast_const());
        // SAFETY: Promised by the caller. What is in the list is registered, so that reference
        // exists.
        ManuallyDrop::new(unsafe { Arc::from_raw(kernel::container_of!(entry, Self, dyn_event)) })
    }
}

/// The right to take an event away from the trace core, for which it does not do to hold
/// `event_mutex`: the trace core holds that, too, while it calls us about a consumer of the event.
///
/// # Invariants
///
/// The trace core is not at work on the event, nor with the lists that lead to it, but for the one
/// of dynamic events: there it does not come back to the event's entry.
pub(crate) struct Removal<'a, O: TraceEventOwner> {
    event: &'a Arc<TraceEvent<O>>,
    held: &'a mut EventMutexHeld,
}

/// An event that is removed; itself again, if it is kept; and what the right was made of.
pub(crate) type Removed<'a, O> = (
    &'a Arc<TraceEvent<O>>,
    Option<KeptEvent<O>>,
    &'a mut EventMutexHeld,
);

impl<'a, O: TraceEventOwner> Removal<'a, O> {
    /// For the trace core's call to delete a dynamic event.
    ///
    /// # Safety
    ///
    /// The invariants must hold for `event`.
    pub(in super::super) unsafe fn new(
        event: &'a Arc<TraceEvent<O>>,
        held: &'a mut EventMutexHeld,
    ) -> Self {
        // INVARIANT: Promised by the caller.
        Self { event, held }
    }

    /// The event.
    pub(crate) fn event(&self) -> &'a Arc<TraceEvent<O>> {
        self.event
    }

    /// Takes the event away from the trace core. Does nothing if it was not registered. May sleep.
    /// The event keeps its number if there may be records of it in the buffers.
    ///
    /// # Errors
    ///
    /// `EBUSY` while there is a reference to the event, or the trace core refers to it; nothing has
    /// changed then.
    pub(crate) fn unregister(self) -> Result<Removed<'a, O>> {
        let Self { event, held } = self;
        // Then no record is on its way to its files, as that takes a reference: the first of which
        // is made under `event_mutex`.
        if event.is_used() {
            return Err(EBUSY);
        }
        if !*event.registered.get(held) {
            return Ok((event, None, held));
        }
        if event.is_referenced(held) {
            return Err(EBUSY);
        }
        // SAFETY: The call is registered, hence alive, and by the invariant the trace core is not
        // at work on it. On success the trace core has forgotten it: its functions run no more but
        // to print, for which the number and a reference stay; without, since what prints holds
        // `trace_event_sem`, which the removal takes for writing. Consumers are detached.
        unsafe { event.remove_call(held) }?;
        *event.registered.get_mut(held) = false;
        // SAFETY: `register` put the entry into the list; `event_mutex` is held. By the invariant
        // the trace core does not look for the next entry from here.
        unsafe { c_list::del(&raw mut (*event.dyn_event.get()).list) };
        // SAFETY: The reference count that `register` gave away by `Arc::into_raw`, given back.
        let numbered = unsafe { KeptEvent::new(Arc::from_raw(Arc::as_ptr(event))) };
        let kept = (event.recorded_in(held) != Instances::NONE).then_some(numbered);
        Ok((event, kept, held))
    }
}
