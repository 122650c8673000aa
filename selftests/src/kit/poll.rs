// SPDX-License-Identifier: GPL-2.0

//! Waiting for files: `poll()`, `select()`, epoll.

use crate::kit::errno::Result;
use crate::kit::os::check;
use crate::kit::wait;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// The events of a file that never blocks: EPOLLIN, EPOLLOUT, EPOLLRDNORM, EPOLLWRNORM.
pub const ALWAYS: u32 = 0x145;
/// `EPOLLPRI`: the state of an event has changed.
pub const CHANGED: u32 = 0x2;
/// `EPOLLIN`: the file is readable.
pub const IN: u32 = 0x1;
/// `POLLNVAL`: the descriptor is not open.
pub const CLOSED: u32 = 0x20;
/// `EPOLLET`: edge-triggered.
pub const EDGE: u32 = 1 << 31;
/// `EPOLLONESHOT`: disabled by the first report, until modified.
pub const ONCE: u32 = 1 << 30;

fn milliseconds(limit: Duration) -> i32 {
    i32::try_from(limit.as_millis()).expect("a limit")
}

/// The result of `poll()` for these events within a time; 0 on a timeout.
pub fn poll_for(file: &impl AsRawFd, events: u32, limit: Duration) -> u32 {
    let mut poll = libc::pollfd {
        fd: file.as_raw_fd(),
        events: events as i16,
        revents: 0,
    };
    // SAFETY: `poll` is one pollfd, ours for the call.
    check(unsafe { libc::poll(&mut poll, 1, milliseconds(limit)) }.into()).expect("poll");
    u32::from(poll.revents as u16)
}

/// Returns whether `poll()` reports a changed event, without waiting.
pub fn has_changed(file: &impl AsRawFd) -> bool {
    poll_for(file, CHANGED, Duration::ZERO) == CHANGED
}

/// Sleeps in `poll()` until an event has changed.
#[track_caller]
pub fn wait_for_change(file: &impl AsRawFd) {
    assert_eq!(poll_for(file, CHANGED, wait::limit()), CHANGED, "no change");
}

/// Returns in which of its sets (read, write, exceptional) `select()` reports a file within a time,
/// for the sets in `asked`.
pub fn select(file: &impl AsRawFd, asked: [bool; 3], limit: Duration) -> [bool; 3] {
    let fd = file.as_raw_fd();
    // SAFETY: An fd_set is plain bits, and zero is the empty set.
    let mut sets: [libc::fd_set; 3] = unsafe { mem::zeroed() };
    for (set, asked) in sets.iter_mut().zip(asked) {
        if asked {
            // SAFETY: `in_a_set` checks that the set has a bit for the descriptor.
            unsafe { libc::FD_SET(in_a_set(fd), set) };
        }
    }
    let mut limit = libc::timeval {
        tv_sec: limit.as_secs() as i64,
        tv_usec: limit.subsec_micros().into(),
    };
    let [read, write, except] = &mut sets;
    // SAFETY: The sets and the time live through the call.
    check(unsafe { libc::select(fd + 1, read, write, except, &mut limit) }.into()).expect("select");
    sets.map(|set| {
        // SAFETY: As above.
        unsafe { libc::FD_ISSET(in_a_set(fd), &set) }
    })
}

fn in_a_set(fd: RawFd) -> RawFd {
    assert!((0..libc::FD_SETSIZE as RawFd).contains(&fd));
    fd
}

pub struct Epoll(OwnedFd);

impl Epoll {
    pub fn new() -> Epoll {
        // SAFETY: Takes a number. The descriptor is new, and this is its only owner.
        Epoll(unsafe {
            let fd = check(libc::epoll_create1(libc::EPOLL_CLOEXEC).into());
            OwnedFd::from_raw_fd(fd.expect("epoll") as RawFd)
        })
    }

    /// A set with one file, for these events.
    #[track_caller]
    pub fn of(file: &impl AsRawFd, events: u32) -> Epoll {
        let set = Epoll::new();
        set.add(file, events);
        set
    }

    fn control(&self, operation: i32, file: &impl AsRawFd, events: u32) -> Result<()> {
        let fd = file.as_raw_fd();
        let mut event = libc::epoll_event {
            events,
            u64: fd as u64,
        };
        // SAFETY: `event` lives through the call.
        check(unsafe { libc::epoll_ctl(self.as_raw_fd(), operation, fd, &mut event) }.into())
            .map(drop)
    }

    pub fn try_add(&self, file: &impl AsRawFd, events: u32) -> Result<()> {
        self.control(libc::EPOLL_CTL_ADD, file, events)
    }

    /// The same, which must succeed.
    #[track_caller]
    pub fn add(&self, file: &impl AsRawFd, events: u32) {
        self.try_add(file, events).expect("add to the epoll set");
    }

    #[track_caller]
    pub fn modify(&self, file: &impl AsRawFd, events: u32) {
        let modified = self.control(libc::EPOLL_CTL_MOD, file, events);
        modified.expect("modify in the epoll set");
    }

    #[track_caller]
    pub fn remove(&self, file: &impl AsRawFd) {
        let removed = self.control(libc::EPOLL_CTL_DEL, file, 0);
        removed.expect("remove from the epoll set");
    }

    /// The files reported within a time, with their events.
    pub fn wait(&self, limit: Duration) -> Vec<(RawFd, u32)> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // SAFETY: There is room for so many events.
        let count = unsafe {
            let (events, most) = (events.as_mut_ptr(), events.len() as i32);
            libc::epoll_wait(self.as_raw_fd(), events, most, milliseconds(limit))
        };
        let count = check(count.into()).expect("epoll_wait");
        let reported = events[..count as usize].iter();
        let reported = reported.map(|event| (event.u64 as RawFd, event.events));
        reported.collect()
    }

    /// Returns whether the file is reported as changed, without waiting. Panics if another file is
    /// reported, too.
    pub fn has_changed(&self, file: &impl AsRawFd) -> bool {
        let found = self.wait(Duration::ZERO);
        assert!(found.len() <= 1, "{found:?}");
        found == [(file.as_raw_fd(), CHANGED)]
    }

    /// Sleeps until this file, and no other, is reported as changed.
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

/// Closes a descriptor that another thread may use.
pub fn close_used(fd: RawFd) {
    // SAFETY: Touches no memory; the owner of the descriptor is forgotten, or prepared for an
    // error.
    check(unsafe { libc::close(fd) }.into()).expect("close");
}
