// SPDX-License-Identifier: GPL-2.0

//! "Register": the write indices of a file.

use super::check::{expect, Check, Row};
use crate::kit::abi::Data;
use crate::kit::errno::{Errno, Result};
use crate::kit::memory::{Mapping, KERNEL};
use crate::kit::random::Random;
use crate::kit::tracefs::count_of_events;
use std::collections::BTreeSet;

const INDEX: Row = Row::new(
    "index",
    "write_index is per open file, counts from 0, and is the same for the same event registered again \
     on that file; it is written only on success. Registering works on a file opened read-only too",
);

pub fn checks() -> Vec<Vec<Check>> {
    vec![INDEX.scenarios(&[
        ("counts_from_0_on_each_file", counts_on_each_file),
        ("is_the_same_after_unregistering", same_after_unregistering),
        ("is_the_same_for_each_of_many", same_for_each_of_many),
        ("failures_do_not_count", failures_do_not_count),
        ("is_given_on_a_read_only_file", read_only_index),
    ])]
}

/// Registers the `n`th event of a family of them.
fn nth(data: &Data, page: &Mapping, n: u8, word: u64) -> Result<u32> {
    let text = format!("st_index{n} u32 a");
    data.register_text(&text, page.address() + 4 * word, n)
}

fn counts_on_each_file() {
    let page = Mapping::kept(1);
    let files = [Data::open(), Data::open()];
    for i in 0..8 {
        // The second file gets them in the opposite order.
        expect(nth(&files[0], &page, i, 0), Ok(i.into()));
        expect(nth(&files[1], &page, 7 - i, 1), Ok(i.into()));
    }
}

fn same_after_unregistering() {
    let (data, page) = (Data::open(), Mapping::kept(1));
    expect(nth(&data, &page, 0, 0), Ok(0));
    expect(nth(&data, &page, 1, 0), Ok(1));
    expect(data.unregister_bit(page.address(), 0), Ok(()));
    expect(nth(&data, &page, 0, 0), Ok(0));
    expect(nth(&data, &page, 2, 0), Ok(2));
}

/// Each of many files uses some events of a large family.
fn same_for_each_of_many() {
    const FILES: usize = 20;
    const FAMILY: usize = 400;
    const EVENTS: usize = 120;
    let words = Mapping::kept(2);
    let mut random = Random::new(7);
    let mut bits = 0u32..;
    for _ in 0..FILES {
        let data = Data::open();
        let mut events = BTreeSet::new();
        while events.len() < EVENTS {
            events.insert(random.below(FAMILY));
        }
        for _ in 0..2 {
            for (index, event) in (0..).zip(&events) {
                let text = format!("st_index{event} u32 a");
                let bit = bits.next().unwrap_or_default();
                let address = words.address() + 4 * u64::from(bit / 32);
                let got = data.register_text(&text, address, (bit % 32) as u8);
                expect(got, Ok(index));
            }
        }
    }
}

/// A registration that fails takes no index, and leaves no event and no bit.
fn failures_do_not_count() {
    let (data, page) = (Data::open(), Mapping::kept(1));
    let address = page.address();
    expect(nth(&data, &page, 0, 0), Ok(0));
    for (text, address, bit, errno) in [
        ("st_index1 nonsense a", address, 1, Errno::EINVAL),
        ("st_index1 u32 a", address + 1, 1, Errno::EINVAL),
        ("st_index1 u32 a", KERNEL, 1, Errno::EFAULT),
        ("st_index0 u64 a", address, 1, Errno::EADDRINUSE),
        ("st_index1 u32 a", address, 0, Errno::EADDRINUSE),
    ] {
        expect(data.register_text(text, address, bit), Err(errno));
        expect(count_of_events(), 1);
    }
    expect(data.unregister_bit(address, 1), Err(Errno::ENOENT));
    expect(nth(&data, &page, 1, 0), Ok(1));
}

fn read_only_index() {
    let (data, page) = (Data::open_read_only(), Mapping::kept(1));
    expect(nth(&data, &page, 0, 0), Ok(0));
    expect(nth(&data, &page, 1, 0), Ok(1));
    expect(data.unregister_bit(page.address(), 0), Ok(()));
}
