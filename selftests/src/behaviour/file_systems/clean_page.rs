// SPDX-License-Identifier: GPL-2.0

//! A page of a file that is clean again when its bit is written: the write of the bit must dirty
//! it.

use super::{stored, User, EVENT, REST, TEXT};
use crate::harness::Test;
use crate::kit::child::Word;
use crate::kit::event::Event;
use crate::kit::mounts::{self, Kind, Mounted};
use crate::kit::os;
use crate::kit::stall::{self, Waiting};
use crate::kit::tracefs::TraceInstance;
use std::thread;

pub const TESTS: &[Test] = of_kinds!(skip_if stall::lacks_probes;
    a_bit_is_stored_if_its_page_was_written_back_before:
        Ext4 NineP,
);

/// The module faults the page in for writing, which dirties it. A stall before the bit is written
/// lets the page be written back.
fn a_bit_is_stored_if_its_page_was_written_back_before(kind: Kind) {
    let mounted = Mounted::new(kind);
    let user = User::new(&mounted);
    let _event = Event::new(TEXT);
    let top = TraceInstance::top();
    let mut cpus = os::cpus().into_iter().cycle();
    top.enable(EVENT);
    user.obey(Word::Fill);
    stall::retry_round(|| {
        let cpu = cpus.next();
        let was_in_time = thread::scope(|scope| {
            let registering = Waiting::new(scope, || {
                // A stalled task keeps its CPU busy, and with PREEMPT_RT the interrupt threads of
                // devices on that CPU. So each round uses another CPU.
                cpu.into_iter().for_each(os::run_on);
                user.obey(Word::Register);
            });
            let stalled = registering.stalled_at_return("pin_user_pages_remote", 1);
            user.obey(Word::Sync);
            stalled.is_not_over()
        });
        user.obey(Word::Forget);
        assert_eq!(stored(&mounted), REST | 1, "in the file");
        user.obey(Word::Unregister);
        was_in_time
    });
    top.disable(EVENT);
}
