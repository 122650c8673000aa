// SPDX-License-Identifier: GPL-2.0

//! Pages whose faults a program answers late, or never: they hold up only their owner.

use crate::behaviour::retries::Queued;
use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child::{self, Child, Line, Word};
use crate::kit::event::{is_listed, wait_gone, Event};
use crate::kit::fork_tree::{end, fork, obey, serve, tell, toggle, toggles_promptly};
use crate::kit::latency::Latencies;
use crate::kit::memory::{page_map_entry, Mapping, PAGE};
use crate::kit::other_tasks::OtherTasks;
use crate::kit::swap::{self, PageOnDisk, Swap};
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::userfault::{Guard, Userfault, PATH};
use crate::kit::wait;
use crate::kit::{machine, module, os, tasks};
use std::array;
use std::mem;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

tests!("userfaultfd" on PATH:
    a_fault_that_is_never_answered_holds_up_no_other,
    a_fault_answered_late_gets_the_latest_state,
    a_write_allowed_late_gets_the_latest_state,
    other_bits_of_the_process_are_written_meanwhile,
    each_page_of_a_process_is_asked_for,
    a_page_has_its_turn_beside_many_that_come_to_be_due,
    a_page_in_front_of_one_that_was_due_before_has_its_turn,
    no_wait_for_a_handler_grows_long,
    a_page_that_no_handler_is_asked_for_holds_up_nothing,
    a_page_that_may_not_be_written_is_not_asked_for,
    a_kill_or_exit_or_exec_ends_it_without_an_answer,
    after_a_kill_no_handler_is_asked,
    registering_a_guarded_page_waits_alone_and_can_be_killed,
    a_long_pause_of_another_process_is_not_waited_for.skip_if(swap::lacks_a_disk),
    a_fork_does_not_wait_for_its_parents_page,
    what_is_given_up_while_its_page_is_waited_for_is_not_written,
    others_carry_on_beside_a_fault_that_is_never_answered,
    the_module_unloads_without_an_answer.of_loading(),
);

/// A process with a registered bit on a guarded page, and the means to answer its faults.
pub(super) struct Guarded {
    pub(super) child: Child,
    pub(super) faults: Userfault,
    pub(super) page: u64,
}

/// In a child: registers, guards the page, sends the userfaultfd, and follows orders.
fn guard(line: &mut Line, name: &str, guard: Guard) {
    let event = Event::new(&format!("{name} u32 a"));
    let faults = Userfault::on(&event.page, guard);
    faults.send(line, &event.page);
    loop {
        let word = line.listen();
        match word {
            Word::Exit => return,
            Word::Exec => panic!("exec: {}", Command::new("sleep").arg("10000").exec()),
            word => obey(word, &event),
        }
        line.say(word);
    }
}

impl Guarded {
    pub(super) fn new(name: &str, kind: Guard) -> Guarded {
        Guarded::of(child::fork(|line| guard(line, name, kind)))
    }

    /// One for whose page the kernel waits, though the event is disabled.
    fn asked(name: &str) -> Guarded {
        let guarded = Guarded::new(name, Guard::Missing);
        TraceInstance::top().enable(name);
        guarded.wait_for_fault();
        TraceInstance::top().disable(name);
        guarded
    }

    /// One with a page of its own for the bit of each of these events.
    fn with_pages(names: &[&str]) -> Guarded {
        Guarded::of(child::fork(|line| {
            let (data, pages) = (Data::open(), Mapping::new(names.len()));
            for (page, name) in names.iter().enumerate() {
                let address = pages.address() + (page * PAGE) as u64;
                let index = data.register_text(&format!("{name} u32 a"), address, 0);
                index.expect("register");
            }
            let faults = Userfault::on(&pages, Guard::Missing);
            faults.send(line, &pages);
            line.wait_for_kill();
        }))
    }

    /// Takes the userfaultfd and the page's address, which the child sends first.
    fn of(mut child: Child) -> Guarded {
        let (faults, page) = Userfault::of_child(&mut child);
        Guarded {
            child,
            faults,
            page,
        }
    }

    /// Waits until the kernel waits for an answer.
    #[track_caller]
    pub(super) fn wait_for_fault(&self) {
        wait::until("a fault on the guarded page", || {
            let fault = self.faults.next_fault();
            assert!(fault.is_none_or(|at| at == self.page), "{fault:?}");
            fault.is_some()
        });
    }

