// SPDX-License-Identifier: GPL-2.0

//! The Linux `user_events` ABI as a module: trace events that user programs make and write.
//!
//! What is created on load, and the order in which it is undone, is the fields of [`UserEvents`].
//! The rooms:
//!
//! - [`schema`]: what a description means; pure, also tested on the host.
//! - [`sys`]: one safe type per facility of the kernel; the only room that is not checked Rust.
//! - between them, the work: [`event`], [`registry`], [`enabler`], [`registrations`],
//!   [`process`], [`processes`], [`repair`], [`retries`], [`unregistered`], [`writer`].
//! - [`files`]: the faces, through which all of it is used.

use kernel::prelude::*;
use kernel::sync::Arc;

mod enabler;
mod errno;
mod event;
mod files;
mod known;
mod misses;
mod ordered;
mod process;
mod processes;
mod registrations;
mod registry;
mod repair;
mod retries;
mod schema;
mod sys;
mod unregistered;
mod writer;

use event::UserEvent;
use files::data::{Context, DataFile};
use files::profile::ProfileFile;
use files::registrations::RegistrationsFile;
use files::status::StatusFile;
use processes::Processes;
use registry::Registry;
use sys::dyn_event::DynEvents;
use sys::fork::ForkProbe;
use sys::leave::LeaveProbe;
use sys::loading::{Load, Loaded, Publishing};
use sys::symbols::Symbols;
use sys::tracefs::{Control, Listed, TracefsFile};

module! {
    type: Loaded<UserEvents>,
    name: "user_events",
    authors: ["The user_events for every Linux project"],
    description: "user_events: trace events that user programs make and write",
    license: "GPL",
    params: {
        fail_load_at: i32 {
            default: 0,
            description: "Let this step of loading fail, to test that it is undone (0: none)",
        },
    },
}

/// The loaded module. The fields are undone from first to last, which is the reverse of the order
/// in which [`UserEvents::make`] made them.
struct UserEvents {
    dynamic_events: DynEvents<UserEvent>,
    data: TracefsFile<Context>,
    _forks: ForkProbe<Processes>,
    _leaves: LeaveProbe<Processes>,
    registrations: TracefsFile<Context>,
    profile: TracefsFile<Context>,
    status: TracefsFile<Context>,
    _state: State,
    _farewell: Farewell,
}

/// What is behind the files; ended after them.
struct State(Arc<Context>);

impl Drop for State {
    fn drop(&mut self) {
        // No file is open, no event is used and nothing is registered: each would have kept the
        // module loaded. What is left is events that stay when they are not used, processes that
        // registered something once, and work that is about to end.
        self.0.registry.begin_close();
        self.0.processes.close();
        self.0.registry.close();
    }
}

/// Says that the module is gone, after all else is.
struct Farewell;

impl Drop for Farewell {
    fn drop(&mut self) {
        pr_info!("unloaded\n");
    }
}

impl Load for UserEvents {
    fn load() -> Result<Self> {
        Self::make(Steps::new())
    }

    fn publish(&self, publishing: &Publishing) {
        for file in [&self.status, &self.profile, &self.registrations, &self.data] {
            file.publish(publishing);
        }
        self.dynamic_events.publish(publishing);
        pr_info!("loaded\n");
    }
}

impl UserEvents {
    /// Makes everything. What was made before a step that fails is undone in reverse.
    fn make(mut steps: Steps) -> Result<Self> {
        let found = steps.run("find kernel symbols", Symbols::resolve)?;
        steps.run(
            "stand beside user_events that the kernel has built in",
            || match found.has_built_in_user_events() {
                true => Err(EBUSY),
                false => Ok(()),
            },
        )?;
        let symbols = steps.run("use this kernel's structures", || found.check_layouts())?;
        let registry = steps.run("make the registry", || Registry::new(symbols))?;
        let processes = steps.run("make the table of processes", || Processes::new(&registry))?;
        let state = steps.run("make the context", || {
            Ok(State(Arc::new(
                Context {
                    registry,
                    processes,
                },
                GFP_KERNEL,
            )?))
        })?;
        let status = steps.run("create user_events_status in tracefs", || {
            TracefsFile::create::<Listed<StatusFile>>(symbols, &state.0)
        })?;
        let profile = steps.run("create user_events_profile in tracefs", || {
            TracefsFile::create::<Listed<ProfileFile>>(symbols, &state.0)
        })?;
        let registrations = steps.run("create user_events_registrations in tracefs", || {
            TracefsFile::create::<Listed<RegistrationsFile>>(symbols, &state.0)
        })?;
        let leaves = steps.run("watch exits", || LeaveProbe::new(state.0.processes.clone()))?;
        let forks = steps.run("watch forks", || ForkProbe::new(state.0.processes.clone()))?;
        let data = steps.run("create user_events_data in tracefs", || {
            TracefsFile::create::<Control<DataFile>>(symbols, &state.0)
        })?;
        let dynamic_events = steps.run("join dynamic_events", || {
            DynEvents::new(symbols, state.0.registry.clone())
        })?;
        Ok(Self {
            dynamic_events,
            data,
            _forks: forks,
            _leaves: leaves,
            registrations,
            profile,
            status,
            _state: state,
            _farewell: Farewell,
        })
    }
}

/// Counts the steps of loading, to let one fail on request, and says which one failed.
struct Steps {
    done: i32,
    fail_at: i32,
}

impl Steps {
    fn new() -> Self {
        Self {
            done: 0,
            fail_at: *module_parameters::fail_load_at.value_ref(),
        }
    }

    fn run<T>(&mut self, what: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        self.done += 1;
        let result = if self.done == self.fail_at {
            Err(EINTR)
        } else {
            step()
        };
        if let Err(error) = &result {
            pr_err!("cannot load: cannot {}: error {}\n", what, error.to_errno());
        }
        result
    }
}
