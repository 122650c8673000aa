// SPDX-License-Identifier: GPL-2.0

//! Loading and unloading the module.

use crate::harness::{tests, Test};
use crate::kit::abi::{
    location, Data, DATA, MULTI_FORMAT, PERSIST, PROFILE, REGISTRATIONS, STATUS,
};
use crate::kit::child::{self, Word};
use crate::kit::dynamic;
use crate::kit::errno::Errno;
use crate::kit::event::{stays, wait_gone, Event};
use crate::kit::group::{self, Group, GROUPS};
use crate::kit::machine::{self, Log};
use crate::kit::max_events;
use crate::kit::memory::Mapping;
use crate::kit::module::{self, nothing_is_left};
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::tracefs::{self, TraceInstance, PERSISTENT};
use crate::kit::usage::grows_by_nothing;
use crate::kit::wait;
use std::array;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

tests!("load":
    loads_and_unloads_leaving_nothing.of_loading(),
    says_loaded_and_unloaded.of_loading(),
    each_step_may_fail_and_is_undone.of_loading().limit(300),
    not_unloaded_while_a_file_is_open.of_loading(),
    unloaded_when_no_bit_is_registered_any_more.of_loading(),
    not_unloaded_while_a_listing_or_a_groups_file_is_open.of_loading(),
    not_unloaded_while_an_event_is_used.of_loading(),
    trace_is_readable_after_unloading.of_loading(),
    persistent_buffers_are_readable_after_unloading.of_loading().needs_path(PERSISTENT),
    unused_persistent_events_and_groups_go_with_it.of_loading(),
    groups_that_wait_for_their_last_use_go_with_it.of_loading(),
    many_times_without_a_leak.of_loading().lengthy().limit(1500),
    using_it_leaks_nothing.of_loading().lengthy().limit(900),
);

/// For a kernel with user_events built in.
pub const REFUSAL: Test = Test::new(
    "load::is_refused_where_the_kernel_has_its_own",
    is_refused_where_the_kernel_has_its_own,
)
.of_loading();

/// Registers, attaches, writes and unregisters in a process, with errors on the way, whose paths
/// leak most easily.
fn use_it_once() {
    let user = child::fork(|_| {
        let event = Event::new("st_load_use u32 status; u64 ns; __rel_loc char[] path");
        event.follows(true);
        let perf = Perf::open(event.id(), SELF, ANY_CPU).unwrap();
        for length in [2u32, 600, 3000] {
            let mut path = vec![0; length as usize];
            path[0] = b'/';
            let payload = [&[0; 12][..], &location(0, length), &path].concat();
            assert_eq!(event.write(&payload), Ok(4 + payload.len()));
            let payload = [&[0; 12][..], &location(1, length), &path].concat();
            assert_eq!(event.write(&payload), Err(Errno::EFAULT));
        }
        assert_eq!(event.write(&vec![0; 100_000]), Err(Errno::E2BIG));
        assert_eq!(perf.count(), 3);
        drop(perf);
        event.follows(false);

        let address = event.page.address();
        for (text, address, bit, errno) in [
            ("st_load_use u32 status", address, 1, Errno::EADDRINUSE),
            ("st_load_other u32", address, 1, Errno::EINVAL),
            ("st_load_other u32 a", address, 0, Errno::EADDRINUSE),
            ("st_load_other u32 a", 0, 0, Errno::EFAULT),
        ] {
            let got = event.data.register_text(text, address, bit);
            assert_eq!(got, Err(errno), "{text}");
        }
        event.unregister().unwrap();
        assert_eq!(event.unregister(), Err(Errno::ENOENT));
        // Unregistered by the end of the process.
        let other = "st_load_other u32 a";
        event.data.register_text(other, address, 5).unwrap();
    });
    user.join();
    wait_gone("st_load_use");
    wait_gone("st_load_other");
    let group = Group::with("st_load_group", "bytes_per_second=1");
    let user = child::fork(|_| {
        let event = Event::new_in(&group, "st_load_use u32 a");
        assert_eq!(event.write(&[0; 4]), Err(Errno::EBADF));
    });
    user.join();
    group.remove_when_idle();
}

fn loads_and_unloads_leaving_nothing() {
    nothing_is_left();
    module::load();
    for path in [DATA, STATUS, GROUPS] {
        assert!(Path::new(path).exists(), "{path}");
    }
    assert!(
        !tracefs::group_dir(tracefs::GROUP).exists(),
        "a group without events"
    );
    assert_eq!(
        fs::read_to_string(STATUS).unwrap(),
        "\nActive: 0\nBusy: 0\n"
    );
    // Idle, so it unloads at once.
    assert_eq!(module::unload(), Ok(()));
    nothing_is_left();

    module::load();
    use_it_once();
    module::unload_when_idle();
    nothing_is_left();
}

