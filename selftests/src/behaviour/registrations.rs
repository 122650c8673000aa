// SPDX-License-Identifier: GPL-2.0

//! `user_events_registrations`: the registrations of all programs, and the state of their bits.

use crate::harness::tests;
use crate::kit::abi::{Data, REGISTRATIONS};
use crate::kit::child::{self, Child, Word};
use crate::kit::event::{toggler, wait_gone, Event};
use crate::kit::memory::Mapping;
use crate::kit::os;
use crate::kit::random::Random;
use crate::kit::tasks;
use crate::kit::tracefs::TraceInstance;
use crate::kit::usage::grows_by_nothing;
use crate::kit::userfault::{Guard, Userfault};
use crate::kit::wait;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::process::{self, Command};
use std::thread;

tests!("registrations":
    the_listing_is_0400_of_root,
    of_nothing,
    of_bits_of_both_widths,
    tells_whether_the_bit_is_set,
    a_page_that_is_not_there_tells_nothing,
    a_page_that_was_looked_at_is_freed,
    a_bit_that_waits_for_its_page_is_under_repair,
    a_file_or_a_tracer_alone_registers_nothing,
    of_a_thread_names_the_process,
    of_several_processes_each_together,
    of_processes_that_share_memory_names_one,
    a_child_has_its_own,
    a_command_name_is_one_word,
    a_reader_in_a_pid_namespace,
    a_process_that_comes_meanwhile_is_listed_whole_or_not,
    the_next_process_is_listed_whole_when_one_ends_meanwhile,
    thousands_come_and_go_in_any_order,
    is_correct_while_processes_come_and_go.limit(300),
);

const HEADER: &str = "# EVENT PID COMMAND ADDRESS BIT/WIDTH STATE\n";

/// The lines of the listing.
#[track_caller]
fn listing() -> Vec<String> {
    let text = fs::read_to_string(REGISTRATIONS).expect("read the listing");
    let lines = text
        .strip_prefix(HEADER)
        .unwrap_or_else(|| panic!("{text:?}"));
    lines.lines().map(String::from).collect()
}

/// The command name of this process.
fn name() -> String {
    fs::read_to_string("/proc/self/comm").unwrap().trim().into()
}

/// The line of a bit of a 32-bit word of a process.
fn line(event: &str, pid: i32, name: &str, address: u64, bit: u8, state: &str) -> String {
    format!("{event} {pid} {name} {address:#x} {bit}/32 {state}")
}

/// The line of an event of this process.
fn line_of(event: &Event, state: &str) -> String {
    let pid = process::id() as i32;
    line(&event.name, pid, &name(), event.page.address(), 0, state)
}

/// Lines in order: that of the listing is by address, which is the kernel's choice.
fn in_order<const COUNT: usize>(mut lines: [String; COUNT]) -> [String; COUNT] {
    lines.sort();
    lines
}

/// The lines of the listing in the same order.
#[track_caller]
fn sorted() -> Vec<String> {
    let mut lines = listing();
    lines.sort();
    lines
}

fn the_listing_is_0400_of_root() {
    let file = fs::metadata(REGISTRATIONS).unwrap();
    assert_eq!(format!("{:o}", file.mode() & 0o7777), "400");
    assert_eq!((file.uid(), file.gid()), (0, 0));
}

fn of_nothing() {
    assert_eq!(fs::read_to_string(REGISTRATIONS).unwrap(), HEADER);
}

/// The lines of the listing, of which the first are read before `between`.
#[track_caller]
fn read_in_two(between: impl FnOnce()) -> Vec<String> {
    let mut file = File::open(REGISTRATIONS).expect("open the listing");
    // The header, a line, and a part of the next one.
    let mut first = vec![0; 2 * HEADER.len() + 20];
    file.read_exact(&mut first).expect("read the listing");
    between();
    let mut text = String::from_utf8(first).unwrap();
    file.read_to_string(&mut text).expect("read the listing");
    text.lines().skip(1).map(String::from).collect()
}

/// Makes a process that has 32 bits of an event in this word, until it is ordered to end.
fn fork_with_bits(text: &str, address: u64) -> Child {
    child::fork_until(Word::Registered, |line| {
        let data = Data::open();
        for bit in 0..32 {
            data.register_text(text, address, bit).unwrap();
        }
        line.ask(Word::Registered, Word::End);
    })
}

/// The lines of such a process.
fn all_bits(event: &str, child: &Child, address: u64) -> Vec<String> {
    let line = |bit| line(event, child.pid, &name(), address, bit, "clear");
    (0..32).map(line).collect()
}

fn lines_with(lines: &[String], start: &str) -> Vec<String> {
    let its = lines.iter().filter(|line| line.starts_with(start));
    its.cloned().collect()
}

