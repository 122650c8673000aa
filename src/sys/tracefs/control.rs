// SPDX-License-Identifier: GPL-2.0

//! Files of tracefs that take writes and ioctls.
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
use core::mem::size_of;
use kernel::error::from_result;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;

/// The operations of a file that takes writes and ioctls. `Self` is one open file.
pub(crate) trait ControlFile: Send + Sync + Sized + 'static {
    /// What all open files share.
    type Context: Send + Sync + 'static;
    /// The file's name in the root of tracefs.
    const NAME: &'static CStr;
    /// Its permissions.
    const MODE: u16;

    /// A task opens the file.
    fn open(context: &Self::Context) -> Result<Self>;

    /// Takes all of `source` as one record, and says how many bytes that was.
    fn write(&self, source: impl WriteSource) -> Result<usize>;

    /// Is there something that a program which polls the file for that has not been told of
    /// (`EPOLLPRI`)? If not, it is to be woken when there is, by what [`Poll::wait`] is given. May
    /// sleep. Of whatever else is asked, the file is ready for it.
    fn poll_pri<'a>(&'a self, poll: &Poll<'a>) -> bool;

    /// An ioctl. `argument` is not checked in any way. In a 32-bit program the size of a pointer,
    /// which is part of some commands, is 4: `pointer_size` tells.
    fn ioctl(&self, command: u32, argument: usize, pointer_size: usize) -> Result;
}

/// A write from memory of the kernel.
#[cold]
#[inline(never)]
fn write_other<T: ControlFile>(open: &T, source: impl WriteSource) -> Result<usize> {
    open.write(source)
}

/// Makes a [`FileKind`] of a [`ControlFile`].
pub(crate) struct Control<T>(PhantomData<T>);

// SAFETY: `open` is all that looks at the inode, and takes its private data for a `FileData`.
unsafe impl<T: ControlFile> FileKind<T::Context> for Control<T> {
    const NAME: &'static CStr = T::NAME;
    const MODE: u16 = T::MODE;
    const OPERATIONS: &'static bindings::file_operations = &bindings::file_operations {
        owner: this_module(),
        // A write waits for nothing but user memory. Without this, io_uring asks whether a file
        // that can be polled is ready to be written 128 times, which it always is, before it leaves
        // the write to a worker.
        fop_flags: bindings::USER_EVENTS_FOP_BUFFER_WASYNC,
        open: Some(Self::open),
        write: Some(Self::write),
        write_iter: Some(Self::write_iter),
        poll: Some(Self::poll),
        unlocked_ioctl: Some(Self::ioctl),
        #[cfg(CONFIG_COMPAT)]
        compat_ioctl: Some(Self::compat_ioctl),
        release: Some(Self::release),
        // SAFETY: A structure of pointers and integers, for which zero means "none".
        ..unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
    };
}

impl<T: ControlFile> Control<T> {
    /// # Safety
    ///
    /// For the VFS, as all functions here: `inode` and `file` are of a file that
    /// [`TracefsFile::create`](super::TracefsFile::create) made of this kind.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        let open = |context: &Arc<T::Context>| {
            let open = KBox::new(T::open(context)?, GFP_KERNEL_ACCOUNT)?;
            // SAFETY: The file is being opened: nothing else uses it yet.
            unsafe {
                (*file).private_data = KBox::into_raw(open).cast();
                // The position of the file is always 0. With the lock for it, a write that waits
                // for user memory would hold up all others of the file.
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
        // SAFETY: `open` made it, and this is the end of the file.
        drop(unsafe { KBox::from_raw((*file).private_data.cast::<T>()) });
        0
    }

    /// # Safety
    ///
    /// See [`Self::open`]; `file` stays open for `'a`.
    #[inline]
    unsafe fn from_file<'a>(file: *mut bindings::file) -> &'a T {
        // SAFETY: `open` put it there, and `release` has not been called.
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
        // SAFETY: The VFS passes a valid control block of an open file, and a source of data. It
        // does not look how far that was advanced when all of it was written.
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
        // SAFETY: The VFS keeps the file open for the call. What is borrowed of the open file, as
        // the trait's function does for whatever lifetime that has, is there until `release`.
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
        // All arguments are pointers, of which such a program has the lower half.
        let argument = argument as u32 as usize;
        from_result(|| open.ioctl(command, argument, size_of::<u32>()).map(|()| 0))
    }
}
