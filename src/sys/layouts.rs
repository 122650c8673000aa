// SPDX-License-Identifier: GPL-2.0

//! Looking whether private structures of the trace core are as this module knows them.
//!
//! `bindings/trace_private.h` has copies of them, which the compiler compares with the kernel's own
//! where the tree that is built against has its private headers. What is looked at here, when the
//! module is loaded, is the same on a kernel of any other tree, and what no header tells.

use super::bindings::{
    self,
    dyn_event,
    dyn_event_operations,
    ftrace_event_field,
    trace_event_file, //
};
use super::c_list::Entries;
use super::owner::TASK_COMM_LEN;
use super::ring_buffer::HEADER;
use super::symbols::{
    self,
    Address,
    Found,
    KernelMutexGuard,
    Symbols, //
};
use core::ffi::c_void;
use core::mem::{
    offset_of,
    size_of, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::ffi::c_char;
use kernel::prelude::*;
use kernel::str::CStr;

impl Found {
    /// Looks whether the structures that no header of the kernel declares are as this module knows
    /// them. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` after a line in the log that names the structure that is not.
    pub(crate) fn check_layouts(self) -> Result<Symbols> {
        if let Err(other) = check(&self) {
            pr_err!("this kernel has another layout of {other}\n");
            return Err(ENODEV);
        }
        // SAFETY: Just looked at.
        Ok(unsafe { self.with_known_layouts() })
    }
}

/// Is everything as it is known? May sleep.
///
/// What is relied on besides cannot be seen from here: that the kernel gives back a character device
/// only when the file's inode is one (see [`tracefs`](super::tracefs)). Opening and closing a file, and
/// unloading, shows that.
///
/// # Errors
///
/// What is not.
fn check(found: &Found) -> Result<(), &'static str> {
    if !has_known_dyn_event_operations(found) {
        return Err("struct dyn_event_operations");
    }
    if !has_known_dyn_events(found) {
        return Err("struct dyn_event");
    }
    if !has_known_trace_arrays(found) {
        return Err("struct trace_array, or ftrace_trace_arrays");
    }
    if !has_known_fields(found) {
        return Err("struct ftrace_event_field");
    }
    Ok(())
}

/// The functions of a kind of dynamic events, as addresses: what lies where we look for them may be
/// something else.
struct Functions {
    create: usize,
    show: usize,
    is_busy: usize,
    free: usize,
    match_: usize,
}

impl Functions {
    /// # Safety
    ///
    /// `ops` must be an entry of the list of kinds, whose lock is held.
    unsafe fn of(ops: *const dyn_event_operations) -> Self {
        // SAFETY: As many bytes can be read there: a kind lies among other data of the kernel's.
        // Any value is one of a `usize`.
        unsafe {
            Self {
                create: (&raw const (*ops).create).cast::<usize>().read(),
                show: (&raw const (*ops).show).cast::<usize>().read(),
                is_busy: (&raw const (*ops).is_busy).cast::<usize>().read(),
                free: (&raw const (*ops).free).cast::<usize>().read(),
                match_: (&raw const (*ops).match_).cast::<usize>().read(),
            }
        }
    }

    /// Is each the address of a function of the kernel's?
    fn are_functions(&self) -> bool {
        let (start, end) = (address(&symbols::STEXT), address(&symbols::ETEXT));
        let is_function = |function: usize| start != 0 && function >= start && function < end;
        is_function(self.create)
            && is_function(self.show)
            && is_function(self.is_busy)
            && is_function(self.free)
            && is_function(self.match_)
    }

    /// If these are the functions of event probes, as the names of the kernel's own tell: are they
    /// where ours would be?
    fn are_in_place(&self) -> bool {
        let create = address(&symbols::EPROBE_CREATE);
        create == 0
            || self.create != create
            || self.show == address(&symbols::EPROBE_SHOW)
                && self.is_busy == address(&symbols::EPROBE_IS_BUSY)
                && self.free == address(&symbols::EPROBE_RELEASE)
                && self.match_ == address(&symbols::EPROBE_MATCH)
    }
}

/// An address as a number; 0 if there is none.
fn address(symbol: &Address) -> usize {
    symbol.get::<c_void>() as usize
}

/// Calls `look` with the kinds of dynamic events, whose lock is held for the call.
fn with_kinds<T>(_found: &Found, look: impl FnOnce(Entries) -> T) -> T {
    // SAFETY: It was found.
    let _lock = unsafe { KernelMutexGuard::lock(symbols::dyn_event_ops_mutex()) };
    // SAFETY: It was found, and its lock is held.
    look(unsafe { Entries::of(symbols::dyn_event_ops_list()) })
}

/// Are the kinds of dynamic events laid out as `dyn_event_operations`?
fn has_known_dyn_event_operations(found: &Found) -> bool {
    const { assert!(offset_of!(dyn_event_operations, list) == 0) };
    with_kinds(found, |kinds| {
        let mut count = 0;
        for kind in kinds {
            // SAFETY: An entry of the list, whose lock is held.
            let functions = unsafe { Functions::of(kind.cast()) };
            if !functions.are_functions() || !functions.are_in_place() {
                return false;
            }
            count += 1;
        }
        count > 0
    })
}

/// Are the dynamic events, if there are any, laid out as `dyn_event`: does the first lead to a kind?
fn has_known_dyn_events(found: &Found) -> bool {
    const { assert!(offset_of!(dyn_event, list) == 0) };
    let first = {
        // SAFETY: It was found.
        let _lock = unsafe { KernelMutexGuard::lock(symbols::event_mutex()) };
        // SAFETY: It was found, and its lock is held.
        unsafe { Entries::of(symbols::dyn_event_list()) }
            .next()
            // SAFETY: The event is in the list, whose lock is held.
            .map(|event| unsafe { (*event.cast::<dyn_event>()).ops })
    };
    // The kernel's own kinds never go.
    first.is_none_or(|ops| {
        with_kinds(found, |mut kinds| {
            kinds.any(|kind| kind.cast() == ops.cast_const())
        })
    })
}

