// SPDX-License-Identifier: GPL-2.0

//! Tasks made, watched and ended in ways that std does not support.

use crate::kit::errno::{Errno, Result};
use crate::kit::memory::Mapping;
use crate::kit::{os, wait};
use std::ffi::{c_int, c_void, CStr};
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::ptr;

/// Forks a child by `clone`, without the handlers that fork runs. `flags` are what the two share,
/// which is not the memory.
///
/// The rules of [`os::fork`] hold.
pub fn clone(flags: i32) -> Result<i32> {
    clone_to(flags, 0)
}

/// The same, with `address` for the pid that some `flags` store in the parent's memory: after that
/// was copied, and before the child runs.
pub fn clone_to(flags: i32, address: u64) -> Result<i32> {
    assert_eq!(flags & (libc::CLONE_VM | libc::CLONE_THREAD), 0);
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: Without CLONE_VM and a stack the child goes on here in a copy of the memory: a fork.
    os::check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, address, 0, 0) })
        .map(|pid| pid as i32)
}

/// Makes a child process that shares this memory (vfork), calls `run` and exits with its result,
/// unless it executes a program. Only the calling thread waits for that. Returns the child's pid.
pub fn vfork(run: impl FnMut() -> i32) -> Result<i32> {
    vfork_to(0, 0, run)
}

/// The same, with more `flags`, and `address` for the pid that these store in this memory before
/// the child runs.
pub fn vfork_to(flags: i32, address: u64, mut run: impl FnMut() -> i32) -> Result<i32> {
    extern "C" fn start(run: *mut c_void) -> c_int {
        // SAFETY: The pointer passed by `vfork_to` below, which keeps the closure alive by waiting.
        let run = unsafe { &mut *run.cast::<&mut dyn FnMut() -> i32>() };
        run()
    }
    let mut run: &mut dyn FnMut() -> i32 = &mut run;
    let mapping = Mapping::new(64);
    let (stack, run) = (mapping.end() as *mut c_void, (&raw mut run).cast());
    let flags = flags | libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: The stack is used by the child only, and mapped until it has ended or executed a
    // program. The child can use this thread's TLS, as the thread waits.
    let pid = unsafe { libc::clone(start, stack, flags, run, address as *mut c_int) };
    os::check(pid.into()).map(|pid| pid as i32)
}

/// Makes a child process that shares this memory, and only returns from the kernel every few
/// milliseconds, until it or its parent is killed. Returns its pid.
pub fn share_memory() -> Result<i32> {
    // Runs beside the calling thread, whose TLS it shares: so it calls nothing that uses TLS.
    extern "C" fn nap(_: *mut c_void) -> c_int {
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 5_000_000,
        };
        loop {
            // SAFETY: Takes numbers, and reads a time that lives through the call.
            unsafe {
                libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::syscall(libc::SYS_nanosleep, &raw const time, 0);
            }
        }
    }
    let (stack_end, flags) = (Mapping::kept(64).end(), libc::CLONE_VM | libc::SIGCHLD);
    // SAFETY: The stack is used by the child only, and stays mapped. The child touches nothing
    // else, and never returns.
    let pid = unsafe { libc::clone(nap, stack_end as *mut c_void, flags, ptr::null_mut()) };
    os::check(pid.into()).map(|pid| pid as i32)
}

/// Executes a program without arguments. Returns only if that fails.
pub fn execute(program: &CStr) -> Errno {
    let none = [std::ptr::null()];
    // SAFETY: A C string, and empty lists with their terminators.
    unsafe { libc::execve(program.as_ptr(), none.as_ptr(), none.as_ptr()) };
    Errno::last()
}

/// Ends the calling thread only, even if it is the first of its process.
pub fn exit_thread() -> ! {
    // SAFETY: Takes a number, and does not return. The stack stays as it is.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("exit returned")
}

/// Sets the robust list of the calling thread, which the kernel reads when the thread exits.
pub fn set_list_of_locks(address: u64) {
    // Three words: `struct robust_list_head`.
    // SAFETY: The thread takes no robust mutex, and exits only by the system call.
    let ret = unsafe { libc::syscall(libc::SYS_set_robust_list, address, 24) };
    assert_eq!(ret, 0, "set_robust_list: {:?}", Errno::last());
}

