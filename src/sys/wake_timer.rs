// SPDX-License-Identifier: GPL-2.0

//! Periodic wake-ups of a task.
//!
//! C: `struct timer_list` (linux/timer.h). The callbacks of the kernel crate's timers return an
//! enum, and kCFI's type hash of such a Rust function differs from that of C.

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

/// Wakes its creator periodically until dropped.
pub(super) struct WakeTimer(KBox<Waker>);

/// # Invariants
///
/// The timer is initialised, and stays in place until it is stopped.
#[repr(C)]
struct Waker {
    timer: Opaque<timer_list>,
    task: ARef<Task>,
    period: Jiffies,
}

impl WakeTimer {
    /// Starts to wake the current task every `ms` milliseconds, or a little later. May sleep.
    pub(super) fn start(ms: u32) -> Result<Self, AllocError> {
        let waker = Waker {
            timer: Opaque::uninit(),
            task: ARef::from(&**current!()),
            period: msecs_to_jiffies(ms),
        };
        let waker = KBox::new(waker, GFP_KERNEL)?;
        let (name, key) = (c"user_events_wake", static_lock_class!());
        // SAFETY: Nothing uses the timer yet, and it stays in its box until the drop stops it. Name
        // and key live as long as the module.
        unsafe {
            bindings::timer_init_key(
                waker.timer.get(),
                Some(Self::wake),
                0,
                name.as_char_ptr(),
                key.as_ptr(),
            );
        }
        // INVARIANT: Just initialised, in its box.
        waker.arm();
        Ok(Self(waker))
    }

    /// # Safety
    ///
    /// For the kernel: `timer` is that of a `Waker` from `start`.
    unsafe extern "C" fn wake(timer: *mut timer_list) {
        const { assert!(offset_of!(Waker, timer) == 0) };
        // SAFETY: The first member of a waker, which is freed after the timer is stopped.
        let waker = unsafe { &*timer.cast_const().cast::<Waker>() };
        waker.task.wake_up();
        waker.arm();
    }
}

impl Waker {
    /// Starts a period.
    fn arm(&self) {
        // SAFETY: The kernel changes its clock meanwhile, hence the volatile read.
        let now = unsafe { (&raw const bindings::jiffies).read_volatile() };
        // SAFETY: By the invariant the timer is initialised, and stays in place.
        unsafe { bindings::mod_timer(self.timer.get(), now.wrapping_add(self.period)) };
    }
}

impl Drop for WakeTimer {
    fn drop(&mut self) {
        // Stops the timer also if `wake` is just rearming it, and waits for `wake`.
        // SAFETY: The timer is initialised by the invariant.
        unsafe { bindings::timer_delete_sync(self.0.timer.get()) };
    }
}
