// SPDX-License-Identifier: GPL-2.0

//! A device in compressed memory, for the tests that need pages to be elsewhere.

use crate::kit::tool::succeeds;
use std::fs;

/// Can this machine have one?
pub fn is_possible() -> bool {
    fs::exists("/proc/swaps").unwrap_or(false) && succeeds("modprobe", &["-n", "-q", "zram"])
}

/// A device; removed when dropped.
pub struct Device {
    number: String,
}

impl Device {
    /// Makes one of 32 MiB.
    pub fn new() -> Device {
        assert!(
            succeeds("modprobe", &["zram", "num_devices=0"]),
            "modprobe zram"
        );
        let number = fs::read_to_string("/sys/class/zram-control/hot_add").expect("a new zram");
        let device = Device {
            number: number.trim().into(),
        };
        let size = format!("/sys/block/zram{}/disksize", device.number);
        fs::write(size, "32M").expect("the size of zram");
        device
    }

    /// Its node.
    pub fn path(&self) -> String {
        format!("/dev/zram{}", self.number)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = fs::write("/sys/class/zram-control/hot_remove", &self.number);
        succeeds("modprobe", &["-r", "zram"]);
    }
}

/// How many pages the kernel has put out since it started.
pub fn pages_out() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").expect("/proc/vmstat");
    let count = text.lines().find_map(|line| line.strip_prefix("pswpout "));
    count
        .and_then(|count| count.parse().ok())
        .unwrap_or_else(|| panic!("no pswpout in {text}"))
}

/// A device in use for swapping; taken out of use when dropped.
pub struct Swap {
    device: Device,
}

impl Swap {
    /// Makes one.
    pub fn new() -> Swap {
        let device = Device::new();
        let path = device.path();
        assert!(succeeds("mkswap", &[&path]), "mkswap {path}");
        assert!(succeeds("swapon", &[&path]), "swapon {path}");
        Swap { device }
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        succeeds("swapoff", &[&self.device.path()]);
    }
}
