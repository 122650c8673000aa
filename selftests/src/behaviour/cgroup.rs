// SPDX-License-Identifier: GPL-2.0

//! Kernel memory that a process allocates by registering is charged to its control group.

use crate::harness::tests;
use crate::kit::abi::{Data, Register, MULTI_FORMAT};
use crate::kit::cgroup::{self, Cgroup, PATH};
use crate::kit::child::{self, Child, Word};
use crate::kit::dynamic;
use crate::kit::errno::{Errno, Result};
use crate::kit::event::{repair_pending, Event};
use crate::kit::fork_tree::{end, fork, tell, toggle};
use crate::kit::lock_trace::{self, is_of, LockTrace, LOCKS, UNLOCKS};
use crate::kit::machine;
use crate::kit::memory::{Mapping, PAGE, READ_WRITE};
use crate::kit::poll;
use crate::kit::swap::Device;
use crate::kit::tracefs::TraceInstance;
use crate::kit::unprivileged::Access;
use crate::kit::{os, tasks, wait};
use crate::tools::bpftrace;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

tests!("cgroup":
    registrations_are_charged.needs_path(PATH),
    files_that_are_waited_for_are_charged.needs_path(PATH).limit(300),
    events_of_100_fields_are_charged.needs_path(PATH),
    a_set_that_is_copied_is_charged_to_the_process_that_changes_it.needs_path(PATH),
    what_a_fork_takes_is_charged.needs_path(PATH),
    registering_without_end_harms_no_other.needs_path(PATH),
    what_is_added_to_threads_is_charged_to_their_process.needs_path(PATH).swapping(),
    no_more_is_added_to_threads_that_sleep_on.needs_path(PATH).swapping(),
    no_worker_goes_on_for_the_group_of_a_process.needs_path(bpftrace::TYPES).swapping(),
    nothing_is_charged_while_others_wait_for_events.needs_path(PATH),
    long_records_leave_little_with_their_files.needs_path(PATH),
    a_bit_without_a_page_is_written_when_there_is_memory.needs_path(PATH),
    a_caller_is_told_that_a_page_takes_memory.needs_path(PATH),
);

/// Registers the first `bits` bits of a mapping, one after the other.
fn register_bits(data: &Data, text: &str, page: &Mapping, bits: usize) {
    for bit in 0..bits {
        let address = page.address() + 4 * (bit as u64 / 32);
        data.register_text(text, address, (bit % 32) as u8)
            .unwrap_or_else(|errno| panic!("registration {bit}: {errno:?}"));
    }
}

/// Bytes charged for a registration, which is listed by its process and by its event. Bits
/// registered by ascending addresses take least: 57, including the kernel's overhead of charging.
const BYTES: std::ops::Range<i64> = 40..66;

/// The upper bound on a debug kernel, which tracks each object, and for a copy of a set.
const MAX_BYTES: i64 = 300;

/// A file keeps some memory from one write to the next, but no more for longer records.
fn long_records_leave_little_with_their_files() {
    const FILES: usize = 64;
    const BYTES: i64 = 16384;
    let event = Event::new("st_cgroup_long u32 a");
    let tracer = TraceInstance::instance("st_cgroup_long");
    tracer.enable(&event.name);
    let group = Cgroup::new("st_cgroup_long");
    let mut child = group.fork_to(|line| {
        let page = Mapping::kept(1);
        let files: Vec<_> = (0..FILES)
            .map(|number| {
                let data = Data::open();
                let address = page.address() + 4 * number as u64;
                let index = data.register_text("st_cgroup_long u32 a", address, 0);
                assert_eq!(index, Ok(0));
                data
            })
            .collect();
        line.say(Word::Registered);
        line.follow(Word::Write, || {
            for data in &files {
                // The memory kept after each write is too small for the next one. The last record
                // is too large for any buffer.
                for length in [2000, 3900] {
                    assert_eq!(data.write(0, &vec![0; length]), Ok(4 + length));
                }
                assert_eq!(data.write(0, &[0; 60_000]), Err(Errno::E2BIG));
            }
        });
        line.wait_for_kill();
    });
    child.line.hear(Word::Registered);
    // Without a PID filter, a record is read directly into the trace buffer.
    tracer.control("set_event_pid", &child.pid.to_string());
    let kernel = || group.number("memory.stat", "kernel");
    let before = kernel();
    child.tell(Word::Write);
    let left = (kernel() - before) / FILES as i64;
    println!("  # {left} bytes for a file");
    assert!(left < BYTES, "{left} bytes for a file");
    tracer.disable(&event.name);
}

