// SPDX-License-Identifier: GPL-2.0

//! System calls that std lacks, one safe function each.

use crate::kit::errno::{Errno, Result};
use crate::kit::poll;
use std::ffi::CStr;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The result of a call that returns -1 on errors, or of a raw one.
pub fn check(ret: libc::c_long) -> Result<libc::c_long> {
    match ret {
        -1 => Err(Errno::last()),
        // A raw system call returned an invalid error number.
        ..-1 => Err(Errno(-ret as i32)),
        _ => Ok(ret),
    }
}

/// The same for a call that returns a number of bytes.
pub fn count(ret: isize) -> Result<usize> {
    usize::try_from(ret).map_err(|_| Errno::last())
}

/// Forks. `Ok(0)` is returned in the child, which has this thread only. Other threads of the
/// process must hold no lock, as the child would find it locked for ever.
pub fn fork() -> Result<i32> {
    // SAFETY: The child of a process with one thread is as sound as that process.
    check(unsafe { libc::fork() }.into()).map(|pid| pid as i32)
}

/// Ends the process without running exit handlers.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: Does not return, and touches no memory.
    unsafe { libc::_exit(code) }
}

/// Calls `run`, and ends the process: with an error if `run` panics.
pub fn exit_after(run: impl FnOnce()) -> ! {
    let result = catch_unwind(AssertUnwindSafe(run));
    exit_now(if result.is_ok() { 0 } else { 1 })
}

/// Sends a signal to a process, or to a process group if `pid` is negative.
pub fn kill(pid: i32, signal: i32) -> Result<()> {
    // SAFETY: Touches no memory of ours.
    check(unsafe { libc::kill(pid, signal) }.into()).map(drop)
}

/// Reaps a child, or a child of the process group; with `WNOHANG` in `flags`, without waiting.
/// Returns its pid, 0 if none has ended, and its status in the format of `waitpid`.
pub fn wait(pid: i32, flags: i32) -> Result<(i32, i32)> {
    let mut status = 0;
    // SAFETY: `status` is ours for the call.
    let pid = check(unsafe { libc::waitpid(pid, &mut status, flags) }.into())?;
    Ok((pid as i32, status))
}

pub fn process(pid: i32) -> Result<OwnedFd> {
    // SAFETY: Takes numbers.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: The descriptor is new, and this is its only owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Waits until the child `pid` has ended, without reaping it. Returns false on a timeout.
pub fn wait_for_end(pid: i32, limit: Duration) -> Result<bool> {
    Ok(is_readable(&process(pid)?, limit))
}

/// Releases the memory of a process that is being killed, ahead of its own exit.
pub fn release_memory(pid: i32) -> Result<()> {
    let fd = process(pid)?;
    // SAFETY: Takes numbers.
    check(unsafe { libc::syscall(libc::SYS_process_mrelease, fd.as_raw_fd(), 0) }).map(drop)
}

pub fn own_group() {
    // SAFETY: Touches no memory of ours.
    unsafe { libc::setpgid(0, 0) };
}

/// Makes this process the one to which its orphaned descendants are reparented.
pub fn adopt_orphans() {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes a number.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// The user and the group without privileges, those of overflow ids.
pub const UNPRIVILEGED: u32 = 65534;

/// Gives up all privileges of this process, for good: user, groups and capabilities.
pub fn become_unprivileged() {
    // SAFETY: No groups are read from where none are.
    check(unsafe { libc::setgroups(0, ptr::null()) }.into()).expect("setgroups");
    let id = UNPRIVILEGED;
    // SAFETY: Takes numbers only.
    check(unsafe { libc::setresgid(id, id, id) }.into()).expect("setresgid");
    // SAFETY: Takes numbers only.
    check(unsafe { libc::setresuid(id, id, id) }.into()).expect("setresuid");
}

/// Capabilities for [`keep_capabilities`].
pub const CAP_SYS_ADMIN: u64 = 1 << 21;
pub const CAP_PERFMON: u64 = 1 << 38;

pub fn users() -> (u32, u32) {
    // SAFETY: Touch no memory.
    unsafe { (libc::getuid(), libc::geteuid()) }
}

pub fn allow_open_files(most: u64) {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: The structure lives through the call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }.into()).expect("setrlimit");
}

