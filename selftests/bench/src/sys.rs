// SPDX-License-Identifier: GPL-2.0

//! System calls, one safe function each. Measured functions do nothing but the call.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

fn check(ret: libc::c_long) -> io::Result<libc::c_long> {
    if ret < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(ret)
    }
}

#[inline(always)]
pub fn time_stamp() -> u64 {
    // SAFETY: Every x86-64 CPU has the instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Marks for the plugin: counting begins, and ends; and the counts since the last row are those of
/// the next row.
pub const BEGIN: i32 = 1;
pub const END: i32 = 2;
pub const ROW: i32 = 3;

#[inline(always)]
pub fn mark<const MARK: i32>() {
    // SAFETY: An instruction that does nothing.
    unsafe {
        core::arch::asm!(
            "nopl 0x12345600+{mark}(%rax)",
            mark = const MARK,
            options(att_syntax, nomem, nostack)
        );
    }
}

/// Gives the plugin the address of the preempt count.
#[cfg(feature = "preemption")]
#[inline(always)]
pub fn mark_preempt_count(address: u64) {
    let mut told = 0u64;
    // SAFETY: An instruction that does nothing, and one that writes to a local variable.
    unsafe {
        core::arch::asm!(
            "nopl 0x12345604(%rax)",
            "movq {address}, ({told})",
            address = in(reg) address,
            told = in(reg) &raw mut told,
            options(att_syntax, nostack)
        );
    }
}

// Functions that consist of a probe's place: no instruction; the nop of one byte of sys/sdt.h; the
// nop of ten bytes that the kernel turns into a call, within one page; and a nop behind the test of
// a semaphore, as in sys/sdt.h.
core::arch::global_asm!(
    ".globl bench_probe_none, bench_probe_byte, bench_probe_long, bench_probe_behind_semaphore",
    ".balign 64",
    "bench_probe_none: ret",
    "bench_probe_byte: nop",
    "ret",
    ".balign 64",
    "bench_probe_long: .byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0",
    "ret",
    "bench_probe_behind_semaphore: cmpw $0, bench_semaphore(%rip)",
    "je 2f",
    "nop",
    "2: ret",
    ".pushsection .data",
    ".balign 2",
    "bench_semaphore: .value 0",
    ".popsection",
    options(att_syntax)
);

/// A function with the place of a probe.
#[derive(Clone, Copy)]
pub struct ProbePlace(unsafe extern "C" fn(u64, u64, u64));

impl ProbePlace {
    /// No instruction to be replaced.
    pub const NONE: ProbePlace = ProbePlace(bench_probe_none);
    pub const BYTE: ProbePlace = ProbePlace(bench_probe_byte);
    pub const LONG: ProbePlace = ProbePlace(bench_probe_long);
    pub const BEHIND_SEMAPHORE: ProbePlace = ProbePlace(bench_probe_behind_semaphore);

    pub fn address(self) -> usize {
        self.0 as usize
    }

    /// Executes the instruction.
    #[inline(always)]
    pub fn pass(self, arguments: [u64; 3]) {
        let [first, second, third] = arguments;
        // SAFETY: The functions only read the semaphore, with a probe or without.
        unsafe { (self.0)(first, second, third) }
    }
}

extern "C" {
    fn bench_probe_none(first: u64, second: u64, third: u64);
    fn bench_probe_byte(first: u64, second: u64, third: u64);
    fn bench_probe_long(first: u64, second: u64, third: u64);
    fn bench_probe_behind_semaphore(first: u64, second: u64, third: u64);
}

/// Runs two instructions `rounds` times.
pub fn spin(rounds: u64) {
    // SAFETY: Counts a register down to zero; `rounds` is not zero, so it ends.
    unsafe {
        core::arch::asm!(
            "2: dec {0}",
            "jnz 2b",
            inout(reg) rounds.max(1) => _,
            options(nomem, nostack)
        );
    }
}

/// The CPU time of this process in nanoseconds.
pub fn cpu_time() -> u64 {
    nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for the call.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// An ioctl whose argument is a structure of plain numbers, which the kernel may write to.
#[inline]
pub fn ioctl<T>(file: &File, command: u64, argument: &mut T) -> i32 {
    // SAFETY: `argument` is valid for the call; callers pass the structure that `command` takes.
    unsafe { libc::ioctl(file.as_raw_fd(), command, argument as *mut T) }
}

/// Calls write; returns its result.
#[inline]
pub fn write(file: &File, bytes: &[u8]) -> isize {
    // SAFETY: The kernel reads `bytes` only.
    unsafe { libc::write(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) }
}

/// Forks. The child, which has this thread only, runs `child` and ends, with status 1 if that
/// panics.
#[inline]
pub fn fork(child: impl FnOnce()) -> i32 {
    // SAFETY: The program has one thread, so the child may run any code.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let result = catch_unwind(AssertUnwindSafe(child));
        exit_now(i32::from(result.is_err()));
    }
    assert!(pid > 0, "fork: {}", io::Error::last_os_error());
    pid
}

/// Forks a process that does this work, and keeps its result until it is killed. Returns when the
/// work is done.
pub fn fork_with<T>(work: impl FnOnce() -> T) -> i32 {
    let (mut told, say) = pipe();
    let pid = fork(|| {
        let _kept = work();
        write(&say, &[1]);
        pause();
    });
    drop(say);
    told.read_exact(&mut [0]).expect("the work of a process");
    pid
}

pub fn wait_for_success(pid: i32) {
    assert_eq!(wait(pid).expect("wait"), 0, "the status of a process");
}

/// Kills a child, and waits for its end.
pub fn end(pid: i32) {
    // SAFETY: Takes numbers.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    wait(pid).expect("wait");
}

/// Forks a child that exits at once. The parent runs nothing but the call.
#[inline]
pub fn fork_idle() -> i32 {
    // SAFETY: As above; `_exit` touches no memory.
    unsafe {
        let pid = libc::syscall(libc::SYS_fork) as i32;
        if pid == 0 {
            libc::_exit(0);
        }
        pid
    }
}

/// Forks a child that at once executes this program with the argument `how`.
#[inline]
pub fn fork_exec(program: &CStr, how: &CStr) -> i32 {
    let arguments = [program.as_ptr(), how.as_ptr(), std::ptr::null()];
    let environment = [std::ptr::null()];
    // SAFETY: As above; all strings end in NUL, and both lists in a null pointer.
    unsafe {
        let pid = libc::syscall(libc::SYS_fork) as i32;
        if pid == 0 {
            libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr());
            libc::_exit(127);
        }
        pid
    }
}

