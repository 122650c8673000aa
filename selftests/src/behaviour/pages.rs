// SPDX-License-Identifier: GPL-2.0

//! The enable bit in memory of all kinds, present and absent.

use crate::harness::tests;
use crate::kit::abi::{Data, Register};
use crate::kit::child::{self, Word};
use crate::kit::dynamic::Probe;
use crate::kit::event::{repair_pending, Event};
use crate::kit::memory::{Mapping, PAGE, READ, READ_WRITE};
use crate::kit::os;
use crate::kit::stall::{self, StalledAt};
use crate::kit::swap::{self, PageOnDisk, Swap};
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait::{self, SetOnDrop};
use crate::tools::bpftrace::TYPES;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::FileExt;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

tests!("pages":
    a_page_never_touched_gets_its_bit,
    a_page_that_may_only_be_written_gets_its_bit,
    a_dropped_page_is_faulted_in,
    a_swapped_out_page_is_brought_back.swapping(),
    a_page_that_a_disk_brings_back_later_is_asked_for_again.swapping().skip_if(swap::lacks_a_disk),
    no_worker_waits_for_a_page_that_a_disk_brings_back.swapping().needs_path(TYPES).skip_if(swap::lacks_a_disk),
    a_dropped_page_of_a_file_is_faulted_in,
    only_a_queue_of_its_own_faults_pages_in.needs_path(TRACER),
    many_dropped_pages_all_get_their_bits,
    a_dropped_page_gets_the_latest_state,
    a_process_busy_with_its_mappings_gets_its_bit,
    a_process_that_changes_its_mappings_is_not_waited_for.skip_if(stall::lacks_probes),
    a_page_that_may_not_be_written_waits_for_the_next_change,
    a_protected_page_waits_for_the_next_change,
    an_unmapped_page_stalls_no_other_and_waits_for_the_next_change,
    a_shared_page_is_seen_by_all_its_mappings,
    unregistering_clears_a_dropped_page_of_a_file,
);

/// Exists where the kernel has the function tracer.
const TRACER: &str = "/sys/kernel/tracing/set_ftrace_filter";

/// The limit of a toggle. One that waited for a page would never end.
const PROMPT: Duration = Duration::from_secs(20);

/// Attaches ftrace, which must not take long.
#[track_caller]
fn enable_promptly(tracer: &TraceInstance, event: &str) {
    let start = Instant::now();
    tracer.enable(event);
    assert!(
        start.elapsed() < PROMPT,
        "attaching took {:?}",
        start.elapsed()
    );
}

fn a_page_never_touched_gets_its_bit() {
    let data = Data::open();
    let page = Mapping::new(16);
    let address = page.address() + 5 * PAGE as u64;
    data.register_text("st_page_fresh u32 a", address, 0)
        .unwrap();
    let top = TraceInstance::top();
    top.enable("st_page_fresh");
    let word = page.word(5 * PAGE);
    wait::until("the bit on a fresh page", || {
        word.load(Ordering::Relaxed) == 1
    });
    top.disable("st_page_fresh");
    wait::until("it to be cleared", || word.load(Ordering::Relaxed) == 0);
}

fn a_page_that_may_only_be_written_gets_its_bit() {
    let event = Event::new("st_page_write u32 a");
    let top = TraceInstance::top();
    for on in [true, false, true] {
        event.page.protect(libc::PROT_WRITE);
        event.page.advise(libc::MADV_DONTNEED).unwrap();
        match on {
            true => top.enable(&event.name),
            false => top.disable(&event.name),
        }
        wait::until("no bit to be due", || !repair_pending(process::id() as i32));
        event.page.protect(READ_WRITE);
        assert_eq!(event.bit(), on);
    }
    top.disable(&event.name);
}

fn a_dropped_page_is_faulted_in() {
    let event = Event::new("st_page_dropped u32 a");
    let top = TraceInstance::top();
    for _ in 0..5 {
        event.page.advise(libc::MADV_DONTNEED).unwrap();
        assert_eq!(event.page.resident(), 0);
        enable_promptly(&top, &event.name);
        // Without a read of the word, which would fault the page in.
        wait::until("the kernel to fault the page in", || {
            event.page.resident() == 1
        });
        event.wait_set();
        top.disable(&event.name);
        event.wait_clear();
    }
}

/// Asserts that after `put_out` a change of the event brings back the page with its contents.
fn is_brought_back(event: &Event, rounds: usize, put_out: impl Fn()) {
    let top = TraceInstance::top();
    event.page.put(8, b"contents");
    for _ in 0..rounds {
        put_out();
        enable_promptly(&top, &event.name);
        swap::wait_brought_back(&event.page);
        event.wait_set();
        let contents = event.page.long(8).load(Ordering::Relaxed);
        assert_eq!(&contents.to_ne_bytes(), b"contents");
        top.disable(&event.name);
        event.wait_clear();
    }
}

