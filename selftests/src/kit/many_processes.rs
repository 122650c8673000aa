// SPDX-License-Identifier: GPL-2.0

//! Thousands of processes, each with a bit registered in a page of its own.

use crate::harness;
use crate::kit::abi::Data;
use crate::kit::child::{self, Child, Line, Word};
use crate::kit::memory::{Mapping, PAGE, READ_WRITE};
use crate::kit::userfault::{Guard, Userfault};
use crate::kit::{fuse, machine, os, wait};
use std::fs::File;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// The number of processes, unless the user gives it: more than the workers of a kernel work queue.
pub fn thousands() -> usize {
    harness::times(1200, 2000) / machine::slowness() as usize
}

/// The memory of the bits.
#[derive(Clone, Copy)]
pub enum Memory {
    /// Pages of a file of the FUSE server, mapped with MAP_SHARED or MAP_PRIVATE. Missing pages are
    /// read one by one.
    Served(i32),
    /// Pages that are missing after the registration, and whose faults are not answered.
    Guarded,
}

/// An operation that all processes do at once.
#[derive(Clone, Copy)]
pub enum Op {
    /// Writes to the page.
    Use = 1,
    /// Drops the page.
    Forget = 2,
}

/// The processes, children of one that has no other job.
pub struct ManyProcesses {
    parent: Child,
    shared: Mapping,
    count: usize,
}

/// The futex that starts an operation; the two lower bits are the [`Op`].
fn order(shared: &Mapping) -> &AtomicU32 {
    shared.word(0)
}

/// The number of processes that have started the operation.
fn done(shared: &Mapping) -> &AtomicU32 {
    shared.word(64)
}

fn register(data: &Data, text: &str, pages: &Mapping, offset: usize) {
    let address = pages.address() + offset as u64;
    data.register_text(text, address, 0).expect("register");
}

/// Follows the orders for the page at an offset.
fn obey(shared: &Mapping, pages: &Mapping, offset: usize) {
    done(shared).fetch_add(1, SeqCst);
    let mut last = 0;
    loop {
        os::wait_while(order(shared), last);
        let now = order(shared).load(SeqCst);
        if now == last {
            continue;
        }
        last = now;
        done(shared).fetch_add(1, SeqCst);
        if now & 3 == Op::Use as u32 {
            pages.word(offset + 64).store(1, SeqCst);
        } else {
            let dropped = pages.advise_part(offset, PAGE, libc::MADV_DONTNEED);
            dropped.expect("MADV_DONTNEED");
        }
    }
}

fn be_parent(line: &mut Line, shared: &Mapping, text: &str, memory: Memory, count: usize) {
    let data = Data::open();
    let (file, pages) = match memory {
        Memory::Served(sharing) => {
            let file = File::options().read(true).write(true).open(fuse::path(0));
            let file = file.expect("open a file");
            let pages = Mapping::of_file(&file, count, READ_WRITE, sharing).expect("mmap");
            pages.advise(libc::MADV_RANDOM).unwrap();
            // Read ahead, so that registering does not fault the pages in one by one.
            std::io::copy(&mut &file, &mut std::io::sink()).expect("read a file");
            (Some(file), Some(pages))
        }
        Memory::Guarded => (None, None),
    };
    let mut pids = Vec::new();
    for number in 0..count {
        match os::fork().expect("fork") {
            0 => {
                let _ = catch_unwind(|| match &pages {
                    Some(pages) => {
                        register(&data, text, pages, number * PAGE);
                        obey(shared, pages, number * PAGE);
                    }
                    None => {
                        let page = Mapping::kept(1);
                        register(&data, text, &page, 0);
                        let faults = Userfault::new();
                        faults.guard(&page, Guard::Missing);
                        obey(shared, &page, 0);
                    }
                });
                os::exit_now(1);
            }
            pid => pids.push(pid),
        }
    }
    loop {
        let word = line.listen();
        match word {
            Word::WriteBack => os::start_writeback(file.as_ref().expect("a file")),
            Word::Pids => {
                let pids: Vec<_> = pids.iter().map(|pid| pid.to_string()).collect();
                line.send(pids.join(" "));
                continue;
            }
            Word::Kill => {
                for &pid in &pids {
                    os::kill(pid, libc::SIGKILL).expect("kill");
                }
            }
            Word::Reap => {
                for pid in pids.drain(..) {
                    // None ended before it was killed.
                    assert_eq!(os::wait(pid, 0), Ok((pid, libc::SIGKILL)));
                }
            }
            word => panic!("told to {word:?}"),
        }
        line.say(word);
    }
}

impl ManyProcesses {
    /// Makes `count` processes, each of which registers the first word of its page for an event.
    /// The caller must have no registrations.
    pub fn gather(text: &str, memory: Memory, count: usize) -> ManyProcesses {
        let shared = Mapping::shared(1);
        let parent = child::fork(|line| be_parent(line, &shared, text, memory, count));
        let many = ManyProcesses {
            parent,
            shared,
            count,
        };
        many.wait_done();
        many
    }

    /// Waits until all processes have started the last operation.
    #[track_caller]
    pub fn wait_done(&self) {
        let now = || done(&self.shared).load(SeqCst);
        // No limit for all together: it is a failure if none gets on for a while.
        let mut last = now();
        while last != self.count as u32 {
            wait::until("one more process", || now() != last);
            last = now();
        }
    }

    /// Starts an operation in all processes.
    pub fn begin(&self, op: Op) {
        done(&self.shared).store(0, SeqCst);
        let order = order(&self.shared);
        let next = (order.load(SeqCst) | 3) + 1;
        order.store(next | op as u32, SeqCst);
        os::wake_all(order);
    }

    #[track_caller]
    fn tell(&mut self, word: Word) {
        self.parent.tell(word);
    }

    /// Writes dirty pages back.
    #[track_caller]
    pub fn write_back(&mut self) {
        self.tell(Word::WriteBack);
    }

    /// The process ids.
    pub fn pids(&mut self) -> Vec<i32> {
        self.parent.line.say(Word::Pids);
        let pids: String = self.parent.line.receive();
        pids.split(' ').map(|pid| pid.parse().unwrap()).collect()
    }

    #[track_caller]
    pub fn kill(&mut self) {
        self.tell(Word::Kill);
    }

    /// Waits until all killed processes are gone.
    #[track_caller]
    pub fn reap(mut self) {
        self.tell(Word::Reap);
        self.parent.kill();
    }
}
