// SPDX-License-Identifier: GPL-2.0

//! Letting a step of loading fail, for the tests. Only in a module that is built for them.

use crate::sys::loading;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// How many steps there were.
static STEPS: Atomic<i32> = Atomic::new(0);

/// The next step of loading is done.
///
/// # Errors
///
/// `EINTR` when it is the one that the module's parameter `fail_load_at` says.
pub(crate) fn next_step() -> Result {
    let step = STEPS.fetch_add(1, Relaxed).saturating_add(1);
    if step == loading::fail_load_at() {
        return Err(EINTR);
    }
    Ok(())
}
