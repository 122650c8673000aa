// SPDX-License-Identifier: GPL-2.0

//! The enable bit in memory of all kinds, present and absent.

use crate::harness::tests;
use crate::kit::child::{self, Word};
use crate::kit::dynamic::Probe;
use crate::kit::event::{settle, Event};
use crate::kit::fork_tree::obey;
use crate::kit::memory::{Mapping, PAGE, READ, READ_WRITE};
use crate::kit::os;
use crate::kit::stall::{self, StalledAt};
use crate::kit::swap::{self, PageOnDisk, Swap};
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait;
use crate::tools::bpftrace::TYPES;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

tests!("pages":
    a_page_that_may_only_be_written_gets_its_bit,
    a_swapped_out_page_is_brought_back.swapping(),
    a_page_that_a_disk_brings_back_later_is_asked_for_again.skip_if(swap::lacks_a_disk),
    no_worker_waits_for_a_page_that_a_disk_brings_back.needs_path(TYPES).skip_if(swap::lacks_a_disk),
    a_dropped_page_of_a_file_is_faulted_in,
    only_a_queue_of_its_own_faults_pages_in.needs_path(TRACER),
    many_dropped_pages_all_get_their_bits,
    a_process_busy_with_its_mappings_gets_its_bit,
    a_process_that_changes_its_mappings_is_not_waited_for.skip_if(stall::lacks_probes),
    unregistering_clears_a_dropped_page_of_a_file,
);

/// Exists where the kernel has the function tracer.
const TRACER: &str = "/sys/kernel/tracing/set_ftrace_filter";

fn a_page_that_may_only_be_written_gets_its_bit() {
    let event = Event::new("st_page_write u32 a");
    for on in [true, false, true] {
        event.page.protect(libc::PROT_WRITE);
        event.page.discard();
        event.switch(on);
        settle();
        event.page.protect(READ_WRITE);
        assert_eq!(event.bit(), on);
    }
    event.switch(false);
}

/// Asserts that after `put_out` a change of the event brings back the page with its contents.
fn is_brought_back(event: &Event, rounds: usize, put_out: impl Fn()) {
    event.page.put(8, b"contents");
    for _ in 0..rounds {
        put_out();
        event.switch_promptly(true);
        swap::wait_brought_back(&event.page);
        event.wait_set();
        let contents = event.page.long(8).load(Ordering::Relaxed);
        assert_eq!(&contents.to_ne_bytes(), b"contents");
        event.follows(false);
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
    let event = Event::new("st_page_file u32 a");
    for (bit, size) in [(3, 4), (40, 8)] {
        let file = os::memory_file(PAGE as u64);
        let page = Mapping::of_shared(&file, 1);
        event.add_bit_of(size, page.address(), bit);
        // Read through the file: the mapping stays untouched.
        let is = |value: u64| {
            wait::until("the bit in the file to follow", || {
                let mut bytes = [0; 8];
                file.read_exact_at(&mut bytes, 0).unwrap();
                u64::from_ne_bytes(bytes) == value
            });
        };
        for _ in 0..5 {
            page.discard();
            event.switch_promptly(true);
            is(1 << bit);
            page.discard();
            event.switch(false);
            is(0);
        }
        assert_eq!(event.data.unregister_bit(page.address(), bit), Ok(()));
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
        pages.discard();
    }
    let tracer = TraceInstance::instance("st_page_workers");
    tracer.control("set_ftrace_filter", FAULT);
    for event in [QUEUED, BEGUN] {
        let event = event.trim_end_matches(": ");
        tracer.control(&format!("events/workqueue/{event}/enable"), "1");
    }
    tracer.control("current_tracer", "function");
    event.switch(true);
    wait::until("all pages to be faulted in", || {
        pages.iter().all(|pages| pages.resident() == PAGES)
    });
    settle();
    tracer.control("tracing_on", "0");
    let trace = tracer.text("trace");
    tracer.control("current_tracer", "nop");
    event.switch(false);

    // Each function of the module is queued on one queue only. Addresses may be hidden.
    let word_after = |line: &str, key: &str| {
        let (_, rest) = line.split_once(key)?;
        rest.split_whitespace().next().map(String::from)
    };
    let queued = trace.lines().filter(|line| line.contains(QUEUED));
    let queue_of: HashMap<String, String> = queued
        .filter_map(|line| word_after(line, "function=").zip(word_after(line, "workqueue=")))
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
    let all_are = |value| (0..PAGES).all(|page| pages.get(page * PAGE) == value);
    for _ in 0..3 {
        // Repairs for the previous change may still bring pages back.
        wait::until("the pages to stay away", || {
            pages.discard();
            pages.resident() == 0
        });
        event.switch_promptly(true);
        // Without a read of a word, which would fault its page in.
        wait::until("the kernel to fault all pages in", || {
            pages.resident() == PAGES
        });
        wait::until("all bits to be set", || all_are(1 << 2));
        event.switch(false);
        wait::until("all bits to be cleared", || all_are(0));
    }
}

fn a_process_busy_with_its_mappings_gets_its_bit() {
    let event = Event::new("st_page_busy u32 a");
    // Takes the mmap_lock again and again.
    let map = || Mapping::new(64).set(PAGE, 1);
    wait::beside(map, || (0..50).for_each(|_| event.toggle()));
}

/// A kprobe stalls the process while it holds its mmap_lock.
fn a_process_that_changes_its_mappings_is_not_waited_for() {
    // On arm64 a kprobe takes no interrupts: not on the processor whose timer wakes this task.
    let cpus = os::cpus();
    let mut user = child::fork_until(Word::Registered, |line| {
        os::run_on(cpus[cpus.len() - 1]);
        let event = Event::new("st_page_locked u32 a");
        let other = Mapping::new(1);
        line.say(Word::Registered);
        loop {
            let word = line.listen();
            match word {
                Word::Set => other.protect(READ),
                Word::Clear => other.protect(READ_WRITE),
                _ => return,
            }
            obey(word, &event);
            line.say(Word::Seen);
        }
    });
    os::run_on(cpus[0]);
    let top = TraceInstance::top();
    stall::retry_round(|| {
        let were_held_up = [Word::Set, Word::Clear].map(|word| {
            let stalled = StalledAt::at("mprotect_fixup", user.pid);
            user.line.say(word);
            wait::until("the lock to be held", || stalled.times() > 0);
            match word {
                Word::Set => top.enable("st_page_locked"),
                _ => top.disable("st_page_locked"),
            }
            let is_held_up = stalled.is_not_over();
            user.line.hear(Word::Seen);
            is_held_up
        });
        were_held_up == [true; 2]
    });
    user.finish();
}

fn unregistering_clears_a_dropped_page_of_a_file() {
    let event = Event::new("st_page_unreg u32 a");
    let file = os::memory_file(PAGE as u64);
    let page = Mapping::of_shared(&file, 1);
    let word = || page.long(0).load(Ordering::Relaxed);
    for (bit, size) in [(0, 4), (31, 4), (40, 8)] {
        event.add_bit_of(size, page.address(), bit);
        event.switch(true);
        wait::until("the bit", || word() == 1 << bit);
        page.discard();
        assert_eq!(event.data.unregister_bit(page.address(), bit), Ok(()));
        assert_eq!(word(), 0, "bit {bit} when the call returns");
        event.switch(false);
    }
}
