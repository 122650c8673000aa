// SPDX-License-Identifier: GPL-2.0

//! The signal that a perf event sends to the task in which the event happens.

use crate::kit::errno::Errno;
use crate::kit::os;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// What the kernel tells with SIGTRAP of a perf event, as it lays that out.
#[repr(C)]
struct Info {
    signal: i32,
    error: i32,
    code: i32,
    address: u64,
    data: u64,
    kind: u32,
    flags: u32,
}

/// Tells that a perf event sent it.
pub const TRAP_PERF: i32 = 6;
/// Set where the signal was held back.
pub const TRAP_PERF_FLAG_ASYNC: u32 = 1;

/// What a signal told.
#[derive(Debug, PartialEq, Eq)]
pub struct Trap {
    /// The thread that it came to.
    pub thread: i32,
    pub code: i32,
    /// The data and the type of the perf event.
    pub data: u64,
    pub kind: u32,
    pub flags: u32,
}

static CAUGHT: AtomicU32 = AtomicU32::new(0);
static THREAD: AtomicI32 = AtomicI32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static DATA: AtomicU64 = AtomicU64::new(0);
static KIND: AtomicU32 = AtomicU32::new(0);
static FLAGS: AtomicU32 = AtomicU32::new(0);

/// Has this process note each SIGTRAP, and go on.
pub fn catch() {
    extern "C" fn note(_signal: i32, info: *const Info, _context: *const c_void) {
        // SAFETY: What the kernel passes to a handler with SA_SIGINFO is at least as large.
        let info = unsafe { &*info };
        THREAD.store(os::thread_id(), Ordering::Relaxed);
        CODE.store(info.code, Ordering::Relaxed);
        DATA.store(info.data, Ordering::Relaxed);
        KIND.store(info.kind, Ordering::Relaxed);
        FLAGS.store(info.flags, Ordering::Relaxed);
        CAUGHT.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: A sigaction is plain data, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = note as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: The handler stores in atomics, and asks for a number: both may be done in a handler.
    let ret = unsafe { libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()) };
    assert_eq!(ret, 0, "sigaction: {:?}", Errno::last());
}

/// How many came.
pub fn caught() -> u32 {
    CAUGHT.load(Ordering::Relaxed)
}

/// What the last one told.
pub fn last() -> Trap {
    Trap {
        thread: THREAD.load(Ordering::Relaxed),
        code: CODE.load(Ordering::Relaxed),
        data: DATA.load(Ordering::Relaxed),
        kind: KIND.load(Ordering::Relaxed),
        flags: FLAGS.load(Ordering::Relaxed),
    }
}
