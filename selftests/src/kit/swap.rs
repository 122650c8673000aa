// SPDX-License-Identifier: GPL-2.0

//! A device in compressed memory, for the tests that need pages to be elsewhere.

use crate::kit::cgroup::Cgroup;
use crate::kit::memory::{Mapping, PAGE};
use crate::kit::tool::succeeds;
use crate::kit::wait;
use std::fs;
use std::process::Command;

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
    path: String,
    /// Dropped in this order.
    _disk: Option<Loop>,
    _device: Device,
}

impl Swap {
    /// Makes one from which a page is there at once.
    pub fn new() -> Swap {
        Swap::on(Device::new(), None)
    }

    /// Makes one from which a page has to be waited for: reading is left to a worker.
    pub fn on_a_disk() -> Swap {
        let device = Device::new();
        let disk = Loop::of(&device.path());
        Swap::on(device, Some(disk))
    }

    fn on(device: Device, disk: Option<Loop>) -> Swap {
        let path = match &disk {
            Some(disk) => disk.0.clone(),
            None => device.path(),
        };
        assert!(succeeds("mkswap", &[&path]), "mkswap {path}");
        assert!(succeeds("swapon", &[&path]), "swapon {path}");
        Swap {
            path,
            _disk: disk,
            _device: device,
        }
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        succeeds("swapoff", &[&self.path]);
    }
}

/// Has the kernel put out a page.
pub fn put_out(page: &Mapping) {
    wait::until("the page to be swapped out", || {
        page.page_out();
        page.swapped_or_present().0
    });
}

/// A page that can be put out to a [`Swap::on_a_disk`] until nothing of it is in memory.
pub struct PageOnDisk<'a> {
    page: &'a Mapping,
    /// It pays for the page and for nothing else, which would be put out with it.
    group: Cgroup,
}

impl PageOnDisk<'_> {
    /// Takes a page, the contents of which are lost.
    pub fn new<'a>(page: &'a Mapping, name: &str) -> PageOnDisk<'a> {
        let group = Cgroup::new(name);
        page.advise(libc::MADV_DONTNEED).expect("MADV_DONTNEED");
        group.enter();
        page.put(0, &[0]);
        Cgroup::leave();
        PageOnDisk { page, group }
    }

    /// Puts it out.
    pub fn put_out(&self) {
        put_out(self.page);
        // Written, it is still at hand until it is reclaimed.
        wait::until("the page to be on the disk only", || {
            self.group.reclaim(PAGE);
            self.page.resident() == 0
        });
    }
}

/// Why there can be no loop device here, if there can be none.
pub fn lacks_a_disk() -> Option<String> {
    let is_there = succeeds("modprobe", &["-n", "-q", "loop"]);
    (!is_there).then(|| "this kernel has no loop".into())
}

/// A loop device, by its node; removed when dropped.
struct Loop(String);

impl Loop {
    fn of(path: &str) -> Loop {
        assert!(succeeds("modprobe", &["loop"]), "modprobe loop");
        let output = Command::new("losetup")
            .args(["-f", "--show", path])
            .output();
        let output = output.expect("losetup");
        assert!(output.status.success(), "losetup {path}: {output:?}");
        let node = String::from_utf8(output.stdout).expect("the name of a loop device");
        Loop(node.trim().into())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        succeeds("losetup", &["-d", &self.0]);
    }
}
