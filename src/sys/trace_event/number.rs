// SPDX-License-Identifier: GPL-2.0

//! The numbers of trace events, by which the records in the trace buffers are told apart.
//!
//! The trace core gives the lowest number that is free to the next event of any kind, and prints
//! the records that are still in the buffers as that one's. So an event whose records may be there
//! keeps its number, and what prints records with it, when it is taken away from the trace core;
//! and before the number is given back, the buffers are reset, as the trace core does for its own
//! events.
//!
//! C: `struct trace_event` (linux/trace_events.h), `register_trace_event()`,
//! `tracing_reset_all_online_cpus()`. `user_events` has no such care.

use super::super::bindings::{
    self,
    trace_array,
    trace_event_call,
    trace_event_file, //
};
use super::super::c_list::Entries;
use super::super::event_mutex::EventMutexHeld;
use super::super::symbols;
use super::super::task::current_key;
use super::{
    EventClass,
    KeptEvent,
    TraceEvent,
    TraceEventOwner,
    REMOVING_TASK, //
};
use core::cell::UnsafeCell;
use core::mem::{
    offset_of,
    MaybeUninit, //
};
use core::ptr::{
    self,
    NonNull, //
};
use core::sync::atomic::{
    AtomicUsize,
    Ordering, //
};
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// The trace instances whose buffers may have records of an event, by their addresses: some that
/// are gone among them.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Instances([usize; 4]);

/// More than can be listed: all of them.
const ALL: usize = usize::MAX;

impl Instances {
    pub(crate) const NONE: Self = Self([0; 4]);

    /// Adds one, which may have records of the event from now on.
    pub(super) fn add(&mut self, instance: usize) {
        if self.contains(instance) {
            return;
        }
        match self.0.iter_mut().find(|place| **place == 0) {
            Some(place) => *place = instance,
            None => self.0 = [ALL; 4],
        }
    }

    /// Adds others.
    pub(crate) fn add_all(&mut self, others: Self) {
        (others.0.into_iter())
            .filter(|instance| *instance != 0)
            .for_each(|instance| self.add(instance));
    }

    /// Is it one of those that are listed?
    fn lists(&self, instance: usize) -> bool {
        self.0.contains(&instance)
    }

    fn contains(&self, instance: usize) -> bool {
        self.lists(instance) || self.lists(ALL)
    }

    /// Are all of these among them?
    pub(crate) fn contains_all(&self, others: Self) -> bool {
        let mut all = *self;
        all.add_all(others);
        all == *self
    }
}

/// Stands in for a call in the trace core's table of numbers, while the trace core adds or removes
/// the call itself, and must not find it there. Used by the holder of `event_mutex`.
struct StandIn(UnsafeCell<MaybeUninit<trace_event_call>>);

// SAFETY: Used under `event_mutex`, and by the trace core, which reads.
unsafe impl Sync for StandIn {}

static STAND_IN: StandIn = StandIn(UnsafeCell::new(MaybeUninit::zeroed()));

impl StandIn {
    fn call(&self) -> *mut trace_event_call {
        self.0.get().cast()
    }
}

/// The event of a call: the one for which [`STAND_IN`] stands in, if this is that.
///
/// # Safety
///
/// `call` must be that of a `TraceEvent<O>` that is alive, or stand in for one.
pub(super) unsafe fn event_of<'a, O: TraceEventOwner>(
    call: *mut trace_event_call,
) -> &'a TraceEvent<O> {
    const { assert!(offset_of!(TraceEvent<O>, call) == 0) };
    // SAFETY: Promised by the caller; the call is the first member of the event. What stands in has
    // the event for its data, which does not change while the trace core finds it.
    unsafe {
        match call == STAND_IN.call() {
            true => &*(*call).data.cast(),
            false => &*call.cast(),
        }
    }
}