fn a_swapped_out_page_is_brought_back() {
    let _swap = Swap::new();
    let event = Event::new("st_page_swapped u32 a");
    is_brought_back(&event, 5, || swap::put_out(&event.page));
}

/// The worker's first try only starts the read, and does not wait for it.
fn a_page_that_a_disk_brings_back_later_is_asked_for_again() {
    let _swap = Swap::on_a_disk();
    let event = Event::new("st_page_disk u32 a");
    let page = PageOnDisk::new(&event.page, &event.name);
    is_brought_back(&event, 3, || page.put_out());
}

/// A fault without FAULT_FLAG_RETRY_NOWAIT waits for the lock of a page that is being read.
fn no_worker_waits_for_a_page_that_a_disk_brings_back() {
    let _swap = Swap::on_a_disk();
    let event = Event::new("st_page_waits u32 a");
    let page = PageOnDisk::new(&event.page, &event.name);
    // `FAULT_FLAG_RETRY_NOWAIT`.
    const NO_WAIT: u32 = 1 << 3;
    let what = "__folio_lock_or_retry flags=vmf->flags";
    let _probe = Probe::new('p', "st_page_probes/lock", what);
    let waits = TraceInstance::instance("st_page_probes");
    waits.control("options/stacktrace", "1");
    let filter = format!("!(flags & {NO_WAIT})");
    waits.control("events/st_page_probes/lock/filter", &filter);
    waits.control("events/st_page_probes/lock/enable", "1");
    is_brought_back(&event, 3, || page.put_out());
    waits.control("events/st_page_probes/lock/enable", "0");
    let stacks = waits.text("trace");
    // The name of each of the module's functions contains it.
    assert!(!stacks.contains("user_events"), "{stacks}");
}

fn a_dropped_page_of_a_file_is_faulted_in() {
    for (bit, size) in [(3, 4), (40, 8)] {
        let file = os::memory_file(PAGE as u64);
        let data = Data::open();
        let page = Mapping::of_file(&file, 1, READ_WRITE, libc::MAP_SHARED).unwrap();
        let request = Register {
            enable_bit: bit,
            enable_size: size,
            ..Register::new(page.address(), c"st_page_file u32 a".as_ptr() as u64)
        };
        data.register(&request).unwrap();
        let top = TraceInstance::top();
        let seen = || {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, 0).unwrap();
            u64::from_ne_bytes(bytes)
        };
        for _ in 0..5 {
            page.advise(libc::MADV_DONTNEED).unwrap();
            enable_promptly(&top, "st_page_file");
            // Read through the file: the mapping stays untouched.
            wait::until("the bit in the file", || seen() == 1 << bit);
            page.advise(libc::MADV_DONTNEED).unwrap();
            top.disable("st_page_file");
            wait::until("the bit in the file to be cleared", || seen() == 0);
        }
        assert_eq!(data.unregister_bit(page.address(), bit), Ok(()));
    }
}

/// A fault may wait even with FOLL_NOWAIT: the workers of the module's main queue handle none.
fn only_a_queue_of_its_own_faults_pages_in() {
    const PAGES: usize = 20;
    const QUEUED: &str = "workqueue_queue_work: ";
    const BEGUN: &str = "workqueue_execute_start: ";
    const FAULT: &str = "handle_mm_fault";
    let event = Event::new("st_page_worker u32 a");
    let pages = [Mapping::new(PAGES), Mapping::shared(PAGES)];
    for pages in &pages {
        event.data.register_pages("st_page_worker u32 a", pages, 2);
        pages.advise(libc::MADV_DONTNEED).expect("MADV_DONTNEED");
    }
    let tracer = TraceInstance::instance("st_page_workers");
    tracer.control("set_ftrace_filter", FAULT);
    for event in [QUEUED, BEGUN] {
        let event = event.trim_end_matches(": ");
        tracer.control(&format!("events/workqueue/{event}/enable"), "1");
    }
    tracer.control("current_tracer", "function");
    let top = TraceInstance::top();
    top.enable(&event.name);
    wait::until("all pages to be faulted in", || {
        pages.iter().all(|pages| pages.resident() == PAGES)
    });
    wait::until("no bit to be due", || !repair_pending(process::id() as i32));
    tracer.control("tracing_on", "0");
    let trace = tracer.text("trace");
    tracer.control("current_tracer", "nop");
    top.disable(&event.name);

    // Each function of the module is queued on one queue only. Addresses may be hidden.
    let word_after = |line: &str, key: &str| {
        let (_, rest) = line.split_once(key)?;
        rest.split_whitespace().next().map(String::from)
    };
    let queued = trace.lines().filter(|line| line.contains(QUEUED));
    let queue_of: HashMap<String, String> = queued
        .filter_map(|line| {
            Some((
                word_after(line, "function=")?,
                word_after(line, "workqueue=")?,
            ))
        })
        .collect();
    let mut work_of = HashMap::new();
    let mut faults: BTreeMap<&str, usize> = BTreeMap::new();
    for line in trace.lines() {
        let task = line.split_whitespace().next().unwrap_or_default();
        if line.contains(BEGUN) {
            work_of.insert(task, word_after(line, "function ").expect("a work"));
        } else if line.contains(&format!("{FAULT} <-")) {
            let queue = work_of.get(task).and_then(|work| queue_of.get(work));
            *faults
                .entry(queue.map_or("none", String::as_str))
                .or_default() += 1;
        }
    }
    println!("  # faults by queue: {faults:?}");
    assert!(faults.get("user_events_faults") >= Some(&(2 * PAGES)));
    assert_eq!(faults.get("user_events"), None);
}

