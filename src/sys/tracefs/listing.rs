// SPDX-License-Identifier: GPL-2.0

//! Files in tracefs that are text, read record by record.
//!
//! C: `struct seq_operations` (linux/seq_file.h).

use super::super::bindings;
use super::super::loading::LoadComplete;
use super::super::module_ref::this_module;
use super::{
    FileData,
    FileKind, //
};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::marker::PhantomData;
use kernel::error::{
    from_result,
    to_result, //
};
use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::str::CStr;
use kernel::sync::Arc;
use kernel::uaccess::{
    UserPtr,
    UserSlice, //
};

/// Handles a write, see [`ListingFile::WRITE`].
pub(crate) type Write<C> = fn(&Arc<C>, UserSlice, &LoadComplete) -> Result<usize>;

/// The operations of a file that is a list of records. May sleep.
///
/// A reader's place in the listing is a cursor, which the open file has between two reads. It
/// should contain keys of the listed objects, and no references. seq_file buffers about a page of
/// text, and copies it to user space outside of these functions. It takes the text of a record as a
/// whole, or requests the record again if its buffer was too small.
pub(crate) trait ListingFile: 'static {
    /// The listed objects.
    type Context: Send + Sync + 'static;
    /// A place in front of a record.
    type Cursor: Send + 'static;
    /// Name in the root of tracefs.
    const NAME: &'static CStr;
    /// Permissions.
    const MODE: u16;
    /// Handles a write to the file, and returns how many bytes it has taken. `None` for a file that
    /// cannot be written.
    const WRITE: Option<Write<Self::Context>> = None;

    /// The place in front of the first record. Called each time the file is read from its start.
    fn begin(context: &Self::Context) -> Self::Cursor;

    /// Writes the record behind `cursor`, which may be empty, and returns the next place, or `None`
    /// after the last record. Readers are interrupted only between two records, so this should take
    /// a short time.
    ///
    /// # Errors
    ///
    /// The reader gets the error, and may continue at the same place.
    fn show(
        context: &Self::Context,
        cursor: &Self::Cursor,
        out: &SeqWriter<'_>,
    ) -> Result<Option<Self::Cursor>>;
}

/// The [`FileKind`] of a [`ListingFile`].
pub(crate) struct SeqListing<T>(PhantomData<T>);

// SAFETY: Only `open` uses the inode, and takes its private data for a `FileData`.
unsafe impl<T: ListingFile> FileKind<T::Context> for SeqListing<T> {
    const NAME: &'static CStr = T::NAME;
    const MODE: u16 = T::MODE;
    const OPERATIONS: &'static bindings::file_operations = &bindings::file_operations {
        owner: this_module(),
        open: Some(Self::open),
        read: Some(bindings::seq_read),
        write: match T::WRITE {
            Some(_) => Some(Self::write),
            None => None,
        },
        // A read looks up its place. seq_lseek() would lose it in an interruption.
        llseek: Some(bindings::no_seek_end_llseek),
        release: Some(Self::release),
        // SAFETY: Pointers and integers, for which zero means "none".
        ..unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
    };
}

/// An open listing.
struct Reader<T: ListingFile> {
    context: Arc<T::Context>,
    /// Used by the task that holds the lock of the seq_file.
    places: UnsafeCell<Places<T::Cursor>>,
}

/// The place of a reader.
struct Places<C> {
    /// In front of the next record; `None` at the end.
    next: Option<C>,
    /// Behind the record that was shown last, until seq_file has taken that.
    after: Option<C>,
}

