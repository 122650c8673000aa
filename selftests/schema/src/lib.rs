// SPDX-License-Identifier: GPL-2.0

//! The kernel module's `schema`, as a crate of the host.
//!
//! A module here as in the kernel, so that code which compiles here also compiles there.

#![no_std]
#![forbid(unsafe_code)]

#[path = "../../../src/schema/mod.rs"]
pub mod schema;

pub use schema::*;
