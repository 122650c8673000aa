// SPDX-License-Identifier: GPL-2.0

//! `USER_EVENT_REG_PERSIST`: who may ask for it, and how long such an event lives.

use crate::contract::delete_unused;
use crate::harness::Test;
use crate::kit::abi::{Data, MULTI_FORMAT, PERSIST};
use crate::kit::child;
use crate::kit::dynamic;
use crate::kit::errno::Errno;
use crate::kit::event::{stays, wait_gone, Event};
use crate::kit::memory::Mapping;
use crate::kit::module;
use crate::kit::os::{self, Capability};
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::rows::Rows;
use crate::kit::tracefs::{self, Tracer};
use crate::kit::wait;

pub const TESTS: &[Test] = &[
    Test::of_loading(
        "persist::unused_ones_go_with_the_module",
        unused_ones_go_with_the_module,
    ),
    Test::new("persist::row_needs_a_capability", row_needs_a_capability),
    Test::new(
        "persist::stays_when_all_have_gone",
        stays_when_all_have_gone,
    ),
    Test::new(
        "persist::stays_when_its_maker_is_killed",
        stays_when_its_maker_is_killed,
    ),
    Test::new("persist::row_in_use_is_ebusy", row_in_use_is_ebusy),
    Test::new("persist::who_makes_it_decides", who_makes_it_decides),
    Test::new(
        "persist::enabled_before_its_program_comes",
        enabled_before_its_program_comes,
    ),
];

/// Registers a persistent event in a process that ends, having closed all.
fn make(text: &str) {
    make_with(text, PERSIST);
}

fn make_with(text: &str, flags: u16) {
    let maker = child::fork(|_| {
        let page = Mapping::kept(1);
        let data = Data::open();
        let got = data.register_flags(text, page.address(), 0, flags);
        assert_eq!(got, Ok(0));
    });
    maker.join();
}

/// Deletes it as soon as the end of its users has been noticed.
#[track_caller]
fn delete(name: &str) {
    let mut last = Ok(());
    wait::until("a persistent event to be unused", || {
        last = Data::open().delete(name);
        last != Err(Errno::EBUSY)
    });
    assert_eq!(last, Ok(()), "deleting {name}");
}

fn unused_ones_go_with_the_module() {
    module::load();
    for flags in [PERSIST, PERSIST | MULTI_FORMAT] {
        make_with("st_persist_unload u32 a", flags);
    }
    dynamic::run("u:st_persist_unload2 u32 a").unwrap();
    stays("st_persist_unload");
    module::unload_when_idle();
    assert_eq!(tracefs::events_of_tests(), [""; 0]);
    module::load();
    assert_eq!(tracefs::events_of_tests(), [""; 0]);
    module::unload_when_idle();
}

fn row_needs_a_capability() {
    let allowed = [Capability::Perfmon, Capability::SysAdmin].map(Capability::bit);
    let mut cases = vec![(0, Err(Errno::EPERM))];
    cases.push((!(allowed[0] | allowed[1]), Err(Errno::EPERM)));
    cases.extend(allowed.map(|capability| (capability, Ok(()))));
    for (capabilities, want) in cases {
        let child = child::fork(|_| {
            let row = "PERSIST needs CAP_PERFMON or CAP_SYS_ADMIN, else EPERM";
            let case = format!("capabilities {capabilities:#x}");
            dynamic::run("u:st_persist_cap u32 a").unwrap();
            os::keep_capabilities(capabilities);

            let mut rows = Rows::new();
            let page = Mapping::kept(1);
            let data = Data::open();
            for flags in [PERSIST, PERSIST | MULTI_FORMAT] {
                let text = "st_persist_cap2 u32 a";
                let got = data.register_flags(text, page.address(), 0, flags);
                rows.gives(row, &case, got.map(drop), want);
                if got.is_ok() {
                    data.unregister_bit(page.address(), 0).unwrap();
                }
            }
            // The capability is for making one: it does not matter that the event exists.
            let text = "st_persist_cap u32 a";
            let got = data.register_flags(text, page.address(), 0, PERSIST);
            rows.gives(row, &case, got.map(drop), want);
            let _ = data.unregister_bit(page.address(), 0);
            drop(data);

            let row = "persistent without the capability → EPERM";
            let got = delete_unused(|| Data::open().delete("st_persist_cap"));
            rows.gives(row, &case, got, want);
            if got.is_ok() {
                let got = delete_unused(|| Data::open().delete("st_persist_cap2"));
                assert_eq!(got, Ok(()));
            } else {
                assert!(tracefs::event_exists("st_persist_cap"));
                let got = delete_unused(|| dynamic::run("-:st_persist_cap u32 a"));
                rows.gives(row, &format!("-:, {case}"), got, want);
                let got = dynamic::run("u:st_persist_cap3 u32 a");
                rows.gives(row, &format!("u:, {case}"), got, want);
                assert!(tracefs::event_exists("st_persist_cap"));
            }
            // No other flag needs it.
            for flags in [0, MULTI_FORMAT] {
                let text = "st_persist_cap4 u32 a";
                let got = Data::open().register_flags(text, page.address(), 1, flags);
                rows.gives("flags 0–3", &case, got, Ok(0));
                Data::open().unregister_bit(page.address(), 1).unwrap();
            }
            rows.finish();
        });
        child.join();
        if want.is_err() {
            delete("st_persist_cap");
        }
        wait_gone("st_persist_cap");
    }
}

