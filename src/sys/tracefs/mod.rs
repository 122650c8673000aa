// SPDX-License-Identifier: GPL-2.0

//! Files in the root of tracefs, whose operations can be unloaded.
//!
//! C: `tracefs_create_file()` (linux/tracefs.h), `struct cdev` (linux/cdev.h). Two kinds: a
//! [`ControlFile`] takes writes and ioctls, a [`ListingFile`] is text to be read.
//!
//! tracefs is built in, as is all that makes files there, so it has no such files. A regular file's
//! operations are called without a lock: a task that is about to open it when the module goes would be
//! told by a kernel warning that the module cannot be held, or find the operations freed. With a path
//! to the file (`O_PATH`) a task can even open it long after it was removed.
//!
//! For character devices that is solved: the operations of their inodes are a part of the kernel, look
//! under a lock for the device, hold its module and only then call what the device has. So that is what
//! our inodes are given, too. In all else they stay regular files.

mod control;
mod listing;

pub(crate) use control::{
    Control,
    ControlFile, //
};
pub(crate) use listing::{
    Listed,
    Listing,
    ListingFile, //
};

use super::bindings::{
    self,
    cdev,
    dentry,
    file_operations,
    inode, //
};
use super::loading::Publishing;
use super::module_ref::this_module;
use super::symbols::{
    self,
    Symbols, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::atomic::{
    Atomic,
    Release, //
};
use kernel::sync::Arc;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

/// How long is waited before the tasks that hold the module are counted again.
const OPENERS_PAUSE: Delta = Delta::from_millis(1);

/// A file of tracefs; dropping it removes it.
///
/// Open files keep the module loaded, so none is left when the module's exit drops this. Until it is
/// published, opening it fails with `ENXIO`; so none is open either when a load that fails drops it.
/// The drop then also waits for tasks that are about to open it, which hold the module meanwhile.
/// A drop at any other time is of no use, but does no harm: the context is never freed then.
///
/// # Invariants
///
/// `dentry` is a file of tracefs, with a reference to it that is ours. Its inode's operations are those of a
/// character device, which is `device`; its private data is the address of what `context` points to.
/// `operations` are of the kind of file that takes the private data for a `C`.
pub(crate) struct TracefsFile<C> {
    dentry: NonNull<dentry>,
    device: Device,
    operations: &'static file_operations,
    symbols: Symbols,
    context: Arc<C>,
}

// SAFETY: The file can be published and removed from any thread.
unsafe impl<C: Send + Sync> Send for TracefsFile<C> {}
// SAFETY: Nothing can be done with a shared reference but publish it, which is one store.
unsafe impl<C: Send + Sync> Sync for TracefsFile<C> {}

impl<C: Send + Sync + 'static> TracefsFile<C> {
    /// Creates the file of kind `K`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` when tracefs refuses, which does not say why: a file of that name exists, the kernel
    /// is locked down, or there is no memory.
    pub(crate) fn create<K: FileKind<C>>(symbols: Symbols, context: &Arc<C>) -> Result<Self> {
        let device = Device::new()?;
        // SAFETY: The symbols were found. The name is a string, and the context outlives the file:
        // `self` owns a count of it.
        let dentry = unsafe {
            bindings::tracefs_create_file(
                K::NAME.as_char_ptr(),
                K::MODE,
                ptr::null_mut(),
                Arc::as_ptr(context).cast_mut().cast(),
                symbols::def_chr_fops(),
            )
        };
        let dentry = NonNull::new(dentry).ok_or(ENODEV)?;
        // SAFETY: The dentry has an inode for as long as we hold it. The place is read by tasks that open
        // the file, under a lock or after it was found not to be NULL.
        let place = unsafe { Atomic::from_ptr(bindings::user_events_i_cdev(inode_of(dentry))) };
        place.store(device.0.as_ptr(), Release);
        // INVARIANT: Just made.
        Ok(Self {
            dentry,
            device,
            operations: K::OPERATIONS,
            symbols,
            context: context.clone(),
        })
    }

    /// Lets it be opened from now on. Cannot be taken back but by unloading the module.
    pub(crate) fn publish(&self, _: &Publishing) {
        // SAFETY: The device is alive. A task that opens it reads the place once, and sees what was
        // made before.
        let place = unsafe {
            let place = &raw mut (*self.device.0.as_ptr()).ops;
            Atomic::from_ptr(place.cast::<*mut file_operations>())
        };
        // By the invariant these are the operations for the inode's data. They are a constant.
        place.store(ptr::from_ref(self.operations).cast_mut(), Release);
    }
}

