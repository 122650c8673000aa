// SPDX-License-Identifier: GPL-2.0

//! A work queue of the module's own, so that unloading can wait for its work, and work that waits
//! for its time. The kernel crate has the type of the latter, but cannot set another time, or
//! cancel.

use super::bindings;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::container_of;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};
use kernel::sync::Arc;
use kernel::time::{
    delay::fsleep,
    msecs_to_jiffies,
    Delta, //
};
use kernel::workqueue::{
    HasDelayedWork,
    Queue,
    RawWorkItem,
    Work,
    WorkItem,
    WorkItemPointer, //
};

/// How many queues there are.
static QUEUES: Atomic<usize> = Atomic::new(0);

/// An unbound work queue. C: `alloc_workqueue()`.
///
/// Dropping it waits for delayed work, runs what is queued, waits for what runs, and ends it. Its
/// own work must not drop it: that would wait for itself.
///
/// # Invariants
///
/// The pointer is a work queue that this value owns.
pub(crate) struct OwnedQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: Work queues may be used and destroyed from any thread.
unsafe impl Send for OwnedQueue {}
// SAFETY: Queueing is thread-safe.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    /// Makes the queue. Its workers show its name. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        // SAFETY: It asks for nothing but to be allowed to sleep: where that is not so, the kernel
        // says so, and no memory is misused.
        let queue = unsafe { bindings::user_events_alloc_workqueue(name.as_char_ptr()) };
        let queue = NonNull::new(queue).ok_or(ENOMEM)?;
        QUEUES.fetch_add(1, Relaxed);
        // INVARIANT: A fresh queue, known to nothing else.
        Ok(Self(queue))
    }

    /// Queues work; see [`Queue::enqueue`]. That is the one thing that is done with a [`Queue`]
    /// here: its delayed work would come to a queue that may have ended by then. [`Delayed`] work
    /// does not.
    pub(crate) fn enqueue<W, const ID: u64>(&self, work: W) -> W::EnqueueOutput
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        // SAFETY: By the invariant the queue is valid for as long as `self` is.
        let queue: &Queue = unsafe { Queue::from_raw(self.0.as_ptr()) };
        queue.enqueue(work)
    }

    /// Has work run after a time, to a tick of the kernel's clock, unless it is pending, and so has
    /// a time already; or at once, whatever time it has, if there is none to wait. What runs
    /// already runs once more, after that. Any context.
    pub(crate) fn enqueue_after<T, const ID: u64>(&self, item: &Arc<T>, delay: Delta)
    where
        T: WorkItem<ID, Pointer = Delayed<T, ID>> + HasDelayedWork<T, ID> + Send + Sync + 'static,
    {
        let delay = u32::try_from(delay.as_millis().max(0)).unwrap_or(u32::MAX);
        let delay = msecs_to_jiffies(delay);
        let enqueue = |work: *mut bindings::work_struct| {
            // SAFETY: The work is that of a valid `delayed_work`, by `HasDelayedWork`, and it is
            // never disabled. The queue is valid as long as `self` is, and after that it is kept
            // while the work is pending.
            unsafe {
                let cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int;
                let work = container_of!(work, bindings::delayed_work, work);
                match delay {
                    0 => !bindings::mod_delayed_work_on(cpu, self.0.as_ptr(), work, delay),
                    _ => bindings::queue_delayed_work_on(cpu, self.0.as_ptr(), work, delay),
                }
            }
        };
        // SAFETY: The closure returns `false` if the work was pending only; the item may be used
        // and dropped anywhere.
        unsafe { Delayed(item.clone()).__enqueue(enqueue) };
    }

    /// Waits for what is queued or runs now. Work that is queued after this call is not waited for.
    /// May sleep; work of this queue would wait for itself.
    pub(crate) fn flush(&self) {
        // SAFETY: By the invariant the queue is valid.
        unsafe { bindings::__flush_workqueue(self.0.as_ptr()) };
    }

    /// Waits until nothing is queued and nothing runs. May sleep.
    ///
    /// Work that is queued meanwhile, by what is not work of this queue, is lost with a kernel
    /// warning, and its memory too. So is delayed work whose time comes meanwhile: cancel it
    /// before.
    pub(crate) fn drain(&self) {
        // SAFETY: By the invariant the queue is valid.
        unsafe { bindings::drain_workqueue(self.0.as_ptr()) };
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        wait_for_none(&PENDING);
        // SAFETY: By the invariant the queue is ours. It is not lent any more, so nothing but its
        // own work can queue on it, and that is waited for. No timer is left to do so.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
        QUEUES.fetch_sub(1, Release);
    }
}

