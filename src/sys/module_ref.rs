// SPDX-License-Identifier: GPL-2.0

//! References that keep this module loaded.

use super::bindings;
use kernel::prelude::*;

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
        if unsafe { bindings::user_events_get_module() } {
            // INVARIANT: Just taken.
            Ok(Self(()))
        } else {
            Err(ENODEV)
        }
    }
}

impl Drop for ModuleRef {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the invariant. The code that runs on after this is safe
        // from unloading by other means: it runs in a file operation (the file holds a reference),
        // under `event_mutex` (module exit takes it), in a work item, in an mmu notifier, in a
        // tracepoint's probe or in a task work (module exit waits for all four).
        unsafe { bindings::user_events_put_module() };
    }
}