impl<C> Drop for TracefsFile<C> {
    fn drop(&mut self) {
        let _: Symbols = self.symbols;
        // SAFETY: This is code of the module, so its `struct module` exists. This task, which loads or
        // unloads it, is the one that changes its state.
        let state = unsafe { (&raw const (*this_module()).state).read_volatile() };
        // SAFETY: By the invariant the dentry is ours, and has an inode, which is held here beyond the
        // removal. A task that still has a path to it gets EIO, and finds no device. The symbols were
        // found.
        let inode = unsafe {
            let inode = inode_of(self.dentry);
            kernel::bindings::ihold(inode);
            bindings::user_events_tracefs_remove(self.dentry.as_ptr());
            kernel::bindings::make_bad_inode(inode);
            bindings::user_events_cd_forget(inode);
            inode
        };
        // What has opened it, or is about to, holds the module: so there is none when its exit drops this.
        // A load that fails frees the module, whatever holds it. So it waits for tasks that have found the
        // device and hold the module for it: they are refused, as the file is not published, and let go.
        if state == kernel::bindings::module_state_MODULE_STATE_COMING {
            wait_for_openers();
        }
        // SAFETY: Held above.
        unsafe { kernel::bindings::iput(inode) };
        if state == kernel::bindings::module_state_MODULE_STATE_LIVE {
            // Neither loading nor unloading: files may be open, so the context is leaked.
            core::mem::forget(self.context.clone());
        }
    }
}

/// Waits until nothing but the loader holds the module.
fn wait_for_openers() {
    // SAFETY: This is code of the module, so its `struct module` exists.
    while unsafe { kernel::bindings::module_refcount(this_module()) } > 1 {
        fsleep(OPENERS_PAUSE);
    }
}

/// # Safety
///
/// `dentry` must be held, and of a file.
unsafe fn inode_of(dentry: NonNull<dentry>) -> *mut inode {
    // SAFETY: Promised by the caller. C: `d_inode()`.
    unsafe { (*dentry.as_ptr()).d_inode }
}

/// A character device without a number, which no node leads to but our inodes.
///
/// # Invariants
///
/// Owns a reference to the device.
struct Device(NonNull<cdev>);

impl Device {
    /// A device of this module that has no operations yet.
    ///
    /// # Errors
    ///
    /// `ENODEV` when there is no memory.
    fn new() -> Result<Self> {
        // SAFETY: Allocates only.
        let device = unsafe { bindings::cdev_alloc() };
        let device = NonNull::new(device).ok_or(ENODEV)?;
        // SAFETY: Just made, and known to nothing else.
        unsafe { (*device.as_ptr()).owner = this_module() };
        // INVARIANT: It was made with a reference.
        Ok(Self(device))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the invariant.
        unsafe { put_device(self.0.as_ptr()) };
    }
}

/// # Safety
///
/// A reference to the device must be the caller's to give up.
unsafe fn put_device(device: *mut cdev) {
    // SAFETY: Promised by the caller.
    unsafe { bindings::kobject_put(&raw mut (*device).kobj) };
}

/// To be called at the end of an open that succeeds. It holds the module twice then, for the device and
/// for the operations. With the last close of a real device the kernel gives back both; with that of a
/// regular file, the latter: it looks at the inode's mode (`S_ISCHR()` in `__fput()`). That cannot be
/// asked of a kernel without a file system to open a file in, so nothing at load does. Where it was
/// otherwise, the first close would make the module's count of references wrong, which the tests of
/// loading look at.
///
/// # Safety
///
/// `inode` must be of a published file, and in the course of being opened by way of its device. To be
/// called once for that.
unsafe fn opened(inode: *mut inode) {
    // SAFETY: The kernel has just found the device in the inode, and holds it and the module for this
    // open, which nothing gives back otherwise. The module is held for the operations as well.
    unsafe {
        put_device(*bindings::user_events_i_cdev(inode));
        kernel::bindings::module_put(this_module());
    }
}

/// What a file in tracefs does, on data of type `C` that all its open files share.
///
/// # Safety
///
/// `OPERATIONS` must take the inode's private data for a `*const C` and rely on nothing else.
pub(crate) unsafe trait FileKind<C> {
    /// The file's name in the root of tracefs.
    const NAME: &'static CStr;
    /// Its permissions.
    const MODE: u16;
    /// Its operations.
    const OPERATIONS: &'static file_operations;
}
