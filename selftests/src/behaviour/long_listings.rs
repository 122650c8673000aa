// SPDX-License-Identifier: GPL-2.0

//! Listings longer than any buffer: read record by record, in little memory, to the end or until a
//! signal comes.

use crate::harness::{self, tests};
use crate::kit::abi::{Data, PROFILE, REGISTRATIONS, STATUS};
use crate::kit::child::{self, Child, Line, Word};
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::machine;
use crate::kit::memory::Mapping;
use crate::kit::os;
use crate::kit::random::Random;
use crate::kit::tracefs::TraceInstance;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

tests!("long_listings":
    many_lines_in_little_memory_while_processes_come_and_go.lengthy().limit(900),
    a_signal_interrupts_a_read,
    a_reader_that_is_killed_ends,
    reads_of_any_size_give_the_same_text,
);

/// Bits of one event in one page, in all processes.
const BITS: u64 = 1000;

/// This process and children of it, which share their registrations.
struct ManyProcesses {
    _data: Data,
    page: Mapping,
    children: Vec<Child>,
}

impl ManyProcesses {
    const NAME: &'static str = "st_long";

    /// Registers the bits, and forks children that do nothing.
    fn of(children: usize) -> ManyProcesses {
        let data = Data::open();
        let page = Mapping::kept(1);
        for i in 0..BITS {
            let text = format!("{} u32 a", Self::NAME);
            data.register_text(&text, page.address() + 4 * i, 0)
                .unwrap();
        }
        os::allow_open_files(4 * children as u64 + 100);
        let fork = |_| child::fork(Line::wait_for_kill);
        ManyProcesses {
            _data: data,
            page,
            children: (0..children).map(fork).collect(),
        }
    }
}

/// Counts the lines of each process, and asserts their order.
struct Counter<'a> {
    many: &'a ManyProcesses,
    /// By process.
    lines: BTreeMap<i32, u64>,
    /// A line that is not whole yet.
    rest: Vec<u8>,
}

impl Counter<'_> {
    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend(bytes);
        let end = self.rest.iter().rposition(|byte| *byte == b'\n');
        let rest = self.rest.split_off(end.map_or(0, |end| end + 1));
        let whole = std::mem::replace(&mut self.rest, rest);
        for line in std::str::from_utf8(&whole).unwrap().lines() {
            self.take_line(line);
        }
    }

    fn take_line(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        if words[0] == "#" {
            return;
        }
        assert!(words.len() == 6 || words[6..] == ["repair"], "{line:?}");
        let Some(lines) = words[1]
            .parse()
            .ok()
            .and_then(|pid| self.lines.get_mut(&pid))
        else {
            // A process that comes and goes.
            return;
        };
        if words[0] == ManyProcesses::NAME {
            let address = self.many.page.address() + 4 * *lines;
            assert_eq!(words[3], format!("{address:#x}"), "{line:?}");
            *lines += 1;
        }
    }
}

/// Kernel memory in kB, of the kinds that would hold a whole text.
fn memory() -> i64 {
    machine::forget_free_objects();
    machine::meminfo("VmallocUsed") + machine::meminfo("SUnreclaim")
}

fn many_lines_in_little_memory_while_processes_come_and_go() {
    // A million lines if there is time.
    let many = ManyProcesses::of(harness::times(machine::rounds(100), 999));
    let others: Vec<_> = (0..2)
        .map(|_| {
            child::fork(|_| loop {
                let child = child::fork(|_| {
                    let own = Event::new("st_long_goes u32 a");
                    child::fork(|_| own.unregister().unwrap()).join();
                });
                child.join();
            })
        })
        .collect();
    let pids = many.children.iter().map(|child| child.pid);
    let pids = pids.chain([process::id() as i32]);
    let mut counter = Counter {
        many: &many,
        lines: pids.map(|pid| (pid, 0)).collect(),
        rest: Vec::new(),
    };

    // All processes have started by the end of this pause.
    thread::sleep(Duration::from_secs(1));
    let mut file = File::open(REGISTRATIONS).unwrap();
    let before = memory();
    let (mut most, mut length) = (0, 0);
    let mut piece = vec![0; 1 << 16];
    for reads in 0u64.. {
        let got = file.read(&mut piece).unwrap();
        counter.take(&piece[..got]);
        length += got;
        if reads % 128 == 0 || got == 0 {
            most = most.max(memory() - before);
        }
        if got == 0 {
            break;
        }
    }
    others.into_iter().for_each(Child::kill);
    let lines = counter.lines.values().sum::<u64>();
    println!("  # {lines} lines, {length} bytes; at most {most} kB more in use");
    assert!(counter.rest.is_empty());
    for (pid, lines) in &counter.lines {
        assert_eq!(*lines, BITS, "lines of {pid}");
    }
    assert!(most < 3 << 10, "{most} kB more in use");
    drop(many);
}

/// Far behind the end of any listing: a read goes through all of the listing to find that place.
const FAR: u64 = 1 << 40;