/// Checks that no general cache without accounting to cgroups has grown by `most` objects since an
/// earlier count.
#[track_caller]
fn assert_all_is_charged(before: &BTreeMap<String, i64>, most: i64) {
    machine::forget_free_objects();
    for (name, count) in machine::slab_objects() {
        let is_charged = !name.starts_with("kmalloc-") || name.starts_with("kmalloc-cg-");
        let more = count - before.get(&name).copied().unwrap_or(0);
        assert!(is_charged || more < most, "{more} objects of {name}");
    }
}

/// Waits until less than `most` bytes are charged to a group beyond `before`.
fn charge_goes(group: &Cgroup, before: i64, most: i64) {
    wait::until("the charge to go", || {
        machine::forget_free_objects();
        group.slab() - before < most
    });
}

fn registrations_are_charged() {
    // Nearly a full page of bits. Memory is charged by the page, and some pages had room before.
    const BITS: usize = 32_000;
    let page = Mapping::kept(1);
    // The event is made before, so it is not charged to the group. It has no bit, so each new bit
    // is added behind all others.
    let event = Event::new("st_cgroup_bits u32 a");
    event.unregister().unwrap();
    let group = Cgroup::new("st_cgroup_bits");
    let mut child = group.fork_to(|line| {
        let data = Data::open();
        let register = || register_bits(&data, "st_cgroup_bits u32 a", &page, BITS);
        line.follow(Word::Register, register);
        line.follow(Word::Unregister, || {
            for bit in 0..BITS as u64 {
                let address = page.address() + 4 * (bit / 32);
                data.unregister_bit(address, (bit % 32) as u8).unwrap();
            }
        });
        line.follow(Word::Register, register);
        line.wait_for_kill();
    });
    let (before, objects) = (group.slab(), machine::slab_objects());
    child.tell(Word::Register);
    // The kernel updates the statistics of a group only now and then.
    let bits = BITS as i64;
    let grown = || group.slab() - before;
    wait::until("the group to be charged", || grown() >= bits * BYTES.start);
    assert_all_is_charged(&objects, bits / 2);
    let bytes = grown() / bits;
    println!("  # {bytes} bytes of the group for a registration");
    let most = match machine::slowness() {
        1 => BYTES.end,
        _ => MAX_BYTES,
    };
    assert!(bytes < most, "{bytes} bytes for a registration");
    child.tell(Word::Unregister);
    charge_goes(&group, before, bits * 10);
    child.tell(Word::Register);
    wait::until("the group to be charged", || grown() >= bits * BYTES.start);
    child.kill();
    charge_goes(&group, before, bits * 10);
    register_bits(&event.data, "st_cgroup_bits u32 a", &event.page, 1);
    toggle(&event, &mut []);
}

/// Memory of an open file is charged to its process until the file is closed. Polling takes none.
fn files_that_are_waited_for_are_charged() {
    const FILES: usize = 1500;
    // Only a file that has registered an event takes all the memory that a file can take.
    let event = Event::new("st_cgroup_poll u32 a");
    let group = Cgroup::new("st_cgroup_poll");
    let mut child = group.fork_to(|line| {
        os::allow_open_files(2 * FILES as u64);
        let open = || {
            let (data, page) = (Data::open(), event.page.address());
            data.register_text("st_cgroup_poll u32 a", page, 1).unwrap();
            data.unregister_bit(page, 1).unwrap();
            data
        };
        let files: Vec<_> = line.follow(Word::Open, || (0..FILES).map(|_| open()).collect());
        let has_changed = |data: &Data| poll::has_changed(&data.file);
        line.follow(Word::Poll, || assert!(!files.iter().any(has_changed)));
        line.follow(Word::Close, || {
            drop(files);
            for _ in 0..4 * FILES {
                assert!(!has_changed(&open()));
            }
        });
        line.wait_for_kill();
    });
    let (before, objects) = (group.slab(), machine::slab_objects());
    child.tell(Word::Open);
    let files = FILES as i64;
    let grown = || group.slab() - before;
    // More than the kernel's own memory for an open file.
    wait::until("the group to be charged", || grown() >= files * 500);
    let opened = grown();
    println!("  # {} bytes of the group for an open file", opened / files);
    child.tell(Word::Poll);
    let more = grown() - opened;
    assert!(more < files * 6, "{more} bytes for polls");
    assert_all_is_charged(&objects, files / 2);
    let bytes = grown() / files;
    println!("  # {bytes} bytes of the group for a file");
    let most = 1500 * i64::from(machine::slowness());
    assert!(bytes < most, "{bytes} bytes for a file");
    child.tell(Word::Close);
    // The descriptor table stays. Memory left behind by each closed file would be five times as
    // much, as five times `FILES` were opened.
    charge_goes(&group, before, files * 40);
    child.kill();
    toggle(&event, &mut []);
}

