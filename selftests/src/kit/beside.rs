// SPDX-License-Identifier: GPL-2.0

//! A process that cannot have its memory, and others beside it that carry on.

use crate::kit::child::{Child, Word};
use crate::kit::event::{is_listed, wait_due, wait_gone};
use crate::kit::other_tasks::OtherTasks;
use crate::kit::setting::{allow_long_sleep, Setting};
use crate::kit::tracefs::TraceInstance;
use crate::kit::{os, tasks, wait};

/// The process, with a bit of an event. Dropping `hold`, as is done first, ends every wait.
pub struct Beside<H> {
    pub hold: Option<H>,
    pub user: Child,
    event: &'static str,
    other_tasks: OtherTasks,
    _long_sleep: Option<Setting>,
}

impl<H> Beside<H> {
    /// Makes the other processes, then the one that follows orders, and then what holds it up.
    pub fn new(
        event: &'static str,
        user: impl FnOnce() -> Child,
        hold: impl FnOnce(&mut Child) -> H,
    ) -> Beside<H> {
        let long_sleep = allow_long_sleep();
        let other_tasks = OtherTasks::new(event);
        let mut user = user();
        Beside {
            hold: Some(hold(&mut user)),
            user,
            event,
            other_tasks,
            _long_sleep: long_sleep,
        }
    }

    /// Ends every wait.
    pub fn let_go(&mut self) {
        self.hold = None;
    }

    /// Lets the process do something.
    #[track_caller]
    pub fn tell(&mut self, word: Word) {
        self.user.tell(word);
    }

    /// Does something while the process waits.
    #[track_caller]
    pub fn beside(&mut self, op: &str, run: impl FnOnce()) {
        self.other_tasks.ops.has(op, run);
        self.nothing_is_late();
    }

    /// Checks that all operations of other processes succeed, and that no kernel worker waits for a
    /// page.
    #[track_caller]
    pub fn others_carry_on(&mut self) {
        self.other_tasks.carry_on();
        self.nothing_is_late();
        self.beside("no worker of the module waits for memory", || {
            wait::until("the end of their waits", || {
                tasks::waiting_workers("user_events").is_empty()
            });
        });
    }

    #[track_caller]
    fn nothing_is_late(&mut self) {
        self.other_tasks.ops.judge(|| self.hold = None);
    }

    /// Enables the event, which the process's bit cannot follow: it is listed as due.
    #[track_caller]
    pub fn switch_on(&mut self) {
        let (event, pid) = (self.event, self.user.pid);
        self.beside("ftrace attaches", || TraceInstance::top().enable(event));
        self.beside("the bit is listed as due", || wait_due(pid));
    }

    #[track_caller]
    pub fn switch_off(&mut self) {
        let event = self.event;
        self.beside("ftrace leaves", || TraceInstance::top().disable(event));
    }

    /// Checks that the process's bit follows the event, by these orders.
    #[track_caller]
    pub fn follows(&mut self, set: Word, clear: Word) {
        let event = self.event;
        self.beside("ftrace attaches", || TraceInstance::top().enable(event));
        self.ends_clear(set, clear);
    }

    /// Checks that a bit that was due is set, and follows the next change.
    #[track_caller]
    pub fn ends_clear(&mut self, set: Word, clear: Word) {
        self.tell(set);
        self.switch_off();
        self.tell(clear);
    }

    pub fn kill(&self) {
        os::kill(self.user.pid, libc::SIGKILL).expect("kill");
    }

    /// Checks that the killed process ends, and its registrations with it, although it is held up.
    #[track_caller]
    pub fn is_gone(&mut self) {
        let pid = self.user.pid;
        self.beside("its registration goes", || {
            wait::until("its registration to go", || !is_listed(pid));
        });
        if !os::wait_for_end(pid, wait::limit()).expect("wait for the end") {
            self.let_go();
            panic!("a killed process stayed");
        }
    }

    /// Ends everything.
    #[track_caller]
    pub fn end(self) {
        self.user.kill();
        self.other_tasks.end();
        wait_gone(self.event);
    }
}
