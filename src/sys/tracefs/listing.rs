// SPDX-License-Identifier: GPL-2.0

//! Files of tracefs that are text to be read, record by record.
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

/// What is done with a write, see [`ListingFile::WRITE`].
pub(crate) type Write<C> = fn(&Arc<C>, UserSlice, &LoadComplete) -> Result<usize>;

/// The operations of a file that lists something, record by record. May sleep.
///
/// A reader's place in the listing is a cursor, which lies in the open file between two reads: it
/// should hold keys of what is listed and nothing that it would keep alive. seq_file has the text
/// of about a page at a time, copies it when no function of this trait runs, and takes what a
/// record wrote as a whole or, when it has no room left, asks for that record again.
pub(crate) trait ListingFile: 'static {
    /// What is listed.
    type Context: Send + Sync + 'static;
    /// A place in the listing, in front of a record.
    type Cursor: Send + 'static;
    /// The file's name in the root of tracefs.
    const NAME: &'static CStr;
    /// Its permissions.
    const MODE: u16;
    /// What is done with a write to the file: says how many bytes were taken. `None` if nothing can
    /// be written.
    const WRITE: Option<Write<Self::Context>> = None;

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
        out: &SeqWriter<'_>,
    ) -> Result<Option<Self::Cursor>>;
}

/// Makes a [`FileKind`] of a [`ListingFile`].
pub(crate) struct SeqListing<T>(PhantomData<T>);

// SAFETY: `open` is all that looks at the inode, and takes its private data for a `FileData`.
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
    context: Arc<T::Context>,
    /// Of the task that holds seq_file's lock.
    places: UnsafeCell<Places<T::Cursor>>,
}

/// How far a listing has been read.
struct Places<C> {
    /// In front of the next record; `None` at the end.
    next: Option<C>,
    /// FileData the record that was shown last, until seq_file has taken it.
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
    /// For the VFS: `inode` and `file` are of a file that
    /// [`TracefsFile::create`](super::TracefsFile::create) made of this kind.
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
            // SAFETY: The file is being opened, and has no private data: it is the VFS's, or the
            // character device's, which has given it none. The operations are a constant.
            to_result(unsafe { bindings::seq_open(file, Self::RECORDS) })?;
            // SAFETY: `seq_open` has put a `seq_file` there, which nothing else uses yet.
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
        // SAFETY: `open` made both, and this is the end of the file.
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
        // SAFETY: `open` put it there, and `release` has not been called.
        let reader = unsafe {
            let seq = (*file).private_data.cast::<bindings::seq_file>();
            &*(*seq).private.cast_const().cast::<Reader<T>>()
        };
        // SAFETY: The file was published, or it would not be open.
        let load_complete = unsafe { LoadComplete::by_open_file() };
        let from = UserSlice::new(UserPtr::from_ptr(buffer.cast_mut().cast()), count);
        from_result(|| {
            let write = T::WRITE.ok_or(EINVAL)?;
            write(&reader.context, from, &load_complete).map(|taken| taken as isize)
        })
    }

    /// # Safety
    ///
    /// For seq_file, as all functions from here on: `seq` was opened by [`Self::open`], and its
    /// lock is held for `'a`.
    unsafe fn reader<'a>(
        seq: *mut bindings::seq_file,
    ) -> (&'a T::Context, &'a mut Places<T::Cursor>) {
        // SAFETY: `open` put it there, and `release` has not been called. Nothing but these
        // functions uses the places, and the lock keeps them from running at once.
        unsafe {
            let reader = &*(*seq).private.cast_const().cast::<Reader<T>>();
            (&reader.context, &mut *reader.places.get())
        }
    }

    /// What seq_file takes for a record: not NULL, unless there is none.
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
        // SAFETY: Promised by the caller.
        let ((context, places), position) = unsafe { (Self::reader(seq), *position) };
        if position == 0 {
            places.next = Some(T::begin(context));
        }
        // Any other position is the one to which `next` went last: seq_file counts from 0.
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
        // SAFETY: Promised by the caller.
        let (_, places) = unsafe {
            *position += 1;
            Self::reader(seq)
        };
        places.next = places.after.take();
        // Not in `start`, so that a reader which is interrupted all the time comes to the end, too.
        // SAFETY: In between two records nothing is held but seq_file's mutex, under which a task
        // may sleep. Where that is not allowed, the kernel says so.
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
            // SAFETY: Promised by the caller.
            let (context, places) = unsafe { Self::reader(seq) };
            // SAFETY: seq_file calls this from one task, which has the file for the call.
            let out = unsafe { SeqWriter::from_raw(seq) };
            places.after = match &places.next {
                Some(cursor) => T::show(context, cursor, &out)?,
                None => None,
            };
            Ok(0)
        })
    }
}

/// Where a listing goes. Text that finds no room is dropped, and the record asked for again.
pub(crate) struct SeqWriter<'a>(&'a SeqFile, *mut bindings::seq_file);

impl SeqWriter<'_> {
    /// # Safety
    ///
    /// For the lifetime of the result `seq` must be valid and not used by another thread.
    pub(in super::super) unsafe fn from_raw(seq: *mut bindings::seq_file) -> Self {
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
