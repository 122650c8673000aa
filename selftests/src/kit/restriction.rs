// SPDX-License-Identifier: GPL-2.0

//! Restrictions of a process: a seccomp filter, and a user namespace.

use crate::kit::errno::Errno;
use std::fs;
use std::os::fd::{AsRawFd, RawFd};

const fn step(code: u32, jump_if: u8, jump_else: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: jump_if,
        jf: jump_else,
        k,
    }
}

/// Has the calling thread killed, without its process, at an `ioctl`, `write` or `writev` on a file.
pub fn be_killed_by_calls_on(file: &impl AsRawFd) {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    // In `struct seccomp_data`: the number of the call, and the lower half of its first argument.
    const NUMBER: u32 = 0;
    const FIRST: u32 = 16;
    let fd: RawFd = file.as_raw_fd();
    let mut steps = [
        step(LOAD, 0, 0, NUMBER),
        step(IF_EQUAL, 2, 0, libc::SYS_ioctl as u32),
        step(IF_EQUAL, 1, 0, libc::SYS_write as u32),
        step(IF_EQUAL, 0, 3, libc::SYS_writev as u32),
        step(LOAD, 0, 0, FIRST),
        step(IF_EQUAL, 0, 1, fd as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_THREAD),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: Takes numbers only.
    let ret = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(ret, 0, "no new privileges: {:?}", Errno::last());
    const FILTER: u32 = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: The length of the program is right, and it lives through the call, which copies it.
    let ret = unsafe { libc::syscall(libc::SYS_seccomp, FILTER, 0, &raw const program) };
    assert_eq!(ret, 0, "seccomp: {:?}", Errno::last());
}

/// Makes this process the root of a new user namespace, with no other user mapped.
pub fn become_root_of_a_namespace() {
    // SAFETY: Takes no memory.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // After a change of the user, a process that is not dumpable cannot write its own files in
    // /proc.
    // SAFETY: Takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    // SAFETY: Takes a number only.
    let ret = unsafe { libc::unshare(libc::CLONE_NEWUSER) };
    assert_eq!(ret, 0, "a namespace of users: {:?}", Errno::last());
    for (file, text) in [
        ("setgroups", "deny".to_string()),
        ("uid_map", format!("0 {user} 1")),
        ("gid_map", format!("0 {group} 1")),
    ] {
        let written = fs::write(format!("/proc/self/{file}"), text);
        written.unwrap_or_else(|error| panic!("write {file}: {error}"));
    }
    // SAFETY: Touch no memory.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    assert_eq!((user, group), (0, 0), "root of its namespace");
}