fn says_loaded_and_unloaded() {
    let mut log = Log::from_now();
    let mut said = || module::said(log.take());
    module::load();
    assert_eq!(said(), [module::says_loaded()]);
    let version = fs::read_to_string("/sys/module/user_events/version").unwrap();
    assert_eq!(version.trim_end(), module::version());
    let taint = fs::read_to_string("/sys/module/user_events/taint").unwrap();
    // O is the flag of an out-of-tree module; E, unsigned, is added by a kernel that supports
    // signatures.
    let others = taint.trim().trim_matches(['O', 'E']);
    assert_eq!(others, "", "taint {taint}");
    use_it_once();
    assert!(said().is_empty());
    module::unload_when_idle();
    assert_eq!(said(), [module::says_unloaded()]);
}

fn is_refused_where_the_kernel_has_its_own() {
    let event = Event::new("st_load_own u32 a");
    let mut log = Log::from_now();
    for _ in 0..3 {
        assert_eq!(module::load_with(""), Err(Errno::EBUSY));
        assert!(!module::is_loaded());
        let reason = "cannot be used on a kernel with CONFIG_USER_EVENTS";
        let line = format!("{}: cannot load: {reason}: error -16", module::NAME);
        assert_eq!(module::said(log.take()), [line]);
    }
    // The kernel's own user_events still works.
    let tracer = TraceInstance::instance("st_load_own");
    tracer.enable(&event.name);
    event.wait_set();
    assert_eq!(event.write(&[7; 4]), Ok(8));
    assert_eq!(tracer.take_payloads(&event.name, 4), [[7; 4]]);
    tracer.disable(&event.name);
    event.wait_clear();
    assert_eq!(max_events::get(), max_events::DEFAULT);
}

fn each_step_may_fail_and_is_undone() {
    let mut log = Log::from_now();
    let mut steps = 0;
    loop {
        let step = steps + 1;
        assert!(step < 100, "the steps of loading do not end");
        log.take();
        match module::load_failing(&format!("fail_load_at={step}")) {
            Ok(()) => break,
            Err(errno) => assert_eq!(errno, Errno::EINTR, "step {step}"),
        }
        nothing_is_left();
        let said = module::said(log.take());
        assert_eq!(said.len(), 1, "a failing load says one line: {said:?}");
        // After a failed load, another load must succeed.
        if step % 4 == 1 {
            module::load();
            use_it_once();
            module::unload_when_idle();
            nothing_is_left();
        }
        steps = step;
    }
    assert!(steps >= 3, "only {steps} steps of loading can fail");
    use_it_once();
    module::unload_when_idle();
    nothing_is_left();
}

/// Checks that unloading is refused.
#[track_caller]
fn refused() {
    assert_eq!(
        module::unload(),
        Err(Errno::EAGAIN),
        "unloading what is in use"
    );
    assert!(module::is_loaded());
}

fn not_unloaded_while_a_file_is_open() {
    module::load();
    let data = Data::open();
    refused();
    drop(data);
    module::unload_when_idle();

    // An event on the file keeps the module as well.
    module::load();
    let user = child::fork(|_| {
        let event = Event::new("st_load_file u32 a");
        event.unregister().unwrap();
        refused();
    });
    user.join();
    module::unload_when_idle();
    nothing_is_left();
}

/// A process that had a bit registered does not keep the module.
fn unloaded_when_no_bit_is_registered_any_more() {
    module::load();
    let mut child = child::fork(|line| {
        let event = Event::new("st_load_no_more u32 a");
        assert_eq!(event.unregister(), Ok(()));
        let Event { data, .. } = event;
        drop(data);
        line.say(Word::Unregistered);
        line.hear(Word::End);
    });
    child.line.hear(Word::Unregistered);
    module::unload_when_idle();
    child.line.say(Word::End);
    child.join();
}

fn trace_is_readable_after_unloading() {
    module::load();
    // More than an event lists by their addresses.
    let tracers: [_; 6] =
        array::from_fn(|number| TraceInstance::instance(&format!("st_load_trace{number}")));
    readable_after_unloading(&tracers);
}

fn persistent_buffers_are_readable_after_unloading() {
    module::load();
    readable_after_unloading(&[TraceInstance::persistent()]);
}

#[track_caller]
fn readable_after_unloading(tracers: &[TraceInstance]) {
    let user = child::fork(|_| {
        let event = Event::new("st_load_trace u32 a");
        tracers.iter().for_each(|tracer| tracer.enable(&event.name));
        event.write(&[1; 4]).unwrap();
        tracers
            .iter()
            .for_each(|tracer| tracer.disable(&event.name));
    });
    user.join();
    module::unload_when_idle();
    // The type of these records can no longer be printed, and the kernel may not call into the
    // module for it. The records are taken out, as another event may get the type.
    for tracer in tracers {
        assert_eq!(tracer.lines("st_load_trace"), [""; 0]);
        assert_eq!(tracer.take_all_records().len(), 0);
    }
}

