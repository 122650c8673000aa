// SPDX-License-Identifier: GPL-2.0

//! A setuid program that a user starts after registering bits at the addresses of the program's
//! memory, and that checks whether the kernel writes there. It is this binary with
//! `--setuid-victim`.

use crate::kit::memory::{Mapping, PAGE, READ};
use crate::kit::os::{self, UNPRIVILEGED};
use crate::kit::wait;
use std::fs::File;
use std::process::ExitCode;
use std::sync::atomic::Ordering::SeqCst;

/// The option that makes this binary the victim. Its argument is a file whose first word counts the
/// switches of the event, and is updated while the victim runs.
pub const OPTION: &str = "--setuid-victim";

/// The address of the user's bits, and of the victim's memory. No other mapping is there.
pub const ADDRESS: u64 = 0x1234_5678_9000;

const SWITCHES: u32 = 12;

/// Exit status: not started by a user with the rights of root.
pub const NOT_ROOT: u8 = 3;
/// Exit status: the memory was written to.
pub const WRITTEN: u8 = 4;
/// Exit status: the event was not switched.
pub const NOTHING_SEEN: u8 = 5;

/// Runs the victim; `words` are the arguments behind the option.
pub fn main(words: &[String]) -> ExitCode {
    if os::users() != (UNPRIVILEGED, 0) {
        return ExitCode::from(NOT_ROOT);
    }
    let page = Mapping::placed(ADDRESS, 1);
    let file = File::open(&words[0]).expect("open the count");
    let count = Mapping::of_file(&file, 1, READ, libc::MAP_SHARED).expect("map the count");
    let first = count.word(0).load(SeqCst);
    let clean = || {
        (0..PAGE)
            .step_by(4)
            .all(|at| page.word(at).load(SeqCst) == 0)
    };
    let mut always_clean = true;
    let seen = wait::eventually(|| {
        always_clean &= clean();
        count.word(0).load(SeqCst).wrapping_sub(first) >= SWITCHES
    });
    ExitCode::from(match (always_clean && clean(), seen) {
        (false, _) => WRITTEN,
        (true, false) => NOTHING_SEEN,
        (true, true) => 0,
    })
}
