// SPDX-License-Identifier: GPL-2.0

//! A program with root's rights, which a user starts after registering bits where it will have memory
//! of its own: it sees whether the kernel writes there. It is this very program with `--setuid-victim`.

use crate::kit::memory::{Mapping, PAGE, READ};
use crate::kit::os::{self, UNPRIVILEGED};
use crate::kit::wait;
use std::fs::File;
use std::process::ExitCode;
use std::sync::atomic::Ordering::SeqCst;

/// The option that makes this program the victim. What follows: a file, the first word of which
/// counts how often the event is switched, and which is written as long as there is a victim.
pub const OPTION: &str = "--setuid-victim";

/// Where the user registers bits, and the victim has memory. Nothing else is there.
pub const ADDRESS: u64 = 0x1234_5678_9000;

/// How often the event is switched while the victim looks.
const SWITCHES: u32 = 12;

/// It was not started as it is meant to be.
pub const NOT_ROOT: u8 = 3;
/// Its memory was written to.
pub const WRITTEN: u8 = 4;
/// The event was not switched.
pub const NOTHING_SEEN: u8 = 5;

/// Is the victim: `words` are what follows the option.
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