/// Limits the capabilities of this process to those in `kept`, for any user.
pub fn keep_capabilities(kept: u64) {
    const VERSION: u32 = 0x2008_0522;
    let (low, high) = (kept as u32, (kept >> 32) as u32);
    let header = [VERSION, 0];
    // Effective, permitted and inheritable, the low words first.
    let sets = [low, low, 0, high, high, 0];
    // SAFETY: In this version of the call the header is two words and the sets are six.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) })
        .expect("capset");
}

/// Makes a pipe: the end to read and the end to write.
pub fn pipe() -> Result<(File, File)> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for two descriptors.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }.into())?;
    // SAFETY: Both descriptors are new, and these are their only owners.
    Ok(unsafe { (File::from_raw_fd(fds[0]), File::from_raw_fd(fds[1])) })
}

pub fn is_readable(file: &impl AsRawFd, limit: Duration) -> bool {
    poll::poll_for(file, poll::IN, limit) != 0
}

/// Makes reads and writes of a file fail with EAGAIN instead of waiting.
pub fn set_nonblocking(file: &File) {
    // SAFETY: F_SETFL takes a number.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
}

/// An ioctl whose argument is an address, valid or not.
///
/// The kernel may write at the address. Callers pass addresses of byte buffers that they own, of a
/// [`Mapping`](crate::kit::memory::Mapping), or of nothing mapped by this process.
pub fn ioctl(file: &File, command: u64, argument: u64) -> Result<i32> {
    // SAFETY: By the rule above the kernel writes to nothing that Rust relies on.
    let ret = unsafe { libc::ioctl(file.as_raw_fd(), command, argument) };
    check(ret.into()).map(|ret| ret as i32)
}

/// Whether a 64-bit program can make 32-bit system calls. If not, see `behaviour/compat.rs`.
pub const HAS_CALLS_OF_32_BITS: bool = cfg!(target_arch = "x86_64");

/// The same as a 32-bit system call, with 32-bit numbers.
#[cfg(not(target_arch = "x86_64"))]
pub fn ioctl_32(_: &File, _: u32, _: u32) -> Result<i32> {
    panic!("no call of a 32-bit program can be made here");
}

/// The same as a 32-bit system call, with 32-bit numbers.
#[cfg(target_arch = "x86_64")]
pub fn ioctl_32(file: &File, command: u32, argument: u32) -> Result<i32> {
    const NUMBER: u64 = 54;
    let ret: u64;
    // SAFETY: The rule of `ioctl` holds. The call takes its arguments in rbx, rcx and rdx, returns
    // in rax and changes r8 to r11 at most; rbx, which is reserved by the compiler, is restored.
    unsafe {
        std::arch::asm!(
            "xchg rbx, {file}",
            "int 0x80",
            "xchg rbx, {file}",
            file = inout(reg) u64::from(file.as_raw_fd() as u32) => _,
            inout("rax") NUMBER => ret,
            in("rcx") u64::from(command),
            in("rdx") u64::from(argument),
            out("r8") _,
            out("r9") _,
            out("r10") _,
            out("r11") _,
        );
    }
    match ret as i32 {
        errno @ ..0 => Err(Errno(-errno)),
        ret => Ok(ret),
    }
}

/// Enables tagged addresses in system calls of the calling thread.
#[cfg(target_arch = "aarch64")]
pub fn allow_tags() {
    const PR_SET_TAGGED_ADDR_CTRL: i32 = 55;
    // PR_TAGGED_ADDR_ENABLE
    const ENABLE: u64 = 1;
    // SAFETY: Takes numbers only.
    let ret = unsafe { libc::prctl(PR_SET_TAGGED_ADDR_CTRL, ENABLE, 0_u64, 0_u64, 0_u64) };
    assert_eq!(ret, 0, "tagged addresses: {:?}", Errno::last());
}

