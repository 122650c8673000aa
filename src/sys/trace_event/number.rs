// SPDX-License-Identifier: GPL-2.0

//! The numbers of trace events (`type` of `struct trace_event`), which identify the records in the
//! trace buffers.
//!
//! The trace core gives the lowest free number to a new event of any kind, and prints the records
//! that are still in the buffers as records of that event. So an event that may have records keeps
//! its number, and the functions that print them, when it is removed from the trace core. Before
//! the number is freed, the buffers are reset, as the trace core does for its own events.
//!
//! C: `register_trace_event()` (linux/trace_events.h), `tracing_reset_all_online_cpus()`.

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

/// The trace instances whose buffers may have records of an event, by address. Some may have been
/// removed.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Instances([usize; 4]);

/// All instances, as there are more than can be listed.
const ALL: usize = usize::MAX;

impl Instances {
    pub(crate) const NONE: Self = Self([0; 4]);

    /// Adds an instance.
    pub(super) fn add(&mut self, instance: usize) {
        if self.contains(instance) {
            return;
        }
        match self.0.iter_mut().find(|place| **place == 0) {
            Some(place) => *place = instance,
            None => self.0 = [ALL; 4],
        }
    }

    /// Adds all `others`.
    pub(crate) fn add_all(&mut self, others: Self) {
        (others.0.into_iter())
            .filter(|instance| *instance != 0)
            .for_each(|instance| self.add(instance));
    }

    /// Whether an instance is listed by its address.
    fn lists(&self, instance: usize) -> bool {
        self.0.contains(&instance)
    }

    fn contains(&self, instance: usize) -> bool {
        self.lists(instance) || self.lists(ALL)
    }

    /// Whether `others` add nothing.
    pub(crate) fn contains_all(&self, others: Self) -> bool {
        let mut all = *self;
        all.add_all(others);
        all == *self
    }
}

/// Stands in for a call in the trace core's table of numbers while the trace core adds or removes
/// that call, and must not find it there. Used under `event_mutex`.
struct StandIn(UnsafeCell<MaybeUninit<trace_event_call>>);

// SAFETY: The module writes it under `event_mutex`, before the trace core can find it or with
// `trace_event_sem` held, under which the trace core reads it.
unsafe impl Sync for StandIn {}

static STAND_IN: StandIn = StandIn(UnsafeCell::new(MaybeUninit::zeroed()));

impl StandIn {
    fn call(&self) -> *mut trace_event_call {
        self.0.get().cast()
    }
}

/// The event of a call, also if the call is [`STAND_IN`].
///
/// # Safety
///
/// `call` must be that of a live `TraceEvent<O>`, or its stand-in.
pub(super) unsafe fn event_of<'a, O: TraceEventOwner>(
    call: *mut trace_event_call,
) -> &'a TraceEvent<O> {
    const { assert!(offset_of!(TraceEvent<O>, call) == 0) };
    // SAFETY: By the safety requirement. The call is the first member of its event. The data of the
    // stand-in is the event, and does not change while the trace core can find it.
    unsafe {
        match call == STAND_IN.call() {
            true => &*(*call).data.cast(),
            false => &*call.cast(),
        }
    }
}

/// Moves the number of one call to another, and with it the printing of records. Sleeps.
///
/// # Safety
///
/// `from` must have a number, and `to` none. `to` must have all members for the printing of
/// records, and stay in place while it has the number. `event_mutex` must be held.
pub(super) unsafe fn move_number(from: *mut trace_event_call, to: *mut trace_event_call) {
    // SAFETY: The semaphore was found, as there are events, and both calls are alive. Lookups, the
    // printing of records, and changes of the table hold the semaphore. In a hash list the
    // predecessor's pointer exists, and the successor may be NULL.
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
        // With `funcs` NULL the trace core frees no number with the call. Printing in a panic,
        // which takes no semaphore, may see that.
        (*from).funcs = ptr::null_mut();
        (*from).node.pprev = ptr::null_mut();
        kernel::bindings::up_write(symbols::trace_event_sem());
    }
}

impl<O: TraceEventOwner> TraceEvent<O> {
    /// The instances that may have records of the event.
    pub(crate) fn recorded_in(&self, held: &EventMutexHeld) -> Instances {
        (self.consumer_state.get()).map_or(Instances::NONE, |state| *state.recorded_in.get(held))
    }

