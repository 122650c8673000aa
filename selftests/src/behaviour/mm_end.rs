// SPDX-License-Identifier: GPL-2.0

//! The end of an mm: when the last process leaves it, even if other users hold the memory longer.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child::{self, Child, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{is_listed, wait_gone, Event};
use crate::kit::fork_tree;
use crate::kit::fuse::{self, Request, Server};
use crate::kit::machine;
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::setting::{allow_long_sleep, Setting};
use crate::kit::stall::{self, StalledAt};
use crate::kit::tracefs::TraceInstance;
use crate::kit::uring::{self, Ring};
use crate::kit::usage::grows_by_nothing;
use crate::kit::userfault::{self, Guard, Userfault};
use crate::kit::{module, os, tasks, tracefs, wait};
use std::fs::{self, File};
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

tests!("mm_end":
    comes_though_a_reader_of_the_memory_stays
        .needs_path(userfault::PATH)
        .skip_if(tasks::lacks_memory_reads),
    comes_though_its_threads_are_held_up_in_their_exits.needs_path(fuse::PATH),
    comes_though_an_exec_of_another_process_is_held_up.needs_path(fuse::PATH),
    comes_with_the_last_of_several_processes,
    comes_with_the_last_that_leaves_of_many_at_once.limit(300),
    comes_when_a_thread_registers_beside_an_exec.limit(300),
    comes_beside_a_tracer_of_leaving_tasks
        .needs_path(FILTER)
        .limit(300),
    does_not_come_with_an_exec_before_its_other_threads_have_ended
        .needs_path(uring::PATH)
        .skip_if(stall::lacks_probes),
    comes_with_another_mm_though_an_exec_has_left_it_behind
        .needs_path(stall::PATH)
        .skip_if(stall::lacks_probes),
    comes_with_memory_that_was_given_back_before,
    comes_with_the_end_of_a_core_dump.skip_if(lacks_core_dumps),
    leaves_nothing
        .needs_path(userfault::PATH)
        .skip_if(tasks::lacks_memory_reads)
        .limit(300),
    the_module_does_not_wait_for_a_reader_of_the_memory.of_loading().needs_path(userfault::PATH).skip_if(tasks::lacks_memory_reads),
);

const EVENT: &str = "st_mm_end";
const TEXT: &str = "st_mm_end u32 a";

const FILTER: &str = "/sys/kernel/tracing/set_ftrace_filter";

/// A process that reads the memory of an ended one: it waits for a page whose faults are never
/// answered.
struct Reader {
    child: Child,
    _faults: Userfault,
}

impl Reader {
    /// Reads from a process that has registered the event, and called `done`, before it ends.
    fn of(done: impl FnOnce(&Event)) -> Reader {
        let mut process = child::fork(|line| {
            let event = Event::new(TEXT);
            done(&event);
            let guarded = Mapping::kept(1);
            let faults = Userfault::on(&guarded, Guard::Missing);
            faults.send(line, &guarded);
            line.wait_for_kill();
        });
        let (faults, page) = Userfault::of_child(&mut process);
        let pid = process.pid;
        let child = child::fork(|_| panic!("read: {:?}", tasks::read_memory(pid, page)));
        faults.wait_asked();
        process.kill();
        Reader {
            child,
            _faults: faults,
        }
    }
}

fn comes_though_a_reader_of_the_memory_stays() {
    // With few bits, and with more than the leaving task gives up itself.
    for bits in [0, 1000] {
        println!("  # beside {bits} more bits");
        let reader = Reader::of(|event| {
            let words = Mapping::kept(1);
            for number in 0..bits {
                event.add_bit(words.address() + 4 * (number / 32), (number % 32) as u8);
            }
        });
        wait_gone(EVENT);
        reader.child.kill();
    }
}

fn leaves_nothing() {
    grows_by_nothing(10, machine::rounds(60), |_| {
        let reader = Reader::of(|_| ());
        wait_gone(EVENT);
        reader.child.kill();
    });
}

/// Registers a bit whose file is closed: a task that is held up in its exec or exit keeps its files
/// open.
fn register_without_a_file() {
    drop(Event::new(TEXT).data);
}

