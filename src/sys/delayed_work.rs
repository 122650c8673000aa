// SPDX-License-Identifier: GPL-2.0

//! Work that is done after a while, on a queue of the module's own, and can be cancelled.
//!
//! C: `struct delayed_work`, `mod_delayed_work()`, `cancel_delayed_work()` (linux/workqueue.h). The kernel crate's
//! `DelayedWork` can be neither put off nor cancelled, so a module that has some cannot be unloaded.

use super::bindings;
use super::work_queue::OwnedQueue;
use core::marker::PhantomData;
use kernel::prelude::*;
use kernel::static_lock_class;
use kernel::str::CStr;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full, //
};
use kernel::sync::Arc;
use kernel::time::delay::fsleep;
use kernel::time::{
    msecs_to_jiffies,
    Delta, //
};
use kernel::types::Opaque;

/// How many works wait for their time, or to be run.
static PENDING: Atomic<usize> = Atomic::new(0);

/// A work of the `Arc<T>` that it lies in, which may have several, with an `ID` each.
///
/// # Invariants
///
/// The work is initialized, to call `run` of [`HasDelayedWork`]. While it is pending, it owns a count of the `Arc`, and is
/// one of those that `PENDING` counts.
#[pin_data]
pub(crate) struct DelayedWork<T, const ID: u64> {
    #[pin]
    work: Opaque<bindings::delayed_work>,
    _item: PhantomData<fn(Arc<T>)>,
}

// SAFETY: A work may be queued and cancelled from any thread.
unsafe impl<T, const ID: u64> Send for DelayedWork<T, ID> {}
// SAFETY: As above.
unsafe impl<T, const ID: u64> Sync for DelayedWork<T, ID> {}

/// What has a delayed work. Implemented by [`has_delayed_work`].
///
/// # Safety
///
/// `OFFSET` must be that of a `DelayedWork<Self, ID>` in each value.
pub(crate) unsafe trait HasDelayedWork<const ID: u64>:
    Send + Sync + Sized + 'static
{
    const OFFSET: usize;

    /// What is done. Runs on the queue; may sleep.
    fn run(this: Arc<Self>);
}

/// Says which fields of a type are delayed works, and what they do: `Type { field: ID => function }`.
macro_rules! has_delayed_work {
    ($type:ty { $($field:ident: $id:literal => $run:expr,)* }) => {
        $(
            // SAFETY: The offset is the field's, whose type is compared.
            unsafe impl $crate::sys::delayed_work::HasDelayedWork<$id> for $type {
                const OFFSET: usize = {
                    fn is_work(item: &$type) -> &$crate::sys::delayed_work::DelayedWork<$type, $id> {
                        &item.$field
                    }
                    let _ = is_work;
                    core::mem::offset_of!($type, $field)
                };

                fn run(this: kernel::sync::Arc<Self>) {
                    $run(&this)
                }
            }
        )*
    };
}
pub(crate) use has_delayed_work;

impl<T: HasDelayedWork<ID>, const ID: u64> DelayedWork<T, ID> {
    /// Not pending. `name` is the one of its class of locks.
    pub(crate) fn new(name: &'static CStr) -> impl PinInit<Self> {
        let class = static_lock_class!();
        // INVARIANT: Just initialized, and not pending.
        pin_init!(Self {
            // SAFETY: The memory is there, and stays in place, as it is pinned. Name and class live as long as the
            // module. The functions are the one below, and the kernel's for such timers.
            work <- Opaque::ffi_init(|work: *mut bindings::delayed_work| unsafe {
                kernel::bindings::init_work_with_key(
                    (&raw mut (*work).work).cast(),
                    Some(Self::run),
                    false,
                    name.as_char_ptr(),
                    class.as_ptr(),
                );
                kernel::bindings::timer_init_key(
                    (&raw mut (*work).timer).cast(),
                    Some(kernel::bindings::delayed_work_timer_fn),
                    bindings::TIMER_IRQSAFE,
                    name.as_char_ptr(),
                    class.as_ptr(),
                );
            }),
            _item: PhantomData,
        })
    }

    /// # Safety
    ///
    /// For the queue: `work` is one that [`OwnedQueue::enqueue_after`] has queued, and is pending no more.
    unsafe extern "C" fn run(work: *mut kernel::bindings::work_struct) {
        // SAFETY: The work lies where the trait says, at the beginning of its `DelayedWork`, in what an `Arc` holds, a count
        // of which it has owned.
        let item = unsafe { Arc::from_raw(work.byte_sub(T::OFFSET).cast_const().cast::<T>()) };
        PENDING.fetch_sub(1, Full);
        T::run(item);
    }
}

/// The work in an item.
fn work_of<T: HasDelayedWork<ID>, const ID: u64>(item: &Arc<T>) -> *mut bindings::delayed_work {
    // The field's only member that has a size.
    Arc::as_ptr(item)
        .wrapping_byte_add(T::OFFSET)
        .cast_mut()
        .cast()
}

impl OwnedQueue {
    /// Has the work of an item run after a delay: from now on, if that is none, however late it was to run before; else
    /// unless it is to run already. Any context.
    pub(crate) fn enqueue_after<T: HasDelayedWork<ID>, const ID: u64>(
        &self,
        item: &Arc<T>,
        delay: Delta,
    ) {
        let (cpu, work) = (
            kernel::bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
            work_of::<T, ID>(item),
        );
        let delay = msecs_to_jiffies(u32::try_from(delay.as_millis()).unwrap_or(u32::MAX));
        // The work's own, if it was not pending.
        let owned = Arc::into_raw(item.clone());
        PENDING.fetch_add(1, Full);
        // SAFETY: The work is initialized, and lies in an item that is there for as long as it is pending, as a count of
        // that is its. The queue is there: its drop waits for all pending works.
        let is_queued = unsafe {
            match delay {
                0 => !bindings::mod_delayed_work_on(cpu, self.as_ptr(), work, 0),
                _ => bindings::queue_delayed_work_on(cpu, self.as_ptr(), work, delay),
            }
        };
        if !is_queued {
            PENDING.fetch_sub(1, Full);
            // SAFETY: Made above, and not the work's.
            drop(unsafe { Arc::from_raw(owned) });
        }
    }
}

/// Has the work of an item not run, unless it is running. Any context.
pub(crate) fn cancel<T: HasDelayedWork<ID>, const ID: u64>(item: &Arc<T>) {
    // SAFETY: The work is initialized, and the item is there.
    if unsafe { bindings::cancel_delayed_work(work_of::<T, ID>(item)) } {
        PENDING.fetch_sub(1, Full);
        // SAFETY: It was pending, and is not any more: the count of the item that it had is given back.
        drop(unsafe { Arc::from_raw(Arc::as_ptr(item)) });
    }
}

/// Waits until no work is pending: each has run, or was cancelled. May sleep.
pub(super) fn wait_for_all() {
    while PENDING.load(Acquire) != 0 {
        fsleep(Delta::from_millis(1));
    }
}
