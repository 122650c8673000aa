// SPDX-License-Identifier: GPL-2.0

//! The whole contract as tables: every rule and every error, each case with the row it checks.
//!
//! Cases whose row is one of "Better than C" carry that row's number. The C implementation must fail
//! exactly these and pass all others: `selftests --against-c` says whether it does.
//!
//! What of the contract is checked elsewhere:
//!
//! | rule | where |
//! |---|---|
//! | the numbers and structures of the header | `selftests/c/header.c` |
//! | the bit is atomic against user space; everything at once | `tests/bit.rs`, `tests/stress.rs` |
//! | pages that are swapped out, shared, protected | `tests/pages.rs` |
//! | perf's samples, filters, histograms, the trace file | `tests/perf.rs`, `tests/ftrace.rs` |
//! | 11: no registration is lost at a fork | `tests/processes.rs`, for what needs no lack of memory |
//! | 12: 32-bit programs | `selftests/c/compat.c` |
//! | 15, 16: probe lists, loading and unloading | `tests/stress.rs`, `tests/load.rs` |

mod address_space;
mod bit;
mod check;
mod delete;
mod descriptions;
mod files;
mod index;
mod lifetime;
mod listing;
mod locations;
mod register;
mod sharing;
mod status;
mod types;
mod unregister;
mod write;

pub use register::KERNEL;

pub use check::Check;

/// Every check, in the order of the contract.
pub fn all() -> Vec<Check> {
    let sections = [
        files::checks(),
        register::checks(),
        sharing::checks(),
        index::checks(),
        bit::checks(),
        address_space::checks(),
        unregister::checks(),
        lifetime::checks(),
        delete::checks(),
        descriptions::checks(),
        types::checks(),
        listing::checks(),
        write::checks(),
        locations::checks(),
        status::checks(),
    ];
    sections.into_iter().flatten().flatten().collect()
}

/// How a check went against what the C implementation is known to do: `Ok` says what happened.
pub fn against_c(check: &Check, result: Result<(), String>) -> Result<String, String> {
    match (check.row.better, result) {
        (None, Ok(())) => Ok("passes on C".into()),
        (None, Err(why)) => Err(format!("\"{}\": {why}", check.row.text)),
        (Some(number), Err(why)) => Ok(format!("fails on C as row {number} says: {why}")),
        (Some(number), Ok(())) => Err(format!("passes, though row {number} says that C fails it")),
    }
}