pub fn keep_at_exec(file: &File) {
    // SAFETY: F_SETFD takes a number.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) };
}

/// Makes the kernel reap the children of this process when they end.
pub fn forget_children() {
    // SAFETY: SIG_IGN runs nothing of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// `write` from an address that may be bad on purpose.
pub fn write_from(file: &File, address: u64, length: usize) -> Result<usize> {
    // SAFETY: The kernel only reads there, and checks the address.
    count(unsafe { libc::write(file.as_raw_fd(), address as *const _, length) })
}

/// `writev` from addresses that may be bad on purpose.
pub fn writev_from(file: &File, parts: &[(u64, usize)]) -> Result<usize> {
    let parts = parts.iter().map(|&(address, length)| libc::iovec {
        iov_base: address as *mut _,
        iov_len: length,
    });
    let parts: Vec<libc::iovec> = parts.collect();
    // SAFETY: `parts` lives through the call; the kernel only reads where it points, and checks.
    count(unsafe { libc::writev(file.as_raw_fd(), parts.as_ptr(), parts.len() as i32) })
}

pub fn run_on(cpu: usize) {
    // SAFETY: A cpu_set_t is plain bits, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    assert!(cpu < libc::CPU_SETSIZE as usize);
    // SAFETY: `cpu` is within the set, and the set is ours.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: The set lives through the call and its size is right.
    let ret = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    check(ret.into()).expect("sched_setaffinity");
}

/// The first two numbers of the kernel's release.
pub fn kernel_version() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel's release");
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => panic!("the kernel's release is {release}"),
    }
}

/// Returns whether the kernel is 6.12, as the obstacle of tests that need a later one.
pub fn is_of_6_12() -> Option<String> {
    (kernel_version() == (6, 12)).then(|| "this kernel is 6.12".into())
}

pub fn cpus() -> Vec<usize> {
    // SAFETY: A cpu_set_t is plain bits, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: The set is ours for the call and its size is right.
    let ret = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    check(ret.into()).expect("sched_getaffinity");
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: `cpu` is within the set.
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect()
}

/// The first and the last of these CPUs, which are two.
#[track_caller]
pub fn first_and_last_cpu() -> (usize, usize) {
    let cpus = cpus();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    assert_ne!(first, last, "the test needs two processors");
    (first, last)
}

pub fn memory_file(length: u64) -> File {
    // SAFETY: The name is a C string.
    let fd = check(unsafe { libc::memfd_create(c"selftests".as_ptr(), libc::MFD_CLOEXEC) }.into())
        .expect("memfd_create");
    // SAFETY: The descriptor is new, and this is its only owner.
    let file = unsafe { File::from_raw_fd(fd as RawFd) };
    file.set_len(length).expect("size of a file in memory");
    file
}

/// Starts writeback of the dirty pages of a file, without waiting for its end.
pub fn start_writeback(file: &File) {
    let (all, how) = (0, libc::SYNC_FILE_RANGE_WRITE);
    // SAFETY: Takes numbers only.
    let ret = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, all, how) };
    check(ret.into()).expect("sync_file_range");
}

/// Drops the clean, unmapped pages of a file from the page cache.
pub fn forget_pages(file: &File) -> Result<()> {
    // SAFETY: Takes numbers only.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        error => Err(Errno(error)),
    }
}

pub fn punch_hole(file: &File, from: i64, length: i64) -> Result<()> {
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: Takes numbers only.
    check(unsafe { libc::fallocate(file.as_raw_fd(), how, from, length) }.into()).map(drop)
}

/// Waits while a word of shared memory has this value. May return early.
pub fn wait_while(word: &AtomicU32, value: u32) {
    let nothing = ptr::null::<u8>();
    // SAFETY: The word is ours for the call; the kernel only reads it.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, value, nothing) };
}

/// Wakes all tasks that wait for a word of shared memory to change.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: The kernel does not touch the word.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
}