/// Gives the number of one call to another, and has the trace core print records with it by that.
/// Sleeps.
///
/// # Safety
///
/// `from` must have a number, and `to` none. `to` must have all that it takes to print records, and
/// stay as long as it has the number. `event_mutex` must be held.
pub(super) unsafe fn move_number(from: *mut trace_event_call, to: *mut trace_event_call) {
    // SAFETY: The semaphore was found, as there are events. Both calls are alive, says the caller.
    // Who looks for a number, prints records with it, or changes the table holds the semaphore. A
    // node of a list has its neighbours, of which the first is the head's pointer, and the last
    // none.
    unsafe {
        kernel::bindings::down_write(symbols::trace_event_sem());
        let (from, to) = (&raw mut (*from).event, &raw mut (*to).event);
        (*to).type_ = (*from).type_;
        (*to).funcs = (*from).funcs;
        (*to).node = (*from).node;
        *(*to).node.pprev = &raw mut (*to).node;
        if let Some(next) = (*to).node.next.as_mut() {
            next.pprev = &raw mut (*to).node.next;
        }
        // Without functions the trace core takes no number away with the call. What prints in a
        // panic, without the semaphore, may come upon that.
        (*from).funcs = ptr::null_mut();
        (*from).node.pprev = ptr::null_mut();
        kernel::bindings::up_write(symbols::trace_event_sem());
    }
}

impl<O: TraceEventOwner> TraceEvent<O> {
    /// Where there may be records of it.
    pub(crate) fn recorded_in(&self, held: &EventMutexHeld) -> Instances {
        (self.consumer_state.get()).map_or(Instances::NONE, |state| *state.recorded_in.get(held))
    }

    /// Calls `act` while the trace core finds another call by the number.
    ///
    /// # Safety
    ///
    /// The event must have a number, and stay.
    pub(super) unsafe fn with_stand_in<T>(
        &self,
        _held: &mut EventMutexHeld,
        act: impl FnOnce(*mut trace_event_call) -> T,
    ) -> T {
        let (call, stand_in) = (self.call.get(), STAND_IN.call());
        // SAFETY: The mutex is held, so no other task uses the stand-in, which stays for ever, and
        // has what the call has to print with. `call` has a number, says the caller, and no longer
        // in between.
        unsafe {
            (*stand_in).class = (*call).class;
            (*stand_in).__bindgen_anon_1.tp = (*call).__bindgen_anon_1.tp;
            (*stand_in).flags = (*call).flags;
            (*stand_in).data = ptr::from_ref(self).cast_mut().cast();
            move_number(call, stand_in);
            let result = act(call);
            move_number(stand_in, call);
            result
        }
    }

    /// Has the trace core remove the call. The event keeps its number.
    ///
    /// # Errors
    ///
    /// `EBUSY` while a consumer is attached.
    ///
    /// # Safety
    ///
    /// The call must be known to the trace core, which must not be at work on it.
    pub(super) unsafe fn remove_call(&self, held: &mut EventMutexHeld) -> Result {
        // SAFETY: What the trace core knows has a number; the event stays, being borrowed. The rest
        // is promised by the caller.
        unsafe { self.with_stand_in(held, |call| trace_remove(call)) }
    }
}

/// Has the trace core remove a call, and leave us its fields.
///
/// # Errors
///
/// `EBUSY` while a consumer is attached.
///
/// # Safety
///
/// The call must be known to the trace core, which must not be at work on it, and have a stand-in.
/// `event_mutex` must be held.
unsafe fn trace_remove(call: *mut trace_event_call) -> Result {
    REMOVING_TASK.store(current_key(), Relaxed);
    // SAFETY: Promised by the caller.
    let removed = to_result(unsafe { bindings::trace_remove_event_call(call) });
    REMOVING_TASK.store(0, Relaxed);
    removed
}

