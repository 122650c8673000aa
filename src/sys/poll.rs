// SPDX-License-Identifier: GPL-2.0

//! Tasks that wait for an open file: `poll()`, `select()`, epoll.
//!
//! C: `poll_wait()` (linux/poll.h), `struct wait_queue_head` (linux/wait.h). The kernel crate's
//! `PollCondVar` may end before the file does, for which its drop pays with a grace period of RCU.
//! A [`PollQueue`] belongs to its file.

use super::bindings::{
    self,
    file,
    poll_queue_proc,
    poll_table_struct,
    wait_queue_head,
    POLLIN,
    POLLOUT,
    POLLPRI,
    POLLRDNORM,
    POLLWRNORM, //
};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::LockClassKey;
use kernel::task::TASK_NORMAL;
use kernel::types::Opaque;

/// What a file without a `poll` of its own reports: it can be read and written. C:
/// `DEFAULT_POLLMASK`.
pub(super) const POLL_DEFAULT: u32 = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;

/// What is reported besides when there is news. C: `EPOLLPRI`.
pub(super) const POLL_CHANGED: u32 = POLLPRI;

/// Those who wait for news of open files.
///
/// # Invariants
///
/// The head is initialized. An entry in its list is one that [`Poll::wait`] added.
#[pin_data]
pub(crate) struct PollQueue {
    #[pin]
    head: Opaque<wait_queue_head>,
}

// SAFETY: The list of those who wait is protected by a lock of its own.
unsafe impl Send for PollQueue {}
// SAFETY: As above.
unsafe impl Sync for PollQueue {}

impl PollQueue {
    /// No waiters. `name` and `class` are the lock's.
    pub(crate) fn new(
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        // INVARIANT: Just initialized, and the list is empty.
        pin_init!(Self {
            // SAFETY: The memory is there, and stays in place, as it is pinned. Name and class live
            // as long as the module.
            head <- Opaque::ffi_init(|head| unsafe {
                kernel::bindings::__init_waitqueue_head(head, name.as_char_ptr(), class.as_ptr());
            }),
        })
    }

    /// Is there a waiter? One that is not seen here sees what has been done before this. Any
    /// context. C: `wq_has_sleeper()`.
    pub(crate) fn is_waited_on(&self) -> bool {
        // Pairs with the barrier of `poll_wait()`.
        // SAFETY: A barrier; and by the invariant the head is initialized. The pointer changes
        // while it is read, hence the volatile read. It is compared only.
        unsafe {
            kernel::bindings::smp_mb();
            let list = &raw mut (*self.head.get()).head;
            (&raw const (*list).next).read_volatile() != list
        }
    }

    /// Has all waiters poll their files again. Any context but interrupts; takes spinlocks only.
    pub(crate) fn wake(&self) {
        // Without a key, as not each file has news: io_uring takes a key for what a poll would have
        // reported. (And one that says EPOLLPRI alone wakes no poll of io_uring's.)
        // SAFETY: By the invariant the head is initialized, and each entry is there until it is
        // taken out under the list's lock.
        unsafe { kernel::bindings::__wake_up(self.head.get(), TASK_NORMAL, 0, ptr::null_mut()) };
    }
}

/// How a file is polled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollKind {
    /// What is reported goes to the program that polls, or is dropped with all else that this call
    /// has found.
    Consume,
    /// The caller becomes a waiter that stays beyond the call, and polls once more when it is
    /// woken: an epoll set to which the file is added, io_uring.
    Subscribe,
}

/// A poll of an open file that asks for news, or is by a set that may come to do so. `'a` is for
/// how long the file is open.
///
/// # Invariants
///
/// `file` is a file that stays open for `'a`, for which the VFS has called `poll` with `table`, in
/// the current context.
pub(crate) struct Poll<'a> {
    file: *mut file,
    table: *mut poll_table_struct,
    _open: PhantomData<fn(&'a PollQueue)>,
}

impl<'a> Poll<'a> {
    /// The poll, if it asks for news, or has a waiter for the file: an epoll set waits from when
    /// the file is added to it, and may be modified to ask for them later.
    ///
    /// # Safety
    ///
    /// The VFS must have called `poll` of `file` with these arguments, and that call outlives the
    /// result. The file is open for `'a`: whatever is borrowed for so long exists until `release`
    /// is called for it.
    pub(super) unsafe fn new(file: *mut file, table: *mut poll_table_struct) -> Option<Self> {
        // INVARIANT: Promised by the caller.
        let poll = Self {
            file,
            table,
            _open: PhantomData,
        };
        let is_of_use = poll.wants_pri() || poll.queue_proc().is_some();
        is_of_use.then_some(poll)
    }

    fn table(&self) -> Option<&poll_table_struct> {
        // SAFETY: By the invariant the table is valid, or NULL.
        unsafe { self.table.as_ref() }
    }

    /// What adds a waiter.
    fn queue_proc(&self) -> poll_queue_proc {
        self.table().and_then(|table| table._qproc)
    }

    /// Are news to be reported? C: `poll_requested_events()`.
    pub(crate) fn wants_pri(&self) -> bool {
        self.table().map_or(POLL_CHANGED, |table| table._key) & POLL_CHANGED != 0
    }

    /// What becomes of the answer.
    pub(crate) fn kind(&self) -> PollKind {
        let Some(queue_proc) = self.queue_proc() else {
            return PollKind::Consume;
        };
        match queue_proc as usize == sync_poll_qproc() {
            true => PollKind::Consume,
            false => PollKind::Subscribe,
        }
    }

    /// Has the caller woken by `queue`, if it has a waiter for the file. News that come after this
    /// are not missed by it. Sleeps for memory.
    pub(crate) fn wait(&self, queue: &'a PollQueue) {
        // SAFETY: By the invariant file and table are valid, and the queue is there for as long as
        // the file is open. All who wait for a file hold it, as poll() and io_uring do, or leave
        // the queue before the file is released, as epoll does. So none waits by way of this file
        // when the queue goes.
        unsafe { bindings::user_events_poll_wait(self.file, queue.head.get(), self.table) };
    }
}

/// The address of what `poll()` and `select()` add their waiters with. It is not exported, but what
/// they begin with is. Apart, since the waiters of a whole call lie on the stack.
#[inline(never)]
fn sync_poll_qproc() -> usize {
    let mut of_poll = MaybeUninit::<bindings::poll_wqueues>::uninit();
    let of_poll = of_poll.as_mut_ptr();
    // SAFETY: The first initializes it, and the second finds no waiter in it.
    let queue_proc = unsafe {
        bindings::poll_initwait(of_poll);
        let queue_proc = (*of_poll).pt._qproc;
        bindings::poll_freewait(of_poll);
        queue_proc
    };
    queue_proc.map_or(0, |queue_proc| queue_proc as usize)
}