    /// The process sees the state `on`, and each change after it; then it is killed.
    #[track_caller]
    fn follows_from(mut self, on: bool, event: &Event) {
        self.child.tell(if on { Word::Set } else { Word::Clear });
        for (on, word) in [
            (false, Word::Clear),
            (true, Word::Set),
            (false, Word::Clear),
        ] {
            event.switch(on);
            self.child.tell(word);
        }
        self.child.kill();
    }
}

fn a_fault_that_is_never_answered_holds_up_no_other() {
    for processes in [1, 24] {
        println!("  # beside {processes} such faults:");
        let event = Event::new("st_guard_never u32 a");
        let guard = |_| Guarded::new(&event.name, Guard::Missing);
        let guarded: Vec<_> = (0..processes).map(guard).collect();
        let mut children = vec![fork(&event), fork(&event)];
        let mut are_new = true;
        toggles_promptly(&event, &mut children, || {
            if mem::take(&mut are_new) {
                guarded.iter().for_each(Guarded::wait_for_fault);
            }
        });
        end(children);
        guarded.into_iter().for_each(|one| one.child.kill());
    }
}

/// The event is switched so often before the answer. A missing page then gets the opposite state.
#[track_caller]
fn gets_the_latest_state(kind: Guard, toggles: usize) {
    let event = Event::new("st_guard_late u32 a");
    let guarded = Guarded::new(&event.name, kind);
    event.switch(true);
    guarded.wait_for_fault();
    let mut on = true;
    for _ in 1..toggles {
        on = !on;
        event.switch(on);
    }
    match kind {
        Guard::Missing => guarded.faults.fill(guarded.page, u32::from(!on)),
        Guard::Writes => guarded.faults.allow_writes(guarded.page),
    }
    guarded.follows_from(on, &event);
}

fn a_fault_answered_late_gets_the_latest_state() {
    (1..=4).for_each(|toggles| gets_the_latest_state(Guard::Missing, toggles));
}

fn a_write_allowed_late_gets_the_latest_state() {
    (1..=2).for_each(|toggles| gets_the_latest_state(Guard::Writes, toggles));
}

/// A process's own faults may delay its other bits, but not forever.
fn other_bits_of_the_process_are_written_meanwhile() {
    let event = Event::new("st_guard_own u32 a");
    let child = child::fork_until(Word::Guarded, |line| {
        let page = Mapping::kept(1);
        event.add_bit(page.address(), 0);
        let _faults = Userfault::on(&page, Guard::Missing);
        line.say(Word::Guarded);
        serve(line, &event);
    });
    let mut children = vec![child];
    toggle(&event, &mut children);
    for _ in 0..2 {
        tell(&mut children, Word::Drop);
        toggle(&event, &mut children);
    }
    children.into_iter().for_each(Child::kill);
}

/// Although the first page never comes: of a few pages, and of more than are listed one by one.
fn each_page_of_a_process_is_asked_for() {
    each_is_asked_for::<3>("st_guard_pages");
    each_is_asked_for::<6>("st_guard_more_pages");
}

fn each_is_asked_for<const PAGES: usize>(name: &str) {
    let event = Event::new(&format!("{name} u32 a"));
    let guarded = Guarded::with_pages(&[name; PAGES]);
    let at = |page: usize| guarded.page + (page * PAGE) as u64;
    event.switch(true);
    // At least twice each. The module waits for a handler for at most 80 ms, in which a busy host
    // may not run this test, and after many tries only every few seconds. So a request may be
    // missed, and changes start over. Rounds grow: otherwise each might end with the same page, for
    // which the wait is 10 ms only.
    let mut asked = [0; PAGES];
    let mut time = Duration::from_secs(1);
    let mut last_round = String::new();
    let are_asked = wait::eventually(|| {
        event.switch(false);
        event.switch(true);
        let start = Instant::now();
        time += Duration::from_millis(300);
        last_round.clear();
        while start.elapsed() < time {
            let fault = guarded.faults.next_fault();
            for (page, times) in asked.iter_mut().enumerate() {
                if fault == Some(at(page)) {
                    *times += 1;
                    last_round += &format!("{page} after {:?}, ", start.elapsed());
                }
            }
            thread::yield_now();
        }
        asked.iter().all(|times| *times > 1)
    });
    let entries: [u64; PAGES] = array::from_fn(|page| page_map_entry(guarded.child.pid, at(page)));
    assert!(
        are_asked,
        "the pages are asked for so often: {asked:?}, at last {last_round}and are {entries:#x?}"
    );
    guarded.faults.fill(at(PAGES - 1), 0);
    wait::until("the last page's bit", || {
        tasks::word_of(guarded.child.pid, at(PAGES - 1)) == Some(1)
    });
    event.switch(false);
    guarded.child.kill();
}

