// SPDX-License-Identifier: GPL-2.0

//! Numbers in /proc/sys/kernel.
//!
//! C: `register_sysctl_sz()`, `proc_douintvec()` (linux/sysctl.h).

use super::bindings;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// An unsigned 32-bit number that an administrator may write; other text fails with `EINVAL`.
/// Dropping it removes the file.
///
/// # Invariants
///
/// `header` is the registration of `_table`, whose only entry points to `value`.
pub(crate) struct SysctlU32 {
    header: NonNull<bindings::ctl_table_header>,
    _table: KBox<bindings::ctl_table>,
    value: KBox<Atomic<u32>>,
}

// SAFETY: Any thread may unregister.
unsafe impl Send for SysctlU32 {}
// SAFETY: A shared reference only reads the value, which is atomic.
unsafe impl Sync for SysctlU32 {}

impl SysctlU32 {
    /// Creates the file `name` with the permissions 0644. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if the file exists.
    pub(crate) fn new(name: &'static CStr, value: u32) -> Result<Self> {
        let value = KBox::new(Atomic::new(value), GFP_KERNEL)?;
        let mut table = KBox::new(bindings::ctl_table::default(), GFP_KERNEL)?;
        table.procname = name.as_char_ptr();
        table.data = ptr::from_ref::<Atomic<u32>>(&value).cast_mut().cast();
        table.maxlen = size_of::<u32>() as i32;
        table.mode = 0o644;
        table.proc_handler = Some(bindings::proc_douintvec);
        // SAFETY: Table and number stay in their boxes until the table is unregistered. The kernel
        // accesses the number by single accesses.
        let header =
            unsafe { bindings::register_sysctl_sz(c"kernel".as_char_ptr(), &raw mut *table, 1) };
        // INVARIANT: Just registered.
        Ok(Self {
            header: NonNull::new(header).ok_or(ENOMEM)?,
            _table: table,
            value,
        })
    }

    /// The current number.
    pub(crate) fn get(&self) -> u32 {
        self.value.load(Relaxed)
    }
}

impl Drop for SysctlU32 {
    fn drop(&mut self) {
        // SAFETY: Registered by the invariant. Waits for tasks that use the file.
        unsafe { bindings::unregister_sysctl_table(self.header.as_ptr()) };
    }
}
