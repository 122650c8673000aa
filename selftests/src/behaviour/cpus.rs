// SPDX-License-Identifier: GPL-2.0

//! CPU hotplug while records are written and events toggled.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child::Word;
use crate::kit::event::{use_in_child, Event};
use crate::kit::fork_tree::{end, fork, obey, tell};
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::module::nothing_is_left;
use crate::kit::numbered::{Numbered, Order};
use crate::kit::perf::Perf;
use crate::kit::processors::{Second, PATH};
use crate::kit::tracefs::TraceInstance;
use crate::kit::{module, os, wait};

tests!("cpus" on PATH:
    one_goes_and_comes_beside_writers,
    one_goes_with_pages_still_to_come,
    an_instance_made_without_one_records_on_it_later,
    perf_is_attached_to_one_that_goes,
    the_module_comes_and_goes_without_one.of_loading(),
);

const OFTEN: usize = 3;

fn one_goes_and_comes_beside_writers() {
    let second = Second::processor();
    let other = Event::new("st_cpu_other u32 a");
    let mut children = vec![fork(&other)];
    let numbered = Numbered::new("st_cpu_goes", 2);
    let tracer = numbered.attached(256);
    let mut order = Order::default();
    numbered.beside(|| {
        for round in 0..2 * OFTEN {
            second.set(round % 2 != 0);
            // Bits change both in pages that are present and in pages to be faulted in.
            for word in [Word::Clear, Word::Drop] {
                tell(&mut children, word);
                obey(word, &other);
                other.follows(true);
                tell(&mut children, Word::Set);
                other.follows(false);
                tell(&mut children, Word::Clear);
            }
            assert!(numbered.event.bit(), "round {round}: the bit is lost");
            numbered.wait_taken(100);
            order.see(&numbered.take(&tracer));
        }
    });
    order.see(&numbered.take(&tracer));
    let count = order.count();
    assert!(count > 100 * OFTEN, "only {count} were recorded");
    order.judge();
    numbered.all_is_recorded(&tracer);
    end(children);
}

/// The work queue has bits to write when a processor goes, some of them on that processor.
fn one_goes_with_pages_still_to_come() {
    const PAGES: usize = 64;
    let second = Second::processor();
    let data = Data::open();
    let pages = Mapping::kept(PAGES);
    data.register_pages("st_cpu_pages u32 a", &pages, 0);
    let top = TraceInstance::top();
    for round in 0..2 * OFTEN {
        let on = round % 2 != 0;
        pages.discard();
        top.enable("st_cpu_pages");
        second.set(on);
        wait::until("all pages to come", || pages.resident() == PAGES);
        let is_set = |page: usize| pages.get(page * PAGE) == 1;
        wait::until("all bits to be set", || (0..PAGES).all(is_set));
        top.disable("st_cpu_pages");
        wait::until("all bits to be cleared", || !(0..PAGES).any(is_set));
    }
}

fn an_instance_made_without_one_records_on_it_later() {
    let second = Second::processor();
    second.set(false);
    let numbered = Numbered::new("st_cpu_later", 1);
    let tracer = numbered.attached(64);
    numbered.all_is_recorded(&tracer);
    second.set(true);
    os::run_on(1);
    numbered.all_is_recorded(&tracer);
    tracer.control("trace", "");
    assert!(numbered.write(0));
    assert_eq!(tracer.stat(1, "entries"), 1);
}

fn perf_is_attached_to_one_that_goes() {
    let second = Second::processor();
    let event = Event::new("st_cpu_perf u32 a");
    let id = event.id();
    for _ in 0..OFTEN {
        let perfs = [0, 1].map(|cpu| Perf::open(id, -1, cpu).expect("perf"));
        event.wait_set();
        os::run_on(1);
        assert_eq!(event.write(&[1; 4]), Ok(8));
        assert_eq!(perfs[1].count(), 1);
        // The kernel moves this task to a remaining processor.
        second.set(false);
        os::run_on(0);
        assert_eq!(event.write(&[2; 4]), Ok(8));
        assert_eq!(perfs[0].count(), 1);
        assert!(Perf::open(id, -1, 1).is_err(), "perf without a processor");
        assert!(event.bit());
        second.set(true);
        drop(perfs);
        event.wait_clear();
        assert!(event.write(&[3; 4]).is_err());
    }
}

fn the_module_comes_and_goes_without_one() {
    let second = Second::processor();
    let use_it = || use_in_child("st_cpu_load");
    // Loaded with the second processor and unloaded without it, the reverse, and both without it.
    for (at_first, then) in [(true, false), (false, true), (false, false)] {
        second.set(at_first);
        module::load();
        use_it();
        second.set(then);
        use_it();
        module::unload_when_idle();
        nothing_is_left();
    }
}
