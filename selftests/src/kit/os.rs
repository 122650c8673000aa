// SPDX-License-Identifier: GPL-2.0

//! System calls that std lacks, one safe function each.

use crate::kit::errno::{Errno, Result};
use std::ffi::CStr;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn check(ret: libc::c_long) -> Result<libc::c_long> {
    match ret {
        -1 => Err(Errno::last()),
        // A call of the kernel's that returned what is no errno.
        ..-1 => Err(Errno(-ret as i32)),
        _ => Ok(ret),
    }
}

/// Forks. `Ok(0)` is the child, which has this thread only: a process with more threads must not
/// call it, as the child might find their locks held for ever.
pub fn fork() -> Result<i32> {
    // SAFETY: The child of a process with one thread is as sound as that process.
    check(unsafe { libc::fork() }.into()).map(|pid| pid as i32)
}

/// Ends the process, running nothing on the way.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: Does not return, and touches no memory.
    unsafe { libc::_exit(code) }
}

/// Sends a signal to a process, or to a process group if `pid` is negative.
pub fn kill(pid: i32, signal: i32) -> Result<()> {
    // SAFETY: Touches no memory of ours.
    check(unsafe { libc::kill(pid, signal) }.into()).map(drop)
}

/// Reaps a child of the process (group), or with `WNOHANG` in `flags` looks whether it could.
/// Returns its pid, 0 if none has ended, and its status as `waitpid` gives it.
pub fn wait(pid: i32, flags: i32) -> Result<(i32, i32)> {
    let mut status = 0;
    // SAFETY: `status` is ours for the call.
    let pid = check(unsafe { libc::waitpid(pid, &mut status, flags) }.into())?;
    Ok((pid as i32, status))
}

/// Waits until the child `pid` has ended, without reaping it. False if `limit` passed first.
pub fn wait_for_end(pid: i32, limit: Duration) -> Result<bool> {
    // SAFETY: Touches no memory of ours.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: The descriptor is new, and this is its only owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `poll` is one pollfd, ours for the call.
    let ready = check(unsafe { libc::poll(&mut poll, 1, limit.as_millis() as i32) }.into())?;
    Ok(ready > 0)
}

/// Has the memory of a process given back that is being killed, before it gets to that itself.
pub fn release_memory(pid: i32) -> Result<()> {
    // SAFETY: Takes numbers.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: The descriptor is new, and this is its only owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    // SAFETY: As above.
    check(unsafe { libc::syscall(libc::SYS_process_mrelease, fd.as_raw_fd(), 0) }).map(drop)
}

/// Makes this process the leader of a process group of its own.
pub fn own_group() {
    // SAFETY: Touches no memory of ours.
    unsafe { libc::setpgid(0, 0) };
}

/// Has orphans among this process's descendants reparented to it.
pub fn adopt_orphans() {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes a number.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// The user, and the group, that own nothing.
pub const UNPRIVILEGED: u32 = 65534;

/// Gives up all privileges of this process, for good: user, groups and capabilities.
pub fn become_unprivileged() {
    // SAFETY: No groups are read from where none are.
    check(unsafe { libc::setgroups(0, std::ptr::null()) }.into()).expect("setgroups");
    // SAFETY: Takes numbers only.
    check(unsafe { libc::setresgid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED) }.into())
        .expect("setresgid");
    // SAFETY: Takes numbers only.
    check(unsafe { libc::setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED) }.into())
        .expect("setresuid");
}

/// A privilege that a process can have without being root.
#[derive(Clone, Copy)]
pub enum Capability {
    SysAdmin = 21,
    SysNice = 23,
    Perfmon = 38,
}

/// The user that this process runs for, and the one that it has the rights of.
pub fn users() -> (u32, u32) {
    // SAFETY: Touch no memory.
    unsafe { (libc::getuid(), libc::geteuid()) }
}

/// Lets this process, and its children, have so many files open.
pub fn allow_open_files(most: u64) {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: The structure lives through the call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }.into()).expect("setrlimit");
}

/// Gives up all privileges of this process but one, for good.
pub fn become_unprivileged_but(kept: Option<Capability>) {
    // SAFETY: PR_SET_KEEPCAPS takes a number.
    check(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) }.into()).expect("prctl");
    become_unprivileged();
    keep_capabilities(kept.map_or(0, Capability::bit));
}

