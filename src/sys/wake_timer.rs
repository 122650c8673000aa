// SPDX-License-Identifier: GPL-2.0

//! Waking a task that sleeps, again and again.
//!
//! C: `struct timer_list` (linux/timer.h). The kernel crate has timers whose callbacks return an
//! enum, for which a Rust function does not get the type hash that kCFI compares.

use core::mem::offset_of;
use kernel::alloc::AllocError;
use kernel::bindings::{
    self,
    timer_list, //
};
use kernel::prelude::*;
use kernel::static_lock_class;
use kernel::sync::aref::ARef;
use kernel::task::Task;
use kernel::time::{
    msecs_to_jiffies,
    Jiffies, //
};
use kernel::types::Opaque;

/// Wakes the task that made it each time a period is over, until it is dropped.
pub(super) struct WakeTimer(KBox<Waker>);

/// # Invariants
///
/// The timer is initialized, and stays in place until it was stopped.
#[repr(C)]
struct Waker {
    timer: Opaque<timer_list>,
    task: ARef<Task>,
    period: Jiffies,
}

impl WakeTimer {
    /// Begins to wake the current task every `ms` milliseconds, or a little later. May sleep.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub(super) fn start(ms: u32) -> Result<Self, AllocError> {
        let waker = Waker {
            timer: Opaque::uninit(),
            task: ARef::from(&**current!()),
            period: msecs_to_jiffies(ms),
        };
        let waker = KBox::new(waker, GFP_KERNEL)?;
        let (name, key) = (c"user_events_wake", static_lock_class!());
        // SAFETY: The timer lies in a box, is used by nothing yet, and stays there until the drop
        // has stopped it. Name and key live as long as the module.
        unsafe {
            bindings::timer_init_key(
                waker.timer.get(),
                Some(Self::wake),
                0,
                name.as_char_ptr(),
                key.as_ptr(),
            );
        }
        // INVARIANT: Just initialized, in its box.
        waker.arm();
        Ok(Self(waker))
    }

    /// # Safety
    ///
    /// For the kernel: `timer` is the one of a `Waker` that `start` made.
    unsafe extern "C" fn wake(timer: *mut timer_list) {
        const { assert!(offset_of!(Waker, timer) == 0) };
        // SAFETY: The first member of a waker, which is not freed before the timer was stopped.
        let waker = unsafe { &*timer.cast_const().cast::<Waker>() };
        waker.task.wake_up();
        waker.arm();
    }
}

impl Waker {
    /// Has the timer expire when a period is over.
    fn arm(&self) {
        // SAFETY: The kernel's clock, which it changes while it is read, hence the volatile read.
        let now = unsafe { (&raw const bindings::jiffies).read_volatile() };
        // SAFETY: By the invariant the timer is initialized and stays in place.
        unsafe { bindings::mod_timer(self.timer.get(), now.wrapping_add(self.period)) };
    }
}

impl Drop for WakeTimer {
    fn drop(&mut self) {
        // Also when it is being armed again just now; waits for `wake`.
        // SAFETY: By the invariant the timer is initialized.
        unsafe { bindings::timer_delete_sync(self.0.timer.get()) };
    }
}
