// SPDX-License-Identifier: GPL-2.0

//! The enable bit in huge pages, transparent ones and those of the kernel's pool.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child::{self, Child, Word};
use crate::kit::event::Event;
use crate::kit::memory::{Mapping, HUGE_PAGE, PAGE};
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait;
use std::fs;
use std::sync::atomic::Ordering;

tests!("huge_pages":
    a_huge_page_is_written.needs_path(HUGE),
    pages_collapsed_to_a_huge_one_follow.needs_path(HUGE),
    a_private_page_of_the_huge_pool_is_written.needs_path(POOL),
    a_shared_page_of_the_huge_pool_is_written.needs_path(POOL),
);

const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const POOL: &str = "/proc/sys/vm/nr_hugepages";

/// A mapping twice as large as a huge page, and the offset of an aligned huge page in it.
fn room_for_a_huge_page() -> (Mapping, usize) {
    let pages = Mapping::kept(2 * HUGE_PAGE / PAGE);
    let start = pages.address().next_multiple_of(HUGE_PAGE as u64) - pages.address();
    (pages, start as usize)
}

/// Registers bits all over a huge page, and toggles the event in this process and in a child.
fn follow_in_huge_page(data: &Data, name: &str, pages: &Mapping, start: usize) {
    let text = format!("{name} u32 a");
    let words: Vec<usize> = (0..HUGE_PAGE)
        .step_by(HUGE_PAGE / 8)
        .map(|at| start + at + at / 512)
        .collect();
    for &word in &words {
        data.register_text(&text, pages.address() + word as u64, 31)
            .unwrap();
    }
    let all = |on: bool| {
        let want = u32::from(on) << 31;
        words
            .iter()
            .all(|&word| pages.word(word).load(Ordering::Relaxed) == want)
    };
    let top = TraceInstance::top();
    let toggle = |child: Option<&mut Child>| {
        top.enable(name);
        wait::until("the bits in the huge page", || all(true));
        let mut child = child;
        if let Some(child) = &mut child {
            child.line.hear(Word::Set);
        }
        top.disable(name);
        wait::until("them to be cleared", || all(false));
        if let Some(child) = &mut child {
            child.line.hear(Word::Clear);
        }
    };
    toggle(None);
    let mut child = child::fork(|line| {
        for _ in 0..2 {
            wait::until("the child's bits", || all(true));
            line.say(Word::Set);
            wait::until("the child's bits to be cleared", || all(false));
            line.say(Word::Clear);
        }
    });
    toggle(Some(&mut child));
    toggle(Some(&mut child));
    child.join();
    toggle(None);
    // Half of the huge page is dropped.
    pages
        .advise_part(start, HUGE_PAGE / 2, libc::MADV_DONTNEED)
        .unwrap();
    toggle(None);
    for word in words {
        data.unregister_bit(pages.address() + word as u64, 31)
            .unwrap();
    }
}

fn a_huge_page_is_written() {
    let data = Data::open();
    let (pages, start) = room_for_a_huge_page();
    pages.advise(libc::MADV_HUGEPAGE).unwrap();
    pages.word(start).store(0, Ordering::Relaxed);
    assert!(pages.kilobytes("AnonHugePages") >= 2048, "no huge page");
    follow_in_huge_page(&data, "st_kind_huge", &pages, start);
}

fn pages_collapsed_to_a_huge_one_follow() {
    const MADV_COLLAPSE: i32 = 25;
    let event = Event::new("st_kind_collapsed u32 a");
    let (pages, start) = room_for_a_huge_page();
    pages.advise(libc::MADV_NOHUGEPAGE).unwrap();
    for at in (start..start + HUGE_PAGE).step_by(PAGE) {
        pages.word(at).store(1 << 7, Ordering::Relaxed);
    }
    assert_eq!(pages.kilobytes("AnonHugePages"), 0);
    let at = start + 100 * PAGE;
    event
        .data
        .register_text("st_kind_collapsed u32 a", pages.address() + at as u64, 0)
        .unwrap();
    let top = TraceInstance::top();
    let is = |word| pages.word(at).load(Ordering::Relaxed) == word;
    let collapse = || {
        pages.advise(libc::MADV_HUGEPAGE).unwrap();
        // MADV_COLLAPSE fails while a page is in use elsewhere.
        wait::until("the pages to become a huge one", || {
            pages.advise_part(start, HUGE_PAGE, MADV_COLLAPSE).is_ok()
        });
        assert!(pages.kilobytes("AnonHugePages") >= 2048, "no huge page");
    };
    top.enable(&event.name);
    wait::until("the bit", || is((1 << 7) | 1));
    collapse();
    assert!(is((1 << 7) | 1), "the bit in the huge page");
    top.disable(&event.name);
    wait::until("the bit to be cleared", || is(1 << 7));
    pages.advise_part(start, PAGE, libc::MADV_DONTNEED).unwrap();
    top.enable(&event.name);
    wait::until("the bit in the split page", || is((1 << 7) | 1));
    top.disable(&event.name);
    wait::until("it to be cleared", || is(1 << 7));
}

/// The kernel's pool of huge pages; empty again when dropped.
struct Pool;

impl Pool {
    fn of(pages: usize) -> Pool {
        wait::until("the kernel to set huge pages aside", || {
            fs::write(POOL, pages.to_string()).unwrap();
            let now = fs::read_to_string(POOL).unwrap();
            now.trim() == pages.to_string()
        });
        Pool
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = fs::write(POOL, "0");
    }
}

fn in_the_huge_pool(name: &str, sharing: i32) {
    let _pool = Pool::of(8);
    let data = Data::open();
    let pages = Mapping::of_huge_pages(2, sharing).unwrap();
    let text = format!("{name} u32 a");
    let words = [8, HUGE_PAGE - 4, HUGE_PAGE + 5 * PAGE];
    for word in words {
        data.register_text(&text, pages.address() + word as u64, 2)
            .unwrap();
    }
    let top = TraceInstance::top();
    let is = |word: u32| {
        words
            .iter()
            .all(|&at| pages.word(at).load(Ordering::Relaxed) == word)
    };
    let mut child = child::fork(|line| {
        for _ in 0..3 {
            wait::until("the child's bits", || is(4));
            line.say(Word::Set);
            wait::until("the child's bits to be cleared", || is(0));
            line.say(Word::Clear);
        }
    });
    for round in 0..3 {
        if round > 0 {
            pages.advise(libc::MADV_DONTNEED).unwrap();
        }
        top.enable(name);
        wait::until("the bits", || is(4));
        child.line.hear(Word::Set);
        top.disable(name);
        wait::until("the bits to be cleared", || is(0));
        child.line.hear(Word::Clear);
    }
    child.join();
}

fn a_private_page_of_the_huge_pool_is_written() {
    in_the_huge_pool("st_kind_pool", libc::MAP_PRIVATE);
}

fn a_shared_page_of_the_huge_pool_is_written() {
    in_the_huge_pool("st_kind_sharedpool", libc::MAP_SHARED);
}