/// Loads a module from a file, with parameters as insmod takes them.
pub fn load_module(file: &File, parameters: &CStr) -> Result<()> {
    let (fd, parameters) = (file.as_raw_fd(), parameters.as_ptr());
    // SAFETY: `parameters` is a C string that lives through the call.
    check(unsafe { libc::syscall(libc::SYS_finit_module, fd, parameters, 0) }).map(drop)
}

pub fn unload_module(name: &CStr) -> Result<()> {
    // SAFETY: `name` is a C string that lives through the call.
    let ret = unsafe { libc::syscall(libc::SYS_delete_module, name.as_ptr(), libc::O_NONBLOCK) };
    check(ret).map(drop)
}

/// `perf_event_open` with the attributes as bytes. With `PERF_FLAG_PID_CGROUP`, `pid` is the
/// descriptor of a control group.
pub fn perf_event_open(
    attributes: &[u8],
    pid: i32,
    cpu: i32,
    leader: RawFd,
    flags: u64,
) -> Result<File> {
    const PERF_FLAG_FD_CLOEXEC: u64 = 1 << 3;
    assert_eq!(attributes[4..8], (attributes.len() as u32).to_ne_bytes());
    let (at, flags) = (attributes.as_ptr(), PERF_FLAG_FD_CLOEXEC | flags);
    // SAFETY: The kernel reads as many bytes as the size field of the attributes, which is their
    // length.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, at, pid, cpu, leader, flags) };
    let fd = check(fd)?;
    // SAFETY: The descriptor is new, and this is its only owner.
    Ok(unsafe { File::from_raw_fd(fd as RawFd) })
}

pub fn thread_id() -> i32 {
    // SAFETY: Touches no memory of ours.
    unsafe { libc::gettid() }
}

pub fn own_mounts() {
    unshare(libc::CLONE_NEWNS);
    mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE);
}

/// Gives this process new namespaces, by the flags of `clone`.
pub fn unshare(flags: i32) {
    // SAFETY: Takes a number only.
    check(unsafe { libc::unshare(flags) }.into()).expect("unshare");
}

/// Mounts `from` on `to`, without a file system type or data.
pub fn mount(from: &CStr, to: &CStr, flags: u64) {
    let null = ptr::null();
    // SAFETY: All strings are C strings that live through the call.
    let ret = unsafe { libc::mount(from.as_ptr(), to.as_ptr(), null, flags, null.cast()) };
    check(ret.into()).expect("mount");
}

pub fn unmount(place: &CStr) -> Result<()> {
    // SAFETY: `place` is a C string that lives through the call.
    check(unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) }.into()).map(drop)
}

pub fn named_pipe(path: &CStr) {
    // SAFETY: `path` is a C string that lives through the call.
    check(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }.into()).expect("mkfifo");
}

/// The number of counted signals, with those of the parent before the fork.
static COUNTED: AtomicU32 = AtomicU32::new(0);

pub fn counted() -> u32 {
    COUNTED.load(Ordering::Relaxed)
}

/// Makes a signal only interrupt system calls of this process, and [counts](counted) the signals;
/// with SA_RESTART among the `flags`, the calls are restarted.
pub fn count_at(signal: i32, flags: i32) {
    extern "C" fn count(_signal: i32) {
        COUNTED.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: A sigaction is plain data, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = count as *const () as usize;
    action.sa_flags = flags;
    // SAFETY: The handler counts in an atomic, which may be done in a handler.
    let ret = unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
    check(ret.into()).expect("sigaction");
}

/// Sends SIGALRM to this process after a time below a second.
pub fn alarm_in(time: Duration) {
    let at = |tv_usec| libc::timeval { tv_sec: 0, tv_usec };
    let once = libc::itimerval {
        it_interval: at(0),
        it_value: at(time.subsec_micros().into()),
    };
    let old = ptr::null::<u8>();
    // SAFETY: The kernel reads the value, and writes none.
    let ret =
        unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &raw const once, old) };
    check(ret).expect("setitimer");
}