/// Sets the nice value of the calling process: from -20, the highest priority, to 19.
pub fn be_nice(value: i32) {
    // SAFETY: Takes numbers only.
    let ret = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) };
    assert_eq!(ret, 0, "setpriority: {:?}", Errno::last());
}

/// Makes this thread, and its later children, run before all tasks of SCHED_OTHER, for most of each
/// second.
pub fn set_fifo() {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: Takes numbers, and the address of a structure that is the caller's.
    let ret = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) };
    assert_eq!(ret, 0, "sched_setscheduler: {:?}", Errno::last());
}

fn ptrace(request: libc::c_uint, pid: i32, address: usize, data: usize) {
    // SAFETY: The requests of this file take numbers, or for PTRACE_GETEVENTMSG the address of a
    // word that is the caller's.
    let ret = unsafe { libc::ptrace(request, pid, address, data) };
    assert_eq!(ret, 0, "ptrace {request}: {:?}", Errno::last());
}

/// Traces a process, so that its next fork stops both it and its child.
pub fn stop_at_fork(pid: i32) {
    let options = libc::PTRACE_O_TRACEFORK as usize;
    ptrace(libc::PTRACE_SEIZE, pid, 0, options);
}

/// Waits until a process that is traced by [`stop_at_fork`] has forked. Returns the pid of the
/// child, which is stopped before its first instruction, as is the parent after its fork.
pub fn wait_for_stopped_child(pid: i32) -> i32 {
    let stopped_by = |status: i32| (libc::WIFSTOPPED(status), status >> 16);
    let (_, status) = os::wait(pid, libc::__WALL).expect("wait for the parent");
    assert_eq!(stopped_by(status), (true, libc::PTRACE_EVENT_FORK));
    let mut child = 0usize;
    ptrace(libc::PTRACE_GETEVENTMSG, pid, 0, (&raw mut child) as usize);
    let child = child as i32;
    let (_, status) = os::wait(child, libc::__WALL).expect("wait for the child");
    assert_eq!(stopped_by(status), (true, libc::PTRACE_EVENT_STOP));
    child
}

/// Detaches from a traced process that is stopped, which continues.
pub fn let_go(pid: i32) {
    ptrace(libc::PTRACE_DETACH, pid, 0, 0);
}

/// Stops a process by a signal. None of its threads runs afterwards.
pub fn stop(pid: i32) {
    os::kill(pid, libc::SIGSTOP).expect("stop a process");
    let (_, status) = os::wait(pid, libc::WUNTRACED).expect("wait for it to stop");
    assert!(libc::WIFSTOPPED(status), "status {status:#x}");
}

/// The state of a task in /proc: `S` for interruptible sleep, `D` for uninterruptible sleep. `None`
/// if it has ended.
pub fn state(pid: i32, thread: i32) -> Option<char> {
    let text = text_of(pid, &format!("task/{thread}/stat"));
    let (_, state) = text.rsplit_once(") ")?;
    state.chars().next()
}

#[track_caller]
pub fn wait_state(pid: i32, thread: i32, wanted: char) {
    let what = format!("task {thread} of {pid} to be in state {wanted}");
    wait::until(&what, || state(pid, thread) == Some(wanted));
}

/// The names in a directory that are numbers.
fn numbers_in(directory: &str) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(directory).expect("a directory of tasks");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// All processes, kernel threads included.
fn processes() -> impl Iterator<Item = i32> {
    numbers_in("/proc")
}

/// Returns whether a process has `count` threads, all of which sleep.
pub fn all_sleep(pid: i32, count: usize) -> bool {
    let threads = numbers_in(&format!("/proc/{pid}/task"));
    let states: Vec<_> = threads.map(|thread| state(pid, thread)).collect();
    states == vec![Some('S'); count]
}

/// The children of a process, even those that have not run yet.
pub fn children_of(parent: i32) -> impl Iterator<Item = i32> {
    let parent = parent.to_string();
    processes().filter(move |pid| {
        let text = text_of(*pid, "stat");
        let after_name = text.rsplit_once(") ").map(|(_, rest)| rest);
        after_name.and_then(|rest| rest.split(' ').nth(1)) == Some(&parent)
    })
}

