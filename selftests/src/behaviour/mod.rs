// SPDX-License-Identifier: GPL-2.0

//! Tests of one behaviour each, by subject. The name of a test is the rule that it checks.
//!
//! `better_than_c_N` tests what the module does in row N of the differences
//! (Documentation/differences.rst). Cases of that row in `contract` test what C does.

mod accounting;
mod at_probe;
mod bit;
mod bpf;
mod cgroup;
mod compat;
mod consumers;
mod cpus;
mod deferred;
mod dynamic_events;
mod exec;
mod faults;
mod file_systems;
mod fork;
mod fork_stalled;
mod freezer;
mod ftrace;
mod fuse_stalled;
mod groups;
mod hostile;
mod hostile_user;
mod huge_pages;
mod in_place;
mod instances;
mod io_uring;
mod kept_numbers;
mod large_samples;
mod large_sets;
mod lifetime;
mod listing;
mod lockdown;
mod locked_pages;
mod long_listings;
mod mappings;
mod mm_end;
mod multi_format;
mod nodes;
mod page_kinds;
mod pages;
mod perf;
mod poll;
mod processes;
mod registrations;
mod retries;
mod right_bits;
mod signals;
mod symbols;
#[cfg(target_arch = "aarch64")]
mod tags;
mod traced_functions;
mod unprivileged;
mod userfaultfd;
mod usual_times;

use crate::harness::Test;

/// Every test.
pub fn all() -> impl Iterator<Item = Test> {
    [
        symbols::TESTS,
        traced_functions::TESTS,
        faults::loading::TESTS,
        bit::TESTS,
        #[cfg(target_arch = "aarch64")]
        tags::TESTS,
        pages::TESTS,
        page_kinds::TESTS,
        huge_pages::TESTS,
        right_bits::TESTS,
        userfaultfd::TESTS,
        usual_times::TESTS,
        fuse_stalled::TESTS,
        fuse_stalled::TESTS_OF_KINDS,
        locked_pages::TESTS,
        file_systems::TESTS,
        file_systems::TESTS_AT_PROBES,
        mappings::TESTS,
        processes::TESTS,
        mm_end::TESTS,
        large_sets::TESTS,
        fork::TESTS,
        fork_stalled::TESTS,
        at_probe::TESTS,
        faults::calls::TESTS,
        faults::processes::TESTS,
        faults::workers::TESTS,
        exec::TESTS,
        io_uring::TESTS,
        poll::TESTS,
        ftrace::TESTS,
        in_place::TESTS,
        instances::TESTS,
        cpus::TESTS,
        nodes::TESTS,
        lockdown::TESTS,
        freezer::TESTS,
        retries::TESTS,
        perf::TESTS,
        kept_numbers::TESTS,
        large_samples::TESTS,
        signals::TESTS,
        hostile::TESTS,
        cgroup::TESTS,
        compat::TESTS,
        bpf::TESTS,
        deferred::TESTS,
        lifetime::TESTS,
        multi_format::TESTS,
        dynamic_events::TESTS,
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
    .chain(groups::all())
}
