// SPDX-License-Identifier: GPL-2.0

//! The manual (Documentation/user_events.rst) as tables: every rule and every error, with the row
//! that each case checks.
//!
//! Cases of a row of the differences carry its number. The C implementation must fail exactly
//! these, each as its row states, and pass all others, which `selftests --against-c` checks.
//!
//! Rules of the manual that are checked elsewhere:
//!
//! | rule | where |
//! |---|---|
//! | the numbers and structures of the header | `selftests/c/header.c` |
//! | atomicity of the bit; concurrent use | `behaviour/bit.rs`, `stress/concurrency.rs` |
//! | pages that are swapped out, shared, protected | `behaviour/pages.rs` |
//! | perf samples, filters, `trace` | `behaviour/{perf,ftrace}.rs`, `behaviour/consumers` |
//! | 11: a fork loses no registration | `behaviour/fork.rs`, except for lack of memory |
//! | CLONE_VM; a fork of a fork | `behaviour/exec.rs`; `behaviour/deferred.rs` |
//! | 12: 32-bit programs | `behaviour/compat.rs` |
//! | 13: eBPF programs run wherever the write does | `behaviour/bpf.rs` |
//! | probe lists, loading and unloading | `stress/threads.rs`, `stress/load.rs` |

mod address_space;
mod bit;
mod check;
mod corpus;
mod delete;
mod descriptions;
mod files;
mod formats;
mod index;
mod lifetime;
mod listing;
mod locations;
mod persist;
mod register;
mod sharing;
mod status;
mod truncation;
mod types;
mod unregister;
mod write;

pub use check::Check;

/// Returns the first test whose name claims a row of the differences without a case here, as the
/// deviation of C would then be untested.
pub fn first_without_a_row<'a>(
    tests: impl Iterator<Item = &'a str>,
    checks: &[Check],
) -> Option<&'a str> {
    let has_row = |number| {
        let mut rows = checks.iter().filter_map(|check| check.row.better);
        rows.any(|better| better.number == number)
    };
    tests
        .filter_map(|name| Some((name, name.split_once("better_than_c_")?.1)))
        .find(|(_, row)| {
            let number = row.split('_').next().and_then(|number| number.parse().ok());
            !number.is_some_and(has_row)
        })
        .map(|(name, _)| name)
}

/// All checks, in the order of the manual.
pub fn all() -> Vec<Check> {
    let sections = [
        files::checks(),
        register::checks(),
        sharing::checks(),
        formats::checks(),
        index::checks(),
        bit::checks(),
        address_space::checks(),
        unregister::checks(),
        lifetime::checks(),
        persist::checks(),
        delete::checks(),
        descriptions::checks(),
        corpus::checks(),
        types::checks(),
        listing::checks(),
        truncation::checks(),
        write::checks(),
        locations::checks(),
        status::checks(),
    ];
    sections.into_iter().flatten().flatten().collect()
}

/// The result of a check on the C implementation, compared with its known deviations. `Ok` has a
/// description.
pub fn against_c(check: &Check, result: Result<(), String>) -> Result<String, String> {
    match (check.row.better, result) {
        (None, Ok(())) => Ok("passes on C".into()),
        (None, Err(why)) => Err(format!("\"{}\": {why}", check.row.text)),
        (Some(better), Err(why)) if better.is_predicted(&why) => {
            Ok(format!("fails on C as row {} says: {why}", better.number))
        }
        (Some(better), Err(why)) => Err(format!(
            "fails on C otherwise than row {} says: {why}",
            better.number
        )),
        (Some(better), Ok(())) => Err(format!(
            "passes, though row {} says that C fails it",
            better.number
        )),
    }
}
