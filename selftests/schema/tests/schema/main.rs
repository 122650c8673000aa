// SPDX-License-Identifier: GPL-2.0

//! Tests of the schema, on the host.
//!
//! `names`, `fields`, `lines`, `groups`, `texts` and `payloads` are tables: what the ABI says, one line each, with the
//! place that says it. `properties` and `writes` call the same functions with random input and compare the
//! results with those of `model`, which implements the ABI once more in another way; `claims` asserts what
//! must be the same. `corpus` checks the claims with the inputs that the fuzzer has kept. `command` compares the verdicts
//! of `user-events check`, a shell script, with those of the schema.

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
mod writes;
