// SPDX-License-Identifier: GPL-2.0

//! The consumers of a trace event, and how they come and go.

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

/// The kinds of consumers that take the records of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Consumers(i8);

impl Consumers {
    const FTRACE: i8 = 1;
    const PERF: i8 = 2;
    const ANY: i8 = Self::FTRACE | Self::PERF;
    /// There is a consumer, and a limit to what is recorded: the sign, so that a write learns with
    /// one comparison whether there is anything to be asked.
    const LIMITED: i8 = i8::MIN;

    /// Is there none?
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Does the ring buffer of any trace instance?
    #[inline]
    pub(crate) fn has_ftrace(self) -> bool {
        self.0 & Self::FTRACE != 0
    }

    /// Does perf?
    #[inline]
    pub(crate) fn has_perf(self) -> bool {
        self.0 & Self::PERF != 0
    }

    /// Does a limit have to be asked, see [`TraceEventOwner::has_limit`]?
    #[inline]
    pub(crate) fn has_limit(self) -> bool {
        self.0 < 0
    }
}

impl<O: TraceEventOwner> TraceEvent<O> {
    /// The consumers now. One load: a consumer may come or go meanwhile.
    #[inline]
    pub(crate) fn consumers(&self) -> Consumers {
        // A task that sees a consumer here also sees what the trace core prepared for it before.
        Consumers(self.consumers.load_acquire())
    }

    /// The consumers now, by a load that orders nothing: enough to see whether a record is wanted.
    /// The delivery of a record looks again.
    #[inline]
    pub(crate) fn consumers_relaxed(&self) -> Consumers {
        // SAFETY: The field lives as long as `self`. It is only stored to as a whole, and what is
        // read here orders nothing: that needs no more than one access, which is what a volatile
        // read is.
        Consumers(unsafe { self.consumers.as_ptr().read_volatile() })
    }

    /// Notes the consumers, and tells the owner if records begin or cease to be wanted by that.
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

    /// What [`TraceEventOwner::has_limit`] returns may be another thing now.
    pub(crate) fn limit_changed(self: &Arc<Self>, held: &EventMutexHeld) {
        self.set_consumers(self.consumers().0, held);
    }

    /// What the trace core calls when a consumer comes or goes.
    ///
    /// # Safety
    ///
    /// For the trace core: `call` is one that `register` gave it, `event_mutex` is held where
    /// `type_` is about registering and opening, and `data` is what belongs to `type_`.
    pub(super) unsafe extern "C" fn reg(
        call: *mut trace_event_call,
        type_: kernel::ffi::c_int,
        data: *mut c_void,
    ) -> kernel::ffi::c_int {
        // SAFETY: What `register` gave is a pointer to a `TraceEvent<O>`, as `Arc::into_raw` gives
        // it, and to its first field. The trace core's own reference keeps it alive.
        let event = unsafe { Arc::from_raw(call.cast_const().cast::<Self>()) };
        // That reference is lent, not given.
        let event = mem::ManuallyDrop::new(event);
        // SAFETY: The trace core holds `event_mutex` where a consumer comes or goes. Either it was
        // called from outside of this module, or by `register` or `Removal::unregister`, which
        // borrow the proof mutably.
        let held = || unsafe { EventMutexHeld::assume() };
        let result = match type_ as u32 {
            // SAFETY: For this type `data` is the event's file in an instance. The trace core
            // unregisters it and waits for tracepoint_srcu before it frees it; or does not wait
            // where the event is removed, for which there is no reference to it, so no record on
            // its way.
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
                // SAFETY: For this type and the next `data` is a perf event, which is alive.
                state.and_then(|it| unsafe { it.perf_events.open(data.cast(), &mut held()) })
            }
            bindings::trace_reg_TRACE_REG_PERF_CLOSE => {
                if let Some(state) = event.consumer_state.get() {
                    // SAFETY: As above.
                    unsafe { state.perf_events.close(data.cast(), &mut held()) };
                }
                Ok(())
            }
            // Scheduling a perf event, without the mutex: nothing to do.
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
        let before = self.consumers();
        if before.is_none() {
            O::first_attaches(self, held)?;
        }
        let state = self.consumer_state.get_or_new(ConsumerState::new, held);
        // SAFETY: Promised by the caller.
        let inserted = state.and_then(|state| unsafe {
            state.recorded_in.get_mut(held).add((*file).tr.addr());
            self.files.insert(file, held)
        });
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
        // SAFETY: The trace core has not freed it yet.
        unsafe { number::clear_was_enabled(file) };
        if self.files.is_empty() {
            self.detach(self.consumers().0 & !Consumers::FTRACE, held);
        }
    }

    fn attach_perf(self: &Arc<Self>, held: &mut EventMutexHeld) -> Result {
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
