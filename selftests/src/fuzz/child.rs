// SPDX-License-Identifier: GPL-2.0

//! A process that reads steps from its line, executes them and sends back the results.

use super::payload::payload;
use super::polls;
use super::step::*;
use crate::kit::abi::*;
use crate::kit::errno::{Errno, Result};
use crate::kit::memory::{Mapping, KERNEL, PAGE, READ, READ_WRITE};
use crate::kit::{os, wait};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::Ordering;

/// The maximum of processes of a worker.
pub const CHILDREN: usize = 4;

/// The address of the pages of each process, within reach of a 32-bit call: two pages of words, one
/// of arguments, and behind it no mapping.
const WORDS: u64 = 0x2000_0000;
const WORDS_TWO: u64 = WORDS + PAGE as u64;
const ARGUMENTS: u64 = WORDS_TWO + PAGE as u64;
const EDGE: u64 = ARGUMENTS + PAGE as u64;
/// The offset of the name on the page of arguments.
const NAME: usize = 1024;

/// The address of a word.
pub fn address(place: u8) -> u64 {
    let page = u64::from(place) / 32;
    WORDS + page * PAGE as u64 + u64::from(place) % 32 * 4
}

/// Orders to a process.
pub mod order {
    /// Execute the steps that follow.
    pub const STEPS: u8 = b's';
    /// Fork a process for a slot.
    pub const FORK: u8 = b'f';
    /// Execute this program again.
    pub const EXEC: u8 = b'e';
    /// Exit, by the last thread or by exit_group().
    pub const EXIT: u8 = b'x';
}

/// Makes the line of a slot: the end of the director, and that of the process, which stays open
/// across execve.
pub fn line() -> (File, File) {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let [ours, theirs] = [ours, theirs].map(|end| File::from(OwnedFd::from(end)));
    os::keep_at_exec(&theirs);
    (ours, theirs)
}

/// A process.
pub struct Child<'a> {
    worker: u32,
    slot: usize,
    /// The processes' ends of the lines of all slots.
    lines: &'a [File],
    files: [Option<File>; FILES],
    /// An O_PATH descriptor of a group's data file.
    held: Option<File>,
    first: Mapping,
    second: Mapping,
    arguments: Mapping,
}

/// Runs a process after execve; `words` are its worker, its slot and the ends of all lines.
pub fn main(words: &[String]) -> ! {
    let number = |word: &String| word.parse().expect("a number");
    let numbers: Vec<i32> = words.iter().map(number).collect();
    // SAFETY: The descriptors were kept open across execve for this value only.
    let line = |number: &i32| unsafe { File::from_raw_fd(*number) };
    let lines: Vec<File> = numbers[2..].iter().map(line).collect();
    os::forget_children();
    let child = Child::new(numbers[0] as u32, numbers[1] as usize, &lines);
    child.answer(&[0]);
    child.run()
}

