// SPDX-License-Identifier: GPL-2.0

//! perf attached: the record in a sample, and perf events that send a signal, watch a control
//! group, end at exec, overwrite their ring, or are inherited.

use crate::harness::tests;
use crate::kit::abi::{location, Data};
use crate::kit::cgroup::{self, Cgroup, PATH};
use crate::kit::child::{self, Child, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{write, Event};
use crate::kit::memory::PAGE;
use crate::kit::payload::bytes;
use crate::kit::perf::*;
use crate::kit::trap::{self, Trap, TRAP_PERF};
use crate::kit::{os, wait};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

tests!("perf":
    a_sample_is_the_record_byte_for_byte,
    a_signal_comes_with_each_record,
    a_signal_kills_the_writer_after_its_record,
    an_event_of_a_control_group.needs_path(PATH).skip_if(cgroup::without_perf),
    an_event_that_is_removed_at_exec,
    a_ring_that_is_written_backward,
    an_event_that_is_inherited,
);

fn a_sample_is_the_record_byte_for_byte() {
    let event = Event::new("st_perf_bytes u32 a; __rel_loc char[] b");
    let id = event.id();
    let mut perf = Perf::sample(id, SELF, ANY_CPU, 8);
    event.wait_set();
    for length in 1..60u32 {
        let mut text = vec![b'x'; length as usize];
        *text.last_mut().unwrap() = 0;
        let payload = [&length.to_ne_bytes()[..], &location(0, length), &text].concat();
        assert_eq!(event.write(&payload), Ok(4 + payload.len()));
        let records = perf.take();
        assert_eq!(records.len(), 1, "length {length}");
        assert_eq!(records[0].payload(payload.len()), payload);
        assert_eq!(u64::from(records[0].kind), id);
        assert_eq!(records[0].pid, std::process::id() as i32);
    }
    assert_eq!(perf.lost, 0);
}

/// A perf event that sends a signal.
const TRAPPING: Sample = Sample {
    // The kernel requires both: a new program does not expect the old one's signal.
    flags: SIGTRAP | REMOVE_ON_EXEC,
    signal_data: 0x1234_5678_9abc_def0,
    ..Sample::PLAIN
};

/// Calls `run` in another thread, and waits for its end.
fn in_a_thread(run: impl FnOnce() + Send) {
    thread::scope(|scope| scope.spawn(run).join().unwrap());
}

fn a_signal_comes_with_each_record() {
    trap::catch();
    let event = Event::new("st_pk_trap u32 a");
    let mut perf = Perf::listen(&event, TRAPPING);
    let trap = Trap {
        thread: os::thread_id(),
        code: TRAP_PERF,
        data: TRAPPING.signal_data,
        kind: PERF_TYPE_TRACEPOINT,
        flags: 0,
    };
    for (number, length) in (1..).zip([4, 4, 100, 8184, 8185, 60_000, 4]) {
        let payload = bytes(length);
        assert_eq!(event.write(&payload), Ok(4 + length));
        // The signal comes before the call returns.
        assert_eq!(trap::caught(), number, "signals at {length} bytes");
        assert_eq!(trap::last(), trap);
        assert_recorded(&mut perf, &payload);
        assert_eq!(perf.count(), u64::from(number));
    }
    // No signal to a thread that is not watched, or for a write without a record.
    let (before, counted) = (trap::caught(), perf.count());
    in_a_thread(|| write(&event, [1]));
    assert_eq!(event.write(&[0; 3]), Err(Errno::EINVAL));
    assert_eq!(event.write(&bytes(MAX_PAYLOAD + 1)), Err(Errno::E2BIG));
    assert_eq!((trap::caught(), perf.count()), (before, counted));
    assert_eq!(perf.take().len(), 0);
}

fn a_signal_kills_the_writer_after_its_record() {
    let event = Event::new("st_pk_killed u32 a");
    let mut child = child::fork(|line| {
        line.hear(Word::Write);
        let _ = event.write(&[7; 4]);
        line.say(Word::Lives);
    });
    let mut perf = Perf::sample_with(event.id(), child.pid, ANY_CPU, 1, TRAPPING);
    event.wait_set();
    child.line.say(Word::Write);
    assert_eq!(child.wait() & 127, libc::SIGTRAP, "what ended the writer");
    assert_eq!(perf.take_payloads(4), [[7; 4]]);
    assert_eq!(perf.count(), 1);
    drop(perf);
    event.wait_clear();
}

/// Writes `count` records on each processor, with its number in them. The calling thread stays on
/// the last processor.
fn write_everywhere(event: &Event, cpus: &[usize], count: usize) {
    for &cpu in cpus {
        os::run_on(cpu);
        write(event, (0..count).map(|_| cpu as u32));
    }
}

/// Makes a process that writes records on each processor for [`write_by`], and calls `other` for
/// other orders.
fn writer(event: &Event, cpus: &[usize], other: impl Fn(Word)) -> Child {
    child::fork(|line| loop {
        let word = line.listen();
        match word {
            Word::Write => write_everywhere(event, cpus, line.receive()),
            word => other(word),
        }
        line.say(word);
    })
}

/// Makes a [`writer`] write `count` records on each processor.
fn write_by(writer: &mut Child, count: usize) {
    writer.line.say(Word::Write);
    writer.line.send(count);
    writer.line.hear(Word::Write);
}

fn an_event_of_a_control_group() {
    let event = Event::new("st_pk_cgroup u32 a");
    let cgroup = Cgroup::new("st_pk_cgroup");
    let cpus = os::cpus();
    let mut perfs = Perf::sample_in_cgroup(event.id(), &cgroup, 8);
    event.wait_set();
    let mut child = writer(&event, &cpus, |word| match word {
        Word::Enter => cgroup.enter(),
        Word::Leave => Cgroup::leave(),
        word => panic!("told {word:?}"),
    });
    // The records on each processor so far.
    let mut recorded = 0;
    for (to_move, count, more) in [
        (None, 2, 0),
        (Some(Word::Enter), 3, 3),
        (Some(Word::Leave), 4, 0),
        (Some(Word::Enter), 5, 5),
    ] {
        if let Some(word) = to_move {
            child.tell(word);
        }
        write_by(&mut child, count);
        // Meanwhile this process, which is outside the group, writes as well.
        in_a_thread(|| write_everywhere(&event, &cpus, 2));
        recorded += more;
        for (perf, cpu) in perfs.iter_mut().zip(&cpus) {
            let want = vec![(*cpu as u32).to_ne_bytes(); more as usize];
            assert_eq!(perf.take_payloads(4), want, "{count} on CPU {cpu}");
            assert_eq!(
                (perf.count(), perf.lost),
                (recorded, 0),
                "{count} on CPU {cpu}"
            );
        }
    }
    // Killed first: the child has duplicates of the perf events' files.
    child.kill();
    drop(perfs);
    event.wait_clear();
}

/// A perf event that is removed when its task executes a program.
const ENDING: Sample = Sample {
    flags: REMOVE_ON_EXEC,
    ..Sample::PLAIN
};

/// Executes a shell that writes `count` records of four bytes, each 9, to a file, which stays open,
/// and then sleeps for longer than any test.
pub(super) fn become_shell(data: &Data, index: u32, count: usize) -> ! {
    let record = [index.to_ne_bytes(), [9; 4]].concat();
    let octal = record
        .iter()
        .fold(String::new(), |text, byte| text + &format!("\\{byte:03o}"));
    let script = format!("printf '{octal}' && ").repeat(count) + "exec sleep 10000";
    let file = data.file.try_clone().expect("dup");
    let error = Command::new("sh").args(["-c", &script]).stdout(file).exec();
    panic!("exec: {error}");
}

fn an_event_that_is_removed_at_exec() {
    let event = Event::new("st_pk_exec u32 a");
    let mut child = child::fork(|line| {
        // Removed and closed.
        let own = Perf::open_with(event.id(), SELF, ANY_CPU, ENDING).expect("perf_event_open");
        line.follow(Word::Write, || write(&event, [1, 2, 3]));
        assert_eq!(own.count(), 3);
        line.hear(Word::Exec);
        become_shell(&event.data, event.index, 2);
    });
    let mut ending = Perf::sample_with(event.id(), child.pid, ANY_CPU, 1, ENDING);
    let mut staying = Perf::sample(event.id(), child.pid, ANY_CPU, 1);
    event.wait_set();
    child.tell(Word::Write);
    assert_eq!((ending.count(), staying.count()), (3, 3));
    child.line.say(Word::Exec);
    wait::until("the program to write its records", || staying.count() == 5);
    let mut want: Vec<_> = (1..=3).map(u32::to_ne_bytes).collect();
    assert_eq!(ending.take_payloads(4), want);
    assert_eq!(ending.count(), 3);
    want.extend([[9; 4]; 2]);
    assert_eq!(staying.take_payloads(4), want);
    assert_eq!((ending.lost, staying.lost), (0, 0));
    drop((ending, staying));
    event.wait_clear();
    assert_eq!(event.write(&[0; 4]), Err(Errno::EBADF));
    child.kill();
}

/// A perf event whose ring keeps the newest records only.
const BACKWARD: Sample = Sample {
    flags: WRITE_BACKWARD,
    ..Sample::PLAIN
};

/// The bytes of a ring that a sample with such a payload takes.
fn sample_size(length: usize) -> u64 {
    (8 + 4 + 8 + length).next_multiple_of(8) as u64
}

fn a_ring_that_is_written_backward() {
    let event = Event::new("st_pk_back u32 a");
    let pages = 64;
    let perf = Perf::sample_with(event.id(), SELF, ANY_CPU, pages, BACKWARD);
    event.wait_set();
    assert_eq!(perf.newest().len(), 0);
    let mut written: Vec<Vec<u8>> = Vec::new();
    let mut head = 0_u64;
    for round in 0..20 {
        let length = [60_000, 8185, MAX_PAYLOAD, 4, 30_000][round % 5] - round % 4;
        let payload = bytes(length.max(4));
        assert_eq!(event.write(&payload), Ok(4 + payload.len()));
        head = head.wrapping_sub(sample_size(payload.len()));
        assert_eq!(perf.head(), head, "round {round}");
        written.push(payload);

        // As many as fit.
        let mut left = (PAGE * pages) as u64;
        let fits = |payload: &&Vec<u8>| match left.checked_sub(sample_size(payload.len())) {
            Some(less) => {
                left = less;
                true
            }
            None => false,
        };
        let want: Vec<_> = written.iter().rev().take_while(fits).collect();
        let newest = perf.newest();
        assert_eq!(newest.len(), want.len(), "round {round}");
        for (record, payload) in newest.iter().zip(want) {
            assert_eq!(u64::from(record.kind), event.id());
            assert!(record.payload(payload.len()) == *payload, "round {round}");
        }
    }
    assert_eq!(perf.count(), 20);
}

fn an_event_that_is_inherited() {
    let event = Event::new("st_pk_heir u32 a");
    let inherited = Sample {
        flags: INHERIT,
        ..Sample::PLAIN
    };
    let cpus = os::cpus();
    // A child that was forked before inherits nothing.
    let mut earlier = writer(&event, &cpus, |word| panic!("told {word:?}"));
    let counter = Perf::open_with(event.id(), SELF, ANY_CPU, inherited).expect("perf_event_open");
    let plain = Perf::open(event.id(), SELF, ANY_CPU).expect("perf_event_open");
    // perf refuses a ring for an inherited event of all processors.
    let sampler = |&cpu: &usize| Perf::sample_with(event.id(), SELF, cpu as i32, 8, inherited);
    let mut perfs: Vec<_> = cpus.iter().map(sampler).collect();
    event.wait_set();

    write_everywhere(&event, &cpus, 1);
    write_by(&mut earlier, 7);
    let mut child = writer(&event, &cpus, |word| {
        assert_eq!(word, Word::Fork);
        let mut grandchild = writer(&event, &cpus, |word| panic!("told {word:?}"));
        write_by(&mut grandchild, 3);
        grandchild.kill();
    });
    write_by(&mut child, 2);
    child.tell(Word::Fork);
    in_a_thread(|| write_everywhere(&event, &cpus, 4));

    let of_each = 1 + 2 + 3 + 4;
    for (perf, &cpu) in perfs.iter_mut().zip(&cpus) {
        let records = perf.take();
        assert_eq!((records.len(), perf.lost), (of_each, 0), "CPU {cpu}");
        assert_eq!(perf.count(), of_each as u64, "CPU {cpu}");
        let by = |pid| records.iter().filter(|record| record.pid == pid).count();
        assert_eq!((by(os::thread_id()), by(child.pid)), (1, 2), "CPU {cpu}");
        for record in &records {
            assert_eq!(record.payload(4), (cpu as u32).to_ne_bytes());
        }
    }
    let all = (of_each * cpus.len()) as u64;
    assert_eq!((counter.count(), plain.count()), (all, cpus.len() as u64));
    // The counts of children remain when the children end, and the event is unused then.
    child.kill();
    assert_eq!(counter.count(), all);
    drop((counter, plain, perfs));
    event.wait_clear();
}