    /// Calls `act` while the stand-in has the number. Sleeps.
    ///
    /// # Safety
    ///
    /// The event must have a number, and stay alive.
    pub(super) unsafe fn with_stand_in<T>(
        &self,
        _held: &mut EventMutexHeld,
        act: impl FnOnce(*mut trace_event_call) -> T,
    ) -> T {
        let (call, stand_in) = (self.call.get(), STAND_IN.call());
        // SAFETY: The mutex is held, so no other task uses the stand-in, which is never freed, and
        // gets the call's members for printing. `call` has the number before and after, by the
        // safety requirement.
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

    /// Removes the call from the trace core. The event keeps its number.
    ///
    /// # Errors
    ///
    /// `EBUSY` while a consumer is attached.
    ///
    /// # Safety
    ///
    /// The trace core must know the call, and not be using it.
    pub(super) unsafe fn remove_call(&self, held: &mut EventMutexHeld) -> Result {
        // SAFETY: A call that the trace core knows has a number, and the event is borrowed. The
        // rest is the safety requirement.
        unsafe { self.with_stand_in(held, |call| trace_remove(call)) }
    }
}

/// Removes a call from the trace core, which does not free the event's fields.
///
/// # Errors
///
/// `EBUSY` while a consumer is attached.
///
/// # Safety
///
/// The trace core must know the call, and not be using it. The call must have a stand-in, and
/// `event_mutex` be held.
unsafe fn trace_remove(call: *mut trace_event_call) -> Result {
    REMOVING_TASK.store(current_key(), Relaxed);
    // SAFETY: By the safety requirement.
    let removed = to_result(unsafe { bindings::trace_remove_event_call(call) });
    REMOVING_TASK.store(0, Relaxed);
    removed
}

/// The file of a call in an instance.
///
/// # Safety
///
/// `event_mutex` must be held, also while the file is used. The trace core must know `call`, which
/// belongs to the module, and `instance`.
pub(super) unsafe fn find_file(
    call: *mut trace_event_call,
    instance: *mut trace_array,
) -> Option<NonNull<trace_event_file>> {
    // SAFETY: The symbols were found, as there are events. System and name are strings that live as
    // long as the call, whose name is that of its tracepoint. The file lives while the lock is
    // held.
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
/// The file must be alive for `'a`.
unsafe fn flags<'a>(file: *mut trace_event_file) -> &'a AtomicUsize {
    // SAFETY: By the safety requirement. The kernel changes single bits, atomically.
    unsafe { AtomicUsize::from_ptr((&raw mut (*file).flags).cast()) }
}

/// Keeps the trace core from resetting the instance's buffers when it removes the event, which
/// keeps its number.
///
/// # Safety
///
/// The file must be alive.
pub(super) unsafe fn clear_was_enabled(file: *mut trace_event_file) {
    // SAFETY: By the safety requirement.
    let flags = unsafe { flags(file) };
    flags.fetch_and(
        !(bindings::EVENT_FILE_FL_WAS_ENABLED as usize),
        Ordering::Relaxed,
    );
}

impl Instances {
    /// Resets the buffers of these instances, after which events without records elsewhere can be
    /// dropped. `kept` is any event that is kept. The trace core resets buffers after the removal
    /// of an event, so `kept` is added to it and removed, in the system of `class`, in which no
    /// other event may be. Sleeps.
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
        // SAFETY: By the invariant the event has a number, and the trace core does not know it. The
        // mutex is held, so nothing else finds the event by its temporary system. Its own class is
        // restored.
        unsafe {
            kept.event().with_stand_in(held, |call| {
                let own = (*call).class;
                (*call).class = class.class.get();
                let mut added = to_result(bindings::trace_add_event_call(call));
                if added.is_ok() {
                    // No file is marked if another one cannot be.
                    added = self.set_flags(call, 0);
                    if added.is_ok() {
                        added = self.set_flags(call, bindings::EVENT_FILE_FL_WAS_ENABLED as usize);
                    }
                    // Does not fail, as no consumer can be attached.
                    let _ = trace_remove(call);
                }
                (*call).class = own;
                added
            })?;
            bindings::user_events_tracing_reset_all_online_cpus();
        }
        Ok(())
    }

    /// Sets flags of the call's file in each instance. An instance may be limited to some systems,
    /// and then has no file, nor ever had one, unless its memory was that of an earlier instance.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when an instance that is listed has no file.
    ///
    /// # Safety
    ///
    /// The trace core must know the call, and `event_mutex` be held.
    unsafe fn set_flags(&self, call: *mut trace_event_call, mark: usize) -> Result {
        // SAFETY: The symbols were found, as there are events. The list of instances changes under
        // the mutex only. An instance begins with its list entry. The rest is the safety
        // requirement.
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
