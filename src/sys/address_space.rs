// SPDX-License-Identifier: GPL-2.0

//! Learning that an address space ends.
//!
//! C: `struct mmu_notifier` (linux/mmu_notifier.h). Its `release` is called once, when the last
//! task has left the address space by exit or exec, in the context that dropped the last reference.

use super::bindings;
use core::cell::UnsafeCell;
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::Arc;

/// Who wants to know that an address space ends.
pub(crate) trait Listener: Send + Sync + Sized + 'static {
    /// The address space is gone: no task uses it any more. Called at most once by a subscription. May sleep, but
    /// must not take `event_mutex`: the context may hold it.
    fn ended(&self);
}

/// Subscriptions whose memory has not been freed yet.
static ALIVE: Atomic<usize> = Atomic::new(0);

/// The end of an address space, being waited for.
///
/// # Invariants
///
/// `notifier` is registered, the mm core owns one count of the `Arc` that holds `self` until it
/// calls `free`, and `mmu_notifier_put()` is called exactly once: by whoever turns `done` from 0
/// to 1.
#[repr(C)]
struct Subscription<L: Listener> {
    notifier: UnsafeCell<bindings::mmu_notifier>,
    done: Atomic<u32>,
    listener: Arc<L>,
}

// SAFETY: The notifier belongs to the mm core, which may use it on any thread.
unsafe impl<L: Listener> Send for Subscription<L> {}
// SAFETY: We never look into the notifier once it is registered; the rest is atomic or `Sync`.
unsafe impl<L: Listener> Sync for Subscription<L> {}

/// A running subscription. Dropping it ends it early; if the address space has ended already,
/// nothing happens.
pub(crate) struct Watch<L: Listener>(Arc<Subscription<L>>);

impl<L: Listener> Drop for Watch<L> {
    fn drop(&mut self) {
        if self.0.done.xchg(1, Full) == 0 {
            // SAFETY: `done` was 0, so the notifier is registered and this is the one put.
            unsafe { bindings::mmu_notifier_put(self.0.notifier.get()) };
        }
    }
}

impl<L: Listener> Subscription<L> {
    const OPS: bindings::mmu_notifier_ops = bindings::mmu_notifier_ops {
        release: Some(Self::release),
        clear_flush_young: None,
        clear_young: None,
        test_young: None,
        invalidate_range_start: None,
        invalidate_range_end: None,
        arch_invalidate_secondary_tlbs: None,
        alloc_notifier: None,
        free_notifier: Some(Self::free),
    };

    /// # Safety
    ///
    /// For the mm core: `notifier` is one that `watch` registered.
    unsafe extern "C" fn release(
        notifier: *mut bindings::mmu_notifier,
        _mm: *mut bindings::mm_struct,
    ) {
        // SAFETY: `notifier` is the first field of a subscription, which the mm core's own count
        // keeps alive until after the SRCU section that this runs in.
        let this = unsafe { &*notifier.cast_const().cast::<Self>() };
        if this.done.xchg(1, Full) == 0 {
            this.listener.ended();
            // SAFETY: `done` was 0, so this is the one put. Putting from `release` is allowed.
            unsafe { bindings::mmu_notifier_put(notifier) };
        }
    }

    /// # Safety
    ///
    /// For the mm core: `notifier` is one that was put, and the mm core is done with it.
    unsafe extern "C" fn free(notifier: *mut bindings::mmu_notifier) {
        // SAFETY: The first field of a subscription, in the `Arc` of which `watch` gave the mm core
        // a count. This gives it back.
        drop(unsafe { Arc::from_raw(notifier.cast_const().cast::<Self>()) });
        ALIVE.fetch_sub(1, Relaxed);
    }
}

/// Tells `listener` when `mm` ends. May sleep; takes the mmap lock for writing, and all locks of
/// the address space if it is the first subscription there.
///
/// # Errors
///
/// `ENOMEM`, `EINTR`.
pub(crate) fn watch<L: Listener>(mm: &MmWithUser, listener: Arc<L>) -> Result<Watch<L>> {
    let notifier = bindings::mmu_notifier {
        ops: &Subscription::<L>::OPS,
        ..bindings::mmu_notifier::default()
    };
    let subscription = Arc::new(
        Subscription {
            notifier: UnsafeCell::new(notifier),
            done: Atomic::new(0),
            listener,
        },
        GFP_KERNEL_ACCOUNT,
    )?;
    let mm_cores = Arc::into_raw(subscription.clone());
    ALIVE.fetch_add(1, Relaxed);
    // SAFETY: The notifier stays in place in its `Arc`, of which `mm_cores` is the mm core's count.
    // `mm` is alive, being borrowed.
    let ret = unsafe { bindings::mmu_notifier_register(subscription.notifier.get(), mm.as_raw()) };
    if let Err(error) = kernel::error::to_result(ret) {
        // SAFETY: The mm core did not take the notifier, so the count is still ours.
        drop(unsafe { Arc::from_raw(mm_cores) });
        ALIVE.fetch_sub(1, Relaxed);
        // Nothing was registered, so there is nothing to put.
        subscription.done.store(1, Relaxed);
        return Err(error);
    }
    Ok(Watch(subscription))
}

/// Does somebody else use the address space, too: a thread, or somebody who looks into it? Any
/// context.
pub(crate) fn is_shared(mm: &MmWithUser) -> bool {
    // SAFETY: The address space is alive, as the reference shows.
    unsafe { bindings::user_events_mm_is_shared(mm.as_raw()) }
}

/// Waits until no callback of any subscription runs or will run. All of them must have ended, and
/// no new one may begin. May sleep.
pub(crate) fn barrier() {
    // SAFETY: Process context.
    unsafe { bindings::mmu_notifier_synchronize() };
    // That waits for `release`, but not for every `free`: those run from SRCU callbacks.
    while ALIVE.load(Relaxed) != 0 {
        kernel::time::delay::fsleep(kernel::time::Delta::from_millis(1));
    }
    // SRCU callbacks run with bottom halves off, which is an RCU read section: after this the last
    // of them has left the module's text, too.
    kernel::sync::rcu::synchronize_rcu();
}
