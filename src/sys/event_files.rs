// SPDX-License-Identifier: GPL-2.0

//! The trace event files in which an event is enabled.
//!
//! A list of the module's own instead of that of a `struct tracepoint`. Writers walk it as readers
//! of `tracepoint_srcu` with preemption off. The trace core waits for these
//! (`tracepoint_synchronize_unregister()`) before it frees an event file or perf's per-CPU lists,
//! and the list before it frees a removed entry. On 6.12 preemption off is enough to be such a
//! reader, for which RCU waits in place of that SRCU: see `bindings/of_6_12.h`.

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

/// An entry of the list. The member for grace periods comes first, so that its address is the
/// entry's.
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
/// The list is singly linked and ends with NULL. Each entry is a [`KBox`], whose file is alive
/// until a grace period of `tracepoint_srcu` after its removal.
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

    /// Whether the list is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.head.load(Acquire).is_null()
    }

    /// Adds a file.
    ///
    /// # Safety
    ///
    /// The file must be alive until a grace period of `tracepoint_srcu` after `remove`.
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
        // Not charged: a memory cgroup at its limit may delay that, while others wait for the
        // mutex.
        let entry = KBox::new(entry, GFP_KERNEL)?;
        // INVARIANT: The entry points to the old list, whose head has not changed, as `event_mutex`
        // is held. The file is alive by the safety requirement.
        self.head.store(KBox::into_raw(entry), Release);
        Ok(())
    }

    /// Removes a file, if it is in the list.
    pub(super) fn remove(&self, file: *mut bindings::trace_event_file, _held: &mut EventMutexHeld) {
        let mut link = &self.head;
        while let Some(entry) = NonNull::new(link.load(Acquire)) {
            // SAFETY: By the invariant an entry in the list is valid. Entries are freed with
            // `event_mutex` held only, which this context holds.
            let Entry {
                next,
                file: its_file,
                ..
            } = unsafe { &*entry.as_ptr() };
            if *its_file == file {
                // INVARIANT: The list continues with the next entry.
                link.store(next.load(Acquire), Release);
                const { assert!(offset_of!(Entry, rcu) == 0) };
                // SAFETY: The entry is from `KBox::into_raw`, and no new reader finds it. It is
                // freed once, after the readers of this SRCU that have found it. `barrier` keeps
                // the module loaded until then.
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

    /// Begins a read-side critical section. Preemption is off until the result is dropped.
    #[inline]
    pub(super) fn read_lock(&self) -> ReadGuard<'_> {
        ReadGuard {
            // SAFETY: The drop of `ReadGuard` ends the section.
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
            // SAFETY: By the invariant each entry is a `KBox`. A reader would borrow the list, of
            // which this is the only reference.
            let mut entry = unsafe { KBox::from_raw(entry.as_ptr()) };
            next = *entry.next.get_mut();
        }
    }
}

// SAFETY: The list owns its entries, and files are used only by functions that any thread may call.
unsafe impl Send for EventFiles {}
// SAFETY: `event_mutex` serialises changes, and readers follow atomics.
unsafe impl Sync for EventFiles {}

/// # Safety
///
/// For SRCU: `rcu` is the first member of an entry from `KBox::into_raw`, which nothing else uses
/// any more.
unsafe extern "C" fn free_entry(rcu: *mut callback_head) {
    // SAFETY: By the safety requirement.
    drop(unsafe { KBox::from_raw(rcu.cast::<Entry>()) });
}

/// Waits until all removed entries are freed, which takes the module's code. May sleep.
pub(crate) fn barrier() {
    // SAFETY: Process context, outside of read-side critical sections, which cannot sleep.
    unsafe { bindings::user_events_barrier_of_readers() };
}

/// A read-side critical section of an [`EventFiles`].
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
    /// Iterates over the files, in no particular order.
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
        // SAFETY: `ctr` is from the start of the section, on this thread.
        unsafe { bindings::user_events_tracepoint_read_unlock(self.ctr) };
    }
}

/// An iterator over the files of a list.
pub(super) struct Files<'a> {
    next: *mut Entry,
    _reader: PhantomData<&'a ReadGuard<'a>>,
}

impl<'a> Iterator for Files<'a> {
    type Item = EventFile<'a>;

    #[inline]
    fn next(&mut self) -> Option<EventFile<'a>> {
        let entry = NonNull::new(self.next)?;
        // SAFETY: The entry was in the list after the section began, so it is not freed before the
        // end of the section, which `'a` borrows.
        let Entry { next, file, .. } = unsafe { &*entry.as_ptr() };
        self.next = next.load_acquire();
        // SAFETY: The file is alive until a grace period after the removal of its entry, so until
        // the end of the section. The trace core registered it, so it is not NULL.
        Some(unsafe { EventFile::from_raw(*file) })
    }
}
