// SPDX-License-Identifier: GPL-2.0

//! Files in the root of tracefs.
//!
//! C: `tracefs_create_file()` (linux/tracefs.h), `struct file_operations` (linux/fs.h), and for how
//! they can be opened while the module goes, `bindings/files.c`. Two kinds: a [`ControlFile`] takes
//! writes and ioctls, a [`ListingFile`] is text to be read.

use super::bindings;
use super::loading::Publishing;
use super::source::{Source, UserBytes};
use super::symbols::Symbols;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::mem::size_of;
use core::ptr::NonNull;
use kernel::error::{from_result, to_result};
use kernel::iov::IovIterSource;
use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::str::CStr;
use kernel::sync::Arc;

/// A file of tracefs; dropping it removes it.
///
/// Open files keep the module loaded, so none is left when the module's exit drops this. Until it is
/// published, opening it fails with `ENXIO`; so none is open either when a load that fails drops it.
/// The drop then also waits for tasks that are about to open it, which hold the module meanwhile.
/// A drop at any other time is of no use, but does no harm: the context is never freed then.
///
/// # Invariants
///
/// `file` was made by `user_events_create_file()`, for the kind of file whose operations are
/// `operations`, and its inode's private data is the address of what `context` points to.
pub(crate) struct TracefsFile<C> {
    file: NonNull<bindings::user_events_file>,
    operations: &'static bindings::file_operations,
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
        // SAFETY: The symbols were found. The name is NUL-terminated, and the context outlives the
        // file: `self` owns a count of it.
        let file = unsafe {
            bindings::user_events_create_file(
                K::NAME.as_char_ptr(),
                K::MODE,
                Arc::as_ptr(context).cast_mut().cast(),
            )
        };
        let file = NonNull::new(file).ok_or(ENODEV)?;
        // INVARIANT: Just made.
        Ok(Self {
            file,
            operations: K::OPERATIONS,
            symbols,
            context: context.clone(),
        })
    }

    /// Lets it be opened from now on. Cannot be taken back but by unloading the module.
    pub(crate) fn publish(&self, _: &Publishing) {
        // SAFETY: By the invariant these are the operations of the file, which are a constant.
        unsafe { bindings::user_events_publish_file(self.file.as_ptr(), self.operations) };
    }
}

impl<C> Drop for TracefsFile<C> {
    fn drop(&mut self) {
        let _: Symbols = self.symbols;
        // SAFETY: The symbols were found, and by the invariant the file is ours to remove. What has
        // opened it, or is about to, holds the module: so there is none when its exit drops this, and
        // if it is still being loaded, this waits for that.
        let may_be_open = unsafe { bindings::user_events_remove_file(self.file.as_ptr()) };
        if may_be_open {
            // Neither: nothing tells when the context is used no more, so it stays.
            core::mem::forget(self.context.clone());
        }
    }
}

/// What a file in tracefs does, on data of type `C` that all who open it share.
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
    const OPERATIONS: &'static bindings::file_operations;
}

/// The operations of a file that takes writes and ioctls. `Self` is one open file.
pub(crate) trait ControlFile: Send + Sync + Sized + 'static {
    /// What all open files share.
    type Context: Send + Sync + 'static;
    /// The file's name in the root of tracefs.
    const NAME: &'static CStr;
    /// Its permissions.
    const MODE: u16;

    /// Somebody opens the file.
    fn open(context: &Self::Context) -> Result<Self>;

    /// Takes all of `source` as one record, and says how many bytes that was.
    fn write(&self, source: impl Source) -> Result<usize>;

    /// An ioctl. `argument` is not checked in any way. In a 32-bit program the size of a pointer,
    /// which is part of some commands, is 4: `pointer_size` tells.
    fn ioctl(&self, command: u32, argument: usize, pointer_size: usize) -> Result;
}

/// The operations of a file that lists something, record by record. May sleep.
///
/// A reader's place in the listing is a cursor, which lies in the open file between two reads: it
/// should hold keys of what is listed and nothing that it would keep alive. seq_file has the text of
/// about a page at a time, copies it when no function of this trait runs, and takes what a record
/// wrote as a whole or, when it has no room left, asks for that record again.
pub(crate) trait ListingFile: 'static {
    /// What is listed.
    type Context: Send + Sync + 'static;
    /// A place in the listing, in front of a record.
    type Cursor: Send + 'static;
    /// The file's name in the root of tracefs.
    const NAME: &'static CStr;
    /// Its permissions.
    const MODE: u16;

    /// The place in front of the first record. Asked for each time the file is read from its start.
    fn begin(context: &Self::Context) -> Self::Cursor;

    /// Writes the record behind a place, and returns the place behind that; `None` if it was the
    /// last. May write nothing. Between two records the reader may be interrupted, so this should
    /// take a short time only.
    ///
    /// # Errors
    ///
    /// The reader's. It can read on then, from the same place.
    fn show(
        context: &Self::Context,
        cursor: &Self::Cursor,
        out: &Listing<'_>,
    ) -> Result<Option<Self::Cursor>>;
}