/// The description of an event with 100 fields, about as many as fit: names have one byte.
fn text_of_100_fields(event: usize) -> CString {
    let names = (0x21..=0xffu8).filter(|byte| !b"\"#%*;[\\]\x7f".contains(byte));
    let mut text = format!("st_cg{event}").into_bytes();
    for (at, name) in names.take(100).enumerate() {
        text.extend_from_slice(if at == 0 { b" u8 " } else { b";u8 " });
        text.push(name);
    }
    assert!(text.len() <= 511, "{} bytes", text.len());
    CString::new(text).unwrap()
}

/// Bytes of an event that are charged to no group: the trace core's data of the event in a trace
/// instance, of which there are three, and its directory there. The same with the C implementation.
const UNCHARGED: i64 = 1000;
/// The trace core's bytes for 100 fields, for which as much is charged beside.
const OF_100_FIELDS: i64 = 100 * 56;

fn events_of_100_fields_are_charged() {
    const EVENTS: usize = 400;
    let group = Cgroup::new("st_cgroup_fields");
    let mut child = group.fork_to(|line| {
        let data = Data::open();
        let page = Mapping::kept(1);
        let texts: Vec<CString> = (0..EVENTS).map(text_of_100_fields).collect();
        line.follow(Word::Register, || {
            for (event, text) in texts.iter().enumerate() {
                let address = page.address() + 4 * event as u64;
                let request = Register::new(address, text.as_ptr() as u64);
                data.register(&request).unwrap();
            }
        });
        line.wait_for_kill();
    });
    machine::forget_free_objects();
    let (before, caches) = (group.slab(), machine::slab_bytes());
    child.tell(Word::Register);
    let events = EVENTS as i64;
    // The growth of each slab cache, in bytes per event.
    let grown = || {
        machine::forget_free_objects();
        let mut slab = machine::slab_bytes();
        // A debug kernel's own records of allocations.
        slab.remove("kmemleak_object");
        let grown = slab.into_iter().map(|(name, bytes)| {
            let more = bytes - caches.get(&name).copied().unwrap_or(0);
            (more / events, name)
        });
        grown.collect::<Vec<_>>()
    };
    let sum = |grown: &[(i64, String)]| grown.iter().map(|(bytes, _)| bytes).sum::<i64>();
    let charged = || (group.slab() - before) / events;
    let all_is_charged = wait::eventually(|| sum(&grown()) - charged() < UNCHARGED + OF_100_FIELDS);
    let (mut grown, charged) = (grown(), charged());
    grown.sort_unstable_by(|one, other| other.cmp(one));
    grown.truncate(8);
    println!("  # {charged} bytes of the group for an event of 100 fields, of {grown:?}");
    // The texts, of more than 2048 bytes, take 4096.
    assert!(charged > 4096 + OF_100_FIELDS, "{charged} bytes");
    assert!(all_is_charged, "{charged} bytes charged of {grown:?}");
    child.kill();
    charge_goes(&group, before, events * 100);
}

fn a_set_that_is_copied_is_charged_to_the_process_that_changes_it() {
    const BITS: usize = 3000;
    let event = Event::new("st_cgroup_copy u32 a");
    let page = Mapping::kept(1);
    register_bits(&event.data, "st_cgroup_copy u32 a", &page, BITS);
    let group = Cgroup::new("st_cgroup_copy");
    let mut child = group.fork_to(|line| {
        line.follow(Word::Change, || event.unregister().unwrap());
        line.wait_for_kill();
    });
    let bits = BITS as i64;
    let before = group.slab();
    child.tell(Word::Change);
    let grown = || group.slab() - before;
    wait::until("the group to be charged", || grown() >= bits * BYTES.start);
    assert!(grown() < bits * MAX_BYTES, "{} bytes", grown());
    child.kill();
    // An event lists its registrations in leaves, by address. Leaves allocated for the copies stay
    // if some of the parent's registrations have moved into them: 16 bytes for each of the
    // parent's, if a leaf is half full, while a copy takes more than a hundred.
    charge_goes(&group, before, bits * 30);
}

