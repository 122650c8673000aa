// SPDX-License-Identifier: GPL-2.0

//! SIGTRAP of a perf event, sent to the task in which the event occurs.

use crate::kit::errno::Errno;
use crate::kit::os;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `siginfo_t` of such a signal.
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

/// `TRAP_PERF`: sent by a perf event.
pub const TRAP_PERF: i32 = 6;

#[derive(Debug, PartialEq, Eq)]
pub struct Trap {
    /// The receiving thread.
    pub thread: i32,
    pub code: i32,
    /// `sig_data` and the type of the perf event.
    pub data: u64,
    pub kind: u32,
    pub flags: u32,
}

static CAUGHT: AtomicU32 = AtomicU32::new(0);
/// The values of the last one, in the order of [`Trap`].
static LAST: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

/// Records each SIGTRAP of this process.
pub fn catch() {
    extern "C" fn note(_signal: i32, info: *const Info, _context: *const c_void) {
        // SAFETY: The kernel passes at least as much to a handler with SA_SIGINFO.
        let info = unsafe { &*info };
        let (thread, code) = (os::thread_id() as u64, info.code as u64);
        let values = [thread, code, info.data, info.kind.into(), info.flags.into()];
        for (last, value) in LAST.iter().zip(values) {
            last.store(value, Ordering::Relaxed);
        }
        CAUGHT.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: A sigaction is plain data, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = note as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: The handler only uses atomics and gettid(), both async-signal-safe.
    let ret = unsafe { libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()) };
    assert_eq!(ret, 0, "sigaction: {:?}", Errno::last());
}

pub fn caught() -> u32 {
    CAUGHT.load(Ordering::Relaxed)
}

pub fn last() -> Trap {
    let [thread, code, data, kind, flags] =
        LAST.each_ref().map(|last| last.load(Ordering::Relaxed));
    Trap {
        thread: thread as i32,
        code: code as i32,
        data,
        kind: kind as u32,
        flags: flags as u32,
    }
}
