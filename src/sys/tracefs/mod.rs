// SPDX-License-Identifier: GPL-2.0

//! Files in the root of tracefs, of a module that can be unloaded.
//!
//! C: `tracefs_create_file()` (linux/tracefs.h), `struct cdev` (linux/cdev.h). There are two kinds:
//! a [`ControlFile`] takes writes and ioctls, a [`ListingFile`] is text.
//!
//! Other code that creates files in tracefs is built in. The operations of a regular file are
//! called without a lock: a task that is about to open the file while the module is unloaded would
//! cause a warning, since the module cannot be held, or use freed operations. With a path to the
//! file (`O_PATH`) a task can open the file long after its removal.
//!
//! Character devices solve that: the operations of their inodes are part of the kernel, look up the
//! device under a lock, hold its module, and only then call the device's operations. So the inodes
//! of these files have the same operations. In all else they are regular files.

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

/// The time until the openers of a device, or the users of the module, are counted again.
const OPENERS_PAUSE: Delta = Delta::from_millis(1);

/// A file in tracefs. The drop removes it, and may sleep.
///
/// A removed file that is open stays usable for its tasks, and keeps the module loaded. A path to
/// it yields `EIO`. The drop waits for tasks that are about to open it.
///
/// Until the file is published, opening it fails with `ENXIO`. So no file is open when a failing
/// load drops it, after which the module is freed, whatever holds it. Then the drop also waits
/// until tasks that have tried to open the file do not hold the module any more.
///
/// # Invariants
///
/// `dentry` is a file in tracefs, with a reference that `self` owns. Its inode has the operations
/// of a character device, `data.device`, and the address of `data` as private data. `operations`
/// are of a kind of file whose private data is a `FileData<C>`.
pub(crate) struct TracefsFile<C> {
    dentry: NonNull<dentry>,
    operations: &'static file_operations,
    data: KBox<FileData<C>>,
    symbols: CheckedSymbols,
    /// The file is not published, so a failing load may drop it.
    load_may_fail: Atomic<bool>,
}

/// The private data of a file's inode.
pub(super) struct FileData<C> {
    context: Arc<C>,
    device: Device,
}

// SAFETY: Any thread may publish and remove the file.
unsafe impl<C: Send + Sync> Send for TracefsFile<C> {}
// SAFETY: A shared reference allows only publishing, which is two atomic stores.
unsafe impl<C: Send + Sync> Sync for TracefsFile<C> {}

impl<C: Send + Sync + 'static> TracefsFile<C> {
    /// Creates a file of kind `K` while the module is loaded. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` when tracefs fails, for a reason that it does not return: the file
    /// exists, the kernel is locked down, or there is no memory.
    pub(crate) fn create<K: FileKind<C>>(
        symbols: CheckedSymbols,
        context: &Arc<C>,
    ) -> Result<Self> {
        Self::create_named::<K>(symbols, K::NAME, context)
    }

    /// Creates a further file of kind `K`, with a `.` and `suffix` behind [`FileKind::NAME`], and
    /// publishes it. May sleep.
    ///
    /// # Errors
    ///
    /// As [`Self::create`]; `EINVAL` when the suffix contains a NUL.
    pub(crate) fn create_published<K: FileKind<C>>(
        symbols: CheckedSymbols,
        suffix: &[u8],
        context: &Arc<C>,
        complete: &LoadComplete,
    ) -> Result<Self> {
        let mut name = KVec::new();
        for part in [K::NAME.to_bytes(), b".", suffix, b"\0"] {
            name.extend_from_slice(part, GFP_KERNEL_ACCOUNT)?;
        }
        let name = CStr::from_bytes_with_nul(&name).map_err(|_| EINVAL)?;
        let file = Self::create_named::<K>(symbols, name, context)?;
        file.publish(complete);
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
        // SAFETY: The symbols were found. The name is a string, which tracefs copies. The private
        // data stays in its box, and is freed after the file is removed and no task is about to
        // open it.
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
        // SAFETY: The dentry has an inode while it is held. Tasks that open the file read `i_cdev`
        // under a lock, or after it was found not to be NULL.
        let place =
            unsafe { Atomic::from_ptr(bindings::user_events_i_cdev((*dentry.as_ptr()).d_inode)) };
        place.store(data.device.0.as_ptr(), Release);
        // INVARIANT: Just created.
        Ok(Self {
            dentry,
            operations: K::OPERATIONS,
            data,
            symbols,
            load_may_fail: Atomic::new(true),
        })
    }

    /// Publishes the file, which can be opened until it is removed.
    pub(crate) fn publish(&self, _: &LoadComplete) {
        self.load_may_fail.store(false, Relaxed);
        // SAFETY: The device is alive. A task that opens the file reads `ops` once.
        let place = unsafe {
            let place = &raw mut (*self.data.device.0.as_ptr()).ops;
            Atomic::from_ptr(place.cast::<*mut file_operations>())
        };
        // By the invariant the operations, a constant, are those for the inode's data.
        place.store(ptr::from_ref(self.operations).cast_mut(), Release);
    }
}

