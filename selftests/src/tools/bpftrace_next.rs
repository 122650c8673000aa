// SPDX-License-Identifier: GPL-2.0

//! The tests of bpftrace that are repeated with that of Debian's next release, and those that test
//! both releases.

use super::{bpftrace, bpftrace_reads, types};
use crate::harness::Test;

/// Tests of other files, run with the next release.
macro_rules! with_next {
    ($($subject:ident::$name:ident),* $(,)?) => {
        pub const TESTS: &[Test] = &[$(
            Test::new(concat!("tools::bpftrace_next::", stringify!($name)), || {
                bpftrace::use_next();
                $subject::$name()
            })
            .lengthy()
            .limit(300)
            .needs_path(bpftrace::TYPES)
            .skip_if(bpftrace::next_is_missing)
        ),*];
    };
}

with_next!(
    bpftrace::list_shows_the_fields,
    bpftrace::stacks_of_the_writer,
    bpftrace_reads::the_sample,
    bpftrace_reads::names_and_systems,
    bpftrace_reads::names_that_are_refused,
    bpftrace_reads::fields_that_are_refused,
    bpftrace_reads::fields_that_do_not_lie_well,
    bpftrace_reads::several_locations,
    bpftrace_reads::structs_of_the_kernel,
    bpftrace_reads::full_strings,
    bpftrace_reads::records_of_any_size,
    types::a_record_of_each_type,
);
