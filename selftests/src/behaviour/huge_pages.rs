// SPDX-License-Identifier: GPL-2.0

//! The enable bit in huge pages, transparent ones and those of the kernel's pool.

use crate::harness::tests;
use crate::kit::child::{self, Child, Word};
use crate::kit::event::Event;
use crate::kit::memory::{Mapping, HUGE_PAGE, PAGE};
use crate::kit::wait;
use std::fs;

tests!("huge_pages":
    a_huge_page_is_written.needs_path(HUGE),
    a_page_of_the_huge_pool_is_written.needs_path(POOL),
);

const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const POOL: &str = "/proc/sys/vm/nr_hugepages";

/// Bits of one event, the highest of each word, all over some pages.
struct Bits<'a> {
    event: Event,
    pages: &'a Mapping,
    words: Vec<usize>,
}

impl Bits<'_> {
    fn new<'a>(name: &str, pages: &'a Mapping, words: &[usize]) -> Bits<'a> {
        let event = Event::new(&format!("{name} u32 a"));
        for &word in words {
            event.add_bit(pages.address() + word as u64, 31);
        }
        Bits {
            event,
            pages,
            words: words.to_vec(),
        }
    }

    #[track_caller]
    fn wait(&self, on: bool) {
        wait::until("all bits in the pages to follow", || {
            let is = |&word: &usize| self.pages.get(word) == u32::from(on) << 31;
            self.words.iter().all(is)
        });
    }

    /// Forks a child that reports each of so many changes on and off.
    fn fork(&self, times: usize) -> Child {
        child::fork(|line| {
            for _ in 0..times {
                for (on, word) in [(true, Word::Set), (false, Word::Clear)] {
                    self.wait(on);
                    line.say(word);
                }
            }
        })
    }

    fn unregister(&self) {
        for &word in &self.words {
            let address = self.pages.address() + word as u64;
            assert_eq!(self.event.data.unregister_bit(address, 31), Ok(()));
        }
    }

    /// Switches the event on and off, seen in this process and by the child.
    fn follow(&self, mut child: Option<&mut Child>) {
        for (on, word) in [(true, Word::Set), (false, Word::Clear)] {
            self.event.switch(on);
            self.wait(on);
            if let Some(child) = &mut child {
                child.line.hear(word);
            }
        }
    }
}

fn a_huge_page_is_written() {
    // With an aligned huge page in it.
    let pages = Mapping::kept(2 * HUGE_PAGE / PAGE);
    let start = pages.address().next_multiple_of(HUGE_PAGE as u64) - pages.address();
    let start = start as usize;
    pages.advise(libc::MADV_HUGEPAGE).unwrap();
    pages.set(start, 0);
    assert!(pages.kilobytes("AnonHugePages") >= 2048, "no huge page");
    let words = (0..HUGE_PAGE).step_by(HUGE_PAGE / 8);
    let words: Vec<_> = words.map(|at| start + at + at / 512).collect();
    let bits = Bits::new("st_kind_huge", &pages, &words);
    bits.follow(None);
    let mut child = bits.fork(2);
    bits.follow(Some(&mut child));
    bits.follow(Some(&mut child));
    child.join();
    bits.follow(None);
    // Half of the huge page is dropped.
    pages
        .advise_part(start, HUGE_PAGE / 2, libc::MADV_DONTNEED)
        .unwrap();
    bits.follow(None);
    bits.unregister();
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

fn a_page_of_the_huge_pool_is_written() {
    for (name, sharing) in [
        ("st_kind_pool", libc::MAP_PRIVATE),
        ("st_kind_sharedpool", libc::MAP_SHARED),
    ] {
        let _pool = Pool::of(8);
        let pages = Mapping::of_huge_pages(2, sharing).unwrap();
        let bits = Bits::new(name, &pages, &[8, HUGE_PAGE - 4, HUGE_PAGE + 5 * PAGE]);
        let mut child = bits.fork(3);
        for round in 0..3 {
            if round > 0 {
                pages.discard();
            }
            bits.follow(Some(&mut child));
        }
        child.join();
        bits.unregister();
    }
}