/// Makes two groups, and unused events of each kind in the first group and in one of these, which
/// do not keep the module.
fn make_groups_and_events() -> [Group; 2] {
    let groups = [
        Group::of_any_names("st_load_one"),
        Group::with("st_load_two", "events=7"),
    ];
    let maker = child::fork(|_| {
        let page = Mapping::kept(1);
        for (data, first) in [(Data::open(), 0), (Data::open_in(&groups[0]), 2)] {
            for (bit, flags) in [(0, PERSIST), (1, PERSIST | MULTI_FORMAT)] {
                let text = "st_load_persists u32 a";
                data.register_flags(text, page.address(), first + bit, flags)
                    .unwrap();
            }
        }
    });
    maker.join();
    for line in ["st_load_line".into(), groups[0].event("st_load_line")] {
        dynamic::run(&format!("u:{line} u32 a")).unwrap();
        stays(&line);
    }
    assert_eq!(tracefs::events_of_tests().len(), 6);
    assert_eq!(module::users(), 0);
    groups
}

/// The kernel retries their removal after a while.
fn groups_that_wait_for_their_last_use_go_with_it() {
    module::load();
    let top = TraceInstance::top();
    let names = ["st_g_waits", "st_g_waits_too"];
    let events = names.map(|name| {
        let group = Group::new(name);
        let event = group.event("st_g_event");
        dynamic::run(&format!("u:{event} u32 a")).unwrap();
        top.enable(&event);
        assert_eq!(group::run(&format!("-:{name} when=unused")), Ok(()));
        event
    });
    assert_eq!(module::unload(), Err(Errno::EAGAIN));
    events.iter().for_each(|event| top.disable(event));
    module::unload_when_idle();
    nothing_is_left();
}

fn unused_persistent_events_and_groups_go_with_it() {
    for _ in 0..3 {
        module::load();
        let groups = make_groups_and_events();
        module::unload_when_idle();
        nothing_is_left();
        module::load();
        assert_eq!(group::listing(), "");
        assert_eq!(tracefs::events_of_tests(), [""; 0]);
        groups.iter().for_each(Group::is_gone);
        module::unload_when_idle();
    }
}

fn not_unloaded_while_a_listing_or_a_groups_file_is_open() {
    module::load();
    let groups = make_groups_and_events();
    let paths = groups.iter().flat_map(Group::files).map(|(path, _)| path);
    let listings = [STATUS, PROFILE, REGISTRATIONS, GROUPS].map(PathBuf::from);
    for path in paths.chain(listings) {
        let mut file = fs::File::open(&path).unwrap();
        // An open file counts once, also after a read.
        assert_eq!(module::users(), 1, "{}", path.display());
        let _ = file.read(&mut [0]);
        assert_eq!(module::users(), 1, "{}", path.display());
        refused();
        drop(file);
        assert_eq!(module::users(), 0, "{}", path.display());
    }
    // The file of a removed group holds the module as well.
    let file = fs::File::open(groups[1].status_file()).unwrap();
    assert_eq!(groups[1].remove(), Ok(()));
    assert_eq!(module::users(), 1);
    refused();
    drop(file);
    module::unload_when_idle();
    nothing_is_left();
}

/// By a bit, ftrace or perf, in the first group and in another one.
fn not_unloaded_while_an_event_is_used() {
    module::load();
    let groups = make_groups_and_events();
    for group in [None, Some(&groups[1])] {
        let user = child::fork(|_| {
            let text = "st_load_bit u32 a";
            let Event { data, page, .. } = match group {
                None => Event::new(text),
                Some(group) => Event::new_in(group, text),
            };
            drop(data);
            refused();
            drop(page);
            refused();
        });
        user.join();
        wait::until("nothing to be used", || module::users() == 0);
    }
    let top = TraceInstance::top();
    for event in ["st_load_line".into(), groups[0].event("st_load_line")] {
        top.enable(&event);
        refused();
        top.disable(&event);
        wait::until("ftrace to leave", || module::users() == 0);
        let perf = Perf::open(tracefs::event_id(&event), SELF, ANY_CPU).unwrap();
        refused();
        drop(perf);
        wait::until("perf to leave", || module::users() == 0);
    }
    module::unload_when_idle();
    nothing_is_left();
}

fn many_times_without_a_leak() {
    // 4 rounds to warm up, and two halves.
    grows_by_nothing(4, machine::rounds(24), |round| {
        module::load();
        if round % 10 == 0 {
            use_it_once();
        } else {
            // The record of this process stays until the process or the module ends.
            Event::new("st_load_round u32 a").unregister().unwrap();
        }
        module::unload_when_idle();
    });
    nothing_is_left();
}

fn using_it_leaks_nothing() {
    module::load();
    grows_by_nothing(20, machine::rounds(60), |_| use_it_once());
    module::unload_when_idle();
    nothing_is_left();
}
