// SPDX-License-Identifier: GPL-2.0

//! Tests of the schema, on the host.
//!
//! `names`, `fields`, `lines`, `groups`, `texts` and `payloads` are tables of the ABI, with the
//! place in the ABI for each rule. `properties` calls the same functions with random input and
//! compares the results with those of `model`, a second implementation of the ABI; `claims` asserts
//! that both agree. `corpus` checks the claims with the stored inputs of the
//! fuzzer. `command` compares the verdicts of `user-events check`, a shell script, with those of
//! the schema.

mod claims;
mod command;
mod corpus;
mod entries;
mod event;
mod fields;
mod groups;
mod lines;
mod model;
mod names;
mod payloads;
mod properties;
mod texts;
