// SPDX-License-Identifier: GPL-2.0

//! What the `kernel` crate of 7.2 lacks, as that of 7.3 has it.

use core::ffi::c_int;
use kernel::error::Error;
use kernel::{
    bindings,
    ModuleMetadata,
    ThisModule, //
};

/// An error of which the crate has only the number, as a constant: `Error::from_errno()` is for the running kernel.
const fn error(number: u32) -> Error {
    let errno = -(number as c_int);
    assert!(errno < 0 && errno >= -(bindings::MAX_ERRNO as c_int));
    // SAFETY: An `Error` is one integer that is not zero, and an errno, which was tested. It has no other field, as the
    // compiler tells by the sizes, which must be the same.
    unsafe { core::mem::transmute::<c_int, Error>(errno) }
}

/// 7.3: in `kernel::prelude`.
pub(crate) mod prelude {
    use super::*;

    /// Address already in use.
    pub(crate) const EADDRINUSE: Error = error(bindings::EADDRINUSE);
    /// Operation canceled.
    pub(crate) const ECANCELED: Error = error(bindings::ECANCELED);

    /// Quota exceeded.
    pub(crate) const EDQUOT: Error = error(bindings::EDQUOT);
}

/// 7.3: `kernel::module::this_module()`. In 7.2 the macro that declares the module makes a static of it.
#[expect(clippy::extra_unused_type_parameters)]
pub(crate) const fn this_module<M: ModuleMetadata>() -> &'static ThisModule {
    &crate::THIS_MODULE
}