impl<'a> Child<'a> {
    pub fn new(worker: u32, slot: usize, lines: &'a [File]) -> Child<'a> {
        let page = |at| Mapping::placed(at, 1);
        Child {
            worker,
            slot,
            lines,
            files: [const { None }; FILES],
            held: None,
            first: page(WORDS),
            second: page(WORDS_TWO),
            arguments: page(ARGUMENTS),
        }
    }

    /// Follows orders until one ends the process, or the line is closed.
    pub fn run(mut self) -> ! {
        loop {
            let mut head = [0; 2];
            let mut from = &self.lines[self.slot];
            if from.read_exact(&mut head).is_err() {
                os::exit_now(1);
            }
            match head[0] {
                order::STEPS => self.steps(head[1].into()),
                order::FORK => self.fork(head[1].into()),
                order::EXEC => self.exec(),
                _ => os::exit_now(0),
            }
        }
    }

    fn answer(&self, answers: &[i64]) {
        let bytes: Vec<u8> = answers.iter().flat_map(|one| one.to_ne_bytes()).collect();
        let mut to = &self.lines[self.slot];
        to.write_all(&bytes).expect("answer");
    }

    fn fork(&mut self, slot: usize) {
        match os::fork() {
            Ok(0) => self.slot = slot,
            Ok(pid) => self.answer(&[pid.into()]),
            Err(errno) => self.answer(&[i64::from(-errno.0)]),
        }
    }

    fn exec(&self) -> ! {
        let lines = self.lines.iter().map(|line| line.as_raw_fd().to_string());
        let error = Command::new("/proc/self/exe")
            .args([
                super::CHILD_OPTION,
                &self.worker.to_string(),
                &self.slot.to_string(),
            ])
            .args(lines)
            .exec();
        panic!("exec: {error}");
    }

    fn steps(&mut self, count: usize) {
        let mut steps = vec![[0; Step::SIZE]; count];
        let mut from = &self.lines[self.slot];
        from.read_exact(steps.as_flattened_mut()).expect("steps");
        let mut answers = Vec::with_capacity(count);
        for step in steps.iter().map(Step::from_bytes) {
            let result = match step.has(flag::THREAD) {
                true => std::thread::scope(|scope| {
                    let other = scope.spawn(|| self.step(&step));
                    other.join().expect("a thread")
                }),
                false => self.step(&step),
            };
            answers.push(result.unwrap_or_else(|errno| i64::from(-errno.0)));
        }
        self.answer(&answers);
    }

    fn file(&self, step: &Step) -> Result<&File> {
        let file = self.files[usize::from(step.file)].as_ref();
        file.ok_or(Errno::EBADF)
    }

    fn step(&mut self, step: &Step) -> Result<i64> {
        match step.call {
            Call::Open => self.open(step, DATA)?,
            Call::OpenIn => self.open(step, &file_of(self.worker, step.name, DATA))?,
            Call::Hold => {
                let mut options = OpenOptions::new();
                options.read(true).custom_flags(libc::O_PATH);
                self.held = Some(options.open(file_of(self.worker, step.name, DATA))?);
            }
            Call::OpenHeld => {
                let held = self.held.as_ref().ok_or(Errno::EBADF)?;
                let path = format!("/proc/self/fd/{}", held.as_raw_fd());
                self.open(step, &path)?;
            }
            Call::Close => self.files[usize::from(step.file)] = None,
            Call::Duplicate => {
                let copy = self.file(step)?.try_clone()?;
                self.files[usize::from(step.value)] = Some(copy);
            }
            Call::Register => return self.register(step),
            Call::Unregister => return self.unregister(step),
            Call::Delete => return self.delete(step),
            Call::Write => return self.write(step),
            Call::Unsupported => return self.unsupported(step),
            Call::Poll => return Ok(polls::poll(self.file(step)?, step)),
            Call::Protect => self.second.protect(READ),
            Call::Unprotect => self.second.protect(READ_WRITE),
            Call::Unmap => self.second.unmap(),
            Call::MapAgain => self.second.map_again(),
            Call::Discard => self.second.advise(libc::MADV_DONTNEED)?,
            Call::PageOut => {
                let page = [&self.first, &self.second][usize::from(step.value)];
                page.advise(libc::MADV_PAGEOUT)?;
            }
            Call::Flip => {
                let page = [&self.first, &self.second][usize::from(step.place / 32)];
                let word = page.word(usize::from(step.place) % 32 * 4);
                word.fetch_xor(1 << step.bit, Ordering::Relaxed);
            }
            Call::DropPrivileges => os::become_unprivileged(),
        }
        Ok(0)
    }

    fn open(&mut self, step: &Step, path: &str) -> Result<()> {
        let mut options = OpenOptions::new();
        options.read(step.value != mode::WRITE_ONLY);
        options.write(step.value != mode::READ_ONLY);
        self.files[usize::from(step.file)] = Some(options.open(path)?);
        Ok(())
    }

    /// An ioctl with the address of an argument, as this or as a 32-bit program.
    fn ioctl(&self, step: &Step, command: u64, argument: u64) -> Result<i32> {
        let file = self.file(step)?;
        match step.has(flag::COMPAT) {
            // The size of a pointer is part of the command.
            true => os::ioctl_32(
                file,
                (command ^ (8 << 16) ^ (4 << 16)) as u32,
                argument as u32,
            ),
            false => os::ioctl(file, command, argument),
        }
    }

    /// Writes a structure at the address of an ioctl's argument, as far as there is memory.
    fn put_argument(&self, argument: u64, bytes: &[u8]) {
        let start = argument.max(ARGUMENTS);
        let room = (EDGE - start) as usize;
        let at = (start - ARGUMENTS) as usize;
        self.arguments.put(at, &bytes[..bytes.len().min(room)]);
    }

    fn register(&self, step: &Step) -> Result<i64> {
        use super::step::register::*;
        let name = name_of(self.worker, step.name);
        let text = match step.defect {
            NAME_TOO_LONG => format!("{name} u32 {}", "x".repeat(512)),
            UNKNOWN_TYPE => format!("{name} long a"),
            NO_FIELD_NAME => format!("{name} u32 a; u32"),
            TWO_SPACES => format!("{name} u32  a"),
            NO_NAME => " u32 a".into(),
            FLAGS_IN_NAME => format!("{name}:flag u32 a"),
            _ => description(&name, step.fields, step.value & 1 != 0),
        };
        let mut text = text.into_bytes();
        text.push(0);
        self.arguments.put(NAME, &text);

        let mut request = Register::new(address(step.place), ARGUMENTS + NAME as u64);
        request.enable_bit = step.bit;
        request.enable_size = if step.has(flag::WIDE) { 8 } else { 4 };
        request.flags = u16::from(step.flags & (flag::PERSIST | flag::MULTI_FORMAT));
        let mut argument = ARGUMENTS;
        match step.defect {
            LONGER => {
                request.size = 32;
                request.tail = vec![0; 4];
            }
            SHORT => request.size = 27,
            SIZE_OF_ALL_ONES => request.size = u32::MAX,
            LONGER_THAN_A_PAGE => request.size = 4097,
            UNKNOWN_BYTES => {
                request.size = 40;
                request.tail = vec![0; 12];
                request.tail[usize::from(step.bit) % 12] = 1;
            }
            UNKNOWN_FLAG => request.flags |= 4,
            HIGHEST_FLAG => request.flags |= 0x8000,
            WORD_OF_3_BYTES => request.enable_size = 3,
            MISALIGNED => request.enable_addr += 2,
            BIT_TOO_HIGH => request.enable_bit = request.enable_size * 8,
            WORD_IN_THE_KERNEL => request.enable_addr = KERNEL,
            NULL_ARGUMENT => argument = 0,
            ARGUMENT_OVER_THE_EDGE => argument = EDGE - 12,
            NAME_UNMAPPED => request.name_args = EDGE,
            NAME_OVER_THE_EDGE => {
                request.name_args = EDGE - 4;
                self.arguments.put(PAGE - 4, b"st_f");
            }
            _ => {}
        }
        self.put_argument(argument, &request.bytes());
        if step.defect == READ_ONLY_ARGUMENT {
            self.arguments.protect(READ);
        }
        let result = self.ioctl(step, DIAG_IOCSREG, argument);
        if step.defect == READ_ONLY_ARGUMENT {
            self.arguments.protect(READ_WRITE);
        }
        let index = self.arguments.word(24).load(Ordering::Relaxed);
        if result.is_err() && argument == ARGUMENTS && index != NO_INDEX {
            panic!("a failed register wrote write_index");
        }
        result.map(|_| index.into())
    }

    fn unregister(&self, step: &Step) -> Result<i64> {
        use super::step::unregister::*;
        let mut request = Unregister::new(address(step.place), step.bit);
        let mut argument = ARGUMENTS;
        match step.defect {
            LONGER => {
                request.size = 20;
                request.tail = vec![0; 4];
            }
            SHORT => request.size = 15,
            LONGER_THAN_A_PAGE => request.size = 4097,
            UNKNOWN_BYTES => {
                request.size = 20;
                request.tail = vec![0, 0, 1, 0];
            }
            RESERVED => request.reserved = 1,
            RESERVED2 => request.reserved2 = 0x100,
            WORD_IN_THE_KERNEL => request.disable_addr = KERNEL,
            NULL_ARGUMENT => argument = 0,
            ARGUMENT_OVER_THE_EDGE => argument = EDGE - 8,
            _ => {}
        }
        self.put_argument(argument, &request.bytes());
        self.ioctl(step, DIAG_IOCSUNREG, argument).map(i64::from)
    }

    fn delete(&self, step: &Step) -> Result<i64> {
        use super::step::delete::*;
        let mut text = name_of(self.worker, step.name).into_bytes();
        let mut argument = ARGUMENTS + NAME as u64;
        match step.defect {
            NULL_ARGUMENT => argument = 0,
            TOO_LONG => text.resize(600, b'x'),
            UNKNOWN => text.push(b'_'),
            OVER_THE_EDGE => {
                argument = EDGE - 4;
                self.arguments.put(PAGE - 4, b"st_f");
            }
            _ => {}
        }
        text.push(0);
        self.arguments.put(NAME, &text);
        let mut result = Ok(0);
        wait::eventually(|| {
            result = self.ioctl(step, DIAG_IOCSDEL, argument);
            result != Err(Errno::EBUSY) || !step.has(flag::PATIENT)
        });
        result.map(i64::from)
    }

    fn write(&self, step: &Step) -> Result<i64> {
        use super::step::write::*;
        let file = self.file(step)?;
        let payload = payload(step);
        let index = match step.defect {
            NEGATIVE_INDEX => [0xff; 4],
            _ => u32::from(step.value).to_ne_bytes(),
        };
        let record = [&index[..], &payload].concat();
        let at = record.as_ptr() as u64;
        let length = record.len();
        // Two bytes of the index, then two bytes outside the record, which must not be taken for
        // the rest of the index.
        let half = [index[0], index[1], 0xff, 0xff];
        let rest = [&index[2..], &payload[..]].concat();
        let address = |part: &[u8]| part.as_ptr() as u64;
        let whole = match step.defect {
            PART_OF_AN_INDEX => os::write_from(file, at, usize::from(step.bit) % 3 + 1),
            ALL_UNREADABLE => os::write_from(file, EDGE, length),
            UNREADABLE => {
                let parts = [(at, 4), (EDGE, payload.len().max(1))];
                os::writev_from(file, &parts)
            }
            _ => match step.bit % 4 {
                0 => os::write_from(file, at, length),
                1 => {
                    let parts = [(address(&index), 4), (address(&payload), length - 4)];
                    os::writev_from(file, &parts)
                }
                2 => {
                    let (half, rest) = ((address(&half), 2), (address(&rest), length - 2));
                    let parts = match step.bit % 8 {
                        2 => [(at, 0), half, rest],
                        _ => [half, (at, 0), rest],
                    };
                    os::writev_from(file, &parts)
                }
                _ => {
                    let cut = 4 + payload.len() / 2;
                    let rest = at + cut as u64;
                    os::writev_from(file, &[(at, cut), (rest, length - cut), (EDGE, 0)])
                }
            },
        };
        whole.map(|length| length as i64)
    }

    fn unsupported(&self, step: &Step) -> Result<i64> {
        use super::step::unsupported;
        let mut file = self.file(step)?;
        match step.value {
            unsupported::READ => Ok(file.read(&mut [0; 8])? as i64),
            unsupported::SEEK => Ok(file.seek(SeekFrom::Start(0))? as i64),
            unsupported::MMAP => Mapping::of_file(file, 1, READ, libc::MAP_SHARED).map(|_| 0),
            unsupported::UNKNOWN_IOCTL => {
                self.ioctl(step, DIAG_IOCSREG + 7, ARGUMENTS).map(i64::from)
            }
            unsupported::WRITE_AT_AN_OFFSET => Ok(file.write_at(&[0; 4], 8)? as i64),
            other => panic!("no unsupported call {other}"),
        }
    }
}