impl<C> Drop for TracefsFile<C> {
    fn drop(&mut self) {
        let _: CheckedSymbols = self.symbols;
        // SAFETY: By the invariant the dentry is referenced, and has an inode, which is held beyond
        // the removal here. A task with a path to the file gets EIO, or finds no device. The
        // symbols were found.
        let inode = unsafe {
            let inode = (*self.dentry.as_ptr()).d_inode;
            kernel::bindings::ihold(inode);
            bindings::user_events_tracefs_remove(self.dentry.as_ptr());
            kernel::bindings::make_bad_inode(inode);
            bindings::user_events_cd_forget(inode);
            inode
        };
        // Tasks that have found the device use the data until they drop the device.
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

/// A character device without a number, to which only the inodes of these files point.
///
/// # Invariants
///
/// `self` owns a reference to the device.
struct Device(NonNull<cdev>);

impl Device {
    /// A device of the module, without operations yet.
    ///
    /// # Errors
    ///
    /// `ENODEV` when there is no memory.
    fn new() -> Result<Self> {
        // SAFETY: Allocates only.
        let device = unsafe { bindings::cdev_alloc() };
        let device = NonNull::new(device).ok_or(ENODEV)?;
        // SAFETY: Just allocated, and nothing else knows it.
        unsafe { (*device.as_ptr()).owner = this_module() };
        // INVARIANT: Allocated with a reference.
        Ok(Self(device))
    }

    /// Whether there are other references than that of `self`. Stays `false` once no inode points
    /// to the device.
    fn is_shared(&self) -> bool {
        const { assert!(offset_of!(cdev, kobj) == 0) };
        let object = self.0.as_ptr().cast::<kernel::bindings::kobject>();
        // SAFETY: The device is alive, and begins with its kobject, whose count is changed by
        // single accesses.
        let count = unsafe {
            let count = &raw mut (*object).kref.refcount.refs.counter;
            Atomic::<i32>::from_ptr(count)
        };
        // The acquire: what a task did before it dropped its reference comes before what follows
        // here.
        count.load(Acquire) > 1
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: The reference belongs to `self` by the invariant.
        unsafe { bindings::kobject_put(&raw mut (*self.0.as_ptr()).kobj) };
    }
}

impl<C> FileData<C> {
    /// Opens a file: calls `open` with the data that all open files share.
    ///
    /// A successful open holds the module twice, for the device and for the operations. At the last
    /// close the kernel drops both for an inode of a device, but only the latter for a regular file
    /// (`S_ISCHR()` in `__fput()`). So this function drops the former. Nothing checks that when the
    /// module is loaded, as there is no file system to open a file in. On a kernel that differs,
    /// the first close would make the module's count wrong, which the tests of loading notice.
    ///
    /// # Safety
    ///
    /// `inode` must be of a file whose kind is for a `C`, and being opened by way of its device. To
    /// be called once for that, at its end.
    unsafe fn open(inode: *mut inode, open: impl FnOnce(&Arc<C>) -> Result) -> c_int {
        from_result(|| {
            // SAFETY: The private data was set when the inode was created. The task holds the
            // device, for which the drop of the file waits before it frees the data.
            let data = unsafe { &*(*inode).i_private.cast_const().cast::<Self>() };
            open(&data.context)?;
            // SAFETY: The kernel has just found the device in the inode, and holds device and
            // module for this open, which nothing else drops. The module is held for the operations
            // as well. The data is not used any more.
            unsafe {
                bindings::kobject_put(&raw mut (*data.device.0.as_ptr()).kobj);
                kernel::bindings::module_put(this_module());
            }
            Ok(0)
        })
    }
}

/// A kind of file in tracefs, with data of type `C` that all open files share.
///
/// # Safety
///
/// `OPERATIONS` must take the inode's private data for a `*const FileData<C>`, as
/// [`FileData::open`] does, and rely on nothing else.
pub(crate) unsafe trait FileKind<C> {
    /// Name in the root of tracefs.
    const NAME: &'static CStr;
    /// Permissions.
    const MODE: u16;
    /// Operations.
    const OPERATIONS: &'static file_operations;
}
