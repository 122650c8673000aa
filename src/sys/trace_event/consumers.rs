// SPDX-License-Identifier: GPL-2.0

//! The consumers of a trace event, and the callback that adds and removes them.

use super::super::bindings::{
    self,
    trace_event_call, //
};
use super::super::event_mutex::EventMutexHeld;
use super::super::load_acquire::LoadAcquire;
use super::{
    number,
    ConsumerState,
    TraceEvent,
    TraceEventOwner, //
};
use core::ffi::c_void;
use core::mem;
use kernel::error::from_result;
use kernel::prelude::*;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;

/// The kinds of consumers that are attached to an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Consumers(i8);

impl Consumers {
    const FTRACE: i8 = 1;
    const PERF: i8 = 2;
    const ANY: i8 = Self::FTRACE | Self::PERF;
    /// Consumers are attached, and the event has a limit. The sign, so that one comparison of a
    /// write covers both.
    const LIMITED: i8 = i8::MIN;

    /// Whether no consumer is attached.
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether a trace instance is attached.
    #[inline]
    pub(crate) fn has_ftrace(self) -> bool {
        self.0 & Self::FTRACE != 0
    }

    /// Whether perf is attached.
    #[inline]
    pub(crate) fn has_perf(self) -> bool {
        self.0 & Self::PERF != 0
    }

    /// Whether the event has a limit, see [`TraceEventOwner::has_limit`].
    #[inline]
    pub(crate) fn has_limit(self) -> bool {
        self.0 < 0
    }
}

impl<O: TraceEventOwner> TraceEvent<O> {
    /// The current consumers, which may change at once.
    #[inline]
    pub(crate) fn consumers(&self) -> Consumers {
        // The acquire pairs with the release in `set_consumers`: a task that sees a consumer also
        // sees what the trace core has prepared for it.
        Consumers(self.consumers.load_acquire())
    }

    /// As [`Self::consumers`], without ordering: enough to see whether a record is wanted. The
    /// delivery of a record checks again.
    #[inline]
    pub(crate) fn consumers_relaxed(&self) -> Consumers {
        // SAFETY: The field lives as long as `self`, and is stored by single accesses, of which a
        // volatile read is one. No ordering is needed.
        Consumers(unsafe { self.consumers.as_ptr().read_volatile() })
    }

    /// Stores the consumers, and calls [`TraceEventOwner::toggled`] if records start or cease to be
    /// wanted.
    fn set_consumers(self: &Arc<Self>, consumers: i8, held: &EventMutexHeld) {
        let before = self.consumers();
        let consumers = match consumers & Consumers::ANY {
            0 => 0,
            any if O::has_limit(self) => any | Consumers::LIMITED,
            any => any,
        };
        self.consumers.store(consumers, Release);
        if Consumers(consumers).is_none() != before.is_none() {
            O::toggled(self, held);
        }
    }

    /// To be called when the result of [`TraceEventOwner::has_limit`] changes.
    pub(crate) fn limit_changed(self: &Arc<Self>, held: &EventMutexHeld) {
        self.set_consumers(self.consumers().0, held);
    }

    /// The trace core's callback for consumers. C: `reg` of `struct trace_event_class`.
    ///
    /// # Safety
    ///
    /// For the trace core: `call` is from `register`, `event_mutex` is held if `type_` is about
    /// registering or opening, and `data` is that of `type_`.
    pub(super) unsafe extern "C" fn reg(
        call: *mut trace_event_call,
        type_: kernel::ffi::c_int,
        data: *mut c_void,
    ) -> kernel::ffi::c_int {
        // SAFETY: `call` is the first member of a `TraceEvent<O>`, so the pointer that
        // `Arc::into_raw` gave `register`. The trace core's reference keeps the event alive.
        let event = unsafe { Arc::from_raw(call.cast_const().cast::<Self>()) };
        // The trace core keeps its reference.
        let event = mem::ManuallyDrop::new(event);
        // SAFETY: The trace core holds `event_mutex` when a consumer comes or goes. The trace core
        // was called from outside of the module, or by `register` or `Removal::unregister`, which
        // borrow the proof mutably.
        let held = || unsafe { EventMutexHeld::assume() };
        let result = match type_ as u32 {
            // SAFETY: For this type `data` is the event's file in an instance. The trace core frees
            // the file after it has unregistered it and waited for tracepoint_srcu. It does not
            // wait if it removes the event, but then there is no reference to the event, and so no
            // record on its way.
            bindings::trace_reg_TRACE_REG_REGISTER => unsafe {
                event.attach_file(data.cast(), &mut held())
            },
            bindings::trace_reg_TRACE_REG_UNREGISTER => {
                event.detach_file(data.cast(), &mut held());
                Ok(())
            }
            bindings::trace_reg_TRACE_REG_PERF_REGISTER => event.attach_perf(&mut held()),
            bindings::trace_reg_TRACE_REG_PERF_UNREGISTER => {
                event.detach(event.consumers().0 & !Consumers::PERF, &mut held());
                Ok(())
            }
            bindings::trace_reg_TRACE_REG_PERF_OPEN => {
                let state = event.consumer_state.get_or_new(ConsumerState::new, &held());
                // SAFETY: For this type and the next one `data` is a perf event, which is alive.
                state.and_then(|it| unsafe { it.perf_events.open(data.cast(), &mut held()) })
            }
            bindings::trace_reg_TRACE_REG_PERF_CLOSE => {
                if let Some(state) = event.consumer_state.get() {
                    // SAFETY: As above.
                    unsafe { state.perf_events.close(data.cast(), &mut held()) };
                }
                Ok(())
            }
            // A perf event is scheduled, without the mutex: nothing to do.
            _ => Ok(()),
        };
        from_result(|| result.map(|()| 0))
    }

    /// # Safety
    ///
    /// As for [`EventFiles::insert`].
    unsafe fn attach_file(
        self: &Arc<Self>,
        file: *mut bindings::trace_event_file,
        held: &mut EventMutexHeld,
    ) -> Result {
        let state = self.consumer_state.get_or_new(ConsumerState::new, held)?;
        let before = self.consumers();
        if before.is_none() {
            O::first_attaches(self, held)?;
        }
        // SAFETY: By the safety requirement.
        let inserted = unsafe {
            state.recorded_in.get_mut(held).add((*file).tr.addr());
            self.files.insert(file, held)
        };
        if inserted.is_err() {
            if before.is_none() {
                O::last_detached(self, held);
            }
            return inserted;
        }
        self.set_consumers(before.0 | Consumers::FTRACE, held);
        Ok(())
    }

    fn detach_file(
        self: &Arc<Self>,
        file: *mut bindings::trace_event_file,
        held: &mut EventMutexHeld,
    ) {
        self.files.remove(file, held);
        // SAFETY: The trace core frees the file after it has unregistered it, which it is doing in
        // this call.
        unsafe { number::clear_was_enabled(file) };
        if self.files.is_empty() {
            self.detach(self.consumers().0 & !Consumers::FTRACE, held);
        }
    }

    fn attach_perf(self: &Arc<Self>, held: &mut EventMutexHeld) -> Result {
        self.consumer_state.get_or_new(ConsumerState::new, held)?;
        let before = self.consumers();
        if before.is_none() {
            O::first_attaches(self, held)?;
        }
        self.set_consumers(before.0 | Consumers::PERF, held);
        Ok(())
    }

    fn detach(self: &Arc<Self>, left: i8, held: &mut EventMutexHeld) {
        self.set_consumers(left, held);
        if self.consumers().is_none() {
            O::last_detached(self, held);
        }
    }
}
