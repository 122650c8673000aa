// SPDX-License-Identifier: GPL-2.0

//! A swap device in compressed memory, for the tests that need pages to be elsewhere.

use std::fs;
use std::process::{Command, Stdio};

/// Runs a command; tells whether it went well.
fn run(command: &str, arguments: &[&str]) -> bool {
    let command = Command::new(command)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    command.is_ok_and(|status| status.success())
}

/// Can this machine have one?
pub fn is_possible() -> bool {
    fs::exists("/proc/swaps").unwrap_or(false) && run("modprobe", &["-n", "-q", "zram"])
}

/// A swap device in use; taken out of use when dropped.
pub struct Swap {
    number: String,
}

impl Swap {
    /// Makes one of 32 MiB.
    pub fn new() -> Swap {
        assert!(run("modprobe", &["zram", "num_devices=0"]), "modprobe zram");
        let number = fs::read_to_string("/sys/class/zram-control/hot_add").expect("a new zram");
        let swap = Swap {
            number: number.trim().into(),
        };
        let size = format!("/sys/block/zram{}/disksize", swap.number);
        fs::write(size, "32M").expect("the size of zram");
        let device = swap.device();
        assert!(run("mkswap", &[&device]), "mkswap {device}");
        assert!(run("swapon", &[&device]), "swapon {device}");
        swap
    }

    fn device(&self) -> String {
        format!("/dev/zram{}", self.number)
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        run("swapoff", &[&self.device()]);
        let _ = fs::write("/sys/class/zram-control/hot_remove", &self.number);
        run("modprobe", &["-r", "zram"]);
    }
}
