// SPDX-License-Identifier: GPL-2.0

//! Processes with very many bits: killing them, and the time to free their registrations.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child::{self, Child, Word};
use crate::kit::event::wait_gone;
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::{machine, os};
use std::thread::sleep;
use std::time::{Duration, Instant};

tests!("large_sets":
    a_process_that_is_killed_while_it_copies_one_goes_at_once.limit(400),
);

const EVENT: &str = "st_large";
const TEXT: &str = "st_large u32 a";

/// Forks a process that registers `bits` bits of the event, and waits for orders.
fn with_bits(bits: usize) -> Child {
    let mut child = child::fork(|line| {
        let data = Data::open();
        let pages = Mapping::kept(bits.div_ceil(8 * PAGE) + 1);
        for at in 0..bits {
            let address = pages.address() + 4 * (at / 32) as u64;
            let result = data.register_text(TEXT, address, (at % 32) as u8);
            result.expect("register");
        }
        line.say(Word::Registered);
        loop {
            line.hear(Word::Copy);
            // Once the child runs, it has inherited the set.
            let child = child::fork_until(Word::Runs, |line| {
                line.say(Word::Runs);
                line.wait_for_kill();
            });
            line.say(Word::Copying);
            let address = pages.end() - 4;
            let result = data.register_text(TEXT, address, 0);
            result.expect("register");
            data.unregister_bit(address, 0).expect("unregister");
            drop(child);
            line.say(Word::Copy);
        }
    });
    child.line.hear(Word::Registered);
    child
}

fn median(mut times: [Duration; 3]) -> Duration {
    times.sort();
    times[1]
}

/// A set that is shared with a child is copied before a bit is registered.
fn a_process_that_is_killed_while_it_copies_one_goes_at_once() {
    const BITS: usize = 50_000;
    let most = Duration::from_secs(1) * machine::slowness();
    let (mut whole, mut killed) = ([Duration::ZERO; 3], [Duration::ZERO; 3]);
    for (whole, killed) in whole.iter_mut().zip(&mut killed) {
        let mut process = with_bits(BITS);
        process.line.ask(Word::Copy, Word::Copying);
        let start = Instant::now();
        process.line.hear(Word::Copy);
        *whole = start.elapsed();
        process.line.ask(Word::Copy, Word::Copying);
        sleep(*whole / 10);
        let start = Instant::now();
        os::kill(process.pid, libc::SIGKILL).expect("kill");
        assert_eq!(process.wait(), libc::SIGKILL, "wait status");
        *killed = start.elapsed();
        drop(process);
        wait_gone(EVENT);
    }
    let (whole, killed) = (median(whole), median(killed));
    println!("  # a copy of {BITS} bits takes {whole:?}; killed in its midst a process goes in {killed:?}");
    assert!(killed <= most, "went after {killed:?}");
    assert!(
        killed <= whole / 2,
        "went after {killed:?}, a copy takes {whole:?}"
    );
}