/// Makes a [`FileKind`] of a [`ControlFile`].
pub(crate) struct Control<T>(PhantomData<T>);

// SAFETY: `open` is all that looks at the inode, and takes its private data for a `Context`.
unsafe impl<T: ControlFile> FileKind<T::Context> for Control<T> {
    const NAME: &'static CStr = T::NAME;
    const MODE: u16 = T::MODE;
    const OPERATIONS: &'static bindings::file_operations = &bindings::file_operations {
        owner: kernel::module::this_module::<crate::LocalModule>().as_ptr(),
        open: Some(Self::open),
        write: Some(Self::write),
        write_iter: Some(Self::write_iter),
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
    /// [`TracefsFile::create`] made of this kind.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        from_result(|| {
            // SAFETY: The private data was set when the inode was made, to a context that outlives
            // the tracefs file, and so this call.
            let context = unsafe { &*(*inode).i_private.cast_const().cast::<T::Context>() };
            let open = KBox::new(T::open(context)?, GFP_KERNEL_ACCOUNT)?;
            // SAFETY: The file is being opened: nobody else uses it yet.
            unsafe { (*file).private_data = KBox::into_raw(open).cast() };
            // SAFETY: The inode is of a published file, and the open succeeds.
            unsafe { bindings::user_events_file_opened(inode) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// See [`Self::open`]; nobody uses the file any more.
    unsafe extern "C" fn release(_: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: `open` made it, and this is the end of the file.
        drop(unsafe { KBox::from_raw((*file).private_data.cast::<T>()) });
        0
    }

    /// # Safety
    ///
    /// See [`Self::open`]; `file` stays open for `'a`.
    #[inline]
    unsafe fn opened<'a>(file: *mut bindings::file) -> &'a T {
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
        let (open, position) = unsafe { (Self::opened(file), *position) };
        if position != 0 {
            return EFAULT.to_errno() as isize;
        }
        let source = UserBytes::new(buffer, count);
        from_result(|| open.write(source).map(|written| written as isize))
    }

    /// # Safety
    ///
    /// See [`Self::open`]; both pointers are valid, and the iterator is one to read from.
    unsafe extern "C" fn write_iter(
        kiocb: *mut bindings::kiocb,
        iter: *mut bindings::iov_iter,
    ) -> isize {
        // SAFETY: The VFS passes a valid control block of an open file, and a source of data.
        let (open, source) = unsafe {
            (
                Self::opened((*kiocb).ki_filp),
                IovIterSource::from_raw(iter),
            )
        };
        from_result(|| open.write(source).map(|written| written as isize))
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
        let open = unsafe { Self::opened(file) };
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
        let open = unsafe { Self::opened(file) };
        // All arguments are pointers, of which such a program has the lower half.
        let argument = argument as u32 as usize;
        from_result(|| open.ioctl(command, argument, size_of::<u32>()).map(|()| 0))
    }
}

/// Makes a [`FileKind`] of a [`ListingFile`].
pub(crate) struct Listed<T>(PhantomData<T>);

// SAFETY: `open` is all that looks at the inode, and takes its private data for a `Context`.
unsafe impl<T: ListingFile> FileKind<T::Context> for Listed<T> {
    const NAME: &'static CStr = T::NAME;
    const MODE: u16 = T::MODE;
    const OPERATIONS: &'static bindings::file_operations = &bindings::file_operations {
        owner: kernel::module::this_module::<crate::LocalModule>().as_ptr(),
        open: Some(Self::open),
        read: Some(bindings::seq_read),
        // A place is looked for when it is read from: seq_lseek() forgets where it was when it is
        // interrupted.
        llseek: Some(bindings::no_seek_end_llseek),
        release: Some(Self::release),
        // SAFETY: A structure of pointers and integers, for which zero means "none".
        ..unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
    };
}

/// A listing that is open.
struct Reader<T: ListingFile> {
    /// Outlives the open file, which keeps the module loaded, and with it the `TracefsFile` that owns
    /// the context.
    context: *const T::Context,
    /// In front of the next record; `None` at the end.
    next: Option<T::Cursor>,
    /// Behind the record that was shown last, until seq_file has taken it.
    behind: Option<T::Cursor>,
}

