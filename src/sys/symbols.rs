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
use kernel::sync::atomic::{Atomic, Full};

/// Proof that every symbol was found, and that private structures are as this module knows them:
/// what needs one asks for this value.
///
/// # Invariants
///
/// Exists only after `user_events_resolve_symbols()` has succeeded, and so has
/// `user_events_check_layouts()`.
#[derive(Clone, Copy)]
pub(crate) struct Symbols(());

/// Symbols that were looked for and found. What they lead to has not been looked at.
///
/// # Invariants
///
/// Exists only after `user_events_resolve_symbols()` has succeeded.
pub(crate) struct Found(());

/// Set once the symbols have been looked for: from then on what was found may be in use.
static IS_RESOLVED: Atomic<bool> = Atomic::new(false);

impl Symbols {
    /// Finds the symbols. To be called once, when the module is loaded; may sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` after a line in the log that names the symbol that is missing; `EBUSY` when it was
    /// called before.
    pub(crate) fn resolve() -> Result<Found> {
        if IS_RESOLVED.xchg(true, Full) {
            return Err(EBUSY);
        }
        // SAFETY: This is the first call, and nothing else of symbols.c runs before it has returned,
        // as all of that takes a value that it makes. So the static calls do not change while they
        // are used. Where sleeping is not allowed, the kernel says so.
        let missing = unsafe { bindings::user_events_resolve_symbols() };
        if missing.is_null() {
            // INVARIANT: The call above has just succeeded.
            return Ok(Found(()));
        }
        // SAFETY: The helper returns NULL, checked above, or a string literal.
        let missing = unsafe { CStr::from_char_ptr(missing) };
        pr_err!(
            "the kernel has no symbol '{}'\n",
            missing.to_str().unwrap_or("?")
        );
        Err(ENOENT)
    }
}

impl Found {
    /// Is this a kernel with `CONFIG_USER_EVENTS`? May sleep.
    pub(crate) fn has_built_in_user_events(&self) -> bool {
        // SAFETY: The symbols were found.
        unsafe { bindings::user_events_are_built_in() }
    }

    /// Looks whether the structures that no header of the kernel declares are as this module knows
    /// them. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` after a line in the log that names the structure that is not.
    pub(crate) fn check_layouts(self) -> Result<Symbols> {
        // SAFETY: The symbols were found.
        let other = unsafe { bindings::user_events_check_layouts() };
        if other.is_null() {
            // INVARIANT: Both calls have succeeded.
            return Ok(Symbols(()));
        }
        // SAFETY: The helper returns NULL, checked above, or a string literal.
        let other = unsafe { CStr::from_char_ptr(other) };
        pr_err!(
            "this kernel has another layout of {}\n",
            other.to_str().unwrap_or("?")
        );
        Err(ENODEV)
    }
}