fn a_signal_interrupts_a_read() {
    let many = ManyProcesses::of(50);
    let file = File::open(REGISTRATIONS).unwrap();
    os::count_at(libc::SIGALRM, 0);
    let mut byte = [0];
    let mut interrupted = 0;
    for _ in 0..5 {
        os::alarm_in(Duration::from_millis(30));
        match file.read_at(&mut byte, FAR).map_err(Errno::from) {
            Err(Errno::EINTR) => interrupted += 1,
            got => panic!("read to the end: {got:?}"),
        }
    }
    assert_eq!(interrupted, 5);
    // No line is lost by the interruptions.
    let mut counter = Counter {
        many: &many,
        lines: [(process::id() as i32, 0)].into(),
        rest: Vec::new(),
    };
    let mut text = Vec::new();
    (&file).read_to_end(&mut text).unwrap();
    counter.take(&text);
    assert_eq!(counter.lines.into_values().collect::<Vec<_>>(), [BITS]);
    // With `SA_RESTART` the call goes on.
    os::count_at(libc::SIGALRM, libc::SA_RESTART);
    os::alarm_in(Duration::from_millis(30));
    assert_eq!(file.read_at(&mut byte, FAR).unwrap(), 0);
}

fn a_reader_that_is_killed_ends() {
    let _many = ManyProcesses::of(100);
    let start = Instant::now();
    let file = File::open(REGISTRATIONS).unwrap();
    assert_eq!(file.read_at(&mut [0], FAR).unwrap(), 0);
    let whole = start.elapsed();
    let mut reader = child::fork(|line| {
        line.say(Word::Reading);
        loop {
            file.read_at(&mut [0], FAR).unwrap();
        }
    });
    reader.line.hear(Word::Reading);
    thread::sleep(whole / 8);
    let start = Instant::now();
    reader.kill();
    let ended = start.elapsed();
    assert!(ended < whole / 2, "ended in {ended:?}, all takes {whole:?}");
}

/// The rest of a file, read in pieces of this size.
fn read_by(mut file: impl Read, size: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut piece = vec![0; size];
    loop {
        match file.read(&mut piece).unwrap() {
            0 => return text,
            length => text.extend(&piece[..length]),
        }
    }
}

fn reads_of_any_size_give_the_same_text() {
    const EVENTS: u64 = 200;
    let name = |i: u64| format!("st_quiet{i:0>70}");
    // It does not change its mappings, during which a listing might be unable to read its bits.
    let mut owner = child::fork(|line| {
        let data = Data::open();
        let page = Mapping::kept(1);
        for i in 0..EVENTS {
            let address = page.address() + 8 * i;
            let got = data.register_text(&format!("{} u32 a", name(i)), address, 31);
            assert_eq!(got, Ok(i as u32));
        }
        line.say(Word::Registered);
        line.wait_for_kill();
    });
    owner.line.hear(Word::Registered);
    let tracer = TraceInstance::instance("st_quiet");
    (0..EVENTS).step_by(7).for_each(|i| tracer.enable(&name(i)));
    let mut random = Random::new(3);
    for path in [STATUS, PROFILE, REGISTRATIONS] {
        let mut file = File::open(path).unwrap();
        let whole = read_by(&mut file, 1 << 20);
        assert!(whole.len() > 3 * 4096, "{path}");
        assert_eq!(file.read(&mut [0; 10]).unwrap(), 0, "behind the end");
        for size in [1, 2, 7, 509, 4095, 4096, 4097, 10_000] {
            file.seek(SeekFrom::Start(0)).unwrap();
            assert!(read_by(&mut file, size) == whole, "{path} by {size}");
        }
        let length = whole.len();
        let edges = [0, 1, 4095, 4096, 4097, 8191, length - 1, length, 2 * length];
        let random_places = (0..200).map(|_| random.below(length + 10));
        for at in edges.into_iter().chain(random_places.collect::<Vec<_>>()) {
            let mut piece = vec![0; 1 + random.below(6000)];
            let got = file.read_at(&mut piece, at as u64).unwrap();
            let rest = whole.get(at..).unwrap_or_default();
            assert!(rest.starts_with(&piece[..got]), "{path} at {at}");
            assert!(got > 0 || rest.is_empty(), "{path} at {at}");
        }
        // read_at() has not moved the file position.
        assert_eq!(file.read(&mut [0; 10]).unwrap(), 0);
        file.seek(SeekFrom::Start(5000)).unwrap();
        assert!(read_by(&mut file, 333) == whole[5000..], "{path} from 5000");
        let at = file.seek(SeekFrom::Current(-1000)).unwrap() as usize;
        assert!(read_by(&mut file, 333) == whole[at..], "{path} from {at}");
        file.seek(SeekFrom::Start(FAR)).unwrap();
        assert_eq!(file.read(&mut [0; 10]).unwrap(), 0);
        assert!(file.seek(SeekFrom::Current(-2 * FAR as i64)).is_err());
        assert_eq!(file.stream_position().unwrap(), FAR);
    }
    (0..EVENTS)
        .step_by(7)
        .for_each(|i| tracer.disable(&name(i)));
}
