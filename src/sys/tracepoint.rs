// SPDX-License-Identifier: GPL-2.0

//! Probes of the kernel's tracepoints.
//!
//! C: `tracepoint_probe_register()`, `for_each_kernel_tracepoint()` (linux/tracepoint.h). A tracepoint
//! that is compiled into the kernel is found by its name. The probes themselves are in
//! `bindings/tasks.c`, where the compiler compares their types with the tracepoints'.

use super::bindings;
use super::symbols::padded;
use core::ffi::c_void;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::str::CStr;

/// Bytes for a tracepoint's name and its NUL.
const NAME_SIZE: usize = 32;

/// A tracepoint, and the probe for it. The name lies in place.
///
/// # Invariants
///
/// `probe` is a function with the type of the tracepoint's probes.
#[repr(C)]
pub(super) struct Tracepoint {
    probe: *const (),
    name: [u8; NAME_SIZE],
}

// SAFETY: An address of a function and a name, neither of which changes.
unsafe impl Sync for Tracepoint {}

impl Tracepoint {
    /// # Safety
    ///
    /// `probe` must be a function with the type of the probes of the tracepoint that has this name.
    pub(super) const unsafe fn new(probe: *const (), name: &str) -> Self {
        // INVARIANT: Promised by the caller.
        Self {
            probe,
            name: padded(name),
        }
    }

    /// The kernel's tracepoint of this name.
    fn find(&self) -> Option<NonNull<bindings::tracepoint>> {
        let mut search = Search {
            name: CStr::from_bytes_until_nul(&self.name).unwrap_or_default(),
            found: None,
        };
        // SAFETY: `look` takes its data for a `Search`, and is called until this returns.
        unsafe {
            bindings::for_each_kernel_tracepoint(Some(look), (&raw mut search).cast());
        }
        search.found
    }
}

/// What is looked for among the tracepoints.
struct Search<'a> {
    name: &'a CStr,
    found: Option<NonNull<bindings::tracepoint>>,
}

/// # Safety
///
/// `tracepoint` must be one of the kernel's, and `search` a `Search` that nothing else uses.
unsafe extern "C" fn look(tracepoint: *mut bindings::tracepoint, search: *mut c_void) {
    // SAFETY: Promised by the caller.
    let search = unsafe { &mut *search.cast::<Search<'_>>() };
    // SAFETY: The name of a tracepoint is a string that stays with it.
    let name = unsafe { CStr::from_char_ptr((*tracepoint).name) };
    if name == search.name {
        search.found = NonNull::new(tracepoint);
    }
}

/// A probe that is called until this is dropped.
///
/// # Invariants
///
/// `probe` is registered with `tracepoint`, once, for `data`. The tracepoint is one of the kernel's own,
/// which never go.
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
    /// Begins to have `probe` called. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when the kernel has no such tracepoint; `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The probes of the tracepoints must take their data for a `P`.
    pub(super) unsafe fn new(tracepoints: &[&Tracepoint], probe: P, listener: L) -> Result<Self> {
        let mut probes = Self {
            registrations: KVec::new(),
            data: KBox::new(ProbeData { probe, listener }, GFP_KERNEL)?,
        };
        let data = ptr::from_ref(&*probes.data).cast_mut().cast();
        for place in tracepoints {
            let tracepoint = place.find().ok_or(ENOENT)?;
            let probe = place.probe.cast_mut().cast();
            // SAFETY: A tracepoint of the kernel's, and by the invariant a probe of its type, which
            // takes its data for a `P`, says the caller. The data begins with that, and stays in
            // place in its box, and nothing changes it, until the probes were taken away.
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