/// The address of its mm in the kernel decides which.
fn a_process_that_comes_meanwhile_is_listed_whole_or_not() {
    let page = Mapping::kept(1);
    let address = page.address();
    for _ in 0..5 {
        let first = fork_with_bits("st_regs_first u32 a", address);
        let mut late = None;
        let lines = read_in_two(|| late = Some(fork_with_bits("st_regs_late u32 a", address)));
        let late = late.expect("a process");
        assert_eq!(
            lines_with(&lines, "st_regs_first "),
            all_bits("st_regs_first", &first, address)
        );
        let its = lines_with(&lines, "st_regs_late ");
        assert!(
            its.is_empty() || its == all_bits("st_regs_late", &late, address),
            "{its:?}"
        );
        assert_eq!(listing().len(), 64);
        late.finish();
        first.finish();
        wait_gone("st_regs_first");
        wait_gone("st_regs_late");
    }
}

fn the_next_process_is_listed_whole_when_one_ends_meanwhile() {
    let page = Mapping::kept(1);
    let address = page.address();
    // The process that stays has lower addresses than the one that ends.
    let first = fork_with_bits("st_regs_ends u32 a", address + 4);
    let next = fork_with_bits("st_regs_next u32 a", address);
    let lines = read_in_two(|| {
        first.kill();
        wait_gone("st_regs_ends");
    });
    assert_eq!(
        lines_with(&lines, "st_regs_next "),
        all_bits("st_regs_next", &next, address)
    );
    next.finish();
}

fn thousands_come_and_go_in_any_order() {
    const NAME: &str = "st_regs_crowd";
    const WORDS: u64 = 256;
    let (data, page, top) = (Data::open(), Mapping::kept(1), TraceInstance::top());
    let (pid, name, mut random) = (process::id() as i32, name(), Random::new(5));
    let address = |word: u64| page.address() + 4 * word;
    // The registered bits, by word.
    let mut there = BTreeSet::new();
    for step in [Some((4000, 8)), Some((4000, 1)), None, Some((1000, 1))] {
        match step {
            // Random bits come and go: of those that are there, only one in `one_in` goes.
            Some((times, one_in)) => {
                for _ in 0..times {
                    let (word, bit) = (random.long_below(WORDS), random.byte_below(32));
                    if there.insert((word, bit)) {
                        data.register_text("st_regs_crowd u32 a", address(word), bit)
                            .unwrap();
                    } else if random.below(one_in) == 0 {
                        data.unregister_bit(address(word), bit).unwrap();
                        there.remove(&(word, bit));
                    }
                }
            }
            // All go but every hundredth.
            None => {
                let mut numbers = 1..;
                there.retain(|(word, bit)| {
                    let stays = numbers.next().is_some_and(|number| number % 100 == 0);
                    if !stays {
                        data.unregister_bit(address(*word), *bit).unwrap();
                    }
                    stays
                });
            }
        }
        // The listing has the bits in order, and these bits alone follow the event.
        let line = |(word, bit): &(u64, u8)| line(NAME, pid, &name, address(*word), *bit, "clear");
        assert_eq!(listing(), there.iter().map(line).collect::<Vec<_>>());
        top.enable(NAME);
        for word in 0..WORDS {
            let bits = there.range((word, 0)..(word + 1, 0));
            let want = bits.fold(0, |mask, (_, bit)| mask | (1u32 << bit));
            wait::until("the bits to be set", || page.get(4 * word as usize) == want);
        }
        top.disable(NAME);
        wait::until("the bits to be cleared", || {
            (0..WORDS).all(|word| page.get(4 * word as usize) == 0)
        });
    }
}

fn of_bits_of_both_widths() {
    let event = Event::new("st_regs_widths u32 a");
    event.unregister().unwrap();
    let (address, pid, name) = (event.page.address(), process::id(), name());
    // Registered in another order than that of the listing.
    let mut bits = [(16, 63, 8), (0, 31, 4), (16, 0, 8), (0, 0, 4), (8, 5, 8)];
    for (offset, bit, size) in bits {
        event.add_bit_of(size, address + offset, bit);
    }
    bits.sort();
    let want = bits.map(|(offset, bit, size)| {
        let (at, width) = (address + offset, 8 * size);
        format!("st_regs_widths {pid} {name} {at:#x} {bit}/{width} clear")
    });
    assert_eq!(listing(), want);
    event.data.unregister_bit(address + 8, 5).unwrap();
    assert_eq!(listing(), [&want[..2], &want[3..]].concat());
}

