// SPDX-License-Identifier: GPL-2.0

//! References that keep the module loaded.

use kernel::bindings::{
    self,
    module, //
};
use kernel::prelude::*;

/// C: `THIS_MODULE`.
#[cfg(not(USER_EVENTS_KERNEL_7_2))]
pub(super) const fn this_module() -> *mut module {
    kernel::module::this_module::<crate::LocalModule>().as_ptr()
}

/// C: `THIS_MODULE`. The macro that declares the module makes a static of it.
#[cfg(USER_EVENTS_KERNEL_7_2)]
pub(super) const fn this_module() -> *mut module {
    crate::THIS_MODULE.as_ptr()
}

/// Keeps the module loaded until dropped. C: `try_module_get()`, `module_put()`.
///
/// # Invariants
///
/// Owns one reference to this module.
pub(crate) struct ModuleRef(());

impl ModuleRef {
    /// Takes a reference. Any context.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the module is already being unloaded.
    pub(crate) fn get() -> Result<Self> {
        // SAFETY: This is code of the module, so its `struct module` exists.
        if unsafe { bindings::try_module_get(this_module()) } {
            // INVARIANT: Just taken.
            Ok(Self(()))
        } else {
            Err(ENODEV)
        }
    }
}

impl Drop for ModuleRef {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the invariant. The module may be unloaded from here on,
        // but its code runs in calls by the kernel only, and unloading waits for each of these: see
        // `super::loading`.
        unsafe { bindings::module_put(this_module()) };
    }
}