/// The file of a call in an instance.
///
/// # Safety
///
/// `event_mutex` must be held, `call` be one of ours that the trace core knows, and `instance` one
/// of its own. The file is not to be used when the mutex is free.
pub(super) unsafe fn find_file(
    call: *mut trace_event_call,
    instance: *mut trace_array,
) -> Option<NonNull<trace_event_file>> {
    // SAFETY: The symbols were found, as there are events. System and name are strings that stay
    // with the call, which has a tracepoint for its name. A file that is found stays while the lock
    // is held.
    unsafe {
        let (system, tracepoint) = ((*(*call).class).system, (*call).__bindgen_anon_1.tp);
        let file = bindings::user_events_find_event_file(instance, system, (*tracepoint).name);
        NonNull::new(file).filter(|file| (*file.as_ptr()).event_call == call)
    }
}

/// The flags of an event's file in an instance.
///
/// # Safety
///
/// The file must stay for `'a`.
unsafe fn flags<'a>(file: *mut trace_event_file) -> &'a AtomicUsize {
    // SAFETY: Promised by the caller. The kernel changes single bits, atomically.
    unsafe { AtomicUsize::from_ptr((&raw mut (*file).flags).cast()) }
}

/// Keeps the trace core from a reset of an instance's buffers when it removes the event with this
/// file: the event keeps its number.
///
/// # Safety
///
/// The file must be alive.
pub(super) unsafe fn clear_was_enabled(file: *mut trace_event_file) {
    // SAFETY: As the caller promises.
    let flags = unsafe { flags(file) };
    flags.fetch_and(
        !(bindings::EVENT_FILE_FL_WAS_ENABLED as usize),
        Ordering::Relaxed,
    );
}

impl Instances {
    /// Resets the buffers of these instances, after which the events that were recorded nowhere but
    /// there can be dropped. `kept` is any one; it is known to the trace core in between, in the
    /// system of `class`, in which nothing else may be: the trace core resets buffers after it has
    /// removed an event. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    pub(crate) fn reset_buffers<O: TraceEventOwner>(
        &self,
        kept: &KeptEvent<O>,
        class: &Arc<EventClass<O>>,
        held: &mut EventMutexHeld,
    ) -> Result {
        // SAFETY: By the invariant it has a number. It is not known to the trace core, nor, as the
        // mutex is held, to anyone else by its new name when that knows it no more. Its class is
        // put back.
        unsafe {
            kept.event().with_stand_in(held, |call| {
                let own = (*call).class;
                (*call).class = class.class.get();
                let mut added = to_result(bindings::trace_add_event_call(call));
                if added.is_ok() {
                    // Some are not to be marked, if the others cannot be.
                    added = self.set_flags(call, 0);
                    if added.is_ok() {
                        added = self.set_flags(call, bindings::EVENT_FILE_FL_WAS_ENABLED as usize);
                    }
                    // No consumer can be attached, so it does not fail.
                    let _ = trace_remove(call);
                }
                (*call).class = own;
                added
            })?;
            bindings::user_events_tracing_reset_all_online_cpus();
        }
        Ok(())
    }

    /// Sets flags of the call's file in each instance. An instance may have no events but of some
    /// systems, and then has not had this one either, unless its memory was that of one which had.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when one lacks the file that must have it.
    ///
    /// # Safety
    ///
    /// The trace core must know the call, and `event_mutex` be held.
    unsafe fn set_flags(&self, call: *mut trace_event_call, mark: usize) -> Result {
        // SAFETY: The symbols were found, as there are events. The list of instances is changed
        // with the mutex held only. An instance begins with its place in the list. The rest is
        // promised by the caller.
        unsafe {
            for instance in Entries::of(symbols::trace_arrays()) {
                if !self.contains(instance.addr()) {
                    continue;
                }
                if let Some(file) = find_file(call, instance.cast_mut().cast()) {
                    flags(file.as_ptr()).fetch_or(mark, Ordering::Relaxed);
                } else if self.lists(instance.addr()) {
                    return Err(ENOMEM);
                }
            }
        }
        Ok(())
    }
}