/// Maps a page of a file of the server. Returns its address.
fn address_in_file(number: usize) -> u64 {
    let file = File::open(fuse::path(number)).expect("open a file");
    let page = Mapping::of_file(&file, 1, libc::PROT_READ, libc::MAP_SHARED).expect("mmap");
    let address = page.address();
    std::mem::forget(page);
    address
}

/// The exec is one of another process that shares the memory, and does not delay the end.
fn comes_though_an_exec_of_another_process_is_held_up() {
    let _long_sleep = allow_long_sleep();
    let mut server = Server::start(1, PAGE);
    // A thread that does not end holds up the exec: its robust list is in a page that never comes.
    let mut process = child::fork_until(Word::Registered, |line| {
        register_without_a_file();
        let list = address_in_file(0);
        line.ask(Word::Registered, Word::Exec);
        let pid = tasks::vfork(|| {
            thread::spawn(move || {
                tasks::set_list_of_locks(list);
                thread::sleep(Duration::from_secs(10_000));
            });
            thread::sleep(Duration::from_millis(200));
            exec();
        });
        panic!("the exec has come to its end: {pid:?}");
    });
    server.hold(Request::Read);
    process.line.say(Word::Exec);
    server.wait_held(1);
    assert!(tracefs::event_exists(EVENT), "the parent has the memory");
    os::kill(process.pid, libc::SIGKILL).expect("kill");
    wait_gone(EVENT);
    server.release();
    process.kill();
}

/// Ends this process, which shares its memory with others, by an exit or an exec.
fn leave(by_exec: bool) -> ! {
    match by_exec {
        false => os::exit_now(0),
        true => exec(),
    }
}

fn exec() -> ! {
    panic!("exec: {:?}", tasks::execute(c"/bin/true"))
}

/// The first process leaves by an exit or an exec, and the last one keeps the registrations.
fn comes_with_the_last_of_several_processes() {
    for by_exec in [false, true] {
        let mut process = child::fork(|line| {
            let event = Event::new(TEXT);
            let shares = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let _ = tasks::vfork(|| {
                        shares.store(true, Ordering::Relaxed);
                        fork_tree::serve(line, &event);
                        0
                    });
                });
                wait::until("the other process", || shares.load(Ordering::Relaxed));
                leave(by_exec);
            });
        });
        assert_eq!(process.wait(), 0);
        for _ in 0..2 {
            fork_tree::toggle_of(EVENT, slice::from_mut(&mut process));
            process.tell(Word::Drop);
        }
        process.tell(Word::End);
        wait_gone(EVENT);
    }
}

/// All exit or exec at the same time: the last one finds no other process.
fn comes_with_the_last_that_leaves_of_many_at_once() {
    for round in 0..machine::rounds(60) {
        let process = child::fork(|_| {
            let _event = Event::new(TEXT);
            let (ready, start) = (AtomicUsize::new(0), AtomicBool::new(false));
            thread::scope(|scope| {
                for number in 0..4 {
                    let (ready, start) = (&ready, &start);
                    scope.spawn(move || {
                        let _ = tasks::vfork(|| {
                            ready.fetch_add(1, Ordering::Relaxed);
                            while !start.load(Ordering::Relaxed) {
                                std::hint::spin_loop();
                            }
                            leave((round + number) % 2 == 0);
                        });
                    });
                }
                wait::until("the others", || ready.load(Ordering::Relaxed) == 4);
                start.store(true, Ordering::Relaxed);
                leave(round % 3 == 0);
            });
        });
        process.join();
        wait_gone(EVENT);
    }
}

/// If two hooks share a function, as on 6.12, ftrace calls both with preemption off. The processors
/// contend for the module's locks.
fn comes_beside_a_tracer_of_leaving_tasks() {
    let tracer = TraceInstance::instance("st_leaving");
    // Not every kernel has exit_mm_release(): the error for the last name comes when the file is
    // closed, and is ignored.
    tracer.control("set_ftrace_filter", "mmput exit_mm_release");
    tracer.control("current_tracer", "function");
    let families = [(); 6].map(|()| {
        child::fork(|_| {
            for _ in 0..machine::rounds(150) {
                let event = Event::new(EVENT);
                child::fork(|_| ()).join();
                child::fork(|_| exec()).join();
                drop(event);
            }
        })
    });
    families.map(|family| family.join());
    wait_gone(EVENT);
    assert!(tracer.text("trace").contains("mmput"));
    tracer.control("current_tracer", "nop");
}

