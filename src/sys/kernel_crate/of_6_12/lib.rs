// SPDX-License-Identifier: GPL-2.0

//! The `kernel` crate of 6.12, with the items of a newer crate that the module uses, under the same
//! paths, names and types. The module is built against this crate instead, so no other file depends
//! on 6.12.
//!
//! Items of the crate are re-exported. The others are in files with the names of the newer crate.

#[doc(hidden)]
pub extern crate kernel as tree;

pub use tree::*;

pub mod alloc;
pub mod bindings;
pub mod error;
pub mod iov;
pub mod list;
pub mod mm;
pub mod prelude;
pub mod rbtree;
pub mod seq_file;
pub mod str;
pub mod sync;
pub mod task;
pub mod time;
pub mod types;
pub mod uaccess;
pub mod workqueue;

pub mod module;

pub use self::module::ModuleMetadata;

/// Formatted text. 7.x: `kernel::fmt`.
pub mod fmt {
    pub use core::fmt::*;
}

/// Values that are bytes. 7.x: `kernel::transmute`.
pub mod transmute {
    pub use tree::types::FromBytes;
}
