// SPDX-License-Identifier: GPL-2.0

//! What the kernel has and does not export.
//!
//! `event_mutex`, `find_event_file` (kernel/trace/trace_events.c), `ftrace_trace_arrays`
//! (kernel/trace/trace.c), the lists of dynamic events (kernel/trace/trace_dynevent.c),
//! `tracefs_remove` (fs/tracefs/inode.c), `def_chr_fops`, `cd_forget` (fs/char_dev.c) and
//! `print_event_fields` (kernel/trace/trace_output.c) are looked up by name once, at load. See
//! `bindings/symbols.c` for how, and why they are called through static calls.

use super::bindings;
use kernel::prelude::*;
use kernel::str::CStr;

/// Proof that every symbol was found: what needs one asks for this value.
///
/// # Invariants
///
/// Exists only after `user_events_resolve_symbols()` has succeeded.
#[derive(Clone, Copy)]
pub(crate) struct Symbols(());

impl Symbols {
    /// Finds the symbols. Called once, when the module is loaded; may sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` after a line in the log that names the symbol that is missing.
    pub(crate) fn resolve() -> Result<Self> {
        // SAFETY: The module is being loaded: no other function of symbols.c runs yet, so none can
        // see the static calls while they change. We may sleep.
        let missing = unsafe { bindings::user_events_resolve_symbols() };
        if missing.is_null() {
            // INVARIANT: The call above has just succeeded.
            return Ok(Self(()));
        }
        // SAFETY: The helper returns NULL, checked above, or a string literal.
        let missing = unsafe { CStr::from_char_ptr(missing) };
        pr_err!(
            "the kernel has no symbol '{}'\n",
            missing.to_str().unwrap_or("?")
        );
        Err(ENOENT)
    }

    /// Is this a kernel with `CONFIG_USER_EVENTS`? May sleep.
    pub(crate) fn has_built_in_user_events(self) -> bool {
        // SAFETY: The symbols were found.
        unsafe { bindings::user_events_are_built_in() }
    }
}
