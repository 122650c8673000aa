// SPDX-License-Identifier: GPL-2.0

//! A work queue of the module, whose work unloading can wait for, and delayed work. The kernel
//! crate has the type of delayed work, but can neither change its time nor cancel it.

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

/// The number of queues.
static QUEUES: Atomic<usize> = Atomic::new(0);

/// An unbound work queue. C: `alloc_workqueue()`.
///
/// The drop waits for delayed work, runs all queued work, waits for running work, and destroys the
/// queue. Work of the queue must not drop it, as it would wait for itself.
///
/// # Invariants
///
/// This value owns the work queue.
pub(crate) struct OwnedQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: Any thread may use and destroy a work queue.
unsafe impl Send for OwnedQueue {}
// SAFETY: Queueing is thread-safe.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    /// Allocates the queue. Its workers show its name. May sleep.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        // SAFETY: Allocates only. The kernel warns if sleeping is not allowed.
        let queue = unsafe { bindings::user_events_alloc_workqueue(name.as_char_ptr()) };
        let queue = NonNull::new(queue).ok_or(ENOMEM)?;
        QUEUES.fetch_add(1, Relaxed);
        // INVARIANT: A new queue that nothing else knows.
        Ok(Self(queue))
    }

    /// Queues work, see [`Queue::enqueue`]. This is the only use of a [`Queue`]: its delayed work
    /// could be queued after the end of the queue, which [`Delayed`] work prevents.
    pub(crate) fn enqueue<W, const ID: u64>(&self, work: W) -> W::EnqueueOutput
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        // SAFETY: By the invariant the queue is valid as long as `self`.
        let queue: &Queue = unsafe { Queue::from_raw(self.0.as_ptr()) };
        queue.enqueue(work)
    }

    /// Queues delayed work. `delay` is cut to milliseconds and rounded up to ticks of the kernel's
    /// clock. Work that is pending keeps its time, unless `delay` is 0: then it runs at once.
    /// Running work runs again afterwards. Any context.
    pub(crate) fn enqueue_after<T, const ID: u64>(&self, item: &Arc<T>, delay: Delta)
    where
        T: WorkItem<ID, Pointer = Delayed<T, ID>> + HasDelayedWork<T, ID> + Send + Sync + 'static,
    {
        let delay = u32::try_from(delay.as_millis().max(0)).unwrap_or(u32::MAX);
        let delay = msecs_to_jiffies(delay);
        let enqueue = |work: *mut bindings::work_struct| {
            // SAFETY: By `HasDelayedWork` the work is in a valid `delayed_work`, which is never
            // disabled. The queue is valid as long as `self`, and exists while the work is pending.
            unsafe {
                let cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int;
                let work = container_of!(work, bindings::delayed_work, work);
                match delay {
                    0 => !bindings::mod_delayed_work_on(cpu, self.0.as_ptr(), work, delay),
                    _ => bindings::queue_delayed_work_on(cpu, self.0.as_ptr(), work, delay),
                }
            }
        };
        // SAFETY: The closure returns `false` only if the work was pending. Any thread may use and
        // drop the item.
        unsafe { Delayed(item.clone()).__enqueue(enqueue) };
    }

    /// Waits for work that is queued or running, not for work that is queued later. Work of this
    /// queue would wait for itself. May sleep.
    pub(crate) fn flush(&self) {
        // SAFETY: The queue is valid by the invariant.
        unsafe { bindings::__flush_workqueue(self.0.as_ptr()) };
    }

    /// Waits until no work is queued or running. May sleep.
    ///
    /// Work that is queued meanwhile, except by work of this queue, is lost with a kernel warning,
    /// and its memory too. So is delayed work whose time comes meanwhile: it has to be cancelled
    /// before.
    pub(crate) fn drain(&self) {
        // SAFETY: The queue is valid by the invariant.
        unsafe { bindings::drain_workqueue(self.0.as_ptr()) };
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        wait_for_none(&PENDING);
        // SAFETY: The queue belongs to `self`, and is not borrowed any more, so only its own work
        // can queue on it, for which this waits. No timer is pending.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
        QUEUES.fetch_sub(1, Release);
    }
}

/// Waits until a count is 0, as it should be already. May sleep.
fn wait_for_none(count: &Atomic<usize>) {
    while count.load(Acquire) != 0 {
        fsleep(Delta::from_millis(10));
    }
}

/// Waits until all queues are destroyed: pending work may own the last reference to its queue. For
/// the module's exit. May sleep.
pub(super) fn barrier() {
    wait_for_none(&QUEUES);
}

/// The number of pending delayed works.
static PENDING: Atomic<usize> = Atomic::new(0);

/// The reference that delayed work owns while it is pending, from when it gets a time until its run
/// begins or it is cancelled: the [`WorkItem::Pointer`] of an item in an [`Arc`]. Only this file
/// may then use the item's [`DelayedWork`](kernel::workqueue::DelayedWork).
///
/// The kernel's timer puts the work on its queue, which must exist then. So the pending works of
/// all queues are counted, and a queue is destroyed only when there are none.
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
    /// Cancels pending work, on any queue. Does not wait for running work. Any context.
    pub(crate) fn cancel(item: &Arc<T>) {
        let item = Arc::as_ptr(item);
        // SAFETY: The item is valid, and by `HasDelayedWork` its work is in a valid `delayed_work`.
        let was_pending = unsafe {
            let work = Work::raw_get(T::raw_get_work(item.cast_mut()));
            bindings::cancel_delayed_work(container_of!(work, bindings::delayed_work, work))
        };
        if was_pending {
            // SAFETY: The pending work owned a reference that its run does not take any more. The
            // caller has another one, so it is not the last.
            drop(unsafe { take_back(item) });
        }
    }
}

// SAFETY: The pointer is that of an `Arc`, a reference of which the pending work owns: `run` takes
// it back, or `cancel`, after which the function is not called.
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
        // Before the work can run.
        PENDING.fetch_add(1, Relaxed);
        // SAFETY: The item of an `Arc` is valid, and so is its field.
        let work = unsafe { Work::raw_get(T::raw_get_work(item.cast_mut())) };
        if !queue_work_on(work) {
            // SAFETY: The work was pending, with its own reference, so this one is not taken
            // elsewhere.
            drop(unsafe { take_back(item) });
        }
    }
}

/// Takes back the reference of work that was pending.
///
/// # Safety
///
/// The reference must be from `__enqueue`, and no other code may take it back.
unsafe fn take_back<T>(item: *const T) -> Arc<T> {
    // Release: the kernel's use of the work and its queue comes before the end of the queue.
    PENDING.fetch_sub(1, Release);
    // SAFETY: The pointer is from `Arc::into_raw`, and taken back once, by the safety requirement.
    unsafe { Arc::from_raw(item) }
}

// SAFETY: `__enqueue` uses the work of the item's `DelayedWork<T, ID>`, which was initialised with
// the `run` of the item's `Pointer`, this one.
unsafe impl<T, const ID: u64> WorkItemPointer<ID> for Delayed<T, ID>
where
    T: WorkItem<ID, Pointer = Self> + HasDelayedWork<T, ID>,
{
    /// # Safety
    ///
    /// For the queue: `work` is from `__enqueue`, and not pending any more.
    unsafe extern "C" fn run(work: *mut bindings::work_struct) {
        // SAFETY: By the safety requirement `__enqueue` queued this work, which is in a `T`, and
        // which does not pend any more, so its reference is taken back here. The queue exists, as
        // it waits for this call.
        let item = unsafe { take_back(T::work_container_of(work.cast())) };
        T::run(Self(item));
    }
}
