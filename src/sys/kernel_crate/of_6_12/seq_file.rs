// SPDX-License-Identifier: GPL-2.0

//! Files that are text to be read. 7.x: `kernel::seq_file`. C: linux/seq_file.h.

use crate::bindings;
use core::fmt::{
    self,
    Write, //
};
use tree::types::Opaque;

/// A file that is being read.
#[repr(transparent)]
pub struct SeqFile(Opaque<bindings::seq_file>);

impl SeqFile {
    /// # Safety
    ///
    /// The file must be valid for `'a`, and not be used by another thread.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::seq_file) -> &'a Self {
        // SAFETY: Promised by the caller. This type is laid out as that.
        unsafe { &*ptr.cast() }
    }

    /// Writes formatted text. What finds no room is dropped, and the file asked again.
    pub fn call_printf(&self, args: fmt::Arguments<'_>) {
        // The kernel's function notes that there was no room.
        _ = Writer(self).write_fmt(args);
    }
}

/// `seq_printf()` of a kernel without Rust does not know `%pA`, which makes text of arguments.
struct Writer<'a>(&'a SeqFile);

impl Write for Writer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: The file is valid, as the reference shows; so are the bytes.
        unsafe { bindings::seq_write(self.0 .0.get(), text.as_ptr().cast(), text.len()) };
        Ok(())
    }
}