/// A child of a process, even one that has not run yet.
pub fn a_child_of(parent: i32) -> Option<i32> {
    children_of(parent).next()
}

/// Functions in the stack of a worker that waits for a page or an mmap_lock. The stack does not
/// show functions of the scheduler and of locks.
const WAITS: [&str; 2] = [" handle_mm_fault+", "mmap_read_lock+"];

/// A file of a process in /proc; empty if the process has ended.
fn text_of(pid: i32, file: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// The processes with this command line.
pub fn that_run<'a>(words: &'a [&str]) -> impl Iterator<Item = i32> + 'a {
    let command = words.join("\0") + "\0";
    processes().filter(move |pid| text_of(*pid, "cmdline") == command)
}

/// The workers that run, or sleep in, work of a queue whose name starts so, by pid.
pub fn workers_at(queue: &str) -> impl Iterator<Item = i32> + '_ {
    processes().filter(move |pid| {
        let name = text_of(*pid, "comm");
        let (worker, at) = name.trim_end().split_once('+').unwrap_or_default();
        worker.starts_with("kworker/") && at.starts_with(queue)
    })
}

/// The workers of a queue that may wait for a process's memory.
pub fn waiting_workers(queue: &str) -> Vec<i32> {
    let may_wait = |pid: &i32| {
        let stack = text_of(*pid, "stack");
        // A running worker shows no stack.
        stack.is_empty() || WAITS.iter().any(|function| stack.contains(function))
    };
    workers_at(queue).filter(may_wait).collect()
}

/// A 32-bit word in the memory of another process; `None` if there is no such process or memory.
pub fn word_of(pid: i32, address: u64) -> Option<u32> {
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut word = [0; 4];
    memory.read_exact_at(&mut word, address).ok()?;
    Some(u32::from_ne_bytes(word))
}

/// Duplicates a descriptor of another process. The file description is shared, as after a fork.
pub fn take_file(pid: i32, fd: i32) -> File {
    let process = os::process(pid).expect("pidfd_open");
    // SAFETY: Takes numbers only.
    let taken = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) };
    assert!(taken >= 0, "pidfd_getfd: {:?}", Errno::last());
    // SAFETY: The descriptor is new, and this is its only owner.
    unsafe { File::from_raw_fd(taken as i32) }
}

/// Returns whether the kernel lacks process_vm_readv(), as the obstacle of a test.
pub fn lacks_memory_reads() -> Option<String> {
    let byte = 0_u8;
    let read = read_memory(std::process::id() as i32, ptr::from_ref(&byte) as u64);
    (read == Err(Errno::ENOSYS)).then(|| "this kernel has no process_vm_readv()".into())
}

/// Reads a byte of another process's memory, which may wait for a userfaultfd or a file system.
pub fn read_memory(pid: i32, address: u64) -> Result<u8> {
    let mut byte = 0_u8;
    let part = |at| libc::iovec {
        iov_base: at,
        iov_len: 1,
    };
    let local = part(ptr::from_mut(&mut byte).cast());
    let remote = part(address as *mut c_void);
    // SAFETY: In this process's memory, only the byte that `local` borrows is written.
    match unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) } {
        1 => Ok(byte),
        _ => Err(Errno::last()),
    }
}

/// Maps fresh memory over a page of this process that Rust code neither refers to nor reads.
pub fn map_anew(address: u64, protection: i32) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: By the rule above nothing is lost with the page.
    let at = unsafe { libc::mmap(address as *mut c_void, 4096, protection, flags, -1, 0) };
    assert_eq!(at as u64, address, "mmap: {:?}", Errno::last());
}

/// Maps the start of a file, read-only, over a page of this process that Rust code neither refers
/// to nor reads.
pub fn map_file(address: u64, file: &File) {
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    let (fd, read) = (file.as_raw_fd(), libc::PROT_READ);
    // SAFETY: By the rule above nothing is lost with the page.
    let at = unsafe { libc::mmap(address as *mut c_void, 4096, read, flags, fd, 0) };
    assert_eq!(at as u64, address, "mmap: {:?}", Errno::last());
}
