// SPDX-License-Identifier: GPL-2.0

//! KCSAN's reports of races. Only races of the module count: the kernel has many of its own.
//!
//! ```text
//! BUG: KCSAN: data-race in one / two
//!
//! write to 0xffff888100000000 of 8 bytes by task 7 on cpu 1:
//!  one+0x1/0x2
//!  three+0x1/0x2 [module]
//!
//! read to 0xffff888100000000 of 8 bytes by interrupt on cpu 0:
//!  two+0x1/0x2
//!
//! value changed: 0x0000000000000000 -> 0x0000000000000001
//!
//! Reported by Kernel Concurrency Sanitizer on:
//! CPU: 0 UID: 0 PID: 8 Comm: selftests Tainted: G           O        7.3.4 #1
//! Tainted: [O]=OOT_MODULE
//! Hardware name: QEMU
//! ==================================================================
//! ```

use crate::{
    lists::ACCESSORS,
    module, //
};

/// The part of a report that comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The first line of a stack.
    Before,
    /// The next frame of a stack, and its number.
    Stack(usize),
    /// No more stacks.
    Behind,
}

/// A report, which takes its lines one by one.
pub(crate) struct Report {
    place: Place,
    /// The first frame of the current stack accesses memory for its caller.
    is_for_caller: bool,
    is_ours: bool,
}

impl Report {
    /// Begins a report, if this line is the title of one.
    pub(crate) fn begin(line: &str) -> Option<Report> {
        line.starts_with("BUG: KCSAN: ").then_some(Report {
            place: Place::Before,
            is_for_caller: false,
            is_ours: false,
        })
    }

    pub(crate) fn is_end(line: &str) -> bool {
        line.len() >= 10 && line.bytes().all(|byte| byte == b'=')
    }

    /// Takes the next line, if it belongs to the report: others may stand between.
    pub(crate) fn takes(&mut self, line: &str) -> bool {
        if line.is_empty() {
            return true;
        }
        if is_access(line) && self.place != Place::Behind {
            self.place = Place::Stack(0);
            return true;
        }
        if line.starts_with("value changed: ") || line.starts_with("Reported by Kernel Concurrency")
        {
            self.place = Place::Behind;
            return true;
        }
        match self.place {
            Place::Stack(number) if is_frame(line) => {
                self.add(number, line);
                self.place = Place::Stack(number + 1);
                true
            }
            Place::Behind => {
                let of_machine = ["CPU: ", "Tainted: ", "Hardware name: "];
                of_machine.iter().any(|start| line.starts_with(start))
            }
            _ => false,
        }
    }

    /// The access is by the first frame, or by the second if the first accesses memory for its
    /// caller.
    fn add(&mut self, number: usize, frame: &str) {
        let is_ours = frame.ends_with(module::IN_STACK);
        match number {
            0 => {
                self.is_ours |= is_ours;
                self.is_for_caller = ACCESSORS.begin(frame);
            }
            1 => self.is_ours |= is_ours && self.is_for_caller,
            _ => {}
        }
    }

    /// Returns whether the report, as far as it goes, is of the module.
    pub(crate) fn is_relevant(&self) -> bool {
        self.is_ours
    }
}

/// `write to 0xffff888100000000 of 8 bytes by task 7 on cpu 1:`
fn is_access(line: &str) -> bool {
    let is_by = line.contains(" by task ") || line.contains(" by interrupt ");
    is_by && line.contains(" bytes ") && line.ends_with(':')
}

/// ` one+0x1/0x2 [module]`, or an address alone.
fn is_frame(line: &str) -> bool {
    let Some(frame) = line.strip_prefix(' ') else {
        return false;
    };
    let (place, module) = frame.split_once(' ').unwrap_or((frame, "[]"));
    let is_place = place.contains("+0x") || place.starts_with("0x");
    is_place && module.starts_with('[') && module.ends_with(']')
}
