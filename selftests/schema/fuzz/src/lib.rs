// SPDX-License-Identifier: GPL-2.0

//! What libFuzzer calls, by way of `entry.c`: it hands over an input byte by byte, so that nothing
//! here has to believe a pointer, and then says of what kind the input is.
//!
//! A claim that does not hold panics, which ends the process.

#[path = "../../tests/schema/claims.rs"]
mod claims;
#[path = "../../tests/schema/model.rs"]
mod model;
#[path = "../../tests/schema/sink.rs"]
mod sink;

use std::cell::RefCell;

thread_local! {
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Puts the input to `claim`, and begins a new one.
fn put_to(claim: fn(&[u8])) {
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
    put_to(claims::description);
}

/// The input is a line of `dynamic_events` that makes an event, and one that deletes it.
#[no_mangle]
extern "C" fn input_is_lines() {
    put_to(claims::line);
}

/// The input is a description and a payload.
#[no_mangle]
extern "C" fn input_is_records() {
    put_to(claims::record);
}
