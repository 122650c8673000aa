// SPDX-License-Identifier: GPL-2.0

//! Waiting for files: `poll()`, `select()`, epoll.

use crate::kit::errno::{Errno, Result};
use crate::kit::wait;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// What a file reports that can be read and written at any time.
pub const ALWAYS: u32 = 0x145;
/// `EPOLLPRI`: the state of an event has changed.
pub const CHANGED: u32 = 0x2;
/// `EPOLLIN`: there is something to be read.
pub const IN: u32 = 0x1;
/// `POLLNVAL`: there is no such descriptor.
pub const CLOSED: u32 = 0x20;
/// `EPOLLET`: report only what is new.
pub const EDGE: u32 = 1 << 31;
/// `EPOLLONESHOT`: report once, until it is modified.
pub const ONCE: u32 = 1 << 30;

fn check(ret: libc::c_int) -> Result<libc::c_int> {
    match ret {
        -1 => Err(Errno::last()),
        _ => Ok(ret),
    }
}

fn milliseconds(limit: Duration) -> i32 {
    i32::try_from(limit.as_millis()).expect("a limit")
}

/// What `poll()` reports of a file within a time, of what it is asked for; 0 if nothing.
pub fn poll_for(file: &impl AsRawFd, events: u32, limit: Duration) -> u32 {
    let mut poll = libc::pollfd {
        fd: file.as_raw_fd(),
        events: events as i16,
        revents: 0,
    };
    // SAFETY: `poll` is one pollfd, ours for the call.
    check(unsafe { libc::poll(&mut poll, 1, milliseconds(limit)) }).expect("poll");
    u32::from(poll.revents as u16)
}

/// Has an event changed, says `poll()`, without waiting?
pub fn has_changed(file: &impl AsRawFd) -> bool {
    poll_for(file, CHANGED, Duration::ZERO) == CHANGED
}

/// Sleeps in `poll()` until an event has changed.
#[track_caller]
pub fn wait_for_change(file: &impl AsRawFd) {
    assert_eq!(poll_for(file, CHANGED, wait::limit()), CHANGED, "no change");
}

/// The sets of `select()` in which it reports a file, when asked for all three within a time: to be read, to be written,
/// and exceptional.
pub fn select(file: &impl AsRawFd, asked: [bool; 3], limit: Duration) -> [bool; 3] {
    let fd = file.as_raw_fd();
    // SAFETY: A set of bits, of which none is a set without a file.
    let mut sets: [libc::fd_set; 3] = unsafe { mem::zeroed() };
    for (set, asked) in sets.iter_mut().zip(asked) {
        if asked {
            // SAFETY: The descriptor is one that a set has a bit for, as is tested.
            unsafe { libc::FD_SET(in_a_set(fd), set) };
        }
    }
    let mut limit = libc::timeval {
        tv_sec: limit.as_secs() as i64,
        tv_usec: limit.subsec_micros().into(),
    };
    let [read, write, except] = &mut sets;
    // SAFETY: The sets and the time live through the call.
    check(unsafe { libc::select(fd + 1, read, write, except, &mut limit) }).expect("select");
    sets.map(|set| {
        // SAFETY: As above.
        unsafe { libc::FD_ISSET(in_a_set(fd), &set) }
    })
}

fn in_a_set(fd: RawFd) -> RawFd {
    assert!((0..libc::FD_SETSIZE as RawFd).contains(&fd));
    fd
}

/// An epoll set.
pub struct Epoll(OwnedFd);

impl Epoll {
    pub fn new() -> Epoll {
        // SAFETY: Takes a number. The descriptor is new, and this is its only owner.
        Epoll(unsafe {
            OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC)).expect("epoll"))
        })
    }

    fn control(&self, operation: i32, file: &impl AsRawFd, events: u32) -> Result<()> {
        let fd = file.as_raw_fd();
        let mut event = libc::epoll_event {
            events,
            u64: fd as u64,
        };
        // SAFETY: `event` lives through the call.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd, &mut event) }).map(drop)
    }

    /// Adds a file, to be waited for with these events.
    pub fn try_add(&self, file: &impl AsRawFd, events: u32) -> Result<()> {
        self.control(libc::EPOLL_CTL_ADD, file, events)
    }

    /// The same, which must succeed.
    #[track_caller]
    pub fn add(&self, file: &impl AsRawFd, events: u32) {
        self.try_add(file, events).expect("add to the epoll set");
    }

    /// Waits for other events of a file.
    #[track_caller]
    pub fn modify(&self, file: &impl AsRawFd, events: u32) {
        let modified = self.control(libc::EPOLL_CTL_MOD, file, events);
        modified.expect("modify in the epoll set");
    }

    /// Takes a file out.
    #[track_caller]
    pub fn remove(&self, file: &impl AsRawFd) {
        let removed = self.control(libc::EPOLL_CTL_DEL, file, 0);
        removed.expect("remove from the epoll set");
    }

    /// The files that are reported within a time, and what of them.
    pub fn wait(&self, limit: Duration) -> Vec<(RawFd, u32)> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // SAFETY: There is room for so many events.
        let count = check(unsafe {
            let (events, most) = (events.as_mut_ptr(), events.len() as i32);
            libc::epoll_wait(self.0.as_raw_fd(), events, most, milliseconds(limit))
        });
        let events = events.into_iter().take(count.expect("epoll_wait") as usize);
        events
            .map(|event| (event.u64 as RawFd, event.events))
            .collect()
    }

    /// Is one file reported to have changed, and nothing else, without waiting?
    pub fn has_changed(&self, file: &impl AsRawFd) -> bool {
        let found = self.wait(Duration::ZERO);
        assert!(found.len() <= 1, "{found:?}");
        found == [(file.as_raw_fd(), CHANGED)]
    }

    /// Sleeps until one file has changed, which is this one.
    #[track_caller]
    pub fn wait_for_change(&self, file: &impl AsRawFd) {
        assert_eq!(self.wait(wait::limit()), [(file.as_raw_fd(), CHANGED)]);
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A second descriptor of an open file.
pub fn duplicate(file: &impl AsRawFd) -> OwnedFd {
    // SAFETY: Takes a number. The descriptor is new, and this is its only owner.
    unsafe { OwnedFd::from_raw_fd(check(libc::dup(file.as_raw_fd())).expect("dup")) }
}

/// Closes a descriptor that another thread may be using.
pub fn close_used(fd: RawFd) {
    // SAFETY: Touches no memory; the caller's owner of the descriptor is forgotten, or is told of an error.
    check(unsafe { libc::close(fd) }).expect("close");
}
