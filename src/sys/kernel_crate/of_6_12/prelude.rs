// SPDX-License-Identifier: GPL-2.0

//! The prelude. 7.x: `kernel::prelude`.

pub use crate::alloc::VecExt as _;
pub use crate::error::code::*;
pub use crate::rbtree::RBTreeExt as _;
pub use crate::str::CStrExt as _;
pub use crate::sync::ArcExt as _;
pub use crate::task::TaskExt as _;
pub use crate::types::OpaqueExt as _;
pub use crate::{
    current,
    fmt,
    module,
    pr_err,
    pr_info,
    pr_warn, //
};
pub use core::ffi::CStr;
pub use tree::ffi::{
    c_char,
    c_int,
    c_long,
    c_uint,
    c_ulong,
    c_void, //
};
pub use tree::prelude::*;
