// SPDX-License-Identifier: GPL-2.0

//! Counted references. 7.x: `kernel::sync::aref`.

pub use tree::types::{
    ARef,
    AlwaysRefCounted, //
};