/// More bits than are listed one by one become due while the module waits for the handler.
fn a_page_has_its_turn_beside_many_that_come_to_be_due() {
    let [first, others] = ["st_guard_first", "st_guard_others"];
    let _events = [first, others].map(|name| Event::new(&format!("{name} u32 a")));
    let guarded = Guarded::with_pages(&[first, others, others, others, others, others]);
    let top = TraceInstance::top();
    let is_first_asked = || guarded.faults.next_fault() == Some(guarded.page);
    top.enable(first);
    // The fourth wait is the longest.
    for _ in 0..4 {
        wait::until("the first page to be asked for", is_first_asked);
    }
    // The first page may be requested once before the others are listed. Rounds grow, as above.
    let is_asked = (0..12).any(|round| {
        top.enable(others);
        let (start, time) = (Instant::now(), Duration::from_millis(700 + 300 * round));
        let mut is_asked = false;
        while start.elapsed() < time {
            is_asked |= is_first_asked();
            thread::yield_now();
        }
        top.disable(others);
        is_asked && round > 0
    });
    assert!(is_asked, "the first page is not asked for any more");
    top.disable(first);
    guarded.child.kill();
}

/// Pages are requested by address, in rounds.
fn a_page_in_front_of_one_that_was_due_before_has_its_turn() {
    const NAMES: [&str; 2] = ["st_guard_front", "st_guard_behind"];
    let _events = NAMES.map(|name| Event::new(&format!("{name} u32 a")));
    let guarded = Guarded::with_pages(&NAMES);
    let top = TraceInstance::top();
    for page in [1, 0] {
        top.enable(NAMES[page]);
        let address = guarded.page + (page * PAGE) as u64;
        wait::until("the page to be asked for", || {
            guarded.faults.next_fault() == Some(address)
        });
    }
    NAMES.iter().for_each(|name| top.disable(name));
    guarded.child.kill();
}

/// However often the handler was asked: a worker keeps the memory of the process meanwhile.
fn no_wait_for_a_handler_grows_long() {
    /// For eight requests, after pauses of up to 1.28 s.
    const TIME: Duration = Duration::from_secs(6);
    const NAME: &str = "st_guard_waits";
    let guarded = Guarded::new(NAME, Guard::Missing);
    let top = TraceInstance::top();
    top.enable(NAME);
    let (start, mut since, mut longest) = (Instant::now(), None, Duration::ZERO);
    while start.elapsed() < TIME * machine::slowness() {
        let is_waiting = tasks::workers_at("user_events_userfaultfd")
            .next()
            .is_some();
        since = is_waiting.then(|| since.unwrap_or_else(Instant::now));
        longest = longest.max(since.map_or(Duration::ZERO, |since| since.elapsed()));
        sleep(Duration::from_millis(2));
    }
    println!("  # the longest wait: {} ms", longest.as_millis());
    // Each takes 80 ms at most.
    let range = Duration::from_millis(20)..Duration::from_millis(600) * machine::slowness();
    assert!(range.contains(&longest), "a worker waited for {longest:?}");
    top.disable(NAME);
    guarded.child.kill();
}

/// The page is absent, and guarded against writes only: the kernel brings it in without an answer.
fn a_page_that_no_handler_is_asked_for_holds_up_nothing() {
    let event = Event::new("st_guard_none u32 a");
    let mut child = child::fork(|line| {
        let faults = Userfault::new();
        for on in [true, false] {
            faults.guard(&event.page, Guard::Writes);
            event.page.discard();
            line.say(Word::Dropped);
            wait::until("the kernel to bring the page in", || {
                event.page.resident() == 1
            });
            assert_eq!(faults.next_fault(), None);
            // Takes the mmap_lock, which the kernel releases after its write.
            drop(Mapping::new(4));
            assert_eq!(event.bit(), on);
            line.say(Word::Seen);
        }
    });
    for on in [true, false] {
        child.line.hear(Word::Dropped);
        event.switch(on);
        child.line.hear(Word::Seen);
    }
    child.join();
}