fn many_dropped_pages_all_get_their_bits() {
    const PAGES: usize = 300;
    let event = Event::new("st_page_many u32 a");
    let pages = Mapping::new(PAGES);
    let index = event.data.register_pages("st_page_many u32 a", &pages, 2);
    assert_eq!(index, event.index);
    let top = TraceInstance::top();
    for _ in 0..3 {
        // Repairs for the previous change may still bring pages back.
        wait::until("the pages to stay away", || {
            pages.advise(libc::MADV_DONTNEED).unwrap();
            pages.resident() == 0
        });
        enable_promptly(&top, &event.name);
        wait::until("the kernel to fault all pages in", || {
            pages.resident() == PAGES
        });
        let set = |i| pages.word(i * PAGE).load(Ordering::Relaxed) == 1 << 2;
        wait::until("all bits to be set", || (0..PAGES).all(set));
        top.disable(&event.name);
        let clear = |i| pages.word(i * PAGE).load(Ordering::Relaxed) == 0;
        wait::until("all bits to be cleared", || (0..PAGES).all(clear));
    }
}

fn a_process_busy_with_its_mappings_gets_its_bit() {
    let event = Event::new("st_page_busy u32 a");
    let top = TraceInstance::top();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = SetOnDrop(&done);
        // Takes the mmap_lock again and again.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let pages = Mapping::new(64);
                pages.word(PAGE).store(1, Ordering::Relaxed);
            }
        });
        for _ in 0..50 {
            top.enable(&event.name);
            event.wait_set();
            top.disable(&event.name);
            event.wait_clear();
        }
    });
}

/// A kprobe stalls the process while it holds its mmap_lock.
fn a_process_that_changes_its_mappings_is_not_waited_for() {
    // On arm64 a kprobe takes no interrupts: not on the processor whose timer wakes this task.
    let cpus = os::cpus();
    let mut user = child::fork(|line| {
        os::run_on(cpus[cpus.len() - 1]);
        let event = Event::new("st_page_locked u32 a");
        let other = Mapping::new(1);
        line.say(Word::Registered);
        loop {
            let protection = match line.listen() {
                Word::Set => READ,
                Word::Clear => READ_WRITE,
                _ => return,
            };
            other.protect(protection);
            if protection == READ {
                event.wait_set();
            } else {
                event.wait_clear();
            }
            line.say(Word::Seen);
        }
    });
    user.line.hear(Word::Registered);
    os::run_on(cpus[0]);
    let top = TraceInstance::top();
    stall::retry_round(|| {
        let were_held_up = [Word::Set, Word::Clear].map(|word| {
            let stalled = StalledAt::at("mprotect_fixup", user.pid);
            user.line.say(word);
            wait::until("the lock to be held", || stalled.times() > 0);
            if word == Word::Set {
                top.enable("st_page_locked");
            } else {
                top.disable("st_page_locked");
            }
            let is_held_up = stalled.is_not_over();
            user.line.hear(Word::Seen);
            is_held_up
        });
        were_held_up == [true; 2]
    });
    user.line.say(Word::End);
    user.join();
}

