// SPDX-License-Identifier: GPL-2.0

//! The state of the machine: memory in use, modules, the kernel log.

use crate::kit::bpf::{give, Program};
use crate::kit::errno::Errno;
use crate::kit::setting::Setting;
use crate::kit::tracefs;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// The factor by which times are longer on a kernel with lockdep or KCSAN.
pub fn slowness() -> u32 {
    let watches = |what: &str| Path::new(what).exists();
    match watches("/proc/lockdep_stats") || watches("/sys/module/kcsan") {
        true => 4,
        false => 1,
    }
}

/// The number of rounds of a test: a third on a slow debug kernel, which detects in few rounds what
/// others show in many.
pub fn rounds(many: usize) -> usize {
    match slowness() {
        1 => many,
        _ => many / 3,
    }
}

/// Frees empty slabs, and flushes the quarantine of KASAN, whose free objects still count as used.
pub fn forget_free_objects() {
    let caches = fs::read_dir("/sys/kernel/slab").into_iter().flatten();
    for cache in caches.filter_map(Result::ok) {
        // Some kernels lack the file, and have no quarantine to flush.
        let _ = fs::write(cache.path().join("shrink"), "1");
    }
}

/// Purges lazily freed vmalloc() areas, such as the stacks of ended processes: KASAN keeps shadow
/// pages for each until then. A change of page permissions purges them all, as for the memory of a
/// program that is not JIT-compiled. C: `bpf_prog_lock_ro()`, `vm_unmap_aliases()`.
pub fn give_up_free_areas() {
    const TRANSLATE: &str = "/proc/sys/net/core/bpf_jit_enable";
    let _setting = Setting::new(TRANSLATE, "0");
    drop(Program::new(&[&give(0)]));
}

/// The name of each slab cache, and the value that `value` takes from the numbers of its line.
fn slab_caches(value: impl Fn(&dyn Fn(usize) -> i64) -> i64) -> Vec<(String, i64)> {
    let text = fs::read_to_string("/proc/slabinfo").expect("/proc/slabinfo");
    let lines = text.lines().skip(2).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = value(&|at| words[at].parse().unwrap());
        (words[0].to_string(), value)
    });
    lines.collect()
}

/// Objects in use, by slab cache.
pub fn slab_objects() -> BTreeMap<String, i64> {
    slab_caches(|number| number(1)).into_iter().collect()
}

/// Their bytes.
pub fn slab_bytes() -> BTreeMap<String, i64> {
    let bytes = slab_caches(|number| number(1) * number(3));
    bytes.into_iter().collect()
}

/// The lines of /proc/vmallocinfo for memory in use, without addresses.
pub fn vmalloc_areas() -> Vec<String> {
    let text = fs::read_to_string("/proc/vmallocinfo").expect("/proc/vmallocinfo");
    let lines = text.lines().map(|line| line.split_once(' ').unwrap().1);
    // Lazily freed areas stay listed until the kernel next flushes the TLB.
    let lines = lines.filter(|line| !line.contains("unpurged"));
    lines.map(String::from).collect()
}

/// The number behind a key in a file with lines such as `KEY NUMBER` or `KEY: NUMBER kB`.
#[track_caller]
pub fn number_in(file: impl AsRef<Path>, key: &str) -> i64 {
    let text = fs::read_to_string(&file).expect("a file with numbers");
    let mut values = text.lines().filter_map(|line| line.strip_prefix(key));
    let value = values.find_map(|value| value.strip_prefix([' ', ':'])?.split_whitespace().next());
    let number = value.and_then(|value| value.parse().ok());
    number.unwrap_or_else(|| panic!("{key} in {}", file.as_ref().display()))
}

/// A value of /proc/meminfo, in kB.
pub fn meminfo(key: &str) -> i64 {
    number_in("/proc/meminfo", key)
}

/// Pages of objects too large for a slab cache: the slab pages that belong to no cache.
pub fn large_object_pages() -> i64 {
    // Pages per slab, and slabs.
    let of_caches = slab_caches(|number| number(5) * number(14)).into_iter();
    let of_caches: i64 = of_caches.map(|(_, pages)| pages).sum();
    // Folds the per-CPU counters into the total.
    let _ = fs::read("/proc/sys/vm/stat_refresh");
    meminfo("Slab") / 4 - of_caches
}

/// Pages in use outside all other counters: those allocated one by one, and leaked pages that were
/// user memory or page cache.
pub fn other_pages() -> i64 {
    let _ = fs::read("/proc/sys/vm/stat_refresh");
    let used = meminfo("MemTotal") - meminfo("MemFree");
    let others = "AnonPages Cached Buffers Slab PageTables Percpu VmallocUsed";
    let counted: i64 = others.split(' ').map(meminfo).sum();
    // Free pages on the per-CPU lists.
    let zones = fs::read_to_string("/proc/zoneinfo").expect("/proc/zoneinfo");
    let words = zones.lines().map(str::trim);
    let kept = words.filter_map(|line| line.strip_prefix("count:")?.trim().parse::<i64>().ok());
    (used - counted) / 4 - kept.sum::<i64>() - stack_depot_pages()
}

/// Pages of the stack depot, which a debug kernel grows for each new call stack, even one of an
/// interrupt. None on other kernels. C: `DEPOT_POOL_ORDER` (include/linux/stackdepot.h).
fn stack_depot_pages() -> i64 {
    const PAGES_OF_A_POOL: i64 = 4;
    let stats = Path::new("/sys/kernel/debug/stackdepot/stats");
    let pools = stats.exists().then(|| number_in(stats, "pools"));
    pools.unwrap_or(0) * PAGES_OF_A_POOL
}

/// Pinned pages of user memory, such as those with an enable bit being written. The counters are
/// read one after the other, so the result can be wrong while pages are being pinned.
pub fn pinned_pages() -> i64 {
    // Folds the per-CPU counters into the total now, not seconds later.
    fs::read("/proc/sys/vm/stat_refresh").expect("stat_refresh");
    let count = |key: &str| number_in("/proc/vmstat", key);
    count("nr_foll_pin_acquired") - count("nr_foll_pin_released")
}

/// Drops caches that hide the memory in use, and frees empty slabs.
pub fn drop_caches() {
    fs::write("/proc/sys/vm/drop_caches", "3").expect("drop_caches");
    forget_free_objects();
}

pub struct Log {
    file: File,
}

impl Log {
    /// Starts at the end of the log.
    pub fn from_now() -> Log {
        let mut file = tracefs::open(Path::new("/dev/kmsg"), libc::O_NONBLOCK);
        file.seek(SeekFrom::End(0)).expect("seek in /dev/kmsg");
        Log { file }
    }

    pub fn take(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut buffer = [0; 8192];
        loop {
            match self.file.read(&mut buffer).map_err(Errno::from) {
                Ok(length) => {
                    let text = String::from_utf8_lossy(&buffer[..length]);
                    lines.push(kernel_log::kmsg_text(&text).to_string());
                }
                Err(Errno::EAGAIN) => return lines,
                // EPIPE: lines were overwritten before they were read; the remaining ones follow.
                Err(Errno(libc::EPIPE)) => lines.push(kernel_log::LOST.to_string()),
                Err(errno) => panic!("read /dev/kmsg: {errno:?}"),
            }
        }
    }
}
