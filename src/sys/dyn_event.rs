// SPDX-License-Identifier: GPL-2.0

//! The module's kind of event in `dynamic_events`.
//!
//! C: kernel/trace/trace_dynevent.h; `bindings/trace_private.h` has copies of its two structures.
//! Each registered [`TraceEvent`] is an entry in the list of that file.

use super::bindings::{
    self,
    dyn_event,
    dyn_event_operations, //
};
use super::c_list;
use super::event_mutex::EventMutexHeld;
use super::loading::LoadComplete;
use super::symbols::{
    self,
    CheckedSymbols, //
    KernelMutexGuard,
};
use super::trace_event::{
    Removal,
    TraceEvent,
    TraceEventOwner, //
};
use super::tracefs::SeqWriter;
use core::mem::ManuallyDrop;
use core::ptr;
use core::slice;
use kernel::error::from_result;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Release, //
};
use kernel::sync::Arc;
use kernel::types::Opaque;

/// The operations of `dynamic_events` on the events of one owner. All may sleep, and all but
/// `create` are called with `event_mutex` held.
pub(crate) trait DynEventOwner: TraceEventOwner {
    /// Data for the creation of events.
    type CreateData: Send + Sync + 'static;

    /// A task has written a line that does not delete. `dyn_event_ops_mutex` is held.
    ///
    /// # Errors
    ///
    /// `ECANCELED` if the line is for another kind of event. The task gets any other error.
    fn create(create_data: &Arc<Self::CreateData>, line: &CStr) -> Result;

    /// Writes the line that creates the event.
    fn show(event: &TraceEvent<Self>, out: &SeqWriter<'_>);

    /// Deletes the event.
    fn delete(removal: Removal<'_, Self>) -> Result;

    /// Whether a line with these parts, of which the system may be missing, deletes the event.
    fn matches(
        event: &TraceEvent<Self>,
        system: Option<&CStr>,
        name: &CStr,
        args: Args<'_>,
    ) -> bool;
}

/// The words after the name in a line that deletes.
#[derive(Clone)]
pub(crate) struct Args<'a>(slice::Iter<'a, *const kernel::ffi::c_char>);

impl<'a> Iterator for Args<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // SAFETY: The trace core passes an array of strings that live for the call, to which `'a`
        // is bound.
        Some(unsafe { CStr::from_char_ptr(*self.0.next()?) }.to_bytes())
    }
}

/// The data for `create`, which gets the line only. Set while a [`DynEvents`] exists.
static CREATE_DATA: Atomic<*mut core::ffi::c_void> = Atomic::new(ptr::null_mut());

/// The module's kind of event, which `dynamic_events` has from `publish` until the drop. There can
/// be one only.
///
/// # Invariants
///
/// `CREATE_DATA` is the pointer of `_create_data`. `operations` is in the trace core's list of
/// kinds if `is_listed`.
pub(crate) struct DynEvents<O: DynEventOwner> {
    operations: KBox<Opaque<dyn_event_operations>>,
    is_listed: Atomic<bool>,
    _create_data: Arc<O::CreateData>,
    symbols: CheckedSymbols,
}

// SAFETY: The kind can be removed from any thread.
unsafe impl<O: DynEventOwner> Send for DynEvents<O> {}
// SAFETY: A shared reference allows only publishing, which happens once.
unsafe impl<O: DynEventOwner> Sync for DynEvents<O> {}

impl<O: DynEventOwner> DynEvents<O> {
    /// The operations, to which the entries of events point. The trace core's list of kinds has a
    /// copy, as it links its entries.
    pub(super) const OPERATIONS: &'static dyn_event_operations = &dyn_event_operations {
        list: bindings::list_head {
            next: ptr::null_mut(),
            prev: ptr::null_mut(),
        },
        create: Some(Self::create),
        show: Some(Self::show),
        is_busy: Some(Self::is_busy),
        free: Some(Self::free),
        match_: Some(Self::matches),
    };

    /// The kind, not published yet. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EBUSY` when another one exists.
    pub(crate) fn new(symbols: CheckedSymbols, create_data: Arc<O::CreateData>) -> Result<Self> {
        let operations = KBox::new(Opaque::new(*Self::OPERATIONS), GFP_KERNEL)?;
        let raw = Arc::as_ptr(&create_data).cast_mut().cast();
        if CREATE_DATA.cmpxchg(ptr::null_mut(), raw, Full).is_err() {
            return Err(EBUSY);
        }
        // INVARIANT: Just stored. Not listed yet.
        Ok(Self {
            operations,
            is_listed: Atomic::new(false),
            _create_data: create_data,
            symbols,
        })
    }

