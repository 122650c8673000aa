// SPDX-License-Identifier: GPL-2.0

//! Files in tracefs that take writes and ioctls.
//!
//! C: `struct file_operations` (linux/fs.h).

use super::super::bindings;
use super::super::module_ref::this_module;
use super::super::poll::{
    self,
    Poll, //
};
use super::super::write_source::{
    IterSource,
    UserBuf,
    WriteSource, //
};
use super::{
    FileData,
    FileKind, //
};
use core::marker::PhantomData;
use kernel::error::from_result;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;

/// The operations of a file that takes writes and ioctls. May sleep. `Self` is an open file.
pub(crate) trait ControlFile: Send + Sync + Sized + 'static {
    /// The data that all open files share.
    type Context: Send + Sync + 'static;
    /// Name in the root of tracefs.
    const NAME: &'static CStr;
    /// Permissions.
    const MODE: u16;

    /// Opens the file.
    fn open(context: &Self::Context) -> Result<Self>;

    /// Takes all of `source` as one record, and returns its length.
    fn write(&self, source: impl WriteSource) -> Result<usize>;

    /// Whether a poll reports `EPOLLPRI`. If not, [`Poll::wait`] is called with the queue that is
    /// woken when that may change. May sleep. The file is always ready for reading and writing.
    fn poll_pri<'a>(&'a self, poll: &Poll<'a>) -> bool;

    /// An ioctl. `argument` is not checked. The size of a pointer, which is part of some commands,
    /// is 4 in a 32-bit program: see `pointer_size`.
    fn ioctl(&self, command: u32, argument: usize, pointer_size: usize) -> Result;
}

/// A write from kernel memory, or of many segments.
#[cold]
#[inline(never)]
fn write_other<T: ControlFile>(open: &T, source: impl WriteSource) -> Result<usize> {
    open.write(source)
}

/// The [`FileKind`] of a [`ControlFile`].
pub(crate) struct Control<T>(PhantomData<T>);

// SAFETY: Only `open` uses the inode, and takes its private data for a `FileData`.
unsafe impl<T: ControlFile> FileKind<T::Context> for Control<T> {
    const NAME: &'static CStr = T::NAME;
    const MODE: u16 = T::MODE;
    const OPERATIONS: &'static bindings::file_operations = &bindings::file_operations {
        owner: this_module(),
        // A write waits only for user memory. Without this flag io_uring polls the file, which is
        // always ready for writing, 128 times before a worker gets the write.
        fop_flags: bindings::USER_EVENTS_FOP_BUFFER_WASYNC,
        open: Some(Self::open),
        write: Some(Self::write),
        write_iter: Some(Self::write_iter),
        poll: Some(Self::poll),
        unlocked_ioctl: Some(Self::ioctl),
        #[cfg(CONFIG_COMPAT)]
        compat_ioctl: Some(Self::compat_ioctl),
        release: Some(Self::release),
        // SAFETY: Pointers and integers, for which zero means "none".
        ..unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
    };
}

impl<T: ControlFile> Control<T> {
    /// # Safety
    ///
    /// For the VFS, as all functions here: `inode` and `file` are of a file of this kind by
    /// [`TracefsFile::create`](super::TracefsFile::create).
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        let open = |context: &Arc<T::Context>| {
            let open = KBox::new(T::open(context)?, GFP_KERNEL_ACCOUNT)?;
            // SAFETY: The file is being opened, and nothing else uses it yet.
            unsafe {
                (*file).private_data = KBox::into_raw(open).cast();
                // The position is always 0. With its lock, a write that waits for user memory would
                // delay all other writes of the file.
                (*file).f_mode &= !bindings::USER_EVENTS_FMODE_ATOMIC_POS;
            }
            Ok(())
        };
        // SAFETY: The inode is of a file of this kind, and being opened.
        unsafe { FileData::open(inode, open) }
    }

    /// # Safety
    ///
    /// See [`Self::open`]; nothing uses the file any more.
    unsafe extern "C" fn release(_: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: `open` has allocated the data, and this is the end of the file.
        drop(unsafe { KBox::from_raw((*file).private_data.cast::<T>()) });
        0
    }

    /// # Safety
    ///
    /// See [`Self::open`]; `file` stays open for `'a`.
    #[inline]
    unsafe fn from_file<'a>(file: *mut bindings::file) -> &'a T {
        // SAFETY: `open` has stored the pointer, and `release` has not been called.
        unsafe { &*(*file).private_data.cast_const().cast::<T>() }
    }

    /// # Safety
    ///
    /// See [`Self::open`]; `position` is valid.
    unsafe extern "C" fn write(
        file: *mut bindings::file,
        buffer: *const u8,
        count: usize,
        position: *mut kernel::bindings::loff_t,
    ) -> isize {
        // SAFETY: The VFS keeps the file open for the call, and passes a valid position.
        let (open, position) = unsafe { (Self::from_file(file), *position) };
        if position != 0 {
            return EFAULT.to_errno() as isize;
        }
        let source = UserBuf::new(buffer, count);
        from_result(|| open.write(source).map(|written| written as isize))
    }

    /// # Safety
    ///
    /// See [`Self::open`]; both pointers are valid, and the iterator is one to read from.
    unsafe extern "C" fn write_iter(
        kiocb: *mut bindings::kiocb,
        iter: *mut bindings::iov_iter,
    ) -> isize {
        // SAFETY: The VFS passes a valid control block of an open file, and an iterator to read
        // from. When all was written, it does not check how far the iterator has advanced.
        let (open, source) = unsafe {
            (
                Self::from_file((*kiocb).ki_filp),
                IterSource::from_raw(iter),
            )
        };
        from_result(|| {
            let written = match source {
                IterSource::User(source) => open.write(source),
                IterSource::Other(source) => write_other(open, source),
            };
            written.map(|written| written as isize)
        })
    }

    /// # Safety
    ///
    /// See [`Self::open`]; `table` is valid or NULL.
    unsafe extern "C" fn poll(
        file: *mut bindings::file,
        table: *mut kernel::bindings::poll_table_struct,
    ) -> c_uint {
        // SAFETY: The VFS keeps the file open for the call. A borrow from the open file, as
        // `poll_pri` makes for any lifetime, is valid until `release`.
        let (open, poll) = unsafe { (Self::from_file(file), Poll::new(file, table.cast())) };
        let poll_pri = poll.is_some_and(|poll| open.poll_pri(&poll));
        poll::POLL_DEFAULT | if poll_pri { poll::POLL_CHANGED } else { 0 }
    }

    /// # Safety
    ///
    /// See [`Self::open`].
    unsafe extern "C" fn ioctl(
        file: *mut bindings::file,
        command: c_uint,
        argument: c_ulong,
    ) -> c_long {
        // SAFETY: The VFS keeps the file open for the call.
        let open = unsafe { Self::from_file(file) };
        from_result(|| {
            open.ioctl(command, argument, size_of::<usize>())
                .map(|()| 0)
        })
    }

    /// For 32-bit programs on a 64-bit kernel.
    ///
    /// # Safety
    ///
    /// See [`Self::open`].
    #[cfg(CONFIG_COMPAT)]
    unsafe extern "C" fn compat_ioctl(
        file: *mut bindings::file,
        command: c_uint,
        argument: c_ulong,
    ) -> c_long {
        // SAFETY: The VFS keeps the file open for the call.
        let open = unsafe { Self::from_file(file) };
        // All arguments are pointers, whose upper half is undefined.
        let argument = argument as u32 as usize;
        from_result(|| open.ioctl(command, argument, size_of::<u32>()).map(|()| 0))
    }
}
