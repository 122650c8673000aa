// SPDX-License-Identifier: GPL-2.0

//! On a frozen file system a task that writes to a page of a file waits for the thaw; no signal
//! ends the wait.

use super::{sleeps, user, EVENT};
use crate::harness::Test;
use crate::kit::beside::Beside;
use crate::kit::child::Word;
use crate::kit::errno::Errno;
use crate::kit::mounts::{self, Frozen, Kind, Mounted};
use crate::kit::{module, tasks};

pub const TESTS: &[Test] = of_kinds!(
    beneath_a_freeze_a_sleeping_process_holds_up_nothing:
        Ext4 OverlayOnExt4 Dax,
    beneath_a_freeze_a_process_that_runs_waits_alone:
        Ext4,
    beneath_a_freeze_a_kill_ends_a_sleeping_process:
        Ext4 OverlayOnExt4,
);

pub const TESTS_OF_LOADING: &[Test] = &[Test::new(
    "file_systems::beneath_a_freeze_the_module_unloads",
    beneath_a_freeze_the_module_unloads,
)
.of_loading()
.limit(400)
.skip_if(|| mounts::obstacle(Kind::Ext4))];

/// The page of the process's word is present but clean: a write to it enters the file system.
fn frozen(kind: Kind) -> Beside<Frozen> {
    let mounted = Mounted::new(kind);
    Beside::new(
        EVENT,
        || user(&mounted),
        |user| {
            user.tell(Word::Register);
            user.tell(Word::Sync);
            sleeps(user);
            // An overlay does not pass a freeze on to the file system below.
            let disk = Mounted {
                directory: mounts::DISK,
            };
            disk.freeze()
        },
    )
}

fn beneath_a_freeze_a_sleeping_process_holds_up_nothing(kind: Kind) {
    let mut setup = frozen(kind);
    setup.switch_on();
    setup.others_carry_on();
    // The last state counts when the bit can be written again.
    setup.switch_on();
    setup.let_go();
    setup.ends_clear(Word::IsSet, Word::Clear);
    setup.end();
}

/// The process waits for as long as the freeze lasts: `sb_start_pagefault()` waits for the thaw
/// even with `FOLL_NOWAIT`.
fn beneath_a_freeze_a_process_that_runs_waits_alone(kind: Kind) {
    let mut setup = frozen(kind);
    setup.switch_on();
    // The process faults its page in on its return to user space.
    setup.user.line.say(Word::IsSet);
    tasks::wait_state(setup.user.pid, setup.user.pid, 'D');
    setup.others_carry_on();
    setup.switch_on();
    setup.let_go();
    setup.user.line.hear(Word::IsSet);
    setup.ends_clear(Word::Set, Word::Clear);
    setup.end();
}

fn beneath_a_freeze_a_kill_ends_a_sleeping_process(kind: Kind) {
    let mut setup = frozen(kind);
    setup.switch_on();
    setup.kill();
    setup.is_gone();
    setup.others_carry_on();
    setup.let_go();
    setup.end();
}

fn beneath_a_freeze_the_module_unloads() {
    module::load();
    let mut setup = frozen(Kind::Ext4);
    setup.switch_on();
    setup.beside("unloading is refused", || {
        assert_eq!(module::unload(), Err(Errno::EAGAIN));
    });
    setup.kill();
    setup.is_gone();
    setup.switch_off();
    let frozen = setup.hold.take();
    setup.end();
    module::unload_when_idle();
    assert!(frozen.is_some());
}