/// Waits until a count is 0, which takes no time but by a mistake. May sleep.
fn wait_for_none(count: &Atomic<usize>) {
    while count.load(Acquire) != 0 {
        fsleep(Delta::from_millis(10));
    }
}

/// Waits until all queues have ended, whatever shared them: pending work may own the last reference
/// to its queue. For the module's exit. May sleep.
pub(super) fn barrier() {
    wait_for_none(&QUEUES);
}

/// How much delayed work is pending.
static PENDING: Atomic<usize> = Atomic::new(0);

/// The reference that delayed work owns while it is pending, from when it gets a time until its run
/// begins or it is cancelled: the [`WorkItem::Pointer`] of an item in an [`Arc`], whose
/// [`DelayedWork`](kernel::workqueue::DelayedWork) is then this file's alone.
///
/// The kernel's timer puts the work on its queue, which must exist then: the works of all queues
/// that are pending are counted, and a queue is not destroyed while there are any.
pub(crate) struct Delayed<T, const ID: u64 = 0>(Arc<T>);

impl<T, const ID: u64> Deref for Delayed<T, ID> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T, const ID: u64> Delayed<T, ID>
where
    T: WorkItem<ID, Pointer = Self> + HasDelayedWork<T, ID>,
{
    /// Has work not run that is pending, on any queue. What runs already is not waited for. Any
    /// context.
    pub(crate) fn cancel(item: &Arc<T>) {
        let item = Arc::as_ptr(item);
        // SAFETY: The item is valid, and its work that of a valid `delayed_work`, by
        // `HasDelayedWork`.
        let was_pending = unsafe {
            let work = Work::raw_get(T::raw_get_work(item.cast_mut()));
            bindings::cancel_delayed_work(container_of!(work, bindings::delayed_work, work))
        };
        if was_pending {
            // SAFETY: A reference was given up for it, and it does not run, which would take that
            // back. The caller has another one, so it is not the last.
            drop(unsafe { take_back(item) });
        }
    }
}

// SAFETY: The pointer leads into an `Arc`, one reference of which is given up for as long as the
// work is pending: `run` takes it back, or `cancel`, after which the function is not called.
unsafe impl<T, const ID: u64> RawWorkItem<ID> for Delayed<T, ID>
where
    T: WorkItem<ID, Pointer = Self> + HasDelayedWork<T, ID>,
{
    type EnqueueOutput = ();

    /// # Safety
    ///
    /// See the trait: `queue_work_on` returns `false` only if the work was pending.
    unsafe fn __enqueue<F>(self, queue_work_on: F)
    where
        F: FnOnce(*mut bindings::work_struct) -> bool,
    {
        let item = Arc::into_raw(self.0);
        // Before it can run.
        PENDING.fetch_add(1, Relaxed);
        // SAFETY: The item of an `Arc` is valid, and so is its field.
        let work = unsafe { Work::raw_get(T::raw_get_work(item.cast_mut())) };
        if !queue_work_on(work) {
            // SAFETY: It was pending already, with a reference of its own, so that this one is
            // still ours.
            drop(unsafe { take_back(item) });
        }
    }
}

/// Takes back the reference that was given up for pending work, which it is not any more.
///
/// # Safety
///
/// The reference must have been given up by `__enqueue`, and no other code may take it back.
unsafe fn take_back<T>(item: *const T) -> Arc<T> {
    // What the kernel did with the work and its queue comes before the end of the queue.
    PENDING.fetch_sub(1, Release);
    // SAFETY: It comes from `Arc::into_raw`, and is taken back once, as the caller promises.
    unsafe { Arc::from_raw(item) }
}

// SAFETY: `__enqueue` uses the work of the item's `DelayedWork<T, ID>`, which was initialised with
// the `run` of the item's `Pointer`, which is this one.
unsafe impl<T, const ID: u64> WorkItemPointer<ID> for Delayed<T, ID>
where
    T: WorkItem<ID, Pointer = Self> + HasDelayedWork<T, ID>,
{
    /// # Safety
    ///
    /// For the queue: `__enqueue` gave it `work`, which is pending no more.
    unsafe extern "C" fn run(work: *mut bindings::work_struct) {
        // SAFETY: The caller promises that `__enqueue` gave it this work, which is in a `T`, and
        // that it was not pending before. It is not now, so the reference is ours; the queue is
        // kept by waiting for this call.
        let item = unsafe { take_back(T::work_container_of(work.cast())) };
        T::run(Self(item));
    }
}