/// A thread registers until the exec of another one kills it.
fn comes_when_a_thread_registers_beside_an_exec() {
    for round in 0..machine::rounds(40) {
        let process = child::fork(|_| {
            thread::spawn(move || loop {
                let event = Event::new(TEXT);
                let _ = event.unregister();
                std::mem::forget(Event::new(TEXT));
            });
            thread::sleep(Duration::from_millis(round as u64 % 7));
            exec();
        });
        process.join();
        wait_gone(EVENT);
    }
}

/// A thread that still runs during an exec forks a child, which inherits the registrations and
/// keeps them.
fn does_not_come_with_an_exec_before_its_other_threads_have_ended() {
    const GO: usize = 0;
    const CHILD: usize = 4;
    const BIT: usize = 8;
    stall::retry_round(|| {
        let words = Mapping::shared(1);
        let word = |at| words.get(at);
        let mut process = child::fork(|line| {
            let event = Event::new(TEXT);
            // After the tracepoint the exec cancels the task's io_uring requests, and is stalled
            // there.
            let _ring = Ring::new();
            thread::scope(|scope| {
                scope.spawn(|| {
                    wait::until("the exec to be held up", || word(GO) != 0);
                    let _child = child::fork(|_| {
                        words.set(CHILD, std::process::id());
                        event.wait_set();
                        words.set(BIT, 1);
                        thread::sleep(Duration::MAX);
                    });
                    thread::sleep(Duration::MAX);
                });
                line.ask(Word::Ready, Word::Exec);
                exec();
            });
        });
        process.line.hear(Word::Ready);
        let stalled = StalledAt::at("__io_uring_cancel", process.pid);
        process.line.say(Word::Exec);
        wait::until("the exec to be held up", || stalled.times() >= 1);
        words.set(GO, 1);
        wait::until("the child, or the exec to go on", || {
            word(CHILD) != 0 || !stalled.is_now()
        });
        let in_time = word(CHILD) != 0 && stalled.is_not_over();
        process.join();
        drop(stalled);
        if word(CHILD) != 0 {
            TraceInstance::top().enable(EVENT);
            wait::until("the child's bit", || word(BIT) != 0);
            TraceInstance::top().disable(EVENT);
            os::kill(word(CHILD) as i32, libc::SIGKILL).expect("kill");
        }
        wait_gone(EVENT);
        in_time
    });
}

/// An exec that began before anything was registered is not noted: its mm ends when another mm
/// registers.
fn comes_with_another_mm_though_an_exec_has_left_it_behind() {
    stall::retry_round(|| {
        let go = Mapping::shared(1);
        let mut process = child::fork(|line| {
            thread::scope(|scope| {
                scope.spawn(|| {
                    let _ = tasks::vfork(|| {
                        while go.word(0).load(Ordering::SeqCst) == 0 {
                            std::hint::spin_loop();
                        }
                        tasks::execute(c"/bin/true");
                        1
                    });
                });
                line.hear(Word::Register);
                std::mem::forget(Event::new(TEXT));
                line.say(Word::Registered);
                line.wait_for_kill();
            });
        });
        wait::until("a child", || tasks::a_child_of(process.pid).is_some());
        let child = tasks::a_child_of(process.pid).expect("a child");
        let stalled = StalledAt::at("set_mm_exe_file", child);
        go.word(0).store(1, Ordering::SeqCst);
        wait::until("the exec to be held up", || stalled.times() >= 1);
        process.line.ask(Word::Register, Word::Registered);
        process.kill();
        let in_time = stalled.is_not_over();
        wait::until("the exec to go on", || !stalled.is_now());
        drop(stalled);
        wait::until("the event to go", || {
            child::fork(|_| drop(Event::new("st_mm_end_other u32 a"))).join();
            !tracefs::event_exists(EVENT)
        });
        in_time
    });
}

