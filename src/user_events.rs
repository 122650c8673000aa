// SPDX-License-Identifier: GPL-2.0

//! The Linux `user_events` ABI as a module: trace events that user programs make and write.
//!
//! [`UserEvents`] has all that is made on load, in the order in which it is undone. The
//! directories:
//!
//! - [`schema`]: what a description means; pure, also tested on the host.
//! - [`sys`]: one safe type per facility of the kernel; all code that the compiler does not check.
//! - [`events`]: groups of events, and one event: its texts, its consumers, its enablers.
//! - [`mms`]: the mms with enablers, and how they begin, fork and end.
//! - [`write`]: the hot path, from a payload to the consumers of its event.
//! - [`uapi`]: the files in tracefs, the ioctls, and the module's lines in `dynamic_events`.
//!
//! `uapi` imports from `write`, `mms` and `events`, `write` and `mms` from `events`, all of them
//! from `sys`, and `uapi`, `write`, `events` and `sys` from `schema`. One import goes back: an
//! event lists its enablers.

// The macros of the kernel crate of 6.12 recurse once for each field.
#![cfg_attr(USER_EVENTS_KERNEL_6_12, recursion_limit = "256")]

#[cfg(USER_EVENTS_KERNEL_6_12)]
extern crate of_6_12 as kernel;

use kernel::prelude::*;
use kernel::sync::Arc;

mod errno;
mod events;
#[cfg(USER_EVENTS_FAIL_LOAD)]
mod fail_load;
mod mms;
mod schema;
mod sorted_arcs;
mod sys;
mod uapi;
mod write;

use events::{
    Group,
    IdleEvents,
    UserEvent, //
};
use mms::UserMms;
use sys::dyn_event::DynEvents;
use sys::exit_probe::ExitProbe;
use sys::fork::ForkProbe;
use sys::loading::{
    Load,
    LoadComplete, //
    Loaded,
};
use sys::symbols::{
    CheckedSymbols,
    ResolvedSymbols, //
};
use sys::tracefs::{
    Control,
    SeqListing,
    TracefsFile, //
};
use sys::work_queue::OwnedQueue;
use uapi::{
    DataFile,
    FileContext,
    Groups,
    GroupsFile,
    ProfileFile,
    RegistrationsFile,
    StatusFile, //
};

module! {
    type: Loaded<UserEvents>,
    name: "user_events",
    authors: ["The user_events for every Linux project"],
    description: "user_events: trace events that user programs make and write",
    license: "GPL",
}

/// The loaded module. The fields are dropped from first to last, in the reverse order of
/// [`UserEvents::load`].
struct UserEvents {
    dynamic_events: DynEvents<UserEvent>,
    groups: TracefsFile<Groups>,
    data: TracefsFile<FileContext>,
    _forks: ForkProbe<UserMms>,
    _exits: ExitProbe<UserMms>,
    registrations: TracefsFile<FileContext>,
    profile: TracefsFile<FileContext>,
    status: TracefsFile<FileContext>,
    _state: State,
    _unload_message: UnloadMessage,
}

/// The state behind the files, dropped after them.
struct State {
    groups: Arc<Groups>,
    /// The first group, which has no name, and the mms of all groups.
    first: Arc<FileContext>,
    idle: Arc<IdleEvents>,
}

impl State {
    fn new(symbols: CheckedSymbols, idle: Arc<IdleEvents>, mms: Arc<UserMms>) -> Result<Self> {
        let group = Group::new(symbols, &idle, None)?;
        let first = Arc::new(FileContext { group, mms }, GFP_KERNEL)?;
        Ok(Self {
            groups: Groups::new(symbols, idle.clone(), first.clone())?,
            first,
            idle,
        })
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // There is no open file, no reference to an event, and no enabler: each would have kept the
        // module loaded. There may be groups, persistent events, mms that registered something
        // once, and work that is about to end.
        self.groups.begin_close();
        self.idle.begin_close();
        self.first.mms.close();
        self.first.group.close();
        self.groups.close();
        self.idle.close();
        self.first.group.forget_kept();
    }
}

/// Logs the unloading after all else is gone.
struct UnloadMessage;

impl Drop for UnloadMessage {
    fn drop(&mut self) {
        pr_info!("unloaded\n");
    }
}

/// The result of a step of loading. Logs the step if it has failed.
fn step<T>(what: &str, result: Result<T>) -> Result<T> {
    #[cfg(USER_EVENTS_FAIL_LOAD)]
    let result = fail_load::next_step().and(result);
    result.inspect_err(|error| {
        pr_err!("cannot load: cannot {}: error {}\n", what, error.to_errno());
    })
}

impl Load for UserEvents {
    /// Loads the module. If a step fails, the results of those before it are dropped in reverse.
    fn load() -> Result<Self> {
        let found = step("find kernel symbols", ResolvedSymbols::resolve())?;
        let is_alone = match found.has_symbol(c"user_event_mm_dup") {
            true => Err(EBUSY),
            false => Ok(()),
        };
        step("be used on a kernel with CONFIG_USER_EVENTS", is_alone)?;
        let symbols = step("use this kernel's structures", found.check_layouts())?;
        let queue =
            OwnedQueue::new(c"user_events").and_then(|queue| Ok(Arc::new(queue, GFP_KERNEL)?));
        let queue = step("make the work queue", queue)?;
        let idle = step(
            "make the list of idle events",
            IdleEvents::new(queue.clone()),
        )?;
        let mms = step("make the table of mms", UserMms::new(queue))?;
        let state = step("make the first group", State::new(symbols, idle, mms))?;
        let (groups, context) = (&state.groups, &state.first);
        let status = step(
            "create user_events_status in tracefs",
            TracefsFile::create::<SeqListing<StatusFile>>(symbols, context),
        )?;
        let profile = step(
            "create user_events_profile in tracefs",
            TracefsFile::create::<SeqListing<ProfileFile>>(symbols, context),
        )?;
        let registrations = step(
            "create user_events_registrations in tracefs",
            TracefsFile::create::<SeqListing<RegistrationsFile>>(symbols, context),
        )?;
        let exits = step(
            "probe sched_process_exit and sched_prepare_exec",
            ExitProbe::new(context.mms.clone()),
        )?;
        let forks = step(
            "probe sched_process_fork",
            ForkProbe::new(context.mms.clone()),
        )?;
        let data = step(
            "create user_events_data in tracefs",
            TracefsFile::create::<Control<DataFile>>(symbols, context),
        )?;
        let groups_file = step(
            "create user_events_groups in tracefs",
            TracefsFile::create::<SeqListing<GroupsFile>>(symbols, groups),
        )?;
        let dynamic_events = step(
            "register with dynamic_events",
            DynEvents::new(symbols, groups.clone()),
        )?;
        Ok(Self {
            dynamic_events,
            groups: groups_file,
            data,
            _forks: forks,
            _exits: exits,
            registrations,
            profile,
            status,
            _state: state,
            _unload_message: UnloadMessage,
        })
    }

    fn publish(&self, complete: &LoadComplete) {
        for file in [&self.status, &self.profile, &self.registrations, &self.data] {
            file.publish(complete);
        }
        self.groups.publish(complete);
        self.dynamic_events.publish(complete);
        pr_info!("loaded, version {}\n", env!("USER_EVENTS_VERSION"));
    }
}
