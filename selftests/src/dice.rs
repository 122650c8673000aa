// SPDX-License-Identifier: GPL-2.0

//! Numbers that look random, and are the same in every run.

/// Where such numbers come from.
pub struct Dice(u64);

impl Dice {
    /// Other numbers for each start.
    pub fn new(start: u64) -> Dice {
        Dice(0x9e37_79b9_7f4a_7c15 ^ ((start + 1) << 20))
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    /// One of some.
    pub fn one_of<'a, T>(&mut self, some: &'a [T]) -> &'a T {
        &some[self.roll(some.len() as u64) as usize]
    }
}
