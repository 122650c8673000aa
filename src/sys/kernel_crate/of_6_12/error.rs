// SPDX-License-Identifier: GPL-2.0

//! Errors. 7.x: `kernel::error`.

use crate::bindings;
pub use tree::error::*;

#[path = "../errnos.rs"]
mod errnos;

/// The errors by their names. 7.x: `kernel::error::code`.
pub mod code {
    pub use super::errnos::*;
    pub use tree::error::code::*;
}
