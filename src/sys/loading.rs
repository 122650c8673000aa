// SPDX-License-Identifier: GPL-2.0

//! Loading the module in two parts: what can fail, and then what lets it be used.
//!
//! The kernel frees a module whose init fails, whatever holds a reference to it. So nothing may be
//! used before nothing can fail any more: that takes a [`Publishing`].

use kernel::prelude::*;

/// What is made when the module is loaded, and undone when it is dropped.
pub(crate) trait Load: Send + Sync + Sized {
    /// Makes everything. May sleep.
    ///
    /// # Errors
    ///
    /// Why the module cannot be loaded.
    fn load() -> Result<Self>;

    /// Lets it be used. Nothing of loading fails after this.
    fn publish(&self, publishing: &Publishing);
}

/// Shows that the module is being loaded and that this does not fail any more.
///
/// # Invariants
///
/// Exists only while [`Loaded::init`] runs, which returns no error from then on.
pub(crate) struct Publishing(());

/// A module that has been loaded: the type for `module!`.
pub(crate) struct Loaded<M>(M);

impl<M: Load> kernel::Module for Loaded<M> {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let loaded = Self(M::load()?);
        // INVARIANT: What follows returns no error, and a reference does not outlive it.
        loaded.0.publish(&Publishing(()));
        Ok(loaded)
    }
}