/// While the page is read-only. The next change after that requests it.
fn a_page_that_may_not_be_written_is_not_asked_for() {
    let text = "st_guard_read_only u32 a";
    let event = Event::new(text);
    let child = child::fork(|line| {
        let (data, pages) = (Data::open(), Mapping::new(2));
        data.register_pages(text, &pages, 0);
        let faults = Userfault::on(&pages, Guard::Missing);
        pages.protect_from(PAGE, libc::PROT_READ);
        faults.send(line, &pages);
        line.hear(Word::Allow);
        pages.protect_from(PAGE, libc::PROT_READ | libc::PROT_WRITE);
        line.ask(Word::Allowed, Word::End);
    });
    let mut guarded = Guarded::of(child);
    event.switch(true);
    for _ in 0..3 {
        guarded.wait_for_fault();
    }
    guarded.child.line.ask(Word::Allow, Word::Allowed);
    event.switch(false);
    let second = guarded.page + PAGE as u64;
    wait::until("the page that may be written now to be asked for", || {
        guarded.faults.next_fault() == Some(second)
    });
    guarded.child.kill();
}

/// Pauses between requests to a handler grow. The request that is due when the process ends is
/// cancelled.
fn after_a_kill_no_handler_is_asked() {
    const NAME: &str = "st_guard_asked";
    let guarded = Guarded::new(NAME, Guard::Missing);
    let queued = Queued::new(NAME);
    let top = TraceInstance::top();
    top.enable(NAME);
    guarded.wait_for_fault();
    // Longer than the process takes to end.
    wait::until("a long pause", || {
        queued.pauses().iter().any(|pause| *pause > 1.2)
    });
    let Guarded { child, faults, .. } = guarded;
    let pid = child.pid;
    child.kill();
    wait::until("it to be listed no more", || !is_listed(pid));
    queued.clear();
    sleep(Duration::from_secs(6) * machine::slowness());
    assert_eq!(queued.count(), 0, "work was queued");
    top.disable(NAME);
    wait_gone(NAME);
    drop(faults);
}

fn a_kill_or_exit_or_exec_ends_it_without_an_answer() {
    const NAME: &str = "st_guard_ends";
    for how in [Word::Kill, Word::Exit, Word::Exec] {
        let mut until_gone = Latencies::default();
        for _ in 0..5 {
            let Guarded {
                mut child, faults, ..
            } = Guarded::asked(NAME);
            until_gone.during(|| {
                match how {
                    Word::Kill => os::kill(child.pid, libc::SIGKILL).expect("kill"),
                    how => child.line.say(how),
                }
                wait_gone(NAME);
            });
            match how {
                Word::Exit => child.join(),
                _ => child.kill(),
            }
            // The userfaultfd stays open: no handler goes.
            drop(faults);
        }
        until_gone.judge(&format!("from the {how:?} until the event was gone"), 600);
    }
}

fn registering_a_guarded_page_waits_alone_and_can_be_killed() {
    let event = Event::new("st_guard_register u32 a");
    let mut child = child::fork(|line| {
        let page = Mapping::kept(1);
        let faults = Userfault::on(&page, Guard::Missing);
        faults.send(line, &page);
        line.hear(Word::Register);
        thread::scope(|scope| {
            for bit in 0..3 {
                let (event, page) = (&event, &page);
                scope.spawn(move || event.register(page.address(), bit));
            }
        });
    });
    let (faults, _) = Userfault::of_child(&mut child);
    let mut children = vec![fork(&event)];
    child.line.say(Word::Register);
    faults.wait_asked();
    let mut toggles = Latencies::default();
    for _ in 0..5 {
        toggles.during(|| toggle(&event, &mut children));
    }
    toggles.judge("others' bits, set and cleared", 100);
    end(children);
    child.kill();
    event.toggle();
    drop(faults);
}

/// A retry after a short pause does not wait for another process's retry after a long one.
fn a_long_pause_of_another_process_is_not_waited_for() {
    // The next pause is four times as long.
    const LONG: Duration = Duration::from_millis(1200);
    let _swap = Swap::on_a_disk();
    let event = Event::new("st_guard_pause u32 a");
    let guarded = Guarded::new("st_guard_pauses", Guard::Missing);
    let page = PageOnDisk::new(&event.page, &event.name);
    let top = TraceInstance::top();
    top.enable("st_guard_pauses");
    let mut asked = Instant::now();
    wait::until("the handler to be asked seldom", || {
        guarded.faults.next_fault().is_some_and(|_| {
            let pause = asked.elapsed();
            asked += pause;
            pause > LONG
        })
    });
    let mut until_set = Latencies::default();
    // The pause begins after the wait for the handler, which takes less than a tenth of this.
    while until_set.count() == 0 || asked.elapsed() < Duration::from_secs(1) {
        page.put_out();
        until_set.during(|| {
            event.switch(true);
            swap::wait_brought_back(&event.page);
            event.wait_set();
        });
        event.follows(false);
    }
    until_set.judge("a page from a disk, beside a long pause", 1500);
    // Nor is the long retry lost meanwhile. Its pause may be longer than the limit of one wait.
    while guarded.faults.next_fault().is_some() {}
    let is_asked = || wait::eventually(|| guarded.faults.next_fault().is_some());
    assert!(is_asked() || is_asked(), "the handler is not asked again");
    top.disable("st_guard_pauses");
    guarded.child.kill();
}

