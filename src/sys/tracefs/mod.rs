// SPDX-License-Identifier: GPL-2.0

//! Files in the root of tracefs, whose operations can be unloaded.
//!
//! C: `tracefs_create_file()` (linux/tracefs.h), `struct cdev` (linux/cdev.h). Two kinds: a
//! [`ControlFile`] takes writes and ioctls, a [`ListingFile`] is text to be read.
//!
//! tracefs is built in, as is all that makes files there, so it has no such files. A regular file's
//! operations are called without a lock: a task that is about to open it when the module goes would
//! be told by a kernel warning that the module cannot be held, or find the operations freed. With a
//! path to the file (`O_PATH`) a task can even open it long after it was removed.
//!
//! For character devices that is solved: the operations of their inodes are a part of the kernel,
//! look under a lock for the device, hold its module and only then call what the device has. So
//! that is what our inodes are given, too. In all else they stay regular files.

mod control;
mod listing;

pub(crate) use control::{
    Control,
    ControlFile, //
};
pub(crate) use listing::{
    ListingFile,
    SeqListing,
    SeqWriter,
    Write, //
};

use super::bindings::{
    self,
    cdev,
    dentry,
    file_operations,
    inode, //
};
use super::loading::LoadComplete;
use super::module_ref::this_module;
use super::symbols::{
    self,
    CheckedSymbols, //
};
use core::mem::offset_of;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::error::from_result;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};
use kernel::sync::Arc;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

/// How long is waited before the tasks that hold a device, or the module, are counted again.
const OPENERS_PAUSE: Delta = Delta::from_millis(1);

/// A file of tracefs; dropping it removes it. May sleep.
///
/// A file that is open when it is removed stays what it is for the tasks that have it, and keeps
/// the module loaded. A path to it that a task has leads to `EIO` from then on. The drop waits for
/// tasks that are about to open it.
///
/// Until it is published, opening it fails with `ENXIO`. So none is open when a load that fails
/// drops it, which frees the module, whatever holds it: the drop also waits until tasks that tried
/// to open it do not hold the module any more.
///
/// # Invariants
///
/// `dentry` is a file of tracefs, with a reference to it that is ours. Its inode's operations are
/// those of a character device, which is `data.device`; its private data is the address of what
/// `data` points to. `operations` are of the kind of file that takes the private data for a
/// `FileData<C>`.
pub(crate) struct TracefsFile<C> {
    dentry: NonNull<dentry>,
    operations: &'static file_operations,
    data: KBox<FileData<C>>,
    symbols: CheckedSymbols,
    /// May a load that fails drop it? Not once it is published.
    load_may_fail: Atomic<bool>,
}

/// What a file of tracefs leads to: the private data of its inode.
pub(super) struct FileData<C> {
    context: Arc<C>,
    device: Device,
}

// SAFETY: The file can be published and removed from any thread.
unsafe impl<C: Send + Sync> Send for TracefsFile<C> {}
// SAFETY: Nothing can be done with a shared reference but publish it, which is two stores.
unsafe impl<C: Send + Sync> Sync for TracefsFile<C> {}

impl<C: Send + Sync + 'static> TracefsFile<C> {
    /// Creates the file of kind `K` while the module is loaded. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` when tracefs refuses, which does not say why: a file of that name exists,
    /// the kernel is locked down, or there is no memory.
    pub(crate) fn create<K: FileKind<C>>(
        symbols: CheckedSymbols,
        context: &Arc<C>,
    ) -> Result<Self> {
        Self::create_named::<K>(symbols, K::NAME, context)
    }

    /// Creates a further file of kind `K`, in whose name a `.` and `suffix` come behind
    /// [`FileKind::NAME`], and lets it be opened. May sleep.
    ///
    /// # Errors
    ///
    /// As of [`Self::create`]; `EINVAL` when the suffix holds a NUL.
    pub(crate) fn create_published<K: FileKind<C>>(
        symbols: CheckedSymbols,
        suffix: &[u8],
        context: &Arc<C>,
        load_complete: &LoadComplete,
    ) -> Result<Self> {
        let mut name = KVec::new();
        for part in [K::NAME.to_bytes(), b".", suffix, b"\0"] {
            name.extend_from_slice(part, GFP_KERNEL_ACCOUNT)?;
        }
        let name = CStr::from_bytes_with_nul(&name).map_err(|_| EINVAL)?;
        let file = Self::create_named::<K>(symbols, name, context)?;
        file.publish(load_complete);
        Ok(file)
    }

    fn create_named<K: FileKind<C>>(
        symbols: CheckedSymbols,
        name: &CStr,
        context: &Arc<C>,
    ) -> Result<Self> {
        let data = FileData {
            context: context.clone(),
            device: Device::new()?,
        };
        let data = KBox::new(data, GFP_KERNEL_ACCOUNT)?;
        // SAFETY: The symbols were found. The name is a string, of which tracefs makes a copy. What
        // the private data points to stays in place in its box, and is freed after the file is
        // removed and no task is about to open it.
        let dentry = unsafe {
            bindings::user_events_tracefs_create_file(
                name.as_char_ptr(),
                K::MODE,
                ptr::null_mut(),
                ptr::from_ref::<FileData<C>>(&data).cast_mut().cast(),
                symbols::def_chr_fops(),
            )
        };
        let dentry = NonNull::new(dentry).ok_or(ENODEV)?;
        // SAFETY: The dentry has an inode for as long as we hold it. The place is read by tasks
        // that open the file, under a lock or after it was found not to be NULL.
        let place =
            unsafe { Atomic::from_ptr(bindings::user_events_i_cdev((*dentry.as_ptr()).d_inode)) };
        place.store(data.device.0.as_ptr(), Release);
        // INVARIANT: Just made.
        Ok(Self {
            dentry,
            operations: K::OPERATIONS,
            data,
            symbols,
            load_may_fail: Atomic::new(true),
        })
    }

    /// Lets it be opened from now on. Cannot be taken back but by removing it.
    pub(crate) fn publish(&self, _: &LoadComplete) {
        self.load_may_fail.store(false, Relaxed);
        // SAFETY: The device is alive. A task that opens it reads the place once, and sees what was
        // made before.
        let place = unsafe {
            let place = &raw mut (*self.data.device.0.as_ptr()).ops;
            Atomic::from_ptr(place.cast::<*mut file_operations>())
        };
        // By the invariant these are the operations for the inode's data. They are a constant.
        place.store(ptr::from_ref(self.operations).cast_mut(), Release);
    }
}

