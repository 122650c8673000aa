// SPDX-License-Identifier: GPL-2.0

//! The declaration of a module. 7.x: `kernel::macros::module`, which takes several authors.

use tree::ThisModule;

/// What is known of a module. 7.x: `kernel::ModuleMetadata`, which the macro implements.
pub trait ModuleMetadata {
    /// Its structure.
    const THIS_MODULE: &'static ThisModule;
}

/// A module's structure. 7.x: `kernel::module::this_module`.
pub const fn this_module<M: ModuleMetadata>() -> &'static ThisModule {
    M::THIS_MODULE
}

/// Declares a module.
#[macro_export]
macro_rules! module {
    (
        type: $type:ty,
        name: $name:tt,
        authors: [$author:tt],
        description: $description:tt,
        license: $license:tt,
    ) => {
        /// The module, for the macro of the crate, which takes a name.
        type DeclaredModule = $type;

        /// What the macro of a newer crate makes.
        struct LocalModule;

        impl $crate::ModuleMetadata for LocalModule {
            const THIS_MODULE: &'static $crate::ThisModule = &THIS_MODULE;
        }

        $crate::tree::macros::module! {
            type: DeclaredModule,
            name: $name,
            author: $author,
            description: $description,
            license: $license,
        }
    };
}