/// The file of an event that every kernel has, `sched_switch`, in the top instance. C:
/// `trace_get_event_file()` (linux/trace_events.h).
///
/// # Invariants
///
/// Owns a reference to the file.
struct SchedSwitch(NonNull<trace_event_file>);

impl SchedSwitch {
    const SYSTEM: &'static CStr = c"sched";
    const NAME: &'static CStr = c"sched_switch";

    fn get() -> Option<Self> {
        // SAFETY: Both are strings; no name of an instance means the top instance.
        let file = unsafe {
            bindings::trace_get_event_file(
                ptr::null(),
                Self::SYSTEM.as_char_ptr(),
                Self::NAME.as_char_ptr(),
            )
        };
        let file = kernel::error::from_err_ptr(file).ok()?;
        // INVARIANT: The function gives a reference, if it gives a file.
        NonNull::new(file).map(Self)
    }
}

impl Drop for SchedSwitch {
    fn drop(&mut self) {
        // SAFETY: By the invariant the reference is ours.
        unsafe { bindings::trace_put_event_file(self.0.as_ptr()) };
    }
}

/// Is the last of `ftrace_trace_arrays` the top instance (C: `global_trace`)? The trace core says of an event's
/// file which instance it is of.
fn has_known_trace_arrays(_found: &Found) -> bool {
    let Some(file) = SchedSwitch::get() else {
        return false;
    };
    let file = file.0.as_ptr();
    // SAFETY: The symbols were found, as `_found` shows. The file is held.
    let (top, tr) = unsafe { (symbols::top_trace_array(), (*file).tr) };
    if tr != top {
        return false;
    }
    // SAFETY: It was found.
    let _lock = unsafe { KernelMutexGuard::lock(symbols::event_mutex()) };
    // SAFETY: The function was found, and is of the type that its call was compiled for; its lock is
    // held. `tr` is an instance, as the trace core says.
    let same = unsafe {
        bindings::user_events_find_event_file(
            tr,
            SchedSwitch::SYSTEM.as_char_ptr(),
            SchedSwitch::NAME.as_char_ptr(),
        )
    };
    same == file
}

/// Are these the bytes at `address`? What is taken for an address may be none.
fn begins_with(address: *const c_char, prefix: &CStr) -> bool {
    let prefix = prefix.to_bytes();
    let mut bytes = [0_u8; 16];
    let Some(bytes) = bytes.get_mut(..prefix.len()) else {
        return false;
    };
    // SAFETY: There is that much room. The address is not trusted: a fault there is an error.
    let result = unsafe {
        bindings::copy_from_kernel_nofault(bytes.as_mut_ptr().cast(), address.cast(), bytes.len())
    };
    result == 0 && bytes == prefix
}

/// Is it one of the fields that every kernel has in this event?
fn is_known_field(field: &ftrace_event_field) -> bool {
    let (offset, size, len) = (
        field.offset as usize,
        field.size as usize,
        field.len as usize,
    );
    let (is_signed, needs_test) = (field.is_signed() != 0, field.needs_test() != 0);
    if begins_with(field.name, c"prev_comm") {
        return begins_with(field.type_, c"char[")
            && field.filter_type == bindings::FILTER_STATIC_STRING as i32
            && offset == HEADER
            && size == TASK_COMM_LEN
            && len == TASK_COMM_LEN
            && !needs_test
            && is_signed == (c_char::MIN != 0);
    }
    begins_with(field.name, c"prev_pid")
        && begins_with(field.type_, c"pid_t")
        && field.filter_type == bindings::FILTER_OTHER as i32
        && offset == HEADER + TASK_COMM_LEN
        && is_signed
        && !needs_test
        && len == 0
        && size == size_of::<kernel::bindings::pid_t>()
}

/// Are the fields of events laid out as `ftrace_event_field`? Two of sched_switch are compared, and the
/// size with that of the objects in the trace core's cache: if the kernel's structure had one member more, it
/// would read beyond ours.
fn has_known_fields(_found: &Found) -> bool {
    const { assert!(offset_of!(ftrace_event_field, link) == 0) };
    const SIZE: usize = size_of::<ftrace_event_field>();
    let cache = symbols::FIELD_CACHEP.get::<*mut bindings::kmem_cache>();
    if cache.is_null() {
        return false;
    }
    // SAFETY: The address of a variable that the trace core sets when the kernel starts, to a cache.
    let object_size = unsafe { bindings::kmem_cache_size(*cache) } as usize;
    // A cache may be shared with one of objects that are up to a word longer.
    if !(SIZE..SIZE + size_of::<usize>()).contains(&object_size) {
        return false;
    }
    let Some(file) = SchedSwitch::get() else {
        return false;
    };
    // SAFETY: It was found.
    let _lock = unsafe { KernelMutexGuard::lock(symbols::event_mutex()) };
    // SAFETY: The file is held, and so is its event, whose class is of the kernel itself. Its fields
    // are protected by the lock.
    let fields = unsafe {
        let class = (*(*file.0.as_ptr()).event_call).class;
        Entries::of(&raw const (*class).fields)
    };
    // SAFETY: Of a field as many bytes can be read, as the cache's objects are as long. Members are
    // numbers, or addresses that are not followed.
    let known = fields.filter(|field| is_known_field(unsafe { &*field.cast() }));
    known.count() == 2
}
