// SPDX-License-Identifier: GPL-2.0

//! References that keep this module loaded.

use super::kernel_crate;
use kernel::bindings::{
    self,
    module, //
};
use kernel::prelude::*;

/// This module. C: `THIS_MODULE`.
pub(super) const fn this_module() -> *mut module {
    kernel_crate::this_module::<crate::LocalModule>().as_ptr()
}

/// Keeps the module from being unloaded until dropped. C: `try_module_get()`, `module_put()`.
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
        // SAFETY: The reference is ours by the invariant. The code that runs on after this is a part
        // of the module that may be unloaded from now on, but all of it runs in a call that the
        // kernel makes into the module. Those are what `super::loading` is about: each is waited for
        // before the module is gone.
        unsafe { bindings::module_put(this_module()) };
    }
}
