// SPDX-License-Identifier: GPL-2.0

//! The enable bit beside what a program does to the rest of its word.

use crate::harness::tests;
use crate::kit::abi::{Data, Register};
use crate::kit::event::Event;
use crate::kit::tracefs::Tracer;
use crate::kit::wait::SetOnDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

tests!("bit":
    user_atomics_on_the_same_word_are_never_lost,
);

/// Registers one bit of an 8-byte or 4-byte word.
fn register(data: &Data, text: &str, address: u64, size: u8, bit: u8) {
    let text = std::ffi::CString::new(text).unwrap();
    let request = Register::new(address, text.as_ptr() as u64);
    let request = Register {
        enable_size: size,
        enable_bit: bit,
        ..request
    };
    data.register(&request)
        .unwrap_or_else(|errno| panic!("size {size} bit {bit}: {errno:?}"));
}

fn user_atomics_on_the_same_word_are_never_lost() {
    let event = Event::new("st_bit_atomics u32 a");
    let address = event.page.address();
    register(&event.data, "st_bit_atomics u32 a", address + 8, 8, 63);
    let small = event.page.word(0);
    let wide = event.page.long(8);
    let done = AtomicBool::new(false);
    let top = Tracer::top();
    thread::scope(|scope| {
        let stop = SetOnDrop(&done);
        // Counters that have the word but for the kernel's bit.
        let counter = scope.spawn(|| {
            let mut rounds = 0u64;
            while !done.load(Ordering::Relaxed) {
                small.fetch_add(2, Ordering::Relaxed);
                wide.fetch_add(1, Ordering::Relaxed);
                rounds += 1;
            }
            rounds
        });
        for _ in 0..100 {
            top.enable(&event.name);
            event.wait_set();
            top.disable(&event.name);
            event.wait_clear();
        }
        drop(stop);
        let rounds = counter.join().unwrap();
        assert!(rounds > 100, "the counter hardly ran: {rounds}");
        assert_eq!(
            small.load(Ordering::Relaxed),
            (rounds as u32) << 1,
            "32-bit word"
        );
        assert_eq!(wide.load(Ordering::Relaxed), rounds, "64-bit word");
    });
}
