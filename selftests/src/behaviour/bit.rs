// SPDX-License-Identifier: GPL-2.0

//! The enable bit while the program changes the rest of the word.

use crate::harness::tests;
use crate::kit::event::Event;
use crate::kit::wait;
use std::sync::atomic::Ordering;

tests!("bit":
    user_atomics_on_the_same_word_are_never_lost,
);

/// Half of each word is registered, bit by bit, and the program counts in the other half.
fn user_atomics_on_the_same_word_are_never_lost() {
    const SMALL_ONE: u32 = 1 << 16;
    const WIDE_MASK: u64 = u32::MAX as u64;
    let event = Event::new("st_bit_atomics u32 a");
    let address = event.page.address();
    (1..16).for_each(|bit| event.add_bit(address, bit));
    (32..64).for_each(|bit| event.add_bit_of(8, address + 8, bit));
    let small = event.page.word(0);
    let wide = event.page.long(8);
    let count = || {
        for _ in 0..100 {
            small.fetch_add(SMALL_ONE, Ordering::Relaxed);
        }
        for _ in 0..100 {
            wide.fetch_add(1, Ordering::Relaxed);
        }
    };
    let rounds = wait::beside(count, || {
        (0..600).for_each(|_| event.toggle());
        wait::until("all bits to be clear", || {
            small.load(Ordering::Relaxed) % SMALL_ONE == 0
                && wide.load(Ordering::Relaxed) & !WIDE_MASK == 0
        });
    });
    assert!(rounds > 1, "the counter hardly ran: {rounds}");
    let counted = 100 * rounds as u64;
    let want = (counted as u32).wrapping_mul(SMALL_ONE);
    assert_eq!(small.load(Ordering::Relaxed), want, "32-bit word");
    let want = counted & WIDE_MASK;
    assert_eq!(wide.load(Ordering::Relaxed), want, "64-bit word");
}