/// The child is an ordinary user. It registers on one file, or on a new one each time: each file
/// has a table of its own.
fn registering_without_end_harms_no_other() {
    const TEXT: &str = "st_cgroup_limit u32 a";
    let _access = Access::given();
    let event = Event::new(TEXT);
    let mut others = vec![fork(&event)];
    for on_new_files in [false, true] {
        let group = Cgroup::new("st_cgroup_limit");
        group.set("memory.max", ["4M", "8M"][usize::from(on_new_files)]);
        let count = Mapping::shared(1);
        let mut child = child::fork(|_| {
            group.enter();
            os::allow_open_files(500_000);
            os::become_unprivileged();
            let page = Mapping::kept(16);
            let mut files = vec![Data::open()];
            let mut register = |bit: u64| -> Result<()> {
                if on_new_files {
                    files.push(Data::try_open()?);
                }
                let address = page.address() + 4 * (bit / 32);
                files[files.len() - 1].register_text(TEXT, address, (bit % 32) as u8)?;
                count.word(0).fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            let failed = (0..16 * 4096 * 8).find_map(|bit| register(bit).err());
            let known = [Some(Errno::ENOMEM), Some(Errno::EFAULT)];
            assert!(
                known[..1 + usize::from(on_new_files)].contains(&failed),
                "{failed:?}"
            );
        });
        // The others follow while the child registers, and afterwards.
        for _ in 0..3 {
            toggle(&event, &mut others);
        }
        let status = child.wait();
        // Either a call failed, or the OOM killer ended the child.
        assert!(status == 0 || status == libc::SIGKILL, "status {status:#x}");
        let registered = count.get(0);
        let how = ["told that there is no memory", "killed"][usize::from(status != 0)];
        let what = format!("on new files: {on_new_files}, {how} after {registered} registrations");
        println!("  # {what}");
        assert!(registered > 1000, "{what}");
        charge_goes(&group, 0, 1 << 20);
        toggle(&event, &mut others);
    }
    let another = Event::new("st_cgroup_another u32 a");
    toggle(&another, &mut []);
    tell(&mut others, Word::Unregister);
    end(others);
}

fn a_bit_without_a_page_is_written_when_there_is_memory() {
    // Memory is charged in advance for each processor, so the test stays on one.
    os::run_on(os::cpus()[0]);
    let event = Event::new("st_cgroup_again u32 a");
    let group = Cgroup::new("st_cgroup_again");
    let mut child = group.fork(&event);
    group.enable_without_memory(&event, &mut child, || ());
    group.disable_with_memory(&event, &mut child);
    end(vec![child]);
}

fn a_caller_is_told_that_a_page_takes_memory() {
    let group = Cgroup::new("st_cgroup_page");
    let child = child::fork(|_| {
        cgroup::be_spared();
        // Memory is charged in advance for each processor, so the test stays on one.
        os::run_on(os::cpus()[0]);
        let (data, pages) = (Data::open(), Mapping::kept(3 + cgroup::IN_ADVANCE + 1));
        let register = |page: usize| {
            let address = pages.address() + (page * PAGE) as u64;
            data.register_text("st_cgroup_page u32 a", address, 0)
        };
        // `room` limits the group that owns the memory. Allocations of the kernel for a
        // registration are charged to the caller, which has left the group.
        let register_with = |page: usize, room: &str| {
            let mut result = Ok(0);
            let pid = tasks::vfork(|| {
                Cgroup::leave();
                // First without a limit: the second time the program itself takes no more pages.
                for (page, room) in [(0, "max"), (page, room)] {
                    group.set("memory.max", room);
                    result = register(page);
                    group.set("memory.max", "max");
                }
                0
            });
            let (_, status) = os::wait(pid.expect("vfork"), 0).expect("wait");
            assert_eq!(status, 0);
            result
        };
        assert!(register(0).is_ok());
        // The program's code is present before, so it is not charged to the group.
        assert!(register_with(1, "max").is_ok());
        group.enter();
        assert!(register_with(2, "max").is_ok());
        let (page, result) = (3..=3 + cgroup::IN_ADVANCE)
            .map(|page| (page, register_with(page, "0")))
            .find(|(_, result)| result.is_err())
            .expect("a page that is not charged in advance");
        assert_eq!(result, Err(Errno::ENOMEM));
        assert!(register(page).is_ok());
    });
    child.join();
}

const THREADS: usize = 300;
/// The least that is charged for the task work of all threads.
const CHARGE_OF_THREADS: i64 = 32 * THREADS as i64;
const TEXT_OF_THREADS: &str = "st_cgroup_threads u32 a";

/// Forks a process with a bit that only its own threads can write: kernel workers do not fault in
/// pages of a device. The threads sleep, so their task work stays queued.
fn sleeping_threads(device: &Device, group: Option<&Cgroup>) -> Child {
    let mut child = child::fork(|line| {
        if let Some(group) = group {
            group.enter();
        }
        let file = File::options().read(true).write(true).open(device.path());
        let file = file.expect("open the device");
        let page = Mapping::of_file(&file, 1, READ_WRITE, libc::MAP_SHARED).unwrap();
        let data = Data::open();
        data.register_text(TEXT_OF_THREADS, page.address(), 0)
            .unwrap();
        let is_over = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| os::wait_while(&is_over, 0));
            }
            page.advise(libc::MADV_DONTNEED).unwrap();
            line.say(Word::Sleeping);
            line.hear(Word::End);
            is_over.store(1, Ordering::Relaxed);
            os::wake_all(&is_over);
        });
    });
    child.line.hear(Word::Sleeping);
    // A thread that does not sleep yet would write the bit.
    wait::until("all its threads to sleep", || {
        tasks::all_sleep(child.pid, THREADS + 1)
    });
    child
}

