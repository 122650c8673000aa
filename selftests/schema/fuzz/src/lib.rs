// SPDX-License-Identifier: GPL-2.0

//! The functions that libFuzzer calls through `entry.c`. They take an input byte by byte, so that
//! no pointer must be trusted, and then the kind of the input.
//!
//! A broken claim panics, which ends the process.

#[path = "../../tests/schema/claims.rs"]
mod claims;
#[path = "../../tests/schema/event.rs"]
mod event;
#[path = "../../tests/schema/model.rs"]
mod model;

use std::cell::RefCell;

thread_local! {
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Checks `claim` with the input, and clears it.
fn check(claim: fn(&[u8])) {
    INPUT.with_borrow_mut(|input| {
        claim(input);
        input.clear();
    });
}

/// Adds a byte to the input.
#[no_mangle]
extern "C" fn input_byte(byte: u8) {
    INPUT.with_borrow_mut(|input| input.push(byte));
}

/// Checks the input as a description.
#[no_mangle]
extern "C" fn input_is_descriptions() {
    check(claims::description);
}

/// Checks the input as a line of `dynamic_events` that makes an event, and one that deletes it.
#[no_mangle]
extern "C" fn input_is_lines() {
    check(claims::line);
}

/// Checks the input as a description and a payload.
#[no_mangle]
extern "C" fn input_is_records() {
    check(claims::record);
}