fn stays_when_all_have_gone() {
    let name = "st_persist_stays";
    make("st_persist_stays u32 a");
    stays(name);
    // Others come and go.
    let event = Event::new("st_persist_stays u32 a");
    let top = Tracer::top();
    top.enable(name);
    event.wait_set();
    event.unregister().unwrap();
    drop(event.data);
    top.disable(name);
    stays(name);
    // Other fields under its name are no more possible than if it were used.
    let page = Mapping::kept(1);
    let got = Data::open().register_text("st_persist_stays u64 a", page.address(), 0);
    assert_eq!(got, Err(Errno::EADDRINUSE));
    delete(name);
    assert!(!tracefs::event_exists(name));
    assert_eq!(Data::open().delete(name), Err(Errno::ENOENT));
    // It can be made anew, as anything.
    drop(Event::new("st_persist_stays u64 a"));
}

fn stays_when_its_maker_is_killed() {
    let mut maker = child::fork(|line| {
        let page = Mapping::kept(1);
        let data = Data::open();
        data.register_flags("st_persist_kill u32 a", page.address(), 0, PERSIST)
            .unwrap();
        line.say("made");
        line.hear("never said");
    });
    maker.line.hear("made");
    maker.kill();
    stays("st_persist_kill");
    delete("st_persist_kill");
}

fn row_in_use_is_ebusy() {
    let name = "st_persist_busy";
    make("st_persist_busy u32 a");
    let mut rows = Rows::new();
    let mut busy = |by: &str| {
        let got = Data::open().delete(name);
        rows.fails("in use → EBUSY", by, got, Errno::EBUSY);
        let got = dynamic::run("-:st_persist_busy u32 a");
        rows.fails("in use → EBUSY", &format!("-:, {by}"), got, Errno::EBUSY);
        assert!(tracefs::event_exists(name), "deleted while in use by {by}");
    };

    let event = Event::new("st_persist_busy u32 a");
    busy("a file and a registration");
    event.unregister().unwrap();
    busy("a file");
    let Event { data, page, .. } = event;
    data.register_text("st_persist_busy u32 a", page.address(), 0)
        .unwrap();
    drop(data);
    busy("a registration");
    let user = child::fork(|line| {
        // It has the registration of its parent.
        line.hear("end");
    });
    Data::open().unregister_bit(page.address(), 0).unwrap();
    busy("a registration of another process");
    user.kill();

    let top = Tracer::top();
    top.enable(name);
    busy("ftrace");
    top.disable(name);
    let instance = Tracer::instance(name);
    instance.enable(name);
    busy("an instance");
    drop(instance);
    let perf = Perf::open(tracefs::event_id(name), SELF, ANY_CPU).unwrap();
    busy("perf");
    drop(perf);
    rows.finish();
    delete(name);
}

fn who_makes_it_decides() {
    // Registered with the flag by a second user, it goes with the last one.
    let event = Event::new("st_persist_second u32 a");
    let got =
        event
            .data
            .register_flags("st_persist_second u32 a", event.page.address(), 1, PERSIST);
    assert_eq!(got, Ok(0));
    event.data.unregister_bit(event.page.address(), 1).unwrap();
    event.unregister().unwrap();
    drop(event.data);
    wait_gone("st_persist_second");
    // And without the flag, it stays.
    make("st_persist_first u32 a");
    make_with("st_persist_first u32 a", 0);
    stays("st_persist_first");
    delete("st_persist_first");
}

fn enabled_before_its_program_comes() {
    let name = "st_persist_early";
    make("st_persist_early u32 a");
    let tracer = Tracer::instance(name);
    tracer.enable(name);
    for i in 0..3u32 {
        let program = child::fork(|_| {
            let event = Event::new("st_persist_early u32 a");
            assert!(event.bit(), "the bit tells the state when register returns");
            assert_eq!(event.write(&i.to_ne_bytes()), Ok(8));
        });
        program.join();
    }
    let mut got = tracer.take_payloads(name, 4);
    got.sort();
    assert_eq!(got, (0..3u32).map(u32::to_ne_bytes).collect::<Vec<_>>());
    tracer.disable(name);
    delete(name);
}
