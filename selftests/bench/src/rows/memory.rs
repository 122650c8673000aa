// SPDX-License-Identifier: GPL-2.0

//! The kernel's memory.

use crate::count;
use std::fs;

/// Bytes that the kernel uses after it has dropped its caches. Otherwise freed memory may stay
/// there for seconds.
pub fn settled() -> u64 {
    // Freeing an object may make others free.
    for _ in 0..2 {
        fs::write("/proc/sys/vm/drop_caches", "2").expect("have the kernel free what it can");
        count::settle();
    }
    // A CPU counts dozens of pages before it adds them to the sum.
    fs::write("/proc/sys/vm/stat_refresh", "1").expect("have the kernel's counts brought together");
    used()
}

/// Bytes of the kernel's own use: slabs, vmalloc areas and per-CPU memory.
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
