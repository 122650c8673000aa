// SPDX-License-Identifier: GPL-2.0

//! What libFuzzer calls, by way of `entry.c`: it passes an input byte by byte, so that there is no
//! pointer to trust, and then says of which kind the input is.
//!
//! A claim that does not hold panics, which ends the process.

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

/// Checks `claim` with the input, and begins a new one.
fn check(claim: fn(&[u8])) {
    INPUT.with_borrow_mut(|input| {
        claim(input);
        input.clear();
    });
}

/// The next byte of the input.
#[no_mangle]
extern "C" fn input_byte(byte: u8) {
    INPUT.with_borrow_mut(|input| input.push(byte));
}

/// The input is a description.
#[no_mangle]
extern "C" fn input_is_descriptions() {
    check(claims::description);
}

/// The input is a line of `dynamic_events` that makes an event, and one that deletes it.
#[no_mangle]
extern "C" fn input_is_lines() {
    check(claims::line);
}

/// The input is a description and a payload.
#[no_mangle]
extern "C" fn input_is_records() {
    check(claims::record);
}