impl<T: ListingFile> SeqListing<T> {
    const RECORDS: &'static bindings::seq_operations = &bindings::seq_operations {
        start: Some(Self::start),
        stop: Some(Self::stop),
        next: Some(Self::next),
        show: Some(Self::show),
    };

    /// # Safety
    ///
    /// For the VFS: `inode` and `file` are of a file of this kind by
    /// [`TracefsFile::create`](super::TracefsFile::create).
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        let open = |context: &Arc<T::Context>| {
            let reader = Reader::<T> {
                context: context.clone(),
                places: UnsafeCell::new(Places {
                    next: None,
                    after: None,
                }),
            };
            let reader = KBox::new(reader, GFP_KERNEL_ACCOUNT)?;
            // SAFETY: The file is being opened, and has no private data yet: neither the VFS nor
            // the character device has set any. The operations are a constant.
            to_result(unsafe { bindings::seq_open(file, Self::RECORDS) })?;
            // SAFETY: `seq_open` has stored a `seq_file`, which nothing else uses yet.
            unsafe {
                let seq = (*file).private_data.cast::<bindings::seq_file>();
                (*seq).private = KBox::into_raw(reader).cast();
            }
            Ok(())
        };
        // SAFETY: The inode is of a file of this kind, and being opened.
        unsafe { FileData::open(inode, open) }
    }

    /// # Safety
    ///
    /// See [`Self::open`]; nothing uses the file any more.
    unsafe extern "C" fn release(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: `open` has allocated both, and this is the end of the file.
        unsafe {
            let seq = (*file).private_data.cast::<bindings::seq_file>();
            drop(KBox::from_raw((*seq).private.cast::<Reader<T>>()));
            bindings::seq_release(inode, file)
        }
    }

    /// # Safety
    ///
    /// See [`Self::open`]; `file` stays open for the call.
    unsafe extern "C" fn write(
        file: *mut bindings::file,
        buffer: *const u8,
        count: usize,
        _: *mut kernel::bindings::loff_t,
    ) -> isize {
        // SAFETY: `open` has stored the pointer, and `release` has not been called.
        let reader = unsafe {
            let seq = (*file).private_data.cast::<bindings::seq_file>();
            &*(*seq).private.cast_const().cast::<Reader<T>>()
        };
        // SAFETY: Only a published file can be opened, and this one is open for the call.
        let complete = unsafe { LoadComplete::by_open_file() };
        let from = UserSlice::new(UserPtr::from_ptr(buffer.cast_mut().cast()), count);
        from_result(|| {
            let write = T::WRITE.ok_or(EINVAL)?;
            write(&reader.context, from, &complete).map(|taken| taken as isize)
        })
    }

    /// # Safety
    ///
    /// For seq_file, as all functions below: [`Self::open`] has opened `seq`, whose lock is held
    /// for `'a`.
    unsafe fn reader<'a>(
        seq: *mut bindings::seq_file,
    ) -> (&'a T::Context, &'a mut Places<T::Cursor>) {
        // SAFETY: `open` has stored the pointer, and `release` has not been called. Only these
        // functions use the places, with the lock held.
        unsafe {
            let reader = &*(*seq).private.cast_const().cast::<Reader<T>>();
            (&reader.context, &mut *reader.places.get())
        }
    }

    /// The value for seq_file: not NULL, unless there is no record.
    fn record(seq: *mut bindings::seq_file, places: &Places<T::Cursor>) -> *mut c_void {
        match places.next {
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
        // SAFETY: By the safety requirement.
        let ((context, places), position) = unsafe { (Self::reader(seq), *position) };
        if position == 0 {
            places.next = Some(T::begin(context));
        }
        // Any other position is the last one of `next`: seq_file counts from 0.
        Self::record(seq, places)
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
        // SAFETY: By the safety requirement.
        let (_, places) = unsafe {
            *position += 1;
            Self::reader(seq)
        };
        places.next = places.after.take();
        // Not in `start`, so that a reader that is interrupted all the time comes to the end.
        // SAFETY: Between two records only the mutex of the seq_file is held, with which a task may
        // sleep. The kernel warns if sleeping is not allowed.
        unsafe { bindings::user_events_cond_resched() };
        if current!().signal_pending() {
            return ERESTARTSYS.to_ptr();
        }
        Self::record(seq, places)
    }

    /// # Safety
    ///
    /// See [`Self::reader`].
    unsafe extern "C" fn show(seq: *mut bindings::seq_file, _: *mut c_void) -> c_int {
        from_result(|| {
            // SAFETY: By the safety requirement.
            let (context, places) = unsafe { Self::reader(seq) };
            // SAFETY: seq_file calls this from one task, which owns the file for the call.
            let out = unsafe { SeqWriter::from_raw(seq) };
            places.after = match &places.next {
                Some(cursor) => T::show(context, cursor, &out)?,
                None => None,
            };
            Ok(0)
        })
    }
}

/// Writes text to a seq_file. Text without room in the buffer is dropped, and seq_file requests the
/// record again.
pub(crate) struct SeqWriter<'a>(&'a SeqFile, *mut bindings::seq_file);

impl SeqWriter<'_> {
    /// # Safety
    ///
    /// `seq` must be valid, and not used by another thread, for the lifetime of the result.
    pub(in super::super) unsafe fn from_raw(seq: *mut bindings::seq_file) -> Self {
        // SAFETY: By the safety requirement.
        Self(unsafe { SeqFile::from_raw(seq) }, seq)
    }

    /// Writes bytes unchanged.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        // SAFETY: The pointer is that of `self.0`, and valid as long.
        unsafe { bindings::seq_write(self.1, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Writes formatted text.
    pub(crate) fn text(&self, arguments: kernel::fmt::Arguments<'_>) {
        self.0.call_printf(arguments);
    }
}
