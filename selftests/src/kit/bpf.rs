// SPDX-License-Identifier: GPL-2.0

//! eBPF programs attached to an event, through the system call itself: assembled here, with a map
//! of counters.

use crate::kit::errno::Result;
use crate::kit::os;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};

/// Commands of the system call.
const BPF_MAP_CREATE: i32 = 0;
const BPF_MAP_LOOKUP_ELEM: i32 = 1;
const BPF_PROG_LOAD: i32 = 5;
const BPF_OBJ_GET_INFO_BY_FD: i32 = 15;
const BPF_TASK_FD_QUERY: i32 = 20;
const BPF_LINK_CREATE: i32 = 28;

const BPF_MAP_TYPE_ARRAY: u32 = 2;
pub const TRACEPOINT: u32 = 5;
pub const KPROBE: u32 = 2;
const BPF_PERF_EVENT: u32 = 41;
const BPF_PERF_EVENT_TRACEPOINT: u32 = 5;
const BPF_FD_TYPE_TRACEPOINT: u32 = 1;

/// Helper functions.
pub const MAP_LOOKUP_ELEM: i32 = 1;
pub const GET_SMP_PROCESSOR_ID: i32 = 8;
pub const GET_CURRENT_PID_TGID: i32 = 14;
pub const PROBE_READ_KERNEL: i32 = 113;
pub const GET_ATTACH_COOKIE: i32 = 174;

/// One instruction: code, destination and source register, offset, constant.
pub type Instruction = (u8, u8, u8, i16, i32);

/// The register of the frame pointer. The stack lies below; register 1 has the context at the
/// start.
pub const FRAME: u8 = 10;

/// `to = value`
pub const fn set(to: u8, value: i32) -> Instruction {
    (0xb7, to, 0, 0, value)
}

/// `to = from`
pub const fn copy(to: u8, from: u8) -> Instruction {
    (0xbf, to, from, 0, 0)
}

/// `to += value`
pub const fn add(to: u8, value: i32) -> Instruction {
    (0x07, to, 0, 0, value)
}

/// `to += from`
pub const fn add_register(to: u8, from: u8) -> Instruction {
    (0x0f, to, from, 0, 0)
}

/// `to &= value`
pub const fn and(to: u8, value: i32) -> Instruction {
    (0x57, to, 0, 0, value)
}

/// `to = *(u32 *)(from + offset)`
pub const fn load_u32(to: u8, from: u8, offset: i16) -> Instruction {
    (0x61, to, from, offset, 0)
}

/// `to = *(u64 *)(from + offset)`
pub const fn load_u64(to: u8, from: u8, offset: i16) -> Instruction {
    (0x79, to, from, offset, 0)
}

/// `*(u64 *)to += from`, atomic
const fn add_to_memory(to: u8, from: u8) -> Instruction {
    (0xdb, to, from, 0, 0)
}

/// Skips `count` instructions if `register > value`.
pub const fn skip_if_greater(register: u8, value: i32, count: i16) -> Instruction {
    (0x25, register, 0, count, value)
}

pub const fn call(function: i32) -> Instruction {
    (0x85, 0, 0, 0, function)
}

/// Ends the program with the return value in register 0.
pub const EXIT: Instruction = (0x95, 0, 0, 0, 0);

/// `return value`
pub const fn give(value: i32) -> [Instruction; 2] {
    [set(0, value), EXIT]
}

/// The arguments of a command, in words of 64 bits or pairs of 32. The kernel may write to them,
/// and to the addresses among them that the command defines: all are those of buffers that live
/// through the call.
struct Arguments([u64; 8]);

impl Arguments {
    /// Zeros follow the words.
    fn new(words: &[u64]) -> Arguments {
        let mut arguments = Arguments([0; 8]);
        arguments.0[..words.len()].copy_from_slice(words);
        arguments
    }

    fn call(&mut self, command: i32) -> Result<i32> {
        let (words, size) = (self.0.as_mut_ptr(), size_of_val(&self.0[..]));
        // SAFETY: The kernel accesses the words within their size, and addresses by the rule above.
        os::check(unsafe { libc::syscall(libc::SYS_bpf, command, words, size) })
            .map(|ret| ret as i32)
    }

    /// The same, for commands that make a file.
    fn make(&mut self, command: i32) -> Result<File> {
        let fd = self.call(command)?;
        // SAFETY: The descriptor is new, and this is its only owner.
        Ok(unsafe { File::from_raw_fd(fd) })
    }
}

const fn two(low: u32, high: u32) -> u64 {
    low as u64 | ((high as u64) << 32)
}

fn fd(file: &File) -> u32 {
    file.as_raw_fd() as u32
}

/// An array of counters shared between programs and this process.
pub struct Counters(File);

