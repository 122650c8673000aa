// SPDX-License-Identifier: GPL-2.0

//! Pseudo-random numbers, reproducible by their seed.

/// Parses a seed or another number of an option: decimal, or hexadecimal after 0x as seeds are
/// printed.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A generator (SplitMix64).
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        let mut random = Random(seed);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.long_below(end as u64) as usize
    }

    /// The same for large numbers.
    pub fn long_below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// The same for small numbers.
    pub fn byte_below(&mut self, end: u8) -> u8 {
        self.below(end.into()) as u8
    }

    /// Returns true with a probability of `times` in a thousand.
    pub fn thousandths(&mut self, times: usize) -> bool {
        self.below(1000) < times
    }

    /// An element of a list, if it has any.
    pub fn one<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        (!list.is_empty()).then(|| list[self.below(list.len())])
    }

    /// An element of a non-empty list.
    pub fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    pub fn weighted<T: Copy>(&mut self, list: &[(usize, T)]) -> T {
        let sum = list.iter().map(|(weight, _)| weight).sum();
        let mut rest = self.below(sum);
        for &(weight, one) in list {
            if rest < weight {
                return one;
            }
            rest -= weight;
        }
        unreachable!("the weights add up to {sum}")
    }
}