impl<C> Drop for TracefsFile<C> {
    fn drop(&mut self) {
        let _: CheckedSymbols = self.symbols;
        // SAFETY: By the invariant the dentry is ours, and has an inode, which is held here beyond
        // the removal. A task that still has a path to it gets EIO, and finds no device. The
        // symbols were found.
        let inode = unsafe {
            let inode = (*self.dentry.as_ptr()).d_inode;
            kernel::bindings::ihold(inode);
            bindings::user_events_tracefs_remove(self.dentry.as_ptr());
            kernel::bindings::make_bad_inode(inode);
            bindings::user_events_cd_forget(inode);
            inode
        };
        // Tasks that have found the device look at what is behind it until they let it go.
        while self.data.device.is_shared() {
            fsleep(OPENERS_PAUSE);
        }
        if self.load_may_fail.load(Relaxed) {
            // The loader holds the module, too.
            // SAFETY: This is code of the module, so its `struct module` exists.
            while unsafe { kernel::bindings::module_refcount(this_module()) } > 1 {
                fsleep(OPENERS_PAUSE);
            }
        }
        // SAFETY: Held above.
        unsafe { kernel::bindings::iput(inode) };
    }
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

    /// Has anything a reference to it but `self`? Where no inode leads to it, that does not become
    /// true again.
    fn is_shared(&self) -> bool {
        const { assert!(offset_of!(cdev, kobj) == 0) };
        let object = self.0.as_ptr().cast::<kernel::bindings::kobject>();
        // SAFETY: The device is alive, and begins with its object, whose count is changed by single
        // accesses.
        let count = unsafe {
            let count = &raw mut (*object).kref.refcount.refs.counter;
            Atomic::<i32>::from_ptr(count)
        };
        // What a task did before it gave its reference back comes before what is done after this.
        count.load(Acquire) > 1
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the invariant.
        unsafe { bindings::kobject_put(&raw mut (*self.0.as_ptr()).kobj) };
    }
}

impl<C> FileData<C> {
    /// Opens a file: calls `open` with what all its open files share.
    ///
    /// An open that succeeds holds the module twice, for the device and for the operations. With
    /// the last close of a real device the kernel gives back both; with that of a regular file, the
    /// latter: it looks at the inode's mode (`S_ISCHR()` in `__fput()`). So this gives back the
    /// former. That cannot be asked of a kernel without a file system to open a file in, so nothing
    /// at load does. Where it was otherwise, the first close would make the module's count of
    /// references wrong, which the tests of loading look at.
    ///
    /// # Safety
    ///
    /// `inode` must be of a file whose kind is one for a `C`, and in the course of being opened by
    /// way of its device. To be called once for that, as its end.
    unsafe fn open(inode: *mut inode, open: impl FnOnce(&Arc<C>) -> Result) -> c_int {
        from_result(|| {
            // SAFETY: The private data was set when the inode was made. The task holds the device,
            // which the file waits for before it frees what is behind it.
            let data = unsafe { &*(*inode).i_private.cast_const().cast::<Self>() };
            open(&data.context)?;
            // SAFETY: The kernel has just found the device in the inode, and holds it and the
            // module for this open, which nothing gives back otherwise. The module is held for the
            // operations as well. What is behind the file is not used any more.
            unsafe {
                bindings::kobject_put(&raw mut (*data.device.0.as_ptr()).kobj);
                kernel::bindings::module_put(this_module());
            }
            Ok(0)
        })
    }
}

/// What a file in tracefs does, on data of type `C` that all its open files share.
///
/// # Safety
///
/// `OPERATIONS` must take the inode's private data for a `*const FileData<C>`, as
/// [`FileData::open`] does, and rely on nothing else.
pub(crate) unsafe trait FileKind<C> {
    /// The file's name in the root of tracefs.
    const NAME: &'static CStr;
    /// Its permissions.
    const MODE: u16;
    /// Its operations.
    const OPERATIONS: &'static file_operations;
}
