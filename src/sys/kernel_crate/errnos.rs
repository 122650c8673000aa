// SPDX-License-Identifier: GPL-2.0

//! Errors that the kernel crates of 6.12 and 7.2 lack. 7.3: in `kernel::error::code`.

use super::{
    bindings,
    Error, //
};
use core::ffi::c_int;

/// `Error::from_errno()` as a constant.
const fn error(number: u32) -> Error {
    let errno = -(number as c_int);
    assert!(errno < 0 && errno >= -(bindings::MAX_ERRNO as c_int));
    // SAFETY: `Error` is an integer that is an errno, and not 0: asserted above. It has no other
    // field, or `transmute()` would not compile.
    unsafe { core::mem::transmute::<c_int, Error>(errno) }
}

/// Address already in use.
pub const EADDRINUSE: Error = error(bindings::EADDRINUSE);
/// Operation canceled.
pub const ECANCELED: Error = error(bindings::ECANCELED);
/// Quota exceeded.
pub const EDQUOT: Error = error(bindings::EDQUOT);