/// Enables the event until a repair of the process's bit is pending, and `want` bytes are charged
/// to the group or the wait for them ends. Returns the charged bytes.
fn charge_by_enabling(event: &Event, child: &Child, group: &Cgroup, want: i64) -> i64 {
    let slab = group.slab();
    let top = TraceInstance::top();
    top.enable(&event.name);
    wait::until("a repair to be pending", || repair_pending(child.pid));
    let mut grown = 0;
    wait::eventually(|| {
        grown = group.slab() - slab;
        grown >= want
    });
    top.disable(&event.name);
    grown
}

/// Task work of threads is allocated by a kernel worker, which belongs to no group.
fn what_is_added_to_threads_is_charged_to_their_process() {
    let device = Device::new();
    let event = Event::new(TEXT_OF_THREADS);
    let before = cgroup::dying();
    let group = Cgroup::new("st_cgroup_threads");
    let first = sleeping_threads(&device, Some(&group));
    let grown = charge_by_enabling(&event, &first, &group, CHARGE_OF_THREADS);
    assert!(grown >= CHARGE_OF_THREADS, "{grown} bytes");
    first.finish();

    // In no group: the worker that has just served the first process may serve this one, too.
    let second = sleeping_threads(&device, None);
    let grown = charge_by_enabling(&event, &second, &group, 0);
    assert!(grown < CHARGE_OF_THREADS / 4, "{grown} bytes of another's");
    second.finish();
    drop(group);
    // Page cache holds the group, too, until it is dropped.
    wait::until("nothing to hold the group", || {
        machine::drop_caches();
        cgroup::dying() <= before
    });
}

/// A thread that sleeps through many changes of an event has one work to do, not one for each.
fn no_more_is_added_to_threads_that_sleep_on() {
    const CHANGES: usize = 32;
    const WORK: &str = "workqueue_execute_end";
    let device = Device::new();
    let event = Event::new(TEXT_OF_THREADS);
    let group = Cgroup::new("st_cgroup_threads");
    let child = sleeping_threads(&device, Some(&group));
    let before = group.slab();
    charge_by_enabling(&event, &child, &group, CHARGE_OF_THREADS);

    let tracer = TraceInstance::instance("st_cgroup_works");
    tracer.control(&format!("events/workqueue/{WORK}/enable"), "1");
    let works = || {
        let mut lines = tracer.lines(WORK);
        lines.retain(|line| line.contains("[user_events]"));
        lines.len()
    };
    for change in 0..CHANGES {
        let done = works();
        event.switch(change % 2 == 0);
        // One finds that a thread has to write the bit, and one goes through the threads.
        wait::until("the threads to be notified", || works() >= done + 2);
    }
    assert!(repair_pending(child.pid));
    let grown = group.slab() - before;
    assert!(grown < 8 * CHARGE_OF_THREADS, "{grown} bytes");
    child.finish();
}

