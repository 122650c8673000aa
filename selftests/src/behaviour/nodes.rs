// SPDX-License-Identifier: GPL-2.0

//! A machine of eight processors, and of memory in two nodes between which pages move.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::memory::{lacks_protection_keys, Mapping, PAGE};
use crate::kit::numbered::{Numbered, Order};
use crate::kit::processors::{
    bind_to_node, move_to_node, node_of, nodes, of_node, unbind, SECOND_NODE,
};
use crate::kit::setting::Setting;
use crate::kit::tracefs::TraceInstance;
use crate::kit::{os, wait};
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

tests!("nodes" on SECOND_NODE:
    there_are_eight_processors_and_two_nodes,
    a_page_moves_and_its_bit_with_it,
    pages_move_while_their_bits_change,
    pages_that_the_kernel_takes_away_to_see_their_users.skip_if(lacks_balancing),
    writers_on_all_processors_are_recorded,
    a_page_with_a_protection_key_follows.skip_if(lacks_protection_keys),
    a_word_above_two_to_the_47_follows.skip_if(lacks_five_levels),
);

fn there_are_eight_processors_and_two_nodes() {
    assert_eq!((os::cpus().len(), nodes()), (8, 2));
    for node in 0..2 {
        assert_eq!(of_node(node).len(), 4, "processors of node {node}");
    }
}

fn a_page_moves_and_its_bit_with_it() {
    let event = Event::new("st_node_moves u32 a");
    event.page.set(4, 77);
    for round in 0..10 {
        let node = round % 2;
        assert_eq!(move_to_node(&event.page, 0, node), Ok(node));
        assert_eq!(node_of(&event.page), Ok(node));
        event.follows(true);
        assert_eq!(move_to_node(&event.page, 0, 1 - node), Ok(1 - node));
        assert!(event.bit(), "the bit is lost");
        event.follows(false);
        assert_eq!(node_of(&event.page), Ok(1 - node));
    }
    assert_eq!(event.page.get(4), 77);
}

#[track_caller]
fn wait_all(pages: &Mapping, count: usize, value: u32) {
    wait::until(&format!("all bits to be {value}"), || {
        (0..count).all(|page| pages.get(page * PAGE) & 1 == value)
    });
}

fn pages_move_while_their_bits_change() {
    const PAGES: usize = 64;
    let (data, pages) = (Data::open(), Mapping::kept(PAGES));
    data.register_pages("st_node_many u32 a", &pages, 0);
    let top = TraceInstance::top();
    let mut node = 0;
    let move_all = || {
        bind_to_node(&pages, node);
        node = 1 - node;
    };
    let moves = wait::beside(move_all, || {
        for _ in 0..20 {
            top.enable("st_node_many");
            wait_all(&pages, PAGES, 1);
            top.disable("st_node_many");
            wait_all(&pages, PAGES, 0);
        }
    });
    println!("  # {PAGES} pages were moved {moves} times while their bits changed");
    assert!(moves > 0, "the pages stayed where they were");
    unbind(&pages);
}

const BALANCING: &str = "/proc/sys/kernel/numa_balancing";

fn lacks_balancing() -> Option<String> {
    (!Path::new(BALANCING).exists()).then(|| format!("there is no {BALANCING}"))
}

/// A number of /proc/vmstat.
fn count_of(key: &str) -> u64 {
    let text = fs::read_to_string("/proc/vmstat").expect("/proc/vmstat");
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let value = line.and_then(|value| value.trim().parse().ok());
    value.unwrap_or_else(|| panic!("{key} in /proc/vmstat"))
}

/// NUMA balancing unmaps pages to see which tasks use them, and moves the pages to those tasks'
/// node.
fn pages_that_the_kernel_takes_away_to_see_their_users() {
    const PAGES: usize = 32;
    let _balancing = Setting::new(BALANCING, "1");
    let (data, pages) = (Data::open(), Mapping::kept(PAGES));
    data.register_pages("st_node_used u32 a", &pages, 0);
    bind_to_node(&pages, 0);
    unbind(&pages);
    let far = of_node(1)[0];
    let hints = || count_of("numa_hint_faults ");
    let (at_first, top) = (hints(), TraceInstance::top());
    let use_them = || {
        os::run_on(far);
        for page in 0..PAGES {
            pages.word(page * PAGE + 64).fetch_add(1, Ordering::Relaxed);
        }
    };
    wait::beside(use_them, || {
        wait::until("the kernel to take pages away", || {
            top.enable("st_node_used");
            wait_all(&pages, PAGES, 1);
            top.disable("st_node_used");
            wait_all(&pages, PAGES, 0);
            hints() > at_first
        });
    });
    let faults = hints() - at_first;
    println!("  # {faults} faults of pages that were taken away");
}

fn writers_on_all_processors_are_recorded() {
    const WRITERS: usize = 8;
    let numbered = Numbered::new("st_node_writers", WRITERS);
    let tracer = numbered.attached(256);
    let mut order = Order::default();
    numbered.beside(|| {
        for _ in 0..2 {
            numbered.wait_taken(200);
            order.see(&numbered.take(&tracer));
        }
    });
    order.see(&numbered.take(&tracer));
    order.judge();
    for cpu in os::cpus() {
        os::run_on(cpu);
        tracer.control("trace", "");
        assert!(numbered.write(0));
        assert_eq!(tracer.stat(cpu, "entries"), 1, "on processor {cpu}");
    }
    numbered.all_is_recorded(&tracer);
}

/// A protection key restricts accesses of the thread itself, not the kernel's writes of bits. Only
/// the processors of this machine have keys.
fn a_page_with_a_protection_key_follows() {
    let event = Event::new("st_node_key u32 a");
    event.page.forbid_writes_by_key();
    event.toggle();
    event.page.discard();
    event.toggle();
    let address = event.page.address() + 4;
    event.switch(true);
    event.add_bit(address, 5);
    assert_eq!(event.page.get(4), 1 << 5);
    assert_eq!(event.data.unregister_bit(address, 5), Ok(()));
    assert_eq!(event.page.get(4), 0);
    event.follows(false);
}

/// Returns the reason for skipping. A program gets the fifth level by requesting such an address.
fn lacks_five_levels() -> Option<String> {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has_them = processors.split_whitespace().any(|word| word == "la57");
    (!has_them).then(|| "page tables have four levels".into())
}

fn a_word_above_two_to_the_47_follows() {
    let event = Event::in_memory("st_node_high u32 a", Mapping::placed(1 << 50, 1));
    for _ in 0..2 {
        event.follows(true);
        child::fork(|_| assert!(event.bit())).join();
        event.follows(false);
    }
    assert_eq!(event.unregister(), Ok(()));
    assert_eq!(event.unregister(), Err(Errno::ENOENT));
}