fn schedule(policy: i32, sched_priority: i32) {
    let priority = libc::sched_param { sched_priority };
    // SAFETY: `priority` is valid for the call.
    let ret = unsafe { libc::sched_setscheduler(0, policy, &priority) };
    check(ret.into()).expect("sched_setscheduler");
}

/// Lets this process, but not its children, run before all others until it sleeps.
pub fn run_first() {
    schedule(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1);
}

/// Forks a process that uses only CPU time that no other task needs.
pub fn fork_idler() -> i32 {
    fork(|| {
        schedule(libc::SCHED_IDLE, 0);
        loop {
            spin(1_000_000);
        }
    })
}

/// The CPU time of another process in nanoseconds.
pub fn cpu_time_of(pid: i32) -> u64 {
    let mut clock = 0;
    // SAFETY: `clock` is valid for the call.
    let ret = unsafe { libc::clock_getcpuclockid(pid, &mut clock) };
    assert_eq!(ret, 0, "clock_getcpuclockid");
    nanoseconds(clock)
}

pub fn exit_now(code: i32) -> ! {
    // SAFETY: Does not return, and touches no memory.
    unsafe { libc::_exit(code) }
}

/// Waits for a child. Returns its status as `waitpid` gives it.
pub fn wait(pid: i32) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: `status` is valid for the call.
    check(unsafe { libc::waitpid(pid, &mut status, 0) }.into())?;
    Ok(status)
}

/// Sleeps until this process is killed.
pub fn pause() -> ! {
    loop {
        // SAFETY: Takes no arguments.
        unsafe { libc::pause() };
    }
}

/// A pipe: the end to read and the end to write.
pub fn pipe() -> (File, File) {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for two descriptors.
    check(unsafe { libc::pipe(fds.as_mut_ptr()) }.into()).expect("pipe");
    // SAFETY: Both descriptors are new and have no other owner.
    unsafe { (File::from_raw_fd(fds[0]), File::from_raw_fd(fds[1])) }
}

