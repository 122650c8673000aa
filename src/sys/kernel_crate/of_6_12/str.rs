// SPDX-License-Identifier: GPL-2.0

//! Strings. 7.x: `kernel::str`, whose `CStr` is the one of `core`.

use tree::ffi::c_char;

pub use core::ffi::CStr;
pub use tree::str::BStr;

/// Methods of the kernel's strings beside those of `core`.
pub trait CStrExt {
    /// # Safety
    ///
    /// `ptr` must point to a string with a NUL at its end that does not change for `'a`.
    unsafe fn from_char_ptr<'a>(ptr: *const c_char) -> &'a Self;

    /// The address of the string.
    fn as_char_ptr(&self) -> *const c_char;
}

impl CStrExt for CStr {
    /// # Safety
    ///
    /// See the trait.
    unsafe fn from_char_ptr<'a>(ptr: *const c_char) -> &'a Self {
        // SAFETY: By the safety requirement.
        unsafe { Self::from_ptr(ptr.cast()) }
    }

    fn as_char_ptr(&self) -> *const c_char {
        self.as_ptr().cast()
    }
}

/// Converts a name with a NUL.
#[doc(hidden)]
pub const fn name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_until_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}
