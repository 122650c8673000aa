// SPDX-License-Identifier: GPL-2.0

//! Probes of the kernel's tracepoints.
//!
//! C: `tracepoint_probe_register()` (linux/tracepoint.h). The C probes are in `bindings/tasks.c`,
//! where the compiler checks their types against the tracepoints.

use super::bindings;
use super::symbols::Address;
use core::ffi::c_void;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::error::to_result;
use kernel::prelude::*;

/// A registered probe. The drop unregisters it, and waits for running calls.
///
/// # Invariants
///
/// `probe` is registered once with `tracepoint`, for `data`. The tracepoint is one of the kernel's
/// own, which are never freed.
struct Registration {
    tracepoint: NonNull<bindings::tracepoint>,
    probe: *mut c_void,
    data: *mut c_void,
}

// SAFETY: Any thread may unregister a probe.
unsafe impl Send for Registration {}
// SAFETY: A shared reference allows nothing.
unsafe impl Sync for Registration {}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: Registered by the invariant.
        unsafe {
            bindings::tracepoint_probe_unregister(self.tracepoint.as_ptr(), self.probe, self.data);
        }
        // Waits for running calls of the probe.
        // SAFETY: Waits only. The kernel warns if sleeping is not allowed.
        unsafe { bindings::user_events_tracepoint_synchronize_unregister() };
    }
}

/// Data of a C probe, and the listener behind it.
#[repr(C)]
struct ProbeData<P, L> {
    probe: P,
    listener: L,
}

/// C probes that call a listener until dropped. The drop waits for running calls.
pub(super) struct Probes<P, L> {
    registrations: KVec<Registration>,
    // Dropped last: the probes have it.
    data: KBox<ProbeData<P, L>>,
}

impl<P, L> Probes<P, L> {
    /// Registers the probes: a function for each tracepoint. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when the kernel lacks a tracepoint; `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The functions must be probes of the tracepoints' types whose data is a `P`.
    pub(super) unsafe fn new(
        tracepoints: &[(&Address, *const ())],
        probe: P,
        listener: L,
    ) -> Result<Self> {
        let mut probes = Self {
            registrations: KVec::new(),
            data: KBox::new(ProbeData { probe, listener }, GFP_KERNEL)?,
        };
        let data = probes.data().cast();
        for (address, probe) in tracepoints {
            let tracepoint = NonNull::new(address.get()).ok_or(ENOENT)?;
            let probe = probe.cast_mut().cast();
            // SAFETY: A tracepoint of the kernel, and a probe of its type whose data is a `P`, by
            // the safety requirement. The data begins with that, stays in place in its box, and
            // does not change until the probes are unregistered.
            to_result(unsafe {
                bindings::tracepoint_probe_register(tracepoint.as_ptr(), probe, data)
            })?;
            // INVARIANT: Just registered.
            let registration = Registration {
                tracepoint,
                probe,
                data,
            };
            probes.registrations.push(registration, GFP_KERNEL)?;
        }
        Ok(probes)
    }

    /// The data of the probes.
    pub(super) fn data(&self) -> *mut P {
        ptr::from_ref(&*self.data).cast_mut().cast()
    }

    /// The listener of a probe that runs.
    ///
    /// # Safety
    ///
    /// `probe` must be the data of a running probe of a `Probes<P, L>`, and the result must not
    /// outlive the call.
    pub(super) unsafe fn listener<'a>(probe: *mut P) -> &'a L {
        // SAFETY: The first member of the data, which is freed after the tracepoints' readers, one
        // of which the probe is.
        unsafe { &(*probe.cast_const().cast::<ProbeData<P, L>>()).listener }
    }
}