impl Counters {
    pub fn new(count: u32) -> Counters {
        let mut arguments = Arguments::new(&[two(BPF_MAP_TYPE_ARRAY, 4), two(8, count)]);
        Counters(arguments.make(BPF_MAP_CREATE).expect("make a map"))
    }

    pub fn get(&self, counter: u32) -> u64 {
        let (key, mut value) = (counter, 0u64);
        let (key, to) = (&raw const key as u64, &raw mut value as u64);
        let found = Arguments::new(&[two(fd(&self.0), 0), key, to]).call(BPF_MAP_LOOKUP_ELEM);
        found.expect("look a counter up");
        value
    }

    pub fn all(&self, count: u32) -> Vec<u64> {
        (0..count).map(|counter| self.get(counter)).collect()
    }

    /// Instructions that add register 8 to the counter whose number is in register 7. They keep
    /// registers 6 to 9.
    pub fn add(&self) -> Vec<Instruction> {
        let map = self.0.as_raw_fd();
        vec![
            (0x63, FRAME, 7, -4, 0), // *(u32 *)(frame - 4) = r7
            copy(2, FRAME),
            add(2, -4),
            (0x18, 1, 1, 0, map), // r1 = the map: two instructions
            (0, 0, 0, 0, 0),
            call(MAP_LOOKUP_ELEM),
            (0x15, 0, 0, 1, 0), // skip one if r0 == 0
            add_to_memory(0, 8),
        ]
    }
}

pub struct Program(File);

impl Program {
    /// Loads a program. `kind` determines what it can be attached to.
    #[track_caller]
    pub fn load(kind: u32, instructions: &[Instruction]) -> Program {
        let code = instructions.iter().map(|&(code, to, from, offset, value)| {
            let [low, high] = offset.to_le_bytes();
            let [a, b, c, d] = value.to_le_bytes();
            u64::from_le_bytes([code, to | (from << 4), low, high, a, b, c, d])
        });
        let code: Vec<u64> = code.collect();
        let mut log = vec![0u8; 1 << 16];
        let mut arguments = Arguments::new(&[
            two(kind, code.len() as u32),
            code.as_ptr() as u64,
            c"GPL".as_ptr() as u64,
            two(1, log.len() as u32),
            log.as_mut_ptr() as u64,
        ]);
        let file = arguments.make(BPF_PROG_LOAD);
        Program(file.unwrap_or_else(|errno| panic!("load a program: {errno:?}: {}", text(&log))))
    }

    /// A program for trace events; its context is in register 6 at the start.
    #[track_caller]
    pub fn new(parts: &[&[Instruction]]) -> Program {
        let start = [copy(6, 1)];
        let instructions = [&start[..], &parts.concat()].concat();
        Program::load(TRACEPOINT, &instructions)
    }

    /// Counts in counter 0 how often it runs, and returns `result`.
    pub fn counting(counters: &Counters, result: i32) -> Program {
        Program::new(&[&[set(7, 0), set(8, 1)], &counters.add(), &give(result)])
    }

    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// A program linked to a perf event. It is detached when dropped.
pub struct Link(File);

impl Link {
    /// Links a program to a perf event. The program can get the cookie.
    pub fn new(program: &Program, perf: &File, cookie: u64) -> Result<Link> {
        let what = two(fd(&program.0), fd(perf));
        let mut arguments = Arguments::new(&[what, two(BPF_PERF_EVENT, 0), cookie]);
        arguments.make(BPF_LINK_CREATE).map(Link)
    }

    /// The name of the tracepoint, as in `bpftool link`.
    pub fn tracepoint(&self) -> String {
        let mut name = [0u8; 64];
        // struct bpf_link_info: type and id, program; for a perf event, its type, and the name's
        // address and length.
        let mut info = vec![0u64; 8];
        info[3] = name.as_mut_ptr() as u64;
        info[4] = name.len() as u64;
        let size = 8 * info.len() as u32;
        let mut arguments = Arguments::new(&[two(fd(&self.0), size), info.as_mut_ptr() as u64]);
        let asked = arguments.call(BPF_OBJ_GET_INFO_BY_FD);
        asked.expect("ask about a link");
        assert_eq!(info[2] as u32, BPF_PERF_EVENT_TRACEPOINT);
        text(&name)
    }
}

/// The name of the tracepoint to whose perf event a program is attached, as in `bpftool perf`.
pub fn tracepoint_of(perf: &File) -> String {
    let mut name = [0u8; 64];
    let (whose, size) = (two(std::process::id(), fd(perf)), two(0, name.len() as u32));
    let mut arguments = Arguments::new(&[whose, size, name.as_mut_ptr() as u64]);
    let asked = arguments.call(BPF_TASK_FD_QUERY);
    asked.expect("ask about a descriptor");
    assert_eq!((arguments.0[3] >> 32) as u32, BPF_FD_TYPE_TRACEPOINT);
    text(&name)
}

fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}