impl Capability {
    pub const fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// Leaves this process, whatever its user, with the capabilities only that `kept` has bits for.
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

/// A pipe: the end to read and the end to write.
pub fn pipe() -> Result<(File, File)> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for two descriptors.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) }.into())?;
    // SAFETY: Both descriptors are new, and these are their only owners.
    Ok(unsafe { (File::from_raw_fd(fds[0]), File::from_raw_fd(fds[1])) })
}

/// Is there something to read, within `limit`?
pub fn is_readable(file: &File, limit: Duration) -> bool {
    let mut poll = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `poll` is one pollfd, ours for the call.
    unsafe { libc::poll(&mut poll, 1, limit.as_millis() as i32) > 0 }
}

/// Makes reads and writes of a file give EAGAIN instead of waiting.
pub fn set_nonblocking(file: &File) {
    // SAFETY: F_SETFL takes a number.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
}

/// An ioctl whose argument is an address, good or bad on purpose.
///
/// The kernel writes at that address what the call defines. Callers pass addresses of byte buffers
/// they own, of a [`Mapping`](crate::kit::memory::Mapping), or such that nothing of ours lies there.
pub fn ioctl(file: &File, command: u64, argument: u64) -> Result<i32> {
    // SAFETY: By the rule above the kernel writes to nothing that Rust relies on.
    let ret = unsafe { libc::ioctl(file.as_raw_fd(), command, argument) };
    check(ret.into()).map(|ret| ret as i32)
}

/// Can a 64-bit program make the calls of 32-bit ones? Elsewhere only these can: see `behaviour/compat.rs`.
pub const HAS_CALLS_OF_32_BITS: bool = cfg!(target_arch = "x86_64");

/// The same as a 32-bit program does it, of which the kernel sees 32-bit numbers only.
#[cfg(not(target_arch = "x86_64"))]
pub fn ioctl_32(_: &File, _: u32, _: u32) -> Result<i32> {
    panic!("no call of a 32-bit program can be made here");
}

/// The same as a 32-bit program does it, of which the kernel sees 32-bit numbers only.
#[cfg(target_arch = "x86_64")]
pub fn ioctl_32(file: &File, command: u32, argument: u32) -> Result<i32> {
    const NUMBER: u64 = 54;
    let ret: u64;
    // SAFETY: The rule of `ioctl` holds. The call takes its numbers in rbx, rcx and rdx, returns in
    // rax and changes r8 to r11 at most; rbx, which the compiler keeps for itself, is put back.
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

/// Has the kernel take addresses with a tag in their top byte from the calling thread.
#[cfg(target_arch = "aarch64")]
pub fn allow_tags() {
    const PR_SET_TAGGED_ADDR_CTRL: i32 = 55;
    // PR_TAGGED_ADDR_ENABLE
    const ENABLE: u64 = 1;
    // SAFETY: Takes numbers only.
    let ret = unsafe { libc::prctl(PR_SET_TAGGED_ADDR_CTRL, ENABLE, 0_u64, 0_u64, 0_u64) };
    assert_eq!(ret, 0, "tagged addresses: {:?}", Errno::last());
}

/// Keeps a file open when this process executes a program.
pub fn keep_at_exec(file: &File) {
    // SAFETY: F_SETFD takes a number.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) };
}

/// Has the children of this process vanish when they end: no wait for them is needed.
pub fn forget_children() {
    // SAFETY: SIG_IGN runs nothing of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// `write` from an address that may be bad on purpose.
pub fn write_from(file: &File, address: u64, length: usize) -> Result<usize> {
    // SAFETY: The kernel only reads there, and checks the address.
    let ret = unsafe { libc::write(file.as_raw_fd(), address as *const _, length) };
    check(ret as _).map(|ret| ret as usize)
}

/// `writev` from addresses that may be bad on purpose.
pub fn writev_from(file: &File, parts: &[(u64, usize)]) -> Result<usize> {
    let parts: Vec<libc::iovec> = parts
        .iter()
        .map(|&(address, length)| libc::iovec {
            iov_base: address as *mut _,
            iov_len: length,
        })
        .collect();
    // SAFETY: `parts` lives through the call; the kernel only reads where it points, and checks.
    let ret = unsafe { libc::writev(file.as_raw_fd(), parts.as_ptr(), parts.len() as i32) };
    check(ret as _).map(|ret| ret as usize)
}

/// Runs the calling thread on one CPU only.
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

/// Says why a test cannot be run that takes what came after 6.12.
pub fn is_of_6_12() -> Option<String> {
    (kernel_version() == (6, 12)).then(|| "this kernel is 6.12".into())
}

/// The CPUs this process may run on.
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

/// A file in memory with a page size's worth of zeros in it.
pub fn memory_file(length: u64) -> File {
    // SAFETY: The name is a C string.
    let fd = check(unsafe { libc::memfd_create(c"selftests".as_ptr(), libc::MFD_CLOEXEC) }.into())
        .expect("memfd_create");
    // SAFETY: The descriptor is new, and this is its only owner.
    let file = unsafe { File::from_raw_fd(fd as RawFd) };
    file.set_len(length).expect("size of a file in memory");
    file
}

/// Has the pages of a file written back that are dirty, and does not wait for that.
pub fn start_writeback(file: &File) {
    let (all, how) = (0, libc::SYNC_FILE_RANGE_WRITE);
    // SAFETY: Takes numbers only.
    let ret = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, all, how) };
    check(ret.into()).expect("sync_file_range");
}

