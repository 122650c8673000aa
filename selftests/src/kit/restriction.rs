// SPDX-License-Identifier: GPL-2.0

//! Restrictions of a process: a seccomp filter, and a user namespace.

use crate::kit::errno::Errno;
use crate::kit::os;
use std::fs;
use std::os::fd::AsRawFd;

const fn step(code: u32, jump_if: u8, jump_else: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: jump_if,
        jf: jump_else,
        k,
    }
}

/// Forbids the calling thread `ioctl`, `write` and `writev` on a file, for good. `then` is the
/// effect of such a call: `SECCOMP_RET_ERRNO` with an error, or another such value.
pub fn forbid_calls_on(file: &impl AsRawFd, then: u32) {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    // In `struct seccomp_data`: the number of the call, and the lower half of its first argument.
    const NUMBER: u32 = 0;
    const FIRST: u32 = 16;
    let fd = file.as_raw_fd();
    let mut steps = [
        step(LOAD, 0, 0, NUMBER),
        step(IF_EQUAL, 2, 0, libc::SYS_ioctl as u32),
        step(IF_EQUAL, 1, 0, libc::SYS_write as u32),
        step(IF_EQUAL, 0, 3, libc::SYS_writev as u32),
        step(LOAD, 0, 0, FIRST),
        step(IF_EQUAL, 0, 1, fd as u32),
        step(RETURN, 0, 0, then),
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
    let (user, group) = effective_ids();
    // After a change of the user, a process that is not dumpable cannot write its own files in
    // /proc.
    // SAFETY: Takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    os::unshare(libc::CLONE_NEWUSER);
    for (file, text) in [
        ("setgroups", "deny".to_string()),
        ("uid_map", format!("0 {user} 1")),
        ("gid_map", format!("0 {group} 1")),
    ] {
        let written = fs::write(format!("/proc/self/{file}"), text);
        written.unwrap_or_else(|error| panic!("write {file}: {error}"));
    }
    assert_eq!(effective_ids(), (0, 0), "root of its namespace");
}

fn effective_ids() -> (u32, u32) {
    // SAFETY: Touch no memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}
