// SPDX-License-Identifier: GPL-2.0

//! The trace event files that take an event's records.
//!
//! A list of our own instead of a `struct tracepoint`'s: writers walk it as readers of
//! `tracepoint_srcu`, with preemption off. That is what the trace core waits for
//! (`tracepoint_synchronize_unregister()`) before it frees an event file or perf's per-CPU lists,
//! and what a removed entry waits for before it is freed. On 6.12 such a reader is one by having
//! preemption off, for which RCU waits in the place of that SRCU: see `bindings/of_6_12.h`.

use super::bindings::{
    self,
    callback_head, //
};
use super::event_mutex::EventMutexHeld;
use super::load_acquire::LoadAcquire;
use super::ring_buffer::EventFile;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Release, //
};
use kernel::types::{
    NotThreadSafe,
    Opaque, //
};

/// An entry of the list. The part that the kernel's grace periods take comes first, so that its
/// address is the whole's.
#[repr(C)]
struct Entry {
    rcu: Opaque<callback_head>,
    next: Atomic<*mut Entry>,
    file: *mut bindings::trace_event_file,
}

/// A list of trace event files. Changed under `event_mutex`, read by writers of records.
///
/// # Invariants
///
/// The list is singly linked and ends in NULL. Every entry was allocated with [`KBox`], and its
/// file is alive until a grace period of `tracepoint_srcu` after its removal.
pub(super) struct EventFiles {
    head: Atomic<*mut Entry>,
}

impl EventFiles {
    pub(super) const fn new() -> Self {
        // INVARIANT: Empty.
        Self {
            head: Atomic::new(ptr::null_mut()),
        }
    }

    /// Has the list no entry?
    pub(super) fn is_empty(&self) -> bool {
        self.head.load(Acquire).is_null()
    }

    /// Adds a file.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The file must stay alive until a grace period of `tracepoint_srcu` after its `remove`.
    pub(super) unsafe fn insert(
        &self,
        file: *mut bindings::trace_event_file,
        _held: &mut EventMutexHeld,
    ) -> Result {
        let entry = Entry {
            rcu: Opaque::uninit(),
            next: Atomic::new(self.head.load(Acquire)),
            file,
        };
        // Charged to no memory cgroup, which might delay all who wait for the mutex.
        let entry = KBox::new(entry, GFP_KERNEL)?;
        // INVARIANT: The entry leads to the old list; the caller answers for the file.
        // `event_mutex` is held, so the head has not changed since it was read.
        self.head.store(KBox::into_raw(entry), Release);
        Ok(())
    }

    /// Removes a file. Does nothing if the file is not in the list.
    pub(super) fn remove(&self, file: *mut bindings::trace_event_file, _held: &mut EventMutexHeld) {
        let mut link = &self.head;
        while let Some(entry) = NonNull::new(link.load(Acquire)) {
            // SAFETY: By the invariant an entry in the list is valid, and only the holder of
            // `event_mutex`, which is us, frees entries.
            let Entry {
                next,
                file: its_file,
                ..
            } = unsafe { &*entry.as_ptr() };
            if *its_file == file {
                // INVARIANT: The list goes on behind the removed entry.
                link.store(next.load(Acquire), Release);
                const { assert!(offset_of!(Entry, rcu) == 0) };
                // SAFETY: No new reader can find the entry, which comes from `KBox::into_raw`: it
                // is freed, once, after those that did, as they are readers of this SRCU. `barrier`
                // keeps the module loaded until then.
                unsafe {
                    bindings::user_events_call_after_readers(
                        entry.as_ptr().cast(),
                        Some(free_entry),
                    );
                }
                return;
            }
            link = next;
        }
    }

    /// Enters the read side. Until the returned value is dropped, preemption is off: no sleeping.
    #[inline]
    pub(super) fn read_lock(&self) -> ReadGuard<'_> {
        ReadGuard {
            // SAFETY: No requirements; `ReadGuard` leaves what is entered here.
            ctr: unsafe { bindings::user_events_tracepoint_read_lock() },
            list: self,
            _same_thread: NotThreadSafe,
        }
    }
}

impl Drop for EventFiles {
    fn drop(&mut self) {
        let mut next = *self.head.get_mut();
        while let Some(entry) = NonNull::new(next) {
            // SAFETY: We own the list, and a reader would have borrowed it: there is none.
            let mut entry = unsafe { KBox::from_raw(entry.as_ptr()) };
            next = *entry.next.get_mut();
        }
    }
}

// SAFETY: The list is a shared pointer structure: entries are owned by it, and files are only used
// through functions that are callable from any thread.
unsafe impl Send for EventFiles {}
// SAFETY: Changes are serialised by `event_mutex`, and readers follow atomics.
unsafe impl Sync for EventFiles {}

/// # Safety
///
/// For SRCU: `rcu` is the first member of an entry that came from `KBox::into_raw`, and is used by
/// nothing else any more.
unsafe extern "C" fn free_entry(rcu: *mut callback_head) {
    // SAFETY: Promised by the caller.
    drop(unsafe { KBox::from_raw(rcu.cast::<Entry>()) });
}

/// Waits until every removed entry is freed, so that module text is no longer needed for it.
pub(crate) fn barrier() {
    // SAFETY: Process context; no reader of the list is open in it, readers cannot sleep.
    unsafe { bindings::user_events_barrier_of_readers() };
}

/// The read side of a [`EventFiles`].
///
/// # Invariants
///
/// The current context is a reader of `tracepoint_srcu` and has preemption off.
pub(super) struct ReadGuard<'a> {
    ctr: *mut bindings::srcu_ctr,
    list: &'a EventFiles,
    _same_thread: NotThreadSafe,
}

impl ReadGuard<'_> {
    /// The files, in no particular order.
    #[inline]
    pub(super) fn files(&self) -> Files<'_> {
        Files {
            next: self.list.head.load_acquire(),
            _reader: PhantomData,
        }
    }
}

impl Drop for ReadGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `ctr` is what entering returned, on this thread.
        unsafe { bindings::user_events_tracepoint_read_unlock(self.ctr) };
    }
}

/// Iterates over the files of a list while it is being read.
pub(super) struct Files<'a> {
    next: *mut Entry,
    _reader: PhantomData<&'a ReadGuard<'a>>,
}

impl<'a> Iterator for Files<'a> {
    type Item = EventFile<'a>;

    #[inline]
    fn next(&mut self) -> Option<EventFile<'a>> {
        let entry = NonNull::new(self.next)?;
        // SAFETY: The entry was in the list after the reader entered, so it is not freed before the
        // reader, which `'a` borrows, leaves.
        let Entry { next, file, .. } = unsafe { &*entry.as_ptr() };
        self.next = next.load_acquire();
        // SAFETY: The file is alive until a grace period after its entry was removed, so as long as
        // the reader; it is not NULL, as the trace core registered it.
        Some(unsafe { EventFile::from_raw(*file) })
    }
}
