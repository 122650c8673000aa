// SPDX-License-Identifier: GPL-2.0

//! Probes of the kernel's tracepoints.
//!
//! C: `tracepoint_probe_register()` (linux/tracepoint.h). The probes themselves are in
//! `bindings/tasks.c`, where the compiler compares their types with the tracepoints'.

use super::bindings;
use super::symbols::Address;
use core::ffi::c_void;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::error::to_result;
use kernel::prelude::*;

/// A probe that is called until this is dropped.
///
/// # Invariants
///
/// `probe` is registered with `tracepoint`, once, for `data`. The tracepoint is one of the kernel's
/// own, which never go.
struct Registration {
    tracepoint: NonNull<bindings::tracepoint>,
    probe: *mut c_void,
    data: *mut c_void,
}

// SAFETY: A probe can be taken away from any thread.
unsafe impl Send for Registration {}
// SAFETY: Nothing can be done with a shared reference.
unsafe impl Sync for Registration {}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: By the invariant it is registered.
        unsafe {
            bindings::tracepoint_probe_unregister(self.tracepoint.as_ptr(), self.probe, self.data);
        }
        // The probe may be running, and after this it is not.
        // SAFETY: Waits only; where sleeping is not allowed, the kernel says so.
        unsafe { bindings::user_events_tracepoint_synchronize_unregister() };
    }
}

/// Data of a probe in C, with what it leads to behind it.
#[repr(C)]
struct ProbeData<P, L> {
    probe: P,
    listener: L,
}

/// Probes in C that tell a listener until this is dropped, which waits for the calls that are under
/// way.
pub(super) struct Probes<P, L> {
    registrations: KVec<Registration>,
    // Dropped last: the probes have it.
    data: KBox<ProbeData<P, L>>,
}

impl<P, L> Probes<P, L> {
    /// Begins to have the probes called: tracepoints by their addresses, and a function for each.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when the kernel has no such tracepoint; `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The functions must have the types of the tracepoints' probes, and take their data for a `P`.
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
            // SAFETY: A tracepoint of the kernel's, and a probe of its type, which takes its data
            // for a `P`, says the caller. The data begins with that, and stays in place in its box,
            // and nothing changes it, until the probes were taken away.
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

    /// What the probes are called with.
    pub(super) fn data(&self) -> *mut P {
        ptr::from_ref(&*self.data).cast_mut().cast()
    }

    /// The listener of a probe that runs.
    ///
    /// # Safety
    ///
    /// `probe` must be what a probe of a `Probes<P, L>` was called with, and the result must not be
    /// used when that has returned.
    pub(super) unsafe fn listener<'a>(probe: *mut P) -> &'a L {
        // SAFETY: The first member of the data, which is not freed before the tracepoints' readers,
        // one of which the probe is, are gone.
        unsafe { &(*probe.cast_const().cast::<ProbeData<P, L>>()).listener }
    }
}
