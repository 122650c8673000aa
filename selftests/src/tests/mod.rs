// SPDX-License-Identifier: GPL-2.0

//! The tests, by subject. Names say the rule that is checked; `better_than_c_N` is row N of the
//! contract's table of deliberate differences. The kernel's own C implementation fails these, and
//! passes all others.

mod accounting;
mod bit;
mod bpf;
mod cgroup;
mod concurrency;
mod consumers;
mod deferred;
mod delete;
mod dynamic_events;
mod exec;
mod faults;
mod fork;
mod fork_stalled;
mod ftrace;
mod fuzz;
mod guarded;
mod hostile;
mod hostile_user;
mod huge_pages;
mod lifetime;
mod listing;
mod load;
mod long_listings;
mod max_events;
mod multi_format;
mod page_kinds;
mod pages;
mod perf;
mod persist;
mod processes;
mod register;
mod register_rows;
mod registrations;
mod signals;
mod sizes;
mod soak;
mod status;
mod storm;
mod stress;
mod truncate;
mod unloading;
mod unprivileged;
mod unregister;
mod withheld;
mod write;

use crate::harness::Test;

pub use load::REFUSAL;

/// Every test.
pub fn all() -> impl Iterator<Item = Test> {
    [
        load::TESTS,
        unloading::TESTS,
        faults::loading::TESTS,
        register_rows::TESTS,
        register::TESTS,
        unregister::TESTS,
        delete::TESTS,
        bit::TESTS,
        pages::TESTS,
        page_kinds::TESTS,
        huge_pages::TESTS,
        guarded::TESTS,
        withheld::TESTS,
        withheld::TESTS_OF_KINDS,
        processes::TESTS,
        fork::TESTS,
        fork_stalled::TESTS,
        faults::calls::TESTS,
        faults::processes::TESTS,
        exec::TESTS,
        write::TESTS,
        sizes::TESTS,
        ftrace::TESTS,
        perf::TESTS,
        signals::TESTS,
        hostile::TESTS,
        cgroup::TESTS,
        bpf::TESTS,
        deferred::TESTS,
        storm::TESTS,
        stress::TESTS,
        soak::TESTS,
        status::TESTS,
        lifetime::TESTS,
        persist::TESTS,
        multi_format::TESTS,
        dynamic_events::TESTS,
        truncate::TESTS,
        max_events::TESTS,
        listing::TESTS,
        unprivileged::TESTS,
        hostile_user::TESTS,
        concurrency::TESTS,
        accounting::TESTS,
        registrations::TESTS,
        long_listings::TESTS,
        fuzz::TESTS,
    ]
    .into_iter()
    .flatten()
    .copied()
    .chain(consumers::all())
}