impl<T: ListingFile> Listed<T> {
    const RECORDS: &'static bindings::seq_operations = &bindings::seq_operations {
        start: Some(Self::start),
        stop: Some(Self::stop),
        next: Some(Self::next),
        show: Some(Self::show),
    };

    /// # Safety
    ///
    /// For the VFS: `inode` and `file` are of a file that [`TracefsFile::create`] made of this
    /// kind.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        from_result(|| {
            let reader = Reader::<T> {
                // SAFETY: The inode is valid for the call.
                context: unsafe { (*inode).i_private }.cast_const().cast(),
                next: None,
                behind: None,
            };
            let reader = KBox::new(reader, GFP_KERNEL_ACCOUNT)?;
            // SAFETY: The file is being opened, and has no private data: it is the VFS's, or the
            // character device's, which has given it none. The operations are a constant.
            to_result(unsafe { bindings::seq_open(file, Self::RECORDS) })?;
            // SAFETY: `seq_open` has put a `seq_file` there, which nothing else uses yet.
            unsafe {
                let seq = (*file).private_data.cast::<bindings::seq_file>();
                (*seq).private = KBox::into_raw(reader).cast();
            }
            // SAFETY: The inode is of a published file, and the open succeeds.
            unsafe { bindings::user_events_file_opened(inode) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// See [`Self::open`]; nothing uses the file any more.
    unsafe extern "C" fn release(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: `open` made both, and this is the end of the file.
        unsafe {
            let seq = (*file).private_data.cast::<bindings::seq_file>();
            drop(KBox::from_raw((*seq).private.cast::<Reader<T>>()));
            bindings::seq_release(inode, file)
        }
    }

    /// # Safety
    ///
    /// For seq_file, as all functions from here on: `seq` was opened by [`Self::open`], and its lock
    /// is held for `'a`.
    unsafe fn reader<'a>(seq: *mut bindings::seq_file) -> &'a mut Reader<T> {
        // SAFETY: `open` put it there, and `release` has not been called. Nothing but these
        // functions uses it, and the lock keeps them from running at once.
        unsafe { &mut *(*seq).private.cast() }
    }

    /// What seq_file takes for a record: not NULL, unless there is none.
    fn record(seq: *mut bindings::seq_file, reader: &Reader<T>) -> *mut c_void {
        match reader.next {
            Some(_) => seq.cast(),
            None => core::ptr::null_mut(),
        }
    }

    /// # Safety
    ///
    /// See [`Self::reader`]; `position` is valid.
    unsafe extern "C" fn start(
        seq: *mut bindings::seq_file,
        position: *mut kernel::bindings::loff_t,
    ) -> *mut c_void {
        // SAFETY: Promised by the caller.
        let (reader, position) = unsafe { (Self::reader(seq), *position) };
        if position == 0 {
            // SAFETY: The context outlives the open file.
            reader.next = Some(T::begin(unsafe { &*reader.context }));
        }
        // Any other position is the one to which `next` went last: seq_file counts from 0.
        Self::record(seq, reader)
    }

    /// # Safety
    ///
    /// See [`Self::reader`].
    unsafe extern "C" fn stop(_: *mut bindings::seq_file, _: *mut c_void) {}

    /// # Safety
    ///
    /// See [`Self::reader`]; `position` is valid.
    unsafe extern "C" fn next(
        seq: *mut bindings::seq_file,
        _: *mut c_void,
        position: *mut kernel::bindings::loff_t,
    ) -> *mut c_void {
        // SAFETY: Promised by the caller.
        let reader = unsafe {
            *position += 1;
            Self::reader(seq)
        };
        reader.next = reader.behind.take();
        // Not in `start`, so that a reader who is interrupted all the time comes to the end, too.
        // SAFETY: Asks about the current task only.
        if unsafe { bindings::user_events_is_interrupted() } {
            return ERESTARTSYS.to_ptr();
        }
        Self::record(seq, reader)
    }

    /// # Safety
    ///
    /// See [`Self::reader`].
    unsafe extern "C" fn show(seq: *mut bindings::seq_file, _: *mut c_void) -> c_int {
        from_result(|| {
            // SAFETY: Promised by the caller.
            let reader = unsafe { Self::reader(seq) };
            // SAFETY: seq_file calls this from one task, which has the file for the call.
            let out = unsafe { Listing::from_raw(seq) };
            // SAFETY: The context outlives the open file.
            let context = unsafe { &*reader.context };
            reader.behind = match &reader.next {
                Some(cursor) => T::show(context, cursor, &out)?,
                None => None,
            };
            Ok(0)
        })
    }
}

/// Where a listing goes. Text that finds no room is dropped, and the record asked for again.
pub(crate) struct Listing<'a>(&'a SeqFile, *mut bindings::seq_file);

impl Listing<'_> {
    /// # Safety
    ///
    /// For the lifetime of the result `seq` must be valid and not used by another thread.
    pub(super) unsafe fn from_raw(seq: *mut bindings::seq_file) -> Self {
        // SAFETY: Promised by the caller.
        Self(unsafe { SeqFile::from_raw(seq) }, seq)
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        // SAFETY: The pointer is the one that `self.0` was made of, and valid for as long.
        unsafe { bindings::seq_write(self.1, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Writes formatted text.
    pub(crate) fn text(&self, arguments: kernel::fmt::Arguments<'_>) {
        self.0.call_printf(arguments);
    }
}