pub fn open_to_write(path: &str) -> File {
    let file = OpenOptions::new().write(true).open(path);
    file.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Mounts a file system that needs no device.
pub fn mount(kind: &CStr, place: &CStr) {
    let (name, no_data) = (kind.as_ptr(), std::ptr::null());
    // SAFETY: All strings end in NUL, and no data is given.
    let ret = unsafe { libc::mount(name, place.as_ptr(), name, 0, no_data) };
    check(ret.into()).unwrap_or_else(|error| panic!("mount {place:?}: {error}"));
}

pub fn load_module(file: &File) {
    // SAFETY: The parameters are an empty C string.
    let ret = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    check(ret).expect("load the module");
}

/// Unloads a module that is not in use.
pub fn unload_module(name: &CStr) {
    // SAFETY: The name ends in NUL.
    let ret = unsafe { libc::syscall(libc::SYS_delete_module, name.as_ptr(), 0) };
    check(ret).expect("unload the module");
}

pub fn power_off() -> ! {
    // SAFETY: Takes a number.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    exit_now(0)
}

pub fn allow_files(count: u64) {
    let limit = libc::rlimit {
        rlim_cur: count,
        rlim_max: count,
    };
    // SAFETY: `limit` is valid for the call.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
}

/// Calls getppid, the cheapest of system calls.
#[inline]
pub fn getppid() {
    // SAFETY: Takes no arguments.
    unsafe { libc::syscall(libc::SYS_getppid) };
}

/// Calls prctl with an unknown option; returns its result.
#[inline]
pub fn unknown_prctl() -> libc::c_long {
    // SAFETY: Takes numbers.
    unsafe { libc::syscall(libc::SYS_prctl, 0x7fff_0000, 1, 2, 3, 4) }
}

/// Calls writev with two parts; returns its result.
#[inline]
pub fn writev(file: &File, first: &[u8], second: &[u8]) -> isize {
    writev_parts(file, &[part(first), part(second)])
}

/// Makes a part for [`writev_parts`]. Its bytes must outlive it.
pub fn part(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr() as *mut _,
        iov_len: bytes.len(),
    }
}

/// Calls writev with these parts, whose bytes must still exist.
pub fn writev_parts(file: &File, parts: &[libc::iovec]) -> isize {
    // SAFETY: The kernel only reads the parts and their bytes, and fails at unmapped addresses.
    unsafe { libc::writev(file.as_raw_fd(), parts.as_ptr(), parts.len() as i32) }
}

/// An ioctl whose argument is a file's descriptor.
pub fn ioctl_descriptor(file: &File, command: u64, argument: &File) -> i32 {
    // SAFETY: Callers pass commands that take a descriptor.
    unsafe { libc::ioctl(file.as_raw_fd(), command, argument.as_raw_fd()) }
}

fn new_file(fd: libc::c_long) -> io::Result<File> {
    // SAFETY: Callers pass the result of a call that makes a descriptor: it is new and has no other
    // owner.
    check(fd).map(|fd| unsafe { File::from_raw_fd(fd as i32) })
}

/// `perf_event_open` for this process on all CPUs, with the attributes as bytes.
pub fn perf_event_open(attributes: &[u8]) -> io::Result<File> {
    assert_eq!(attributes[4..8], (attributes.len() as u32).to_ne_bytes());
    // SAFETY: The kernel reads as many bytes as the attributes' size field gives: all of them.
    new_file(unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0) })
}

pub fn load_tracepoint_program(instructions: &[u64]) -> io::Result<File> {
    const BPF_PROG_LOAD: libc::c_int = 5;
    const BPF_PROG_TYPE_TRACEPOINT: u64 = 5;
    let kind_and_count = BPF_PROG_TYPE_TRACEPOINT | ((instructions.len() as u64) << 32);
    let (start, licence) = (instructions.as_ptr() as u64, c"GPL".as_ptr() as u64);
    // No log, any kernel, no flags.
    let attributes: [u64; 6] = [kind_and_count, start, licence, 0, 0, 0];
    let (load, size) = (BPF_PROG_LOAD, size_of_val(&attributes));
    // SAFETY: The attributes have the given size, and point to memory that outlives the call.
    new_file(unsafe { libc::syscall(libc::SYS_bpf, load, &attributes, size) })
}

/// Memory shared with the kernel, accessed through atomics only.
pub struct Shared {
    start: *const u8,
    length: usize,
}

