// SPDX-License-Identifier: GPL-2.0

//! The tests, by subject. Names say the rule that is checked.
//!
//! `row_...` and `rows_...` are rules that the C implementation keeps, too: `selftests --against-c` runs them
//! there. `better_than_c_N` is row N of the contract's table of deliberate differences, and shows what the
//! module does; what C does instead is shown by `conformance`, where that has cases of the row. The others are
//! of the module alone: what C does there nothing shows.

mod accounting;
mod bit;
mod bpf;
mod cgroup;
mod consumers;
mod cpus;
mod deferred;
mod delete;
mod dynamic_events;
mod exec;
mod faults;
mod file_systems;
mod fork;
mod fork_stalled;
mod freezer;
mod ftrace;
mod guarded;
mod hostile;
mod hostile_user;
mod huge_pages;
mod instances;
mod io_uring;
mod lifetime;
mod listing;
mod long_listings;
mod mappings;
pub mod max_events;
mod multi_format;
mod nodes;
mod page_kinds;
mod pages;
mod perf;
mod persist;
mod processes;
mod register;
mod register_rows;
mod registrations;
mod restricted;
mod retries;
mod signals;
mod sizes;
mod status;
mod symbols;
mod traced_functions;
mod truncate;
mod unprivileged;
mod unregister;
mod withheld;
mod write;

use crate::harness::Test;

/// Does the test's name say that it is a rule which the C implementation keeps, too?
pub fn is_of_both(test: &Test) -> bool {
    let name = test.name.rsplit("::").next().unwrap_or_default();
    name.starts_with("row_") || name.starts_with("rows_")
}

/// Every test.
pub fn all() -> impl Iterator<Item = Test> {
    [
        instances::TESTS_OF_LOADING,
        cpus::TESTS_OF_LOADING,
        freezer::TESTS_OF_LOADING,
        symbols::TESTS,
        traced_functions::TESTS,
        faults::loading::TESTS,
        file_systems::TESTS_OF_LOADING,
        io_uring::TESTS_OF_LOADING,
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
        file_systems::TESTS,
        file_systems::TESTS_OF_FROZEN,
        mappings::TESTS,
        processes::TESTS,
        fork::TESTS,
        fork_stalled::TESTS,
        faults::calls::TESTS,
        faults::processes::TESTS,
        faults::workers::TESTS,
        exec::TESTS,
        write::TESTS,
        io_uring::TESTS,
        sizes::TESTS,
        ftrace::TESTS,
        instances::TESTS,
        cpus::TESTS,
        nodes::TESTS,
        freezer::TESTS,
        retries::TESTS,
        restricted::TESTS,
        perf::TESTS,
        signals::TESTS,
        hostile::TESTS,
        cgroup::TESTS,
        bpf::TESTS,
        deferred::TESTS,
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
        accounting::TESTS,
        registrations::TESTS,
        long_listings::TESTS,
    ]
    .into_iter()
    .flatten()
    .copied()
    .chain(consumers::all())
}
