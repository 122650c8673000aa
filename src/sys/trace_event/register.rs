// SPDX-License-Identifier: GPL-2.0

//! Registering and unregistering a trace event with the trace core.

use super::super::bindings;
use super::super::c_list;
#[cfg(USER_EVENTS_KERNEL_6_12)]
use super::super::c_list::Entries;
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

    /// Registers the event: tracefs shows it, `dynamic_events` lists it, and consumers can attach
    /// from now on. The event gets the number of `kept`, if there is one. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` when no number is free; `ENOMEM`; the errors of `trace_add_event_call()`. `kept` is
    /// returned with its number.
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
        // registered, as this value registers it once. `numbered` keeps the call alive until it is
        // removed. `event_mutex` is held, under which the trace core reads `fields_array` for
        // events without fields so far: in that class this one, and others whose array is empty.
        let added = unsafe {
            let class = (*call).class;
            (*class).fields_array = event.format.fields_array();
            let added = to_result(bindings::trace_add_event_call(call));
            #[cfg(USER_EVENTS_KERNEL_6_12)]
            Self::hold_files(call);
            (*class).fields_array = EMPTY_LIST.array();
            // The trace core does not report all failed allocations.
            let is_complete =
                || event.fields.len() == event.format.count() && Self::has_directory(call);
            match added {
                // Fails if a consumer is attached already. Then the event stays, as incomplete as
                // it is.
                Ok(()) if !is_complete() => match event.remove_call(held) {
                    Ok(()) => Err(ENOMEM),
                    Err(_) => Ok(()),
                },
                added => added,
            }
        };
        if let Err(error) = added {
            // The number goes back, as this event may lack fields for printing. That does not fail:
            // the other event, which was kept, has had consumers.
            let kept =
                had_number.and_then(|kept| Some(numbered.give_number_to(kept, held).ok()?.0));
            return Err((error, kept));
        }
        // INVARIANT: The trace core owns the reference from here on. The pointers of the event's
        // parts lead from the trace core to the event.
        let event = Arc::into_raw(numbered.into_event());
        // SAFETY: The trace core's reference keeps the event alive.
        let event = unsafe { &*event };
        *event.registered.get_mut(held) = true;
        let entry = event.dyn_event.get();
        // SAFETY: The entry stays in place, and is in no list yet. The operations, a constant that
        // is never written, are for events of `O`. The list was found, as a guard of its lock
        // exists, which is held.
        unsafe {
            (*entry).ops = ptr::from_ref(DynEvents::<O>::OPERATIONS).cast_mut();
            c_list::add_tail(&raw mut (*entry).list, symbols::dyn_event_list());
        }
        Ok(())
    }

    /// Whether the top instance has created the event's directory: it returns no error if it had no
    /// memory for that. Cheap for a new event, which the trace core finds first.
    ///
    /// # Safety
    ///
    /// The trace core must know `call`, which belongs to the module, and an [`EventMutexGuard`] be
    /// held.
    unsafe fn has_directory(call: *mut bindings::trace_event_call) -> bool {
        // SAFETY: The symbols were found, as there is a guard. The rest is the safety requirement.
        unsafe {
            let file = find_file(call, symbols::top_trace_array());
            file.is_some_and(|file| !(*file.as_ptr()).ei.is_null())
        }
    }
}

#[cfg(USER_EVENTS_KERNEL_6_12)]
impl<O: DynEventOwner> UnregisteredEvent<O> {
    /// Takes the reference that an event's directory in an instance has to the event's file there.
    /// 6.12 takes none if it has made the directory, and then had no memory for a field: the file
    /// would be freed with the event, and used when the directory is closed.
    ///
    /// # Safety
    ///
    /// `trace_add_event_call()` must just have added `call`, under the [`EventMutexGuard`] that is
    /// held.
    unsafe fn hold_files(call: *mut bindings::trace_event_call) {
        // SAFETY: The symbols were found, as there is a guard, under which the list of instances
        // and the files do not change. An instance begins with its list entry. A new file has the
        // trace core's reference, and that of the directory: nothing has used either yet.
        unsafe {
            for instance in Entries::of(symbols::trace_arrays()) {
                let Some(file) = find_file(call, instance.cast_mut().cast()) else {
                    continue;
                };
                let file = file.as_ptr();
                if !(*file).ei.is_null() {
                    let count = &raw mut (*file).ref_.refs.counter;
                    Atomic::<i32>::from_ptr(count).store(2, Relaxed);
                }
            }
        }
    }
}

impl<O: TraceEventOwner> TraceEvent<O> {
    /// Whether a reference to the event exists, or the trace core refers to it, so that it cannot
    /// be deleted. The trace core checks all events before it deletes the first.
    pub(crate) fn is_busy(&self, held: &EventMutexHeld) -> bool {
        self.is_used() || self.is_referenced(held)
    }