    /// Publishes the kind: the trace core offers lines to `O::create` from now on. May sleep.
    pub(crate) fn publish(&self, _: &LoadComplete) {
        // INVARIANT: The call that changes `is_listed` adds the operations.
        if !self.is_listed.xchg(true, Full) {
            let lock = self.lock_ops();
            // SAFETY: The symbols were found, and the list's lock is held. The operations are in no
            // list yet, and stay in place in their box until they are removed.
            unsafe {
                let link = &raw mut (*self.operations.get()).list;
                c_list::add_tail(link, symbols::dyn_event_ops_list());
            }
            drop(lock);
        }
    }

    /// Locks the list of kinds. May sleep.
    fn lock_ops(&self) -> KernelMutexGuard {
        let _: CheckedSymbols = self.symbols;
        // SAFETY: The symbols were found, as `symbols` proves.
        unsafe { KernelMutexGuard::lock(symbols::dyn_event_ops_mutex()) }
    }

    /// # Safety
    ///
    /// For the trace core: `line` is a string, and the lock of the kinds is held.
    unsafe extern "C" fn create(line: *const kernel::ffi::c_char) -> c_int {
        from_result(|| {
            // SAFETY: The kind is in the list, since this is called, and stays there while the lock
            // of the kinds is held, so `CREATE_DATA` is set. It is the pointer of an `Arc`, of
            // which `_create_data` owns a count that is lent here.
            let create_data =
                unsafe { Arc::from_raw(CREATE_DATA.load(Acquire).cast_const().cast()) };
            let create_data = ManuallyDrop::<Arc<O::CreateData>>::new(create_data);
            // SAFETY: A string by the safety requirement.
            let line = unsafe { CStr::from_char_ptr(line) };
            O::create(&create_data, line).map(|()| 0)
        })
    }

    /// # Safety
    ///
    /// For the trace core, as all functions below: `entry` is in the list, and `event_mutex` is
    /// held.
    unsafe extern "C" fn show(seq: *mut bindings::seq_file, entry: *mut dyn_event) -> c_int {
        // SAFETY: By the safety requirement. Nothing else uses the seq_file during the call.
        unsafe { O::show(&TraceEvent::<O>::of_entry(entry), &SeqWriter::from_raw(seq)) };
        0
    }

    /// # Safety
    ///
    /// See [`Self::show`].
    unsafe extern "C" fn is_busy(entry: *mut dyn_event) -> bool {
        // SAFETY: The trace core holds `event_mutex`, and was not called by the module.
        let held = unsafe { EventMutexHeld::assume() };
        // SAFETY: By the safety requirement.
        unsafe { TraceEvent::<O>::of_entry(entry) }.is_busy(&held)
    }

    /// # Safety
    ///
    /// See [`Self::show`].
    unsafe extern "C" fn free(entry: *mut dyn_event) -> c_int {
        // SAFETY: By the safety requirement. The clone outlives the deletion.
        let event = unsafe { Arc::clone(&TraceEvent::<O>::of_entry(entry)) };
        // SAFETY: The trace core holds `event_mutex`, and was not called by the module.
        let mut held = unsafe { EventMutexHeld::assume() };
        // SAFETY: The trace core only deletes the event, and has the list's next entry already.
        let removal = unsafe { Removal::new(&event, &mut held) };
        from_result(|| O::delete(removal).map(|()| 0))
    }

    /// # Safety
    ///
    /// See [`Self::show`]; `system` is a string or NULL, `name` a string, `args` an array of
    /// `count` strings.
    unsafe extern "C" fn matches(
        system: *const kernel::ffi::c_char,
        name: *const kernel::ffi::c_char,
        count: c_int,
        args: *mut *const kernel::ffi::c_char,
        entry: *mut dyn_event,
    ) -> bool {
        // SAFETY: By the safety requirement.
        let (event, name) =
            unsafe { (TraceEvent::<O>::of_entry(entry), CStr::from_char_ptr(name)) };
        // SAFETY: Not NULL, so a string.
        let system = (!system.is_null()).then(|| unsafe { CStr::from_char_ptr(system) });
        let args = match usize::try_from(count) {
            // SAFETY: An array of `count` strings by the safety requirement.
            Ok(count) if count > 0 => unsafe { slice::from_raw_parts(args.cast_const(), count) },
            _ => &[],
        };
        O::matches(&event, system, name, Args(args.iter()))
    }
}

impl<O: DynEventOwner> Drop for DynEvents<O> {
    fn drop(&mut self) {
        if self.is_listed.load(Acquire) {
            // Waits for running calls of `create`.
            let _lock = self.lock_ops();
            // SAFETY: The operations are in the list by the invariant, and its lock is held.
            unsafe { c_list::del(&raw mut (*self.operations.get()).list) };
        }
        CREATE_DATA.store(ptr::null_mut(), Release);
    }
}
