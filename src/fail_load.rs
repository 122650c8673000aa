// SPDX-License-Identifier: GPL-2.0

//! A failure of any step of loading, in a module that is built for the tests.

use crate::sys::loading;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

static STEPS: Atomic<i32> = Atomic::new(0);

/// Counts a step of loading.
///
/// # Errors
///
/// `EINTR` at the step that the module's parameter `fail_load_at` selects.
pub(crate) fn next_step() -> Result {
    let step = STEPS.fetch_add(1, Relaxed).saturating_add(1);
    if step == loading::fail_load_at() {
        return Err(EINTR);
    }
    Ok(())
}
