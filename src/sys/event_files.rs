// SPDX-License-Identifier: GPL-2.0

//! The trace event files that take an event's records.
//!
//! A list of our own instead of a `struct tracepoint`'s: writers walk it as readers of
//! `tracepoint_srcu`, with preemption off. That is what the trace core waits for
//! (`tracepoint_synchronize_unregister()`) before it frees an event file or perf's per-CPU lists,
//! and what a removed entry waits for before it is freed.

use super::bindings::{self, user_events_probe};
use super::event_mutex::EventMutexHeld;
use super::ring_buffer::TraceFile;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Release};
use kernel::types::NotThreadSafe;

/// A list of trace event files. Changed under `event_mutex`, read by writers of records.
///
/// # Invariants
///
/// The list is singly linked and ends in NULL. Every entry was allocated with [`KBox`], and its
/// file is alive until a grace period of `tracepoint_srcu` after its removal.
pub(super) struct EventFiles {
    head: Atomic<*mut user_events_probe>,
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
        let mut probe = KBox::new(user_events_probe::default(), GFP_KERNEL)?;
        probe.file = file;
        probe.next = self.head.load(Acquire);
        // INVARIANT: The entry leads to the old list; the caller answers for the file.
        // `event_mutex` is held, so nobody changed the head since it was read.
        self.head.store(KBox::into_raw(probe), Release);
        Ok(())
    }

    /// Removes a file. Does nothing if the file is not in the list.
    pub(super) fn remove(&self, file: *mut bindings::trace_event_file, _held: &mut EventMutexHeld) {
        let mut link = &self.head;
        while let Some(probe) = NonNull::new(link.load(Acquire)) {
            // SAFETY: By the invariant an entry in the list is valid, and only the holder of
            // `event_mutex`, which is us, frees entries. The reference to `next` is used as an
            // atomic only, here and in `Files::next`.
            let (its_file, next) = unsafe {
                let next = ptr::addr_of_mut!((*probe.as_ptr()).next);
                ((*probe.as_ptr()).file, Atomic::from_ptr(next))
            };
            if its_file == file {
                // INVARIANT: The list goes on behind the removed entry.
                link.store(next.load(Acquire), Release);
                // SAFETY: The entry came from `KBox::into_raw`, which is kmalloc memory, and no new
                // reader can find it; the helper frees it after those that did.
                unsafe { bindings::user_events_free_probe(probe.as_ptr()) };
                return;
            }
            link = next;
        }
    }

    /// Enters the read side. Until the returned value is dropped, preemption is off: no sleeping.
    #[inline]
    pub(super) fn enter(&self) -> Reader<'_> {
        Reader {
            // SAFETY: No requirements; `Reader` leaves what is entered here.
            ctr: unsafe { bindings::user_events_enter_probes() },
            list: self,
            _same_thread: NotThreadSafe,
        }
    }
}

impl Drop for EventFiles {
    fn drop(&mut self) {
        let mut next = *self.head.get_mut();
        while let Some(probe) = NonNull::new(next) {
            // SAFETY: We own the list, and a reader would have borrowed it: there is none.
            let probe = unsafe { KBox::from_raw(probe.as_ptr()) };
            next = probe.next;
        }
    }
}

// SAFETY: The list is a shared pointer structure: entries are owned by it, and files are only used
// through functions that are callable from any thread.
unsafe impl Send for EventFiles {}
// SAFETY: Changes are serialised by `event_mutex`, and readers follow atomics.
unsafe impl Sync for EventFiles {}

/// Waits until every removed entry is freed, so that module text is no longer needed for it.
pub(crate) fn barrier() {
    // SAFETY: Process context; no reader of the list is open in it, readers cannot sleep.
    unsafe { bindings::user_events_probe_barrier() };
}

/// The read side of a [`EventFiles`].
///
/// # Invariants
///
/// The current context is a reader of `tracepoint_srcu` and has preemption off.
pub(super) struct Reader<'a> {
    ctr: *mut bindings::srcu_ctr,
    list: &'a EventFiles,
    _same_thread: NotThreadSafe,
}

impl Reader<'_> {
    /// The files, in no particular order.
    #[inline]
    pub(super) fn files(&self) -> Files<'_> {
        Files {
            next: self.list.head.load(Acquire),
            _reader: PhantomData,
        }
    }
}

impl Drop for Reader<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `ctr` is what entering returned, on this thread.
        unsafe { bindings::user_events_leave_probes(self.ctr) };
    }
}

/// Iterates over the files of a list while it is being read.
pub(super) struct Files<'a> {
    next: *mut user_events_probe,
    _reader: PhantomData<&'a Reader<'a>>,
}

impl<'a> Iterator for Files<'a> {
    type Item = TraceFile<'a>;

    #[inline]
    fn next(&mut self) -> Option<TraceFile<'a>> {
        let probe = NonNull::new(self.next)?;
        // SAFETY: The entry was in the list after the reader entered, so it is not freed before the
        // reader, which `'a` borrows, leaves. `next` is only accessed as an atomic.
        unsafe {
            self.next = Atomic::from_ptr(ptr::addr_of_mut!((*probe.as_ptr()).next)).load(Acquire);
            Some(TraceFile::from_raw((*probe.as_ptr()).file))
        }
    }
}