fn tells_whether_the_bit_is_set() {
    let one = Event::new("st_regs_set u32 a");
    let two = Event::new("st_regs_clear u32 a");
    for _ in 0..3 {
        one.follows(true);
        assert_eq!(
            sorted(),
            in_order([line_of(&one, "set"), line_of(&two, "clear")])
        );
        one.follows(false);
    }
    // The listing shows the contents of the memory, not the state of the event.
    for (word, state) in [(1, "set"), (!1, "clear")] {
        two.page.set(0, word);
        assert!(listing().contains(&line_of(&two, state)));
    }
}

fn a_page_that_is_not_there_tells_nothing() {
    let event = Event::new("st_regs_absent u32 a");
    assert_eq!(listing(), [line_of(&event, "clear")]);
    event.page.discard();
    assert_eq!(listing(), [line_of(&event, "?")]);
    assert_eq!(event.page.resident(), 0, "the listing brought the page in");
    event.follows(true);
    wait::until("the bit in the listing", || {
        listing() == [line_of(&event, "set")]
    });
    event.switch(false);
}

fn a_page_that_was_looked_at_is_freed() {
    let event = Event::new("st_regs_freed u32 a");
    grows_by_nothing(20, 200, |_| {
        event.page.set(0, 0);
        assert_eq!(listing(), [line_of(&event, "clear")]);
        event.page.discard();
    });
}

fn a_bit_that_waits_for_its_page_is_under_repair() {
    let event = Event::new("st_regs_waits u32 a");
    let other = Event::new("st_regs_waits_not u32 a");
    let faults = Userfault::on(&event.page, Guard::Missing);
    let show = |state, others| in_order([line_of(&event, state), line_of(&other, others)]);
    assert_eq!(sorted(), show("?", "clear"), "not asked for yet");
    event.switch(true);
    other.follows(true);
    for _ in 0..100 {
        assert_eq!(sorted(), show("? repair", "set"));
    }
    drop(faults);
    wait::until("the bit to be repaired", || sorted() == show("set", "set"));
    event.switch(false);
    other.switch(false);
}

fn a_file_or_a_tracer_alone_registers_nothing() {
    let event = Event::new("st_regs_alone u32 a");
    event.switch(true);
    event.unregister().unwrap();
    assert_eq!(listing(), [""; 0]);
    event.switch(false);
}

fn of_a_thread_names_the_process() {
    let event = Event::new("st_regs_thread u32 a");
    let address = event.page.address();
    thread::scope(|scope| {
        scope.spawn(|| {
            fs::write("/proc/thread-self/comm", "another").unwrap();
            event.add_bit(address, 7);
        });
    });
    let pid = process::id() as i32;
    let want = [0, 7].map(|bit| line(&event.name, pid, &name(), address, bit, "clear"));
    assert_eq!(listing(), want);
}

/// The processes have bits of several events, at the same addresses. The order of the processes is
/// the kernel's choice, and does not change.
fn of_several_processes_each_together() {
    let page = Mapping::kept(1);
    // By ascending addresses.
    let bits_of = |process: usize| {
        let event = |number: usize| format!("st_regs_{}", ["c", "b", "a"][number % 3]);
        [(0, process), (8, process + 1), (64, process)]
            .map(|(offset, number)| (page.address() + offset, event(number)))
    };
    let fork = |process| {
        let child = child::fork_until(Word::Registered, |line| {
            let data = Data::open();
            for (address, event) in bits_of(process).iter().rev() {
                data.register_text(&format!("{event} u32 a"), *address, 0)
                    .unwrap();
            }
            line.ask(Word::Registered, Word::End);
        });
        (process, child)
    };
    let lines_of = |(process, child): &(usize, Child)| {
        bits_of(*process)
            .map(|(address, event)| line(&event, child.pid, &name(), address, 0, "clear"))
    };
    let mut children: Vec<_> = (0..5).map(fork).collect();
    let mut lines = listing();
    let mut parts: Vec<_> = lines.chunks(3).map(<[String]>::to_vec).collect();
    let mut want: Vec<_> = children.iter().map(lines_of).collect();
    parts.sort();
    want.sort();
    assert_eq!(parts, want);
    assert_eq!(listing(), lines);

    let third = children.remove(2);
    let its = lines_of(&third);
    third.1.finish();
    lines.retain(|line| !its.contains(line));
    wait::until("the third to be left out", || listing() == lines);
    children.into_iter().for_each(|(_, child)| child.finish());
}

