// SPDX-License-Identifier: GPL-2.0

//! Tests of the schema, on the host.
//!
//! `names`, `fields`, `lines`, `texts` and `payloads` are tables: what the ABI says, one line each, with the
//! place that says it. `properties` and `writes` throw random input at the same functions and
//! compare with `model`, which says the same things again in another way; `claims` says what must be
//! the same. `corpus` puts the claims to what the fuzzer found worth keeping.

mod claims;
mod corpus;
mod entries;
mod fields;
mod lines;
mod model;
mod names;
mod payloads;
mod properties;
mod sink;
mod texts;
mod writes;
