// SPDX-License-Identifier: GPL-2.0

//! Messages in the kernel's log. 7.x: `kernel::print`. The `vsprintf()` of a kernel without Rust
//! does not know `%pA`: the text is made here.

use crate::bindings;
use core::fmt::{
    self,
    Write, //
};

/// The longest text of a message, its line break included. What is longer is cut off.
const MAX_TEXT: usize = 240;

/// Text as it is made.
struct Text {
    bytes: [u8; MAX_TEXT],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let taken = room.len().min(text.len());
        for (to, from) in room.iter_mut().zip(text.as_bytes()) {
            *to = *from;
        }
        self.len += taken;
        if taken == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

/// Writes a message. Any context. C: `_printk()`.
///
/// # Safety
///
/// `level` must be one of the kernel's `KERN_*`, and `prefix` end in a NUL.
#[doc(hidden)]
#[inline(never)]
pub unsafe fn print(level: &[u8], prefix: &[u8], arguments: fmt::Arguments<'_>) {
    let mut text = Text {
        bytes: [0; MAX_TEXT],
        len: 0,
    };
    // What has no room is left out.
    _ = text.write_fmt(arguments);
    // SAFETY: The format takes a string, one more, a number of bytes and so many bytes.
    unsafe {
        bindings::_printk(
            c"%s%s: %.*s".as_ptr().cast(),
            level.as_ptr(),
            prefix.as_ptr(),
            text.len as crate::ffi::c_int,
            text.bytes.as_ptr(),
        );
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! print_at {
    ($level:ident, $($arguments:tt)*) => {
        // SAFETY: One of the kernel's levels, and the prefix is a string.
        unsafe {
            $crate::print::print(
                $crate::bindings::$level,
                crate::__LOG_PREFIX,
                ::core::format_args!($($arguments)*),
            )
        }
    };
}

/// An error.
#[macro_export]
macro_rules! pr_err {
    ($($arguments:tt)*) => { $crate::print_at!(KERN_ERR, $($arguments)*) };
}

/// A warning.
#[macro_export]
macro_rules! pr_warn {
    ($($arguments:tt)*) => { $crate::print_at!(KERN_WARNING, $($arguments)*) };
}

/// Information.
#[macro_export]
macro_rules! pr_info {
    ($($arguments:tt)*) => { $crate::print_at!(KERN_INFO, $($arguments)*) };
}

/// Formatted text. 7.x: in `kernel::prelude`.
#[macro_export]
macro_rules! fmt {
    ($($arguments:tt)*) => { ::core::format_args!($($arguments)*) };
}