fn of_processes_that_share_memory_names_one() {
    let mut first = child::fork(|line| {
        let event = Event::new("st_regs_shares u32 a");
        line.send(format!("{:#x}", event.page.address()));
        let second = tasks::vfork(|| {
            line.send(process::id());
            line.hear(Word::End);
            0
        });
        second.unwrap();
    });
    let address: String = first.line.receive();
    let second: i32 = first.line.receive();
    let line_of = |pid| format!("st_regs_shares {pid} {} {address} 0/32 clear", name());
    assert_eq!(listing(), [line_of(first.pid)]);
    // The second process has the memory alone then. It lives as long as this end of the line.
    os::kill(first.pid, libc::SIGKILL).unwrap();
    assert_eq!(first.wait(), libc::SIGKILL, "wait status of the first");
    wait::until("the second to be named", || listing() == [line_of(second)]);
    os::kill(second, libc::SIGKILL).unwrap();
    wait_gone("st_regs_shares");
    assert_eq!(listing(), [""; 0]);
}

fn a_child_has_its_own() {
    let event = Event::new("st_regs_child u32 a");
    let mine = |state| line_of(&event, state);
    let mut child = child::fork(|line| {
        line.hear(Word::Unregister);
        event.unregister().unwrap();
        line.ask(Word::Unregistered, Word::End);
    });
    let address = event.page.address();
    let its = |state| line(&event.name, child.pid, &name(), address, 0, state);
    // Which of them comes first is the kernel's choice.
    let both = |state| in_order([mine(state), its(state)]);
    wait::until("the child to be listed", || sorted() == both("clear"));
    event.switch(true);
    wait::until("both bits in the listing", || sorted() == both("set"));
    child.line.ask(Word::Unregister, Word::Unregistered);
    assert_eq!(listing(), [mine("set")]);
    event.switch(false);
    child.finish();
}

fn a_command_name_is_one_word() {
    let event = Event::new("st_regs_name u32 a");
    let address = event.page.address();
    for (name, shown) in [
        (&b"a b"[..], "a\\040b"),
        (b"x 1 set\n", "x\\0401\\040set\\012"),
        (b"\\\x1b[2J\x7f", "\\134\\033[2J\\177"),
        (b"\t", "\\011"),
        (b"\0", "-"),
        ("n\u{e4}me".as_bytes(), "n\u{e4}me"),
        (b"longer than fifteen bytes", "longer\\040than\\040fif"),
    ] {
        fs::write("/proc/self/comm", name).unwrap();
        let pid = process::id() as i32;
        let want = line(&event.name, pid, shown, address, 0, "clear");
        assert_eq!(listing(), [want]);
    }
}

fn a_reader_in_a_pid_namespace() {
    let event = Event::new("st_regs_space u32 a");
    let address = event.page.address();
    let output = Command::new("unshare")
        .args(["--pid", "--fork", "cat", REGISTRATIONS])
        .output()
        .unwrap();
    let want = line(&event.name, 0, &name(), address, 0, "clear");
    let got = String::from_utf8(output.stdout).unwrap();
    assert_eq!(got, format!("{HEADER}{want}\n"));
}

/// The listing, with the form of each line checked.
#[track_caller]
fn whole_lines() -> Vec<String> {
    let lines = listing();
    for line in &lines {
        let words: Vec<_> = line.split(' ').collect();
        assert!(words.len() == 6 || words[6..] == ["repair"], "{line:?}");
        assert!(words[0].starts_with("st_regs_"), "{line:?}");
        assert!(words[1].parse::<u32>().is_ok(), "{line:?}");
        assert!(words[3].starts_with("0x"), "{line:?}");
        assert!(words[4].ends_with("/32"), "{line:?}");
        assert!(["set", "clear", "?"].contains(&words[5]), "{line:?}");
    }
    lines
}

fn is_correct_while_processes_come_and_go() {
    let event = Event::new("st_regs_stays u32 a");
    let own = |event: &str| {
        let start = format!("{event} {} ", process::id());
        lines_with(&whole_lines(), &start).len()
    };
    let toggler = toggler(&event.name);
    // Processes that begin and end all the time, each with something registered.
    let others = [(); 3].map(|()| {
        child::fork(|_| loop {
            let child = child::fork(|_| {
                let own = Event::new("st_regs_goes u32 a");
                child::fork(|_| own.unregister().unwrap()).join();
            });
            child.join();
        })
    });
    let mut seen = 0;
    wait::until("others to have been listed often", || {
        assert_eq!(own("st_regs_stays"), 1);
        seen += lines_with(&whole_lines(), "st_regs_goes ").len();
        seen > 300
    });
    // One thread reads all the time while another one registers and unregisters.
    let more = Event::new("st_regs_more u32 a");
    let address = more.page.address();
    wait::beside(
        || drop(whole_lines()),
        || {
            for bit in 1..32 {
                more.add_bit(address, bit);
                assert_eq!(own("st_regs_more"), 2);
                more.data.unregister_bit(address, bit).unwrap();
                assert_eq!(own("st_regs_more"), 1);
            }
        },
    );
    others.map(Child::kill);
    toggler.kill();
    event.toggle();
}