fn a_dropped_page_gets_the_latest_state() {
    let event = Event::new("st_page_latest u32 a");
    let top = TraceInstance::top();
    for round in 0..20 {
        event.page.advise(libc::MADV_DONTNEED).unwrap();
        // The last change counts, whenever the faults for earlier ones end.
        for _ in 0..round % 4 {
            top.enable(&event.name);
            top.disable(&event.name);
        }
        top.enable(&event.name);
        event.wait_set();
        event.page.advise(libc::MADV_DONTNEED).unwrap();
        top.disable(&event.name);
        event.wait_clear();
        // No late repair reverts it.
        assert!(!event.bit());
    }
}

fn a_page_that_may_not_be_written_waits_for_the_next_change() {
    let event = Event::new("st_page_readonly u32 a");
    let top = TraceInstance::top();
    event.page.protect(READ);
    enable_promptly(&top, &event.name);
    wait::until("the bit to be given up", || {
        !repair_pending(process::id() as i32)
    });
    event.page.protect(READ_WRITE);
    top.disable(&event.name);
    top.enable(&event.name);
    event.wait_set();
    event.page.protect(READ);
    top.disable(&event.name);
    assert!(event.bit(), "a read-only page was written");
    event.page.protect(READ_WRITE);
    top.enable(&event.name);
    top.disable(&event.name);
    event.wait_clear();
}

fn a_protected_page_waits_for_the_next_change() {
    let event = Event::new("st_page_none u32 a");
    let neighbour = Mapping::new(1);
    event
        .data
        .register_text("st_page_none u32 a", neighbour.address(), 0)
        .unwrap();
    let top = TraceInstance::top();
    event.page.protect(libc::PROT_NONE);
    enable_promptly(&top, &event.name);
    let other = || neighbour.word(0).load(Ordering::Relaxed);
    wait::until("the other bit to be set", || other() == 1);
    top.disable(&event.name);
    wait::until("the other bit to be cleared", || other() == 0);
    event.page.protect(READ_WRITE);
    top.enable(&event.name);
    event.wait_set();
    top.disable(&event.name);
    event.wait_clear();
}

fn an_unmapped_page_stalls_no_other_and_waits_for_the_next_change() {
    let mut event = Event::new("st_page_gone u32 a");
    let neighbour = Mapping::new(1);
    event
        .data
        .register_text("st_page_gone u32 a", neighbour.address(), 0)
        .unwrap();
    let other = || neighbour.word(0).load(Ordering::Relaxed);
    let top = TraceInstance::top();
    event.page.unmap();
    for _ in 0..3 {
        enable_promptly(&top, "st_page_gone");
        wait::until("the other bit to be set", || other() == 1);
        top.disable("st_page_gone");
        wait::until("the other bit to be cleared", || other() == 0);
    }
    event.page.map_again();
    top.enable("st_page_gone");
    event.wait_set();
    top.disable("st_page_gone");
    event.wait_clear();
}

fn a_shared_page_is_seen_by_all_its_mappings() {
    let file = os::memory_file(PAGE as u64);
    let data = Data::open();
    let one = Mapping::of_file(&file, 1, READ_WRITE, libc::MAP_SHARED).unwrap();
    let two = Mapping::of_file(&file, 1, READ_WRITE, libc::MAP_SHARED).unwrap();
    data.register_text("st_page_twice u32 a", one.address(), 0)
        .unwrap();
    // Another address is another registration, though the memory is the same.
    data.register_text("st_page_twice u32 a", two.address(), 1)
        .unwrap();
    let top = TraceInstance::top();
    top.enable("st_page_twice");
    for page in [&one, &two] {
        wait::until("both bits", || page.word(0).load(Ordering::Relaxed) == 3);
    }
    top.disable("st_page_twice");
    wait::until("both to be cleared", || {
        one.word(0).load(Ordering::Relaxed) == 0
    });
}

fn unregistering_clears_a_dropped_page_of_a_file() {
    let file = os::memory_file(PAGE as u64);
    let data = Data::open();
    let page = Mapping::of_file(&file, 1, READ_WRITE, libc::MAP_SHARED).unwrap();
    let top = TraceInstance::top();
    for (bit, size) in [(0, 4), (31, 4), (40, 8)] {
        let request = Register {
            enable_bit: bit,
            enable_size: size,
            ..Register::new(page.address(), c"st_page_unreg u32 a".as_ptr() as u64)
        };
        data.register(&request).unwrap();
        top.enable("st_page_unreg");
        wait::until("the bit", || {
            page.long(0).load(Ordering::Relaxed) == 1 << bit
        });
        page.advise(libc::MADV_DONTNEED).unwrap();
        assert_eq!(data.unregister_bit(page.address(), bit), Ok(()));
        assert_eq!(
            page.long(0).load(Ordering::Relaxed),
            0,
            "cleared when the call returns"
        );
        top.disable("st_page_unreg");
    }
}
