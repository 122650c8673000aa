// SPDX-License-Identifier: GPL-2.0

//! Errors. 7.x: `kernel::error`.

pub use tree::error::*;

/// The errors by their names. 7.x: `kernel::error::code`, which has more.
pub mod code {
    use super::Error;
    use crate::bindings;

    /// An error of which the crate has only the number, as a constant.
    const fn error(number: u32) -> Error {
        let errno = -(number as i32);
        assert!(errno < 0 && errno >= -(bindings::MAX_ERRNO as i32));
        // SAFETY: An `Error` is one integer that is not zero, and an errno, which was tested. It
        // has no other field, as the compiler tells by the sizes, which must be the same.
        unsafe { core::mem::transmute::<i32, Error>(errno) }
    }

    /// Address already in use.
    pub const EADDRINUSE: Error = error(bindings::EADDRINUSE);
    /// Operation canceled.
    pub const ECANCELED: Error = error(bindings::ECANCELED);
    /// Quota exceeded.
    pub const EDQUOT: Error = error(bindings::EDQUOT);
    pub use tree::error::code::*;
}
