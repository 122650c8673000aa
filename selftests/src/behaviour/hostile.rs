// SPDX-License-Identifier: GPL-2.0

//! Processes that hinder writes to the memory of their bits: the bits of others follow meanwhile.

use crate::harness::tests;
use crate::kit::child::{self, Child, Word};
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::fork_tree::{end, fork, tell, toggle, toggles_promptly};
use crate::kit::latency::Latencies;
use crate::kit::memory::{Mapping, PAGE, READ, READ_WRITE};
use crate::kit::{os, tasks, wait};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

tests!("hostile":
    mapping_and_unmapping_holds_up_no_other,
    dropping_pages_holds_up_no_other,
    holding_the_lock_of_its_mappings_holds_up_no_other,
    a_stopped_process_holds_up_no_other_and_gets_its_bit,
);

/// Toggles an event while children run `bad` forever, which counts its rounds: the bits of all
/// others follow, including those on dropped pages.
fn others_beside(name: &str, bad: impl Fn(&Event, &AtomicU32)) {
    const HOSTILE: usize = 3;
    let event = Event::new(&format!("{name} u32 a"));
    let rounds = Mapping::shared(1);
    let hostile: Vec<Child> = (0..HOSTILE)
        .map(|one| child::fork(|_| bad(&event, rounds.word(4 * one))))
        .collect();
    let count = |one: usize| rounds.get(4 * one);
    // Waits for one more round of each of them.
    let go_on = || {
        let before: Vec<u32> = (0..HOSTILE).map(count).collect();
        wait::until("the hostile processes to go on", || {
            (0..HOSTILE).all(|one| count(one) != before[one])
        });
    };
    go_on();
    let mut others = vec![fork(&event), fork(&event)];
    toggles_promptly(&event, &mut others, go_on);
    for one in hostile {
        one.kill();
    }
    toggle(&event, &mut others);
    end(others);
}

fn mapping_and_unmapping_holds_up_no_other() {
    others_beside("st_hostile_maps", |event, rounds| {
        thread::scope(|scope| {
            let address = event.page.address();
            scope.spawn(move || loop {
                // The page of the bit itself: its contents are never read here.
                tasks::map_anew(address, READ);
                tasks::map_anew(address, READ_WRITE);
                rounds.fetch_add(1, Ordering::Relaxed);
            });
            loop {
                let pages = Mapping::new(64);
                pages.protect_from(PAGE, READ);
            }
        });
    });
}

fn dropping_pages_holds_up_no_other() {
    others_beside("st_hostile_drops", |event, rounds| {
        let text = format!("{} u32 a", event.name);
        let pages = Mapping::kept(64);
        event.data.register_pages(&text, &pages, 0);
        loop {
            pages.discard();
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    });
}

fn holding_the_lock_of_its_mappings_holds_up_no_other() {
    others_beside("st_hostile_lock", |_, rounds| {
        // mprotect() of so many pages takes long, and holds the mmap_lock all the time.
        let pages = Mapping::new(24 << 20 >> 12);
        // EINVAL: the kernel has no transparent huge pages.
        let result = pages.advise(libc::MADV_NOHUGEPAGE);
        assert!(matches!(result, Ok(()) | Err(Errno::EINVAL)), "{result:?}");
        for at in (0..24 << 20).step_by(PAGE) {
            pages.set(at, 1);
        }
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| loop {
                    pages.protect(READ);
                    pages.protect(READ_WRITE);
                    rounds.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
    });
}

fn a_stopped_process_holds_up_no_other_and_gets_its_bit() {
    let event = Event::new("st_hostile_stopped u32 a");
    let address = event.page.address();
    let mut others = vec![fork(&event)];
    let mut stopped = fork(&event);
    stopped.tell(Word::Drop);
    tasks::stop(stopped.pid);
    let wait_for_its = |bit: u32| {
        wait::until("the bit of the stopped process to follow", || {
            tasks::word_of(stopped.pid, address).map(|word| word & 1) == Some(bit)
        });
    };
    let mut until_set = Latencies::default();
    for _ in 0..5 {
        until_set.during(|| {
            event.follows(true);
            tell(&mut others, Word::Set);
        });
        wait_for_its(1);
        event.follows(false);
        tell(&mut others, Word::Clear);
        wait_for_its(0);
    }
    until_set.judge("until all other bits were set", 400);
    os::kill(stopped.pid, libc::SIGCONT).unwrap();
    others.push(stopped);
    toggle(&event, &mut others);
    end(others);
}
