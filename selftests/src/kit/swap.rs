// SPDX-License-Identifier: GPL-2.0

//! Swap devices in memory: a fast one, and one whose requests take time.

use crate::kit::cgroup::Cgroup;
use crate::kit::memory::{list_all_pages, Mapping, PAGE};
use crate::kit::tool::succeeds;
use crate::kit::{machine, wait};
use std::any::Any;
use std::fs;
use std::path::{Path, PathBuf};

pub fn is_possible() -> bool {
    fs::exists("/proc/swaps").unwrap_or(false) && succeeds("modprobe", &["-n", "-q", "zram"])
}

/// Returns why there can be no [`Swap`].
pub fn lacks_swap() -> Option<String> {
    (!is_possible()).then(|| "this machine cannot swap".into())
}

/// A zram device; removed when dropped.
pub struct Device {
    number: String,
}

impl Device {
    pub fn new() -> Device {
        let is_loaded = succeeds("modprobe", &["zram", "num_devices=0"]);
        assert!(is_loaded, "modprobe zram");
        let number = fs::read_to_string("/sys/class/zram-control/hot_add").expect("a new zram");
        let device = Device {
            number: number.trim().into(),
        };
        let size = format!("/sys/block/zram{}/disksize", device.number);
        fs::write(size, "32M").expect("the size of zram");
        device
    }

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

pub fn pages_out() -> i64 {
    machine::number_in("/proc/vmstat", "pswpout")
}

/// A device in use as swap until dropped.
pub struct Swap {
    path: String,
    /// Removed after swapoff.
    _device: Box<dyn Any>,
}

impl Swap {
    /// Makes one that returns a page at once.
    pub fn new() -> Swap {
        let device = Device::new();
        Swap::on(device.path(), Box::new(device))
    }

    /// Makes one that returns a page after a delay.
    pub fn on_a_disk() -> Swap {
        let disk = Disk::new();
        Swap::on(DISK.into(), Box::new(disk))
    }

    fn on(path: String, device: Box<dyn Any>) -> Swap {
        assert!(succeeds("mkswap", &[&path]), "mkswap {path}");
        assert!(succeeds("swapon", &[&path]), "swapon {path}");
        Swap {
            path,
            _device: device,
        }
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        succeeds("swapoff", &[&self.path]);
    }
}

pub fn put_out(page: &Mapping) {
    wait::until("the page to be swapped out", || {
        page.page_out();
        page.swapped_or_present().0
    });
}

/// Waits until a page is swapped in, without touching it: the access itself would swap it in.
#[track_caller]
pub fn wait_brought_back(page: &Mapping) {
    wait::until("the kernel to bring the page back", || {
        page.swapped_or_present().1
    });
}

/// A page that can be swapped out to a [`Swap::on_a_disk`], and removed from the swap cache.
pub struct PageOnDisk<'a> {
    page: &'a Mapping,
    /// Charged for this page only, as reclaim would put out any other page of the group, too.
    group: Cgroup,
}

impl PageOnDisk<'_> {
    /// Takes a page, whose content is lost. A child that is forked later shares it; the copy that
    /// the first write makes is not charged to the group.
    pub fn new<'a>(page: &'a Mapping, name: &str) -> PageOnDisk<'a> {
        let group = Cgroup::new(name);
        page.advise(libc::MADV_DONTNEED).expect("MADV_DONTNEED");
        group.enter();
        // A page of zeros would not be written to the device, and back at once.
        page.put(PAGE - 16, b"contents");
        Cgroup::leave();
        PageOnDisk { page, group }
    }

    /// Swaps the page out, and reclaims it.
    pub fn put_out(&self) {
        put_out(self.page);
        // The page stays in the swap cache until reclaimed.
        let is_there = wait::eventually(|| {
            list_all_pages();
            self.group.reclaim(PAGE);
            self.page.resident() == 0
        });
        assert!(
            is_there,
            "it stays in memory, of which its group has {} bytes as copies of what is on the disk",
            self.group.number("memory.stat", "swapcached"),
        );
    }
}

/// Returns why there can be no [`Swap::on_a_disk`].
pub fn lacks_a_disk() -> Option<String> {
    let has_disk = || succeeds("modprobe", &["-n", "-q", "null_blk"]);
    lacks_swap().or_else(|| (!has_disk()).then(|| "this kernel has no null_blk".into()))
}

/// The duration of a request in nanoseconds.
const TIME: &str = "5000000";

const DISK: &str = "/dev/st_disk";

/// A null_blk disk of 32 MiB, in memory, with a delay for each request; removed when dropped.
struct Disk(PathBuf);

impl Disk {
    fn new() -> Disk {
        const CONFIGURATION: &str = "/sys/kernel/config";
        let is_loaded = succeeds("modprobe", &["null_blk", "nr_devices=0"]);
        assert!(is_loaded, "modprobe null_blk");
        let disks = Path::new(CONFIGURATION).join("nullb");
        if !disks.exists() {
            let mounted = succeeds("mount", &["-t", "configfs", "none", CONFIGURATION]);
            assert!(mounted, "mount configfs");
        }
        let disk = Disk(disks.join("st_disk"));
        fs::create_dir(&disk.0).expect("a new disk");
        for (file, value) in [
            ("size", "32"),
            ("memory_backed", "1"),
            // Completion by a timer.
            ("irqmode", "2"),
            ("completion_nsec", TIME),
            ("power", "1"),
        ] {
            disk.set(file, value);
        }
        wait::until("the node of the disk", || Path::new(DISK).exists());
        disk
    }

    fn set(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value)
            .unwrap_or_else(|error| panic!("{value} to {file} of a disk: {error}"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("power"), "0");
        let _ = fs::remove_dir(&self.0);
        succeeds("modprobe", &["-r", "null_blk"]);
    }
}
