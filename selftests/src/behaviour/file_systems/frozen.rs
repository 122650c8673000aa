// SPDX-License-Identifier: GPL-2.0

//! On a frozen file system a task that writes to a page of a file waits for the thaw; no signal
//! ends the wait.

use super::{sleeps, switch, user, EVENT};
use crate::harness::Test;
use crate::kit::child::{Child, Word};
use crate::kit::errno::Errno;
use crate::kit::event::{is_listed, wait_due, wait_gone};
use crate::kit::mounts::{self, Kind, Mounted};
use crate::kit::other_tasks::OtherTasks;
use crate::kit::setting::{allow_long_sleep, Setting};
use crate::kit::tracefs::TraceInstance;
use crate::kit::{module, os, tasks, wait};

pub const TESTS: &[Test] = of_kinds!(
    beneath_a_freeze_a_sleeping_process_holds_up_nothing:
        Ext4 OverlayOnExt4 Dax,
    beneath_a_freeze_a_process_that_runs_waits_alone:
        Ext4,
    beneath_a_freeze_a_registering_process_waits_alone:
        Ext4,
    beneath_a_freeze_an_unregistering_process_waits_alone:
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

/// A process with a word in a file system, and others without one. `frozen` is dropped first: the
/// thaw ends every wait.
struct Setup {
    frozen: Option<mounts::Frozen>,
    user: Child,
    other_tasks: Option<OtherTasks>,
    _mounted: Mounted,
    _long_sleep: Option<Setting>,
}

impl Setup {
    /// The page of the word is present but clean: a write to it enters the file system.
    fn new(kind: Kind) -> Setup {
        let long_sleep = allow_long_sleep();
        let mounted = Mounted::new(kind);
        let other_tasks = OtherTasks::new(EVENT);
        let mut user = user(&mounted);
        user.tell(Word::Register);
        user.tell(Word::Sync);
        sleeps(&user);
        // An overlay does not pass a freeze on to the file system below.
        let disk = Mounted {
            directory: mounts::DISK.into(),
        };
        let frozen = Some(disk.freeze());
        Setup {
            frozen,
            user,
            other_tasks: Some(other_tasks),
            _mounted: mounted,
            _long_sleep: long_sleep,
        }
    }

    #[track_caller]
    fn beside(&mut self, op: &str, run: impl FnOnce()) {
        let ops = &mut self.other_tasks.as_mut().unwrap().ops;
        ops.has(op, run);
        ops.judge(|| drop(self.frozen.take()));
    }

    /// Checks that all operations of other processes succeed, and that no kernel worker waits for a
    /// page.
    #[track_caller]
    fn others_carry_on(&mut self) {
        let other_tasks = self.other_tasks.as_mut().unwrap();
        other_tasks.carry_on();
        other_tasks.ops.judge(|| drop(self.frozen.take()));
        self.beside("no worker of the module waits for memory", || {
            wait::until("the end of their waits", || {
                tasks::waiting_workers("user_events").is_empty()
            });
        });
    }

    /// Enables the event, whose bit cannot follow.
    #[track_caller]
    fn switch_on(&mut self) {
        self.beside("ftrace attaches", || TraceInstance::top().enable(EVENT));
        let pid = self.user.pid;
        self.beside("the bit is listed as due", || {
            wait_due(pid);
        });
    }

    #[track_caller]
    fn wait_for(&mut self, thread: i32) {
        let pid = self.user.pid;
        tasks::wait_state(pid, thread, 'D');
    }

    #[track_caller]
    fn tell(&mut self, word: Word) {
        self.user.tell(word);
    }

    #[track_caller]
    fn switch(&mut self, on: bool) {
        switch(&mut self.user, on);
    }

    fn thaw(&mut self) {
        self.frozen = None;
    }

    fn kill(&self) {
        os::kill(self.user.pid, libc::SIGKILL).expect("kill");
    }

    /// Checks that the killed process and its registration end while the file system is frozen.
    #[track_caller]
    fn is_gone(&mut self) {
        let pid = self.user.pid;
        self.beside("its registration goes", || {
            wait::until("its registration to go", || !is_listed(pid));
        });
        if !os::wait_for_end(pid, wait::limit()).expect("wait for the end") {
            self.thaw();
            panic!("a killed process stayed");
        }
    }

    #[track_caller]
    fn end(mut self) {
        self.thaw();
        self.user.kill();
        self.other_tasks.take().unwrap().end();
        wait_gone(EVENT);
    }
}

fn beneath_a_freeze_a_sleeping_process_holds_up_nothing(kind: Kind) {
    let mut setup = Setup::new(kind);
    setup.switch_on();
    setup.others_carry_on();
    // The last state counts when the bit can be written again.
    setup.switch_on();
    setup.thaw();
    setup.tell(Word::IsSet);
    setup.switch(false);
    setup.end();
}

/// The process waits for as long as the freeze lasts: `sb_start_pagefault()` waits for the thaw
/// even with `FOLL_NOWAIT`.
fn beneath_a_freeze_a_process_that_runs_waits_alone(kind: Kind) {
    let mut setup = Setup::new(kind);
    setup.switch_on();
    // The process faults its page in on its return to user space.
    setup.user.line.say(Word::IsSet);
    setup.wait_for(setup.user.pid);
    setup.others_carry_on();
    setup.switch_on();
    setup.thaw();
    setup.user.line.hear(Word::IsSet);
    setup.tell(Word::Set);
    setup.switch(false);
    setup.end();
}

fn beneath_a_freeze_a_registering_process_waits_alone(kind: Kind) {
    let mut setup = Setup::new(kind);
    let registering = setup.user.tell_thread(Word::RegisterSecond);
    setup.wait_for(registering);
    setup.others_carry_on();
    setup.thaw();
    setup.tell(Word::Join);
    setup.switch(true);
    setup.tell(Word::SecondSet);
    setup.switch(false);
    setup.end();
}

fn beneath_a_freeze_an_unregistering_process_waits_alone(kind: Kind) {
    let mut setup = Setup::new(kind);
    let unregistering = setup.user.tell_thread(Word::Unregister);
    setup.wait_for(unregistering);
    setup.others_carry_on();
    setup.thaw();
    setup.tell(Word::Join);
    // The unregistration is complete, so this registration is new.
    setup.tell(Word::Register);
    setup.switch(true);
    setup.switch(false);
    setup.end();
}

fn beneath_a_freeze_a_kill_ends_a_sleeping_process(kind: Kind) {
    let mut setup = Setup::new(kind);
    setup.switch_on();
    setup.kill();
    setup.is_gone();
    setup.others_carry_on();
    setup.end();
}

fn beneath_a_freeze_the_module_unloads() {
    module::load();
    let mut setup = Setup::new(Kind::Ext4);
    setup.switch_on();
    setup.beside("unloading is refused", || {
        assert_eq!(module::unload(), Err(Errno::EAGAIN));
    });
    setup.kill();
    setup.is_gone();
    setup.beside("ftrace leaves", || TraceInstance::top().disable(EVENT));
    setup.other_tasks.take().unwrap().end();
    wait_gone(EVENT);
    module::unload_when_idle();
    assert!(setup.frozen.is_some());
}
