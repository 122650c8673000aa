// SPDX-License-Identifier: GPL-2.0

//! Short runs of the fuzzer from seeds that are always the same.

use crate::fuzz::{run, Options};
use crate::harness::tests;
use crate::machine;

tests!("fuzz":
    fixed_seeds.limit(300),
);

/// Seeds that once showed something, and the first ones.
const SEEDS: [u64; 4] = [1, 2, 3, 4];

fn fixed_seeds() {
    for seed in SEEDS {
        let failures = run(&Options {
            seed,
            operations: machine::rounds(5_000) as u64,
            lanes: 0..2,
            against_c: false,
            rush: false,
            loud: false,
        });
        assert!(failures.is_empty(), "{failures:?}");
    }
}