/// Each thread reads its robust list when it exits, from a page that does not come.
fn comes_though_its_threads_are_held_up_in_their_exits() {
    let _long_sleep = allow_long_sleep();
    let server = Server::start(2, PAGE);
    let process = child::fork(|line| {
        register_without_a_file();
        let pages = [0, 1].map(address_in_file);
        line.ask(Word::Registered, Word::Exit);
        let exit = |list: u64| -> ! {
            tasks::set_list_of_locks(list);
            tasks::exit_thread()
        };
        thread::spawn(move || exit(pages[1]));
        exit(pages[0])
    });
    // The server is dropped first: its end releases whatever hangs.
    let (mut process, mut server) = (process, server);
    process.line.hear(Word::Registered);
    server.hold(Request::Read);
    process.line.say(Word::Exit);
    server.wait_held(2);
    wait_gone(EVENT);
    server.release();
    process.join();
}

/// Unregistered before the end: a registration would keep the module.
fn the_module_does_not_wait_for_a_reader_of_the_memory() {
    module::load();
    let reader = Reader::of(|event| event.unregister().expect("unregister"));
    module::unload_when_idle();
    reader.child.kill();
}

/// process_mrelease() frees memory as the OOM reaper does, but at a time that the test chooses.
fn comes_with_memory_that_was_given_back_before() {
    let own = Event::new(TEXT);
    let switch = || {
        own.switch(true);
        own.switch(false);
    };
    wait::beside(switch, || {
        for _ in 0..machine::rounds(30) {
            let mut process = child::fork_until(Word::Registered, |line| {
                let words = Mapping::kept(64);
                let data = Data::open();
                data.register_pages(TEXT, &words, 0);
                line.say(Word::Registered);
                line.wait_for_kill();
            });
            let pid = process.pid;
            os::kill(pid, libc::SIGKILL).expect("kill");
            // ESRCH: the process has freed all its memory itself.
            let released = os::release_memory(pid);
            assert!(
                matches!(released, Ok(()) | Err(Errno::ESRCH)),
                "{released:?}"
            );
            process.wait();
            wait::until("the process to be listed no more", || !is_listed(pid));
        }
    });
    own.end();
    wait_gone(EVENT);
}

/// The program that gets the core dump does not read it.
fn comes_with_the_end_of_a_core_dump() {
    let reader = DumpReader::new();
    let mut process = child::fork_until(Word::Registered, |line| {
        let _event = Event::new(TEXT);
        // More than a pipe holds.
        let memory = Mapping::kept(1024);
        for page in 0..1024 {
            memory.set(PAGE * page, 1);
        }
        line.ask(Word::Registered, Word::Crash);
        os::kill(std::process::id() as i32, libc::SIGQUIT).expect("kill");
        line.wait_for_kill();
    });
    process.line.say(Word::Crash);
    wait::until("the dump to begin", || DumpReader::pid().is_some());
    // The memory stays until the dump has ended; changes of the event do not wait for that.
    assert!(is_listed(process.pid));
    let top = TraceInstance::top();
    top.enable(EVENT);
    top.disable(EVENT);
    assert!(tracefs::event_exists(EVENT));
    drop(reader);
    process.wait();
    wait_gone(EVENT);
}

const CORE_PATTERN: &str = "/proc/sys/kernel/core_pattern";
const SLEEPER: &str = "/usr/bin/sleep";

fn lacks_core_dumps() -> Option<String> {
    let exists = |file| fs::exists(file).unwrap_or(false);
    let has_all = exists(CORE_PATTERN) && exists(SLEEPER);
    (!has_all).then(|| "there are no core dumps here".into())
}

/// Sends all core dumps to a program that does not read them, until dropped.
struct DumpReader {
    _pattern: Setting,
}

impl DumpReader {
    fn new() -> DumpReader {
        DumpReader {
            _pattern: Setting::new(CORE_PATTERN, &format!("|{SLEEPER} 98765")),
        }
    }

    fn pid() -> Option<i32> {
        tasks::that_run(&[SLEEPER, "98765"]).next()
    }
}

impl Drop for DumpReader {
    fn drop(&mut self) {
        wait::until("the readers of dumps to end", || {
            DumpReader::pid()
                .map(|pid| os::kill(pid, libc::SIGKILL))
                .is_none()
        });
    }
}