/// Gives the kernel advice about all pages of a file: POSIX_FADV_DONTNEED...
pub fn advise_file(file: &File, advice: i32) -> Result<()> {
    // SAFETY: Takes numbers only.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) } {
        0 => Ok(()),
        error => Err(Errno(error)),
    }
}

/// Takes a part of a file away, and leaves zeros there.
pub fn punch_hole(file: &File, from: i64, length: i64) -> Result<()> {
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: Takes numbers only.
    check(unsafe { libc::fallocate(file.as_raw_fd(), how, from, length) }.into()).map(drop)
}

/// A file at which page faults of this process wait for an answer.
pub fn userfaultfd() -> Result<File> {
    // SAFETY: Takes a number.
    let fd = check(unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) })?;
    // SAFETY: The descriptor is new, and this is its only owner.
    Ok(unsafe { File::from_raw_fd(fd as RawFd) })
}

/// Waits while a word of shared memory has this value, and may return at any time.
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
    // SAFETY: `parameters` is a C string that lives through the call.
    let ret = unsafe {
        libc::syscall(
            libc::SYS_finit_module,
            file.as_raw_fd(),
            parameters.as_ptr(),
            0,
        )
    };
    check(ret).map(drop)
}

/// Unloads a module, or says at once why not.
pub fn unload_module(name: &CStr) -> Result<()> {
    // SAFETY: `name` is a C string that lives through the call.
    let ret = unsafe { libc::syscall(libc::SYS_delete_module, name.as_ptr(), libc::O_NONBLOCK) };
    check(ret).map(drop)
}

const PERF_FLAG_PID_CGROUP: u64 = 1 << 2;
const PERF_FLAG_FD_CLOEXEC: u64 = 1 << 3;

/// `perf_event_open` with the attributes as bytes; in the group of another event, if there is one.
pub fn perf_event_open(
    attributes: &[u8],
    pid: i32,
    cpu: i32,
    leader: Option<&File>,
) -> Result<File> {
    let leader = leader.map_or(-1, |leader| leader.as_raw_fd());
    open_perf(attributes, pid, cpu, leader, 0)
}

/// The same for the tasks in a control group, of which this is the directory.
pub fn perf_event_open_in_cgroup(attributes: &[u8], cgroup: &File, cpu: i32) -> Result<File> {
    open_perf(
        attributes,
        cgroup.as_raw_fd(),
        cpu,
        -1,
        PERF_FLAG_PID_CGROUP,
    )
}

