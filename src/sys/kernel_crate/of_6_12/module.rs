// SPDX-License-Identifier: GPL-2.0

//! The declaration of a module. 7.x: `kernel::macros::module`, which takes several authors.

use tree::ThisModule;

/// Metadata of a module. 7.x: `kernel::ModuleMetadata`, which the macro implements.
pub trait ModuleMetadata {
    /// C: `THIS_MODULE`.
    const THIS_MODULE: &'static ThisModule;
}

/// 7.x: `kernel::module::this_module`.
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
        /// The macro of the crate takes a name.
        type DeclaredModule = $type;

        /// The type that the macro of a newer crate makes.
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
