// SPDX-License-Identifier: GPL-2.0

//! Waiters for an open file: `poll()`, `select()`, epoll, io_uring.
//!
//! C: `poll_wait()` (linux/poll.h), `struct wait_queue_head` (linux/wait.h). The kernel crate's
//! `PollCondVar` may end before the file, for which its drop waits for a grace period of RCU. A
//! [`PollQueue`] lives longer than the files that use it.

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

/// The events of a file without a `poll` operation. C: `DEFAULT_POLLMASK`.
pub(super) const POLL_DEFAULT: u32 = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;

/// The event that is added when a state has changed. C: `EPOLLPRI`.
pub(super) const POLL_CHANGED: u32 = POLLPRI;

/// The waiters of open files.
///
/// # Invariants
///
/// The head is initialised, and [`Poll::wait`] added each entry of its list.
#[pin_data]
pub(crate) struct PollQueue {
    #[pin]
    head: Opaque<wait_queue_head>,
}

// SAFETY: A lock in the head protects the list.
unsafe impl Send for PollQueue {}
// SAFETY: As above.
unsafe impl Sync for PollQueue {}

impl PollQueue {
    /// An empty queue. `name` and `class` are those of its lock.
    pub(crate) fn new(
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        // INVARIANT: Just initialised, with an empty list.
        pin_init!(Self {
            // SAFETY: The memory is valid and pinned. Name and class live as long as the module.
            head <- Opaque::ffi_init(|head| unsafe {
                kernel::bindings::__init_waitqueue_head(head, name.as_char_ptr(), class.as_ptr());
            }),
        })
    }

    /// Whether there is a waiter. A waiter that is missed here sees all that was done before this
    /// call. Any context. C: `wq_has_sleeper()`.
    pub(crate) fn is_waited_on(&self) -> bool {
        // Pairs with the barrier of `poll_wait()`.
        // SAFETY: The head is initialised by the invariant. The pointer is compared only, and
        // changes meanwhile, hence the volatile read.
        unsafe {
            kernel::bindings::smp_mb();
            let list = &raw mut (*self.head.get()).head;
            (&raw const (*list).next).read_volatile() != list
        }
    }

    /// Wakes all waiters, which poll their files again. Takes spinlocks only. Any context but
    /// interrupts.
    pub(crate) fn wake(&self) {
        // No key, as only some of the files have changed: io_uring takes the key for the result of
        // a poll, and ignores a wake-up with EPOLLPRI alone.
        // SAFETY: The head is initialised by the invariant. An entry is valid until it is removed
        // under the list's lock.
        unsafe { kernel::bindings::__wake_up(self.head.get(), TASK_NORMAL, 0, ptr::null_mut()) };
    }
}

/// The kinds of callers of `poll`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollKind {
    /// The result goes to the polling program, or is dropped with all other results of the call.
    Consume,
    /// The caller becomes a waiter beyond the call, and polls again when it is woken: an epoll set
    /// to which the file is added, or io_uring.
    Subscribe,
}

/// A call of `poll` that wants [`POLL_CHANGED`], or whose caller may want it later. The file is
/// open for `'a`.
///
/// # Invariants
///
/// The VFS has called `poll` of `file`, which stays open for `'a`, with `table`, in the current
/// context.
pub(crate) struct Poll<'a> {
    file: *mut file,
    table: *mut poll_table_struct,
    _open: PhantomData<fn(&'a PollQueue)>,
}

impl<'a> Poll<'a> {
    /// The poll, if it wants [`POLL_CHANGED`] or adds a waiter: an epoll set waits from when the
    /// file is added, and may be modified later.
    ///
    /// # Safety
    ///
    /// The VFS must have called `poll` of `file` with these arguments, in a call that outlives the
    /// result, and the file must be open for `'a`: whatever is borrowed for `'a` exists until
    /// `release` is called for the file.
    pub(super) unsafe fn new(file: *mut file, table: *mut poll_table_struct) -> Option<Self> {
        // INVARIANT: By the safety requirement.
        let poll = Self {
            file,
            table,
            _open: PhantomData,
        };
        let is_of_use = poll.wants_pri() || poll.queue_proc().is_some();
        is_of_use.then_some(poll)
    }

    fn table(&self) -> Option<&poll_table_struct> {
        // SAFETY: The table is valid or NULL by the invariant.
        unsafe { self.table.as_ref() }
    }

    /// The function that adds a waiter.
    fn queue_proc(&self) -> poll_queue_proc {
        self.table().and_then(|table| table._qproc)
    }

    /// Whether the caller wants [`POLL_CHANGED`]. C: `poll_requested_events()`.
    pub(crate) fn wants_pri(&self) -> bool {
        self.table().map_or(POLL_CHANGED, |table| table._key) & POLL_CHANGED != 0
    }

    /// The kind of the caller.
    pub(crate) fn kind(&self) -> PollKind {
        let Some(queue_proc) = self.queue_proc() else {
            return PollKind::Consume;
        };
        match queue_proc as usize == sync_poll_qproc() {
            true => PollKind::Consume,
            false => PollKind::Subscribe,
        }
    }

    /// Adds the caller to `queue`, if it adds a waiter. It is woken by all that happens after this.
    /// May sleep for memory.
    pub(crate) fn wait(&self, queue: &'a PollQueue) {
        // SAFETY: File and table are valid by the invariant, and the queue exists as long as the
        // file is open. A waiter holds the file (poll(), io_uring), or leaves the queue before the
        // file is released (epoll), so none is left when the queue is freed.
        unsafe { bindings::user_events_poll_wait(self.file, queue.head.get(), self.table) };
    }
}

/// The function with which `poll()` and `select()` add waiters. Not exported, but `poll_initwait()`
/// is, which shows it. Not inlined: the stack would hold the waiters of a whole call.
#[inline(never)]
fn sync_poll_qproc() -> usize {
    let mut of_poll = MaybeUninit::<bindings::poll_wqueues>::uninit();
    let of_poll = of_poll.as_mut_ptr();
    // SAFETY: The first function initialises the structure, and the second finds no waiter in it.
    let queue_proc = unsafe {
        bindings::poll_initwait(of_poll);
        let queue_proc = (*of_poll).pt._qproc;
        bindings::poll_freewait(of_poll);
        queue_proc
    };
    queue_proc.map_or(0, |queue_proc| queue_proc as usize)
}