/// Later allocations of a worker are not charged to the group: each work ends with `active_memcg`
/// reset.
fn no_worker_goes_on_for_the_group_of_a_process() {
    let device = Device::new();
    let event = Event::new(TEXT_OF_THREADS);
    let group = Cgroup::new("st_cgroup_threads");
    let child = sleeping_threads(&device, Some(&group));
    let script = "tracepoint:workqueue:workqueue_execute_end {
            @ended = count();
            if (((struct task_struct *)curtask)->active_memcg != 0) { print(1); }
        }";
    let tool = bpftrace::start(script);
    charge_by_enabling(&event, &child, &group, CHARGE_OF_THREADS);
    child.finish();
    let output = tool.interrupt();
    let text = output.text;
    assert!(text.contains("@ended: "), "{text}");
    assert!(!text.lines().any(|line| line.trim() == "1"), "{text}");
}

/// Most objects are free again when the child runs, so allocations are counted by a tracepoint. The
/// task work that the parent queues for the child is not charged, as a charge may wait where other
/// tasks wait, too.
fn what_a_fork_takes_is_charged() {
    const FORKS: usize = 3;
    const EVENT: &str = "events/kmem/kmalloc";
    let _event = Event::new("st_cgroup_fork u32 a");
    let tracer = TraceInstance::instance("st_cgroup_fork");
    let name = fs::read_to_string("/proc/self/comm").expect("the name of this process");
    let filter = format!("COMM == \"{}\"", name.trim_end());
    tracer.control(&format!("{EVENT}/filter"), &filter);
    tracer.control(&format!("{EVENT}/enable"), "1");
    for _ in 0..FORKS {
        child::fork(|_| ()).join();
    }
    tracer.control(&format!("{EVENT}/enable"), "0");
    // Each line names its caller: the module, or on arm64 the kernel's Rust helper, which nothing
    // else calls in a fork. The allocator's own allocations, for many objects, are the kernel's.
    let mut ours = tracer.lines("kmalloc");
    let callers = ["[user_events]", "rust_helper_krealloc"];
    ours.retain(|line| callers.iter().any(|caller| line.contains(caller)));
    assert!(ours.len() >= 2 * FORKS, "{ours:?}");
    ours.retain(|line| !line.contains(" accounted=true"));
    assert!(ours.len() <= FORKS, "{ours:?}");
}

/// A charge may wait for memory if the group is at its limit. Under the lock for adding, removing
/// and toggling any event of the kernel, all other users of the lock would wait with it.
fn nothing_is_charged_while_others_wait_for_events() {
    const EVENTS: u64 = 100;
    let trace = LockTrace::start(
        "st_cgroup_lock",
        &[
            ("kmem/kmalloc", ""),
            ("kmem/kmem_cache_alloc", "&& accounted == 1"),
        ],
    );
    let busy = Event::new("st_cgroup_busy u32 a");
    let user = child::fork(|_| {
        lock_trace::look_at_me();
        let (data, page, top) = (Data::open(), Mapping::kept(1), TraceInstance::top());
        let mut words = (0..2 * EVENTS).map(|bit| page.address() + 4 * bit);
        for number in 0..EVENTS {
            let text = format!("st_cgroup_new{number} u32 a");
            data.register_text(&text, words.next().unwrap(), 0).unwrap();
            let text = format!("st_cgroup_busy u32 a{number}");
            data.register_flags(&text, words.next().unwrap(), 0, MULTI_FORMAT)
                .unwrap();
        }
        assert_eq!(data.delete(&busy.name), Err(Errno::EBUSY));
        let line = "st_cgroup_line u32 a";
        dynamic::run(&format!("u:{line}")).unwrap();
        top.enable("st_cgroup_line");
        assert_eq!(dynamic::user_lines().len() as u64, 2 * EVENTS + 2);
        top.disable("st_cgroup_line");
        dynamic::run(&format!("-:{line}")).unwrap();
    });
    user.join();
    let lines = trace.end();
    let (mut is_held, mut locked, mut charged, mut with_it) = (false, 0, 0, Vec::new());
    for line in &lines {
        if is_of(line, LOCKS) {
            is_held = true;
            locked += 1;
        } else if is_of(line, UNLOCKS) {
            is_held = false;
        } else if line.contains(" accounted=true") {
            charged += 1;
            if is_held {
                with_it.push(line.trim());
            }
        }
    }
    println!("  # {charged} allocations that are charged, and the lock is taken {locked} times");
    assert!(locked > 2 * EVENTS && charged > 2 * EVENTS);
    with_it.truncate(9);
    assert_eq!(with_it, [""; 0]);
}