fn open_perf(attributes: &[u8], pid: i32, cpu: i32, leader: RawFd, flags: u64) -> Result<File> {
    assert_eq!(attributes[4..8], (attributes.len() as u32).to_ne_bytes());
    // SAFETY: The kernel reads as many bytes as the attributes' own size field says: all of them.
    let fd = check(unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            pid,
            cpu,
            leader,
            PERF_FLAG_FD_CLOEXEC | flags,
        )
    })?;
    // SAFETY: The descriptor is new, and this is its only owner.
    Ok(unsafe { File::from_raw_fd(fd as RawFd) })
}

/// The `bpf` call, whose arguments are 64-bit words, some of them addresses.
///
/// The kernel writes to the words, and at those addresses what the command defines. Callers pass
/// addresses of buffers that they own and that live through the call.
pub fn bpf(command: i32, arguments: &mut [u64]) -> Result<i32> {
    // SAFETY: The kernel reads and writes as many bytes as it is told; the rest by the rule above.
    let ret = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            arguments.as_mut_ptr(),
            size_of_val(arguments),
        )
    };
    check(ret).map(|ret| ret as i32)
}

/// The same, for commands that make a file.
pub fn bpf_file(command: i32, arguments: &mut [u64]) -> Result<File> {
    let fd = bpf(command, arguments)?;
    // SAFETY: The descriptor is new, and this is its only owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// The calling thread, as the kernel numbers it.
pub fn thread_id() -> i32 {
    // SAFETY: Touches no memory of ours.
    unsafe { libc::gettid() }
}

/// Gives this process mounts of its own: what it mounts from now on no other process sees.
pub fn own_mounts() {
    unshare(libc::CLONE_NEWNS);
    mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE);
}

/// Gives this process namespaces of its own, of the kinds that the flags of clone name.
pub fn unshare(flags: i32) {
    // SAFETY: Takes a number only.
    check(unsafe { libc::unshare(flags) }.into()).expect("unshare");
}

/// Mounts `from` on `to`, without a file system type or data.
pub fn mount(from: &CStr, to: &CStr, flags: u64) {
    let null = std::ptr::null();
    // SAFETY: All strings are C strings that live through the call.
    let ret = unsafe { libc::mount(from.as_ptr(), to.as_ptr(), null, flags, null.cast()) };
    check(ret.into()).expect("mount");
}

/// Unmounts what is mounted there last, for every look-up from now on.
pub fn unmount(place: &CStr) -> Result<()> {
    // SAFETY: `place` is a C string that lives through the call.
    check(unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) }.into()).map(drop)
}

/// Makes a pipe with a name.
pub fn named_pipe(path: &CStr) {
    // SAFETY: `path` is a C string that lives through the call.
    check(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }.into()).expect("mkfifo");
}

/// Has a signal do nothing to this process but interrupt what it waits for; with SA_RESTART among the
/// `flags`, that goes on then.
pub fn do_nothing_at(signal: i32, flags: i32) {
    count_at(signal, flags);
}

/// The signals that were counted in this process, and before its fork in its parent.
static COUNTED: AtomicU32 = AtomicU32::new(0);

/// How many signals have been counted by [`count_at`].
pub fn counted() -> u32 {
    COUNTED.load(Ordering::Relaxed)
}

/// The same, and counts them.
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

/// Has the calling thread hold a signal back, or take it.
pub fn set_blocked(signal: i32, blocked: bool) {
    let how = [libc::SIG_UNBLOCK, libc::SIG_BLOCK][usize::from(blocked)];
    // SAFETY: A set of signals is plain data, for which zero is valid.
    let mut signals: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: The set is ours.
    unsafe { libc::sigaddset(&mut signals, signal) };
    // SAFETY: The kernel reads the set, and writes none.
    let error = unsafe { libc::pthread_sigmask(how, &signals, std::ptr::null_mut()) };
    assert_eq!(error, 0, "pthread_sigmask");
}

/// Has SIGALRM sent to this process after a time below a second.
pub fn alarm_in(time: Duration) {
    let once = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        it_value: libc::timeval {
            tv_sec: 0,
            tv_usec: time.subsec_micros().into(),
        },
    };
    const REAL: libc::c_int = 0;
    let none = std::ptr::null_mut::<libc::itimerval>();
    // SAFETY: The kernel reads the value, and writes none.
    let ret = unsafe { libc::syscall(libc::SYS_setitimer, REAL, &raw const once, none) };
    check(ret).expect("setitimer");
}
