// SPDX-License-Identifier: GPL-2.0

//! Our kind of event in `dynamic_events`.
//!
//! C: kernel/trace/trace_dynevent.h, whose two structures `bindings/trace_private.h` has copies of.
//! Each registered [`TraceEvent`] is an entry of that file's list.

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

/// What `dynamic_events` does with events of one owner. `event_mutex` is held where a reference
/// says so.
pub(crate) trait DynEventOwner: TraceEventOwner {
    /// What makes events.
    type CreateData: Send + Sync + 'static;

    /// A task wrote this line, and it is not about deleting. `event_mutex` is not held.
    ///
    /// # Errors
    ///
    /// `ECANCELED` when the line is for another kind of event; anything else is for the task that
    /// wrote it.
    fn create(create_data: &Arc<Self::CreateData>, line: &CStr) -> Result;

    /// Writes the line that would make the event.
    fn show(event: &TraceEvent<Self>, out: &SeqWriter<'_>);

    /// Deletes the event.
    fn delete(removal: Removal<'_, Self>) -> Result;

    /// Is it the event that is meant by a name, the system where it is given, and the words behind?
    fn matches(
        event: &TraceEvent<Self>,
        system: Option<&CStr>,
        name: &CStr,
        args: Args<'_>,
    ) -> bool;
}

/// The words behind the name in a line that deletes.
#[derive(Clone)]
pub(crate) struct Args<'a>(slice::Iter<'a, *const kernel::ffi::c_char>);

impl<'a> Iterator for Args<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // SAFETY: The trace core passes an array of strings, all of which live for the call, which
        // `'a` is bound to.
        Some(unsafe { CStr::from_char_ptr(*self.0.next()?) }.to_bytes())
    }
}

/// The one value that `create`, which is given nothing but the line, finds here. Set while a
/// [`DynEvents`] exists.
static CREATE_DATA: Atomic<*mut core::ffi::c_void> = Atomic::new(ptr::null_mut());

/// Our kind of event, known to `dynamic_events` from when it is published until this is dropped.
/// There can be one only.
///
/// # Invariants
///
/// `CREATE_DATA` points to what `create_data` does. `operations` is in the trace core's list of
/// kinds if `is_listed`.
pub(crate) struct DynEvents<O: DynEventOwner> {
    operations: KBox<Opaque<dyn_event_operations>>,
    is_listed: Atomic<bool>,
    _create_data: Arc<O::CreateData>,
    symbols: CheckedSymbols,
}

// SAFETY: The kind can be removed from any thread.
unsafe impl<O: DynEventOwner> Send for DynEvents<O> {}
// SAFETY: Nothing can be done with a shared reference but publish it, which happens once.
unsafe impl<O: DynEventOwner> Sync for DynEvents<O> {}

impl<O: DynEventOwner> DynEvents<O> {
    /// The operations. An event's entry leads here; the trace core's list of kinds has a copy,
    /// since it links its entries.
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

    /// Our kind, which is not known yet. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EBUSY` when there is one already.
    pub(crate) fn new(symbols: CheckedSymbols, create_data: Arc<O::CreateData>) -> Result<Self> {
        let operations = KBox::new(Opaque::new(*Self::OPERATIONS), GFP_KERNEL)?;
        let raw = Arc::as_ptr(&create_data).cast_mut().cast();
        if CREATE_DATA.cmpxchg(ptr::null_mut(), raw, Full).is_err() {
            return Err(EBUSY);
        }
        // INVARIANT: Just done; and not listed.
        Ok(Self {
            operations,
            is_listed: Atomic::new(false),
            _create_data: create_data,
            symbols,
        })
    }

    /// Makes our kind known. From now on lines are offered to `O::create`. May sleep.
    pub(crate) fn publish(&self, _: &LoadComplete) {
        // INVARIANT: The one call that changes it adds the operations.
        if !self.is_listed.xchg(true, Full) {
            let lock = self.lock_ops();
            // SAFETY: The symbols were found, and the list's lock is held. The operations stay in
            // place in their box until they are removed again, and are in no list yet.
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
        // SAFETY: The symbols were found, as that shows.
        unsafe { KernelMutexGuard::lock(symbols::dyn_event_ops_mutex()) }
    }

    /// # Safety
    ///
    /// For the trace core: `line` is a string, and the lock over the kinds is held.
    unsafe extern "C" fn create(line: *const kernel::ffi::c_char) -> c_int {
        from_result(|| {
            // SAFETY: Our kind is in the list, or this would not be called, and cannot leave it
            // while the lock over the kinds is held: so `CREATE_DATA` is set and stays. What it
            // points to is in an `Arc`, a count of which `_create_data` owns; it is lent here.
            let create_data =
                unsafe { Arc::from_raw(CREATE_DATA.load(Acquire).cast_const().cast()) };
            let create_data = ManuallyDrop::<Arc<O::CreateData>>::new(create_data);
            // SAFETY: A string, says the caller.
            let line = unsafe { CStr::from_char_ptr(line) };
            O::create(&create_data, line).map(|()| 0)
        })
    }

    /// # Safety
    ///
    /// For the trace core, as are the following: `entry` is in the list and `event_mutex` is held.
    unsafe extern "C" fn show(seq: *mut bindings::seq_file, entry: *mut dyn_event) -> c_int {
        // SAFETY: Promised by the caller, which also passes a seq file that nothing else uses now.
        unsafe { O::show(&TraceEvent::<O>::of_entry(entry), &SeqWriter::from_raw(seq)) };
        0
    }

    /// # Safety
    ///
    /// See [`Self::show`].
    unsafe extern "C" fn is_busy(entry: *mut dyn_event) -> bool {
        // SAFETY: `event_mutex` is held by the trace core, which was not called through us.
        let held = unsafe { EventMutexHeld::assume() };
        // SAFETY: Promised by the caller.
        unsafe { TraceEvent::<O>::of_entry(entry) }.is_busy(&held)
    }

    /// # Safety
    ///
    /// See [`Self::show`].
    unsafe extern "C" fn free(entry: *mut dyn_event) -> c_int {
        // SAFETY: Promised by the caller. The reference taken here outlives the deletion.
        let event = unsafe { Arc::clone(&TraceEvent::<O>::of_entry(entry)) };
        // SAFETY: `event_mutex` is held by the trace core, which was not called through us.
        let mut held = unsafe { EventMutexHeld::assume() };
        // SAFETY: The trace core is not at work on the event but to delete it: it has the next
        // entry of the list already.
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
        // SAFETY: Promised by the caller.
        let (event, name) =
            unsafe { (TraceEvent::<O>::of_entry(entry), CStr::from_char_ptr(name)) };
        // SAFETY: Not NULL, hence a string.
        let system = (!system.is_null()).then(|| unsafe { CStr::from_char_ptr(system) });
        let args = match usize::try_from(count) {
            // SAFETY: An array of that many strings, says the caller.
            Ok(count) if count > 0 => unsafe { slice::from_raw_parts(args.cast_const(), count) },
            _ => &[],
        };
        O::matches(&event, system, name, Args(args.iter()))
    }
}

impl<O: DynEventOwner> Drop for DynEvents<O> {
    fn drop(&mut self) {
        if self.is_listed.load(Acquire) {
            // Waits for calls of `create`.
            let _lock = self.lock_ops();
            // SAFETY: By the invariant the operations are in the list, whose lock is held.
            unsafe { c_list::del(&raw mut (*self.operations.get()).list) };
        }
        CREATE_DATA.store(ptr::null_mut(), Release);
    }
}
