// SPDX-License-Identifier: GPL-2.0

//! The kernel's memory.

/// Bytes that the kernel uses for its own: slabs, areas of scattered pages, and per CPU.
pub fn used() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
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
