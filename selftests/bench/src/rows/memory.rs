// SPDX-License-Identifier: GPL-2.0

//! The kernel's memory.

use crate::count;
use std::fs;

/// Bytes that the kernel uses for good. Freed memory may wait for seconds, unless the kernel needs
/// memory.
pub fn settled() -> u64 {
    // Freed objects may hold others.
    for _ in 0..2 {
        fs::write("/proc/sys/vm/drop_caches", "2").expect("have the kernel free what it can");
        count::settle();
    }
    // A CPU counts dozens of pages before it updates the sum.
    fs::write("/proc/sys/vm/stat_refresh", "1").expect("have the kernel's counts brought together");
    used()
}

/// Bytes that the kernel uses for its own: slabs, areas of scattered pages, and per CPU.
fn used() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
    let kilobytes: u64 = ["Slab:", "VmallocUsed:", "Percpu:"]
        .iter()
        .map(|kind| {
            let line = text.lines().find_map(|line| line.strip_prefix(kind));
            let number = line.and_then(|line| line.split_whitespace().next());
            let number = number.and_then(|number| number.parse::<u64>().ok());
            number.unwrap_or_else(|| panic!("/proc/meminfo does not tell of {kind}"))
        })
        .sum();
    kilobytes * 1024
}