impl Shared {
    /// Maps a file from this offset on.
    pub fn of_file(file: &File, length: usize, offset: i64) -> io::Result<Shared> {
        let (any, access) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
        let (shared, fd) = (libc::MAP_SHARED, file.as_raw_fd());
        // SAFETY: The kernel chooses an unused address.
        let start = unsafe { libc::mmap(any, length, access, shared, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = start as *const u8;
        Ok(Shared { start, length })
    }

    /// The eight bytes at an offset.
    pub fn long(&self, offset: usize) -> &AtomicU64 {
        assert!(offset % 8 == 0 && offset + 8 <= self.length);
        // SAFETY: Within the mapping, aligned, and never accessed but as an atomic.
        unsafe { &*self.start.add(offset).cast::<AtomicU64>() }
    }

    /// The four bytes at an offset.
    fn int(&self, offset: usize) -> &AtomicU32 {
        assert!(offset % 4 == 0 && offset + 4 <= self.length);
        // SAFETY: As above; no location is accessed in both sizes.
        unsafe { &*self.start.add(offset).cast::<AtomicU32>() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: This value owns the mapping, and nothing borrows it any more.
        unsafe { libc::munmap(self.start as *mut _, self.length) };
    }
}

/// io_uring: each call submits entries and waits until they are done.
pub struct Uring {
    file: File,
    entries: u32,
    /// The entries, `struct io_uring_sqe`.
    submissions: Shared,
    /// The two rings, which the offsets below refer to.
    rings: Shared,
    submission_tail: usize,
    completion_head: usize,
    completion_tail: usize,
    completion_mask: u32,
    completions: usize,
}

/// `struct io_uring_params`, as words: 0 and 1 are the numbers of entries, from 10 on the offsets
/// in the submission ring, from 20 on those in the completion ring.
type UringParams = [u32; 30];

impl Uring {
    /// Makes rings for this number of entries, a power of two. Submissions take the entries in turn
    /// (`IORING_SETUP_NO_SQARRAY`).
    pub fn new(entries: u32) -> io::Result<Uring> {
        const IORING_SETUP_NO_SQARRAY: u32 = 1 << 16;
        const IORING_OFF_SQES: i64 = 0x1000_0000;
        const SUBMISSION_SIZE: usize = 64;
        const COMPLETION_SIZE: usize = 16;
        let mut params: UringParams = [0; 30];
        params[2] = IORING_SETUP_NO_SQARRAY;
        // SAFETY: The kernel only accesses the parameters, which have the size of its structure.
        let file = new_file(unsafe {
            libc::syscall(libc::SYS_io_uring_setup, entries, params.as_mut_ptr())
        })?;
        let completions = params[25] as usize;
        let length = completions + COMPLETION_SIZE * params[1] as usize;
        let rings = Shared::of_file(&file, length, 0)?;
        let submissions =
            Shared::of_file(&file, SUBMISSION_SIZE * entries as usize, IORING_OFF_SQES)?;
        Ok(Uring {
            submission_tail: params[11] as usize,
            completion_head: params[20] as usize,
            completion_tail: params[21] as usize,
            completion_mask: params[1] - 1,
            completions,
            file,
            entries,
            submissions,
            rings,
        })
    }

    /// Makes all entries writes of these bytes.
    pub fn prepare(&self, to: &File, bytes: &'static [u8]) {
        const IORING_OP_WRITE: u64 = 23;
        for entry in 0..self.entries as usize {
            let words = [
                IORING_OP_WRITE | ((to.as_raw_fd() as u64) << 32),
                // At the file's own position, as `write()` does.
                u64::MAX,
                bytes.as_ptr() as u64,
                bytes.len() as u64,
            ];
            for (at, word) in words.into_iter().enumerate() {
                self.submissions
                    .long(64 * entry + 8 * at)
                    .store(word, Ordering::Relaxed);
            }
        }
    }

    /// Submits all, and returns when all are done.
    #[inline]
    pub fn run(&self) {
        const IORING_ENTER_GETEVENTS: u32 = 1;
        let tail = self.rings.int(self.submission_tail);
        tail.store(
            tail.load(Ordering::Relaxed).wrapping_add(self.entries),
            Ordering::Release,
        );
        // SAFETY: The entries write bytes of static lifetime.
        let submitted = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.file.as_raw_fd(),
                self.entries,
                self.entries,
                IORING_ENTER_GETEVENTS,
                0,
                0,
            )
        };
        assert_eq!(submitted, self.entries.into(), "io_uring_enter");
    }

    pub fn results(&self) -> Vec<i32> {
        let mut head = self.rings.int(self.completion_head).load(Ordering::Relaxed);
        let tail = self.rings.int(self.completion_tail).load(Ordering::Acquire);
        let mut results = Vec::new();
        while head != tail {
            let at = self.completions + 16 * (head & self.completion_mask) as usize;
            results.push(self.rings.int(at + 8).load(Ordering::Relaxed) as i32);
            head = head.wrapping_add(1);
        }
        self.rings
            .int(self.completion_head)
            .store(head, Ordering::Release);
        results
    }
}