    /// Whether an event probe, a histogram or a trigger of another event refers to the event, so
    /// that it cannot be unregistered.
    fn is_referenced(&self, held: &EventMutexHeld) -> bool {
        if !*self.registered.get(held) {
            return false;
        }
        // SAFETY: While registered the call is alive, and dynamic, so its union has the count,
        // which is raised only under `event_mutex`.
        let count = unsafe {
            let count = &raw mut (*self.call.get()).__bindgen_anon_2.refcnt;
            Atomic::<i32>::from_ptr(&raw mut (*count).counter)
        };
        count.load(Relaxed) != 0
    }

    /// The right to unregister the event.
    pub(crate) fn removal<'a>(
        self: &'a Arc<Self>,
        guard: &'a mut EventMutexGuard,
    ) -> Removal<'a, O> {
        // INVARIANT: The task with the guard has locked the mutex itself, so it is not in a
        // callback of the trace core under the mutex.
        Removal {
            event: self,
            held: guard,
        }
    }

    /// The event of an entry of `dynamic_events`. Lends the trace core's reference.
    ///
    /// # Safety
    ///
    /// `entry` must be in the list, where `register` of a `TraceEvent<O>` has put it. `event_mutex`
    /// must be held while the result is used.
    pub(in super::super) unsafe fn of_entry(
        entry: *mut bindings::dyn_event,
    ) -> ManuallyDrop<Arc<Self>> {
        let entry = Opaque::cast_from(entry.cast_const());
        // SAFETY: By the safety requirement. An event in the list is registered, so the trace
        // core's reference exists.
        ManuallyDrop::new(unsafe { Arc::from_raw(kernel::container_of!(entry, Self, dyn_event)) })
    }
}

/// The right to unregister an event. `event_mutex` alone is not enough: the trace core also holds
/// it in the callbacks for consumers of the event.
///
/// # Invariants
///
/// The trace core uses neither the event nor a list that contains it, except for the list of
/// dynamic events, where it does not return to the event's entry.
pub(crate) struct Removal<'a, O: TraceEventOwner> {
    event: &'a Arc<TraceEvent<O>>,
    held: &'a mut EventMutexHeld,
}

/// An unregistered event, the same event as one that is kept if so, and the proof.
pub(crate) type Removed<'a, O> = (
    &'a Arc<TraceEvent<O>>,
    Option<KeptEvent<O>>,
    &'a mut EventMutexHeld,
);

impl<'a, O: TraceEventOwner> Removal<'a, O> {
    /// For the trace core's callback that deletes a dynamic event.
    ///
    /// # Safety
    ///
    /// The type invariants must hold for `event`.
    pub(in super::super) unsafe fn new(
        event: &'a Arc<TraceEvent<O>>,
        held: &'a mut EventMutexHeld,
    ) -> Self {
        // INVARIANT: By the safety requirement.
        Self { event, held }
    }

    /// The event.
    pub(crate) fn event(&self) -> &'a Arc<TraceEvent<O>> {
        self.event
    }

    /// Unregisters the event, if it is registered. The event keeps its number if the buffers may
    /// have records of it. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` when a reference to the event exists, or the trace core refers to it; nothing has
    /// changed then.
    pub(crate) fn unregister(self) -> Result<Removed<'a, O>> {
        let Self { event, held } = self;
        // Without a reference no record is on its way to the event's files. The first reference is
        // taken under `event_mutex`.
        if event.is_used() {
            return Err(EBUSY);
        }
        if !*event.registered.get(held) {
            return Ok((event, None, held));
        }
        if event.is_referenced(held) {
            return Err(EBUSY);
        }
        // SAFETY: The call is registered, so it is alive, and by the invariant the trace core does
        // not use it. After success the trace core uses it only to print, for which the number and
        // a reference are kept. If they are not, printing is over too: it holds `trace_event_sem`,
        // which the removal takes for writing. Consumers are detached.
        unsafe { event.remove_call(held) }?;
        *event.registered.get_mut(held) = false;
        // SAFETY: `register` has put the entry into the list, and `event_mutex` is held. By the
        // invariant the trace core does not take the next entry from this one.
        unsafe { c_list::del(&raw mut (*event.dyn_event.get()).list) };
        // SAFETY: Takes back the count that `register` gave by `Arc::into_raw`.
        let numbered = unsafe { KeptEvent::new(Arc::from_raw(Arc::as_ptr(event))) };
        let kept = (event.recorded_in(held) != Instances::NONE).then_some(numbered);
        Ok((event, kept, held))
    }
}