fn a_fork_does_not_wait_for_its_parents_page() {
    let event = Event::new("st_guard_fork u32 a");
    let mut parent = child::fork(|line| {
        let faults = Userfault::on(&event.page, Guard::Missing);
        faults.send(line, &event.page);
        line.hear(Word::Fork);
        // A child does not inherit the guard: it sees its bit, whatever its parent's page does.
        let mut child = fork(&event);
        for word in [Word::Set, Word::Clear] {
            child.tell(word);
            line.say(word);
        }
        line.wait_for_kill();
    });
    let (faults, _) = Userfault::of_child(&mut parent);
    event.follows(true);
    faults.wait_asked();
    parent.line.say(Word::Fork);
    // Forked with the event enabled, but without the page, the child follows the next changes.
    let mut until_seen = Latencies::default();
    until_seen.during(|| {
        event.switch(false);
        event.switch(true);
        parent.line.hear(Word::Set);
        event.switch(false);
        parent.line.hear(Word::Clear);
    });
    until_seen.judge("the child's bit, set and cleared", 400);
    parent.kill();
}

fn others_carry_on_beside_a_fault_that_is_never_answered() {
    const EVENT: &str = "st_guard_beside";
    let mut other_tasks = OtherTasks::new(EVENT);
    for kind in [Guard::Missing, Guard::Writes] {
        let mut guarded = Guarded::new(EVENT, kind);
        TraceInstance::top().enable(EVENT);
        guarded.wait_for_fault();
        // Beside the fault of the kernel, then also that of the process.
        for round in 0..2 {
            if round == 1 {
                guarded.child.line.say(Word::Set);
            }
            other_tasks.carry_on();
            other_tasks.ops.judge(|| {});
        }
        guarded.child.kill();
    }
    other_tasks.end();
    wait_gone(EVENT);
}

fn the_module_unloads_without_an_answer() {
    module::load();
    let Guarded { child, faults, .. } = Guarded::asked("st_guard_unload");
    let mut until_gone = Latencies::default();
    until_gone.during(|| {
        child.kill();
        module::unload_when_idle();
    });
    until_gone.judge("from the kill until the module was gone", 6000);
    assert!(!tracefs::event_exists("st_guard_unload"));
    drop(faults);
}

/// The kernel waits for the page of a bit. It must not write the bit once the registration is gone,
/// or is not this process's any more: a child shares its parent's registrations until it changes
/// one.
fn what_is_given_up_while_its_page_is_waited_for_is_not_written() {
    let event = Event::new("st_guard_given_up u32 a");
    for round in 0..10 {
        is_not_written(&event.name, Some(&event), round);
        is_not_written("st_guard_given_up_own", None, round);
    }
}

/// For a child that has inherited the event, or registers it itself.
#[track_caller]
fn is_not_written(name: &str, inherited: Option<&Event>, round: usize) {
    let mut child = child::fork_until(Word::Guarded, |line| {
        let own = inherited
            .is_none()
            .then(|| Event::new(&format!("{name} u32 a")));
        let event = inherited.or(own.as_ref()).expect("an event");
        let faults = Userfault::on(&event.page, Guard::Missing);
        line.say(Word::Guarded);
        let wait_for_fault = |whose: &str| {
            wait::until(whose, || faults.next_fault().is_some());
        };
        wait_for_fault("the kernel's fault");
        thread::scope(|scope| {
            let unregister = scope.spawn(|| event.unregister());
            wait_for_fault("the fault of the caller that unregisters");
            faults.fill(event.page.address(), 0);
            assert_eq!(unregister.join().unwrap(), Ok(()));
        });
        // Both go on at once, and the last write decides. Nothing shows when the kernel is done.
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(20) {
            assert!(!event.bit(), "set after it was unregistered, round {round}");
            thread::yield_now();
        }
        line.ask(Word::Unregistered, Word::End);
    });
    let top = TraceInstance::top();
    top.enable(name);
    child.line.hear(Word::Unregistered);
    top.disable(name);
    child.finish();
}
