// SPDX-License-Identifier: GPL-2.0

//! Random numbers from a seed: the same ones whenever it is given again.

/// A seed, or another number of an option: in decimal, or as seeds are printed, in hexadecimal after 0x.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A source of them. (SplitMix64.)
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// Other numbers for each seed.
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

    /// One of `0..end`, which is not empty.
    pub fn below(&mut self, end: usize) -> usize {
        self.long_below(end as u64) as usize
    }

    /// The same, for large numbers.
    pub fn long_below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// The same, for small ones.
    pub fn byte_below(&mut self, end: u8) -> u8 {
        self.below(end.into()) as u8
    }

    /// True so many times of a thousand.
    pub fn thousandths(&mut self, times: usize) -> bool {
        self.below(1000) < times
    }

    /// One of a list, if it has any.
    pub fn one<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        (!list.is_empty()).then(|| list[self.below(list.len())])
    }

    /// One of a list that has some.
    pub fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// One of a list in which each has its weight.
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
