// SPDX-License-Identifier: GPL-2.0

//! Short runs of the fuzzer: with the listed seeds, with a new one, and with pages swapped out.

use super::{listed, new_one, run, Options};
use crate::harness::tests;
use crate::kit::{machine, swap};

tests!("fuzz":
    fixed_seeds.lengthy().limit(300),
    a_new_seed.limit(120),
    a_new_seed_with_pages_put_out.limit(120).swapping(),
);

fn run_one(seed: u64) {
    let failures = run(&Options {
        operations: machine::rounds(3_000) as u64,
        ..Options::new(seed)
    });
    assert!(failures.is_empty(), "{failures:?}");
}

fn fixed_seeds() {
    listed().into_iter().for_each(run_one);
}

fn a_new_seed() {
    run_one(new_one());
}

fn a_new_seed_with_pages_put_out() {
    let _swap = swap::Swap::new();
    let before = swap::pages_out();
    a_new_seed();
    assert!(swap::pages_out() > before, "no page was put out");
}
