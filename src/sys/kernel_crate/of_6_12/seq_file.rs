// SPDX-License-Identifier: GPL-2.0

//! Text files. 7.x: `kernel::seq_file`. C: linux/seq_file.h.

use crate::bindings;
use core::ffi::c_void;
use core::fmt;
use core::ptr;
use tree::types::Opaque;

/// A file that is being read.
#[repr(transparent)]
pub struct SeqFile(Opaque<bindings::seq_file>);

impl SeqFile {
    /// # Safety
    ///
    /// The file must be valid for `'a`, and not used by another thread.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::seq_file) -> &'a Self {
        // SAFETY: By the safety requirement. The layouts are the same.
        unsafe { &*ptr.cast() }
    }

    /// Writes formatted text. Text without room is dropped, and seq_file requests the record again.
    pub fn call_printf(&self, args: fmt::Arguments<'_>) {
        // SAFETY: The reference keeps the file valid, and "%pA" takes a pointer to arguments.
        unsafe {
            bindings::seq_printf(
                self.0.get(),
                c"%pA".as_ptr().cast(),
                ptr::from_ref(&args).cast::<c_void>(),
            )
        };
    }
}
