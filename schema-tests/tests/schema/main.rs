// SPDX-License-Identifier: GPL-2.0

//! Tests of the schema, on the host.
//!
//! `names`, `fields`, `lines`, `texts` and `payloads` are tables: what the ABI says, one line each, with the
//! place that says it. `properties` and `writes` throw random input at the same functions and
//! compare with `model`, which says the same things again in another way.

mod fields;
mod lines;
mod model;
mod names;
mod payloads;
mod properties;
mod sink;
mod texts;
mod writes;
