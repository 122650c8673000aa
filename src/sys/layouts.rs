// SPDX-License-Identifier: GPL-2.0

//! Checks of the layouts of the trace core's private structures.
//!
//! `bindings/trace_private.h` has copies of the structures. If the tree that the module is built
//! against has the private headers, the compiler compares both. This file checks the same when the
//! module is loaded, for kernels of other trees, and facts that no header shows. Only kernels with
//! BTF have sizes and offsets, so memory is checked on all kernels, too.

use super::bindings::{
    self,
    dyn_event,
    dyn_event_operations,
    trace_event_file, //
};
use super::c_list::Entries;
use super::symbols::{
    self,
    Address,
    CheckedSymbols, //
    KernelMutexGuard,
    ResolvedSymbols,
};
use core::ffi::c_void;
use core::iter;
use core::mem::offset_of;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::prelude::*;
use kernel::str::CStr;

impl ResolvedSymbols {
    /// Checks the layouts of private structures. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if a layout differs; the log names the structure.
    pub(crate) fn check_layouts(self) -> Result<CheckedSymbols> {
        if let Err(other) = check(&self) {
            pr_err!("this kernel has another layout of {other}\n");
            return Err(ENODEV);
        }
        // SAFETY: Just checked.
        Ok(unsafe { self.with_known_layouts() })
    }
}

/// Checks all layouts. May sleep.
///
/// One more dependency cannot be checked here: the kernel drops a character device at the last
/// close only if the file's inode is one (see [`tracefs`](super::tracefs)). Tests that open and
/// close files, and unload the module, show that.
///
/// # Errors
///
/// The name of the structure that differs.
fn check(found: &ResolvedSymbols) -> Result<(), &'static str> {
    let operations = c"list create show is_busy free match";
    if btf_differs(found, c"dyn_event_operations", operations) || !knows_dyn_event_operations(found)
    {
        return Err("struct dyn_event_operations");
    }
    if btf_differs(found, c"dyn_event", c"list ops") || !knows_dyn_events(found) {
        return Err("struct dyn_event");
    }
    if !knows_trace_arrays(found) {
        return Err("struct trace_array, or ftrace_trace_arrays");
    }
    Ok(())
}

/// C: uapi/linux/btf.h.
const BTF_KIND_STRUCT: usize = 4;

/// The `u32` at an offset.
fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?)).ok()
}

/// Splits off the first type: its kind, its bytes, and the bytes of the types after it.
///
/// C: uapi/linux/btf.h. By size: pointers, typedefs, qualifiers, functions, floats and type tags;
/// integers, variables and declaration tags; arrays; enums and prototypes; structures, unions,
/// sections and 64-bit enums. There are no other kinds.
fn split_type(types: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let info = u32_at(types, 4)?;
    let (kind, count) = (info >> 24 & 0x7f, info & 0xff_ffff);
    let size = match kind {
        2 | 7..=12 | 16 | 18 => 12,
        1 | 14 | 17 => 16,
        3 => 24,
        6 | 13 => 12 + 8 * count,
        4 | 5 | 15 | 19 => 12 + 12 * count,
        _ => return None,
    };
    let (this, behind) = types.split_at_checked(size)?;
    Some((kind, this, behind))
}

/// Whether BTF has structures of this name, but none with exactly these members: a `list_head`, and
/// one word each. Parsed here, since `bpf_find_btf_id()` also finds types of modules, and takes a
/// reference that a module cannot drop.
fn btf_differs(found: &ResolvedSymbols, name: &CStr, members: &CStr) -> bool {
    let (data, name) = (symbols::btf(found), name.to_bytes());
    let members = members.to_bytes().split(|byte| *byte == b' ');
    let part = |at| {
        let start = u32_at(data, 4)? + u32_at(data, at)?;
        data.get(start..)?.get(..u32_at(data, at + 4)?)
    };
    let (mut types, names) = (part(8).unwrap_or_default(), part(16).unwrap_or_default());
    // A name, and the size of a structure in bytes or the offset of a member in bits.
    let entry = |bytes| {
        let name = names
            .get(u32_at(bytes, 0)?..)?
            .split(|byte| *byte == 0)
            .next()?;
        Some((name, u32_at(bytes, 8)?))
    };
    let size = 8 + 8 * members.clone().count();
    let places = (0usize..).map(|at| 64 * at.saturating_add(usize::from(at > 0)));
    let known = Iterator::chain(iter::once((name, size)), members.zip(places));
    let mut btf_differs = false;
    while let Some((kind, this, behind)) = split_type(types) {
        types = behind;
        if kind == BTF_KIND_STRUCT && entry(this).is_some_and(|(theirs, _)| theirs == name) {
            if this.chunks_exact(12).map_while(entry).eq(known.clone()) {
                return false;
            }
            btf_differs = true;
        }
    }
    btf_differs
}

/// The functions of a kind of dynamic events, in the order of `dyn_event_operations` and as plain
/// numbers: the memory may hold something else.
struct Functions([usize; 5]);

impl Functions {
    /// # Safety
    ///
    /// `ops` must be an entry of the list of kinds, whose lock must be held.
    unsafe fn of(ops: *const dyn_event_operations) -> Self {
        // SAFETY: The entry lies in the kernel's data, in which all these bytes can be read. All
        // values are valid for `usize`.
        Self(unsafe { (&raw const (*ops).create).cast::<[usize; 5]>().read() })
    }

    /// Whether `create` is in the kernel, not in a module with a kind of its own.
    fn is_built_in(&self) -> bool {
        is_function(self.0[0])
    }

    /// Whether all members are addresses of kernel functions.
    fn are_functions(&self) -> bool {
        self.0.into_iter().all(is_function)
    }

    /// Whether the members are in place, which the symbols of the kind for event probes show.
    /// `true` for other kinds.
    fn match_eprobe(&self) -> bool {
        let eprobe = [
            address(&symbols::EPROBE_CREATE),
            address(&symbols::EPROBE_SHOW),
            address(&symbols::EPROBE_IS_BUSY),
            address(&symbols::EPROBE_RELEASE),
            address(&symbols::EPROBE_MATCH),
        ];
        eprobe[0] == 0 || self.0[0] != eprobe[0] || self.0 == eprobe
    }
}

/// Whether this is the address of a function of the kernel, not of a module.
fn is_function(function: usize) -> bool {
    let (start, end) = (address(&symbols::STEXT), address(&symbols::ETEXT));
    (start..end).contains(&function)
}

/// An address as a number; 0 if it is unknown.
fn address(symbol: &Address) -> usize {
    symbol.get::<c_void>() as usize
}

/// Calls `look` with the kinds of dynamic events, and their lock held.
fn with_ops_list<T>(_found: &ResolvedSymbols, look: impl FnOnce(Entries) -> T) -> T {
    // SAFETY: The mutex was found, as a `ResolvedSymbols` exists.
    let _lock = unsafe { KernelMutexGuard::lock(symbols::dyn_event_ops_mutex()) };
    // SAFETY: The list was found, and its lock is held.
    look(unsafe { Entries::of(symbols::dyn_event_ops_list()) })
}

/// Whether the kinds of dynamic events have the layout of `dyn_event_operations`.
fn knows_dyn_event_operations(found: &ResolvedSymbols) -> bool {
    const { assert!(offset_of!(dyn_event_operations, list) == 0) };
    with_ops_list(found, |kinds| {
        let mut count = 0;
        for kind in kinds {
            // SAFETY: An entry of the list, whose lock is held.
            let functions = unsafe { Functions::of(kind.cast()) };
            if !functions.is_built_in() {
                continue;
            }
            if !functions.are_functions() || !functions.match_eprobe() {
                return false;
            }
            count += 1;
        }
        count > 0
    })
}

/// Whether the dynamic events, if there are any, have the layout of `dyn_event`: the first one
/// points to a kind.
fn knows_dyn_events(found: &ResolvedSymbols) -> bool {
    const { assert!(offset_of!(dyn_event, list) == 0) };
    let first = {
        // SAFETY: The mutex was found, as a `ResolvedSymbols` exists.
        let _lock = unsafe { KernelMutexGuard::lock(symbols::event_mutex()) };
        // SAFETY: The list was found, and its lock is held.
        unsafe { Entries::of(symbols::dyn_event_list()) }
            .next()
            // SAFETY: An entry of the list, whose lock is held.
            .map(|event| unsafe { (*event.cast::<dyn_event>()).ops })
    };
    // The kernel's own kinds are never removed.
    first.is_none_or(|ops| {
        with_ops_list(found, |mut kinds| {
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
        // SAFETY: Both are strings; NULL is the top instance.
        let file = unsafe {
            bindings::trace_get_event_file(
                ptr::null(),
                Self::SYSTEM.as_char_ptr(),
                Self::NAME.as_char_ptr(),
            )
        };
        let file = kernel::error::from_err_ptr(file).ok()?;
        // INVARIANT: The function returns a file with a reference.
        NonNull::new(file).map(Self)
    }
}

impl Drop for SchedSwitch {
    fn drop(&mut self) {
        // SAFETY: The reference belongs to `self` by the invariant.
        unsafe { bindings::trace_put_event_file(self.0.as_ptr()) };
    }
}

/// Whether the last entry of `ftrace_trace_arrays` is the top instance (C: `global_trace`), by the
/// trace core's own file of an event.
fn knows_trace_arrays(_found: &ResolvedSymbols) -> bool {
    let Some(file) = SchedSwitch::get() else {
        return false;
    };
    let file = file.0.as_ptr();
    // SAFETY: The symbols were found, as `_found` proves, and the file is held.
    let (top, tr) = unsafe { (symbols::top_trace_array(), (*file).tr) };
    if tr != top {
        return false;
    }
    // SAFETY: The mutex was found, as a `ResolvedSymbols` exists.
    let _lock = unsafe { KernelMutexGuard::lock(symbols::event_mutex()) };
    // SAFETY: The function was found, has the type for which its call was compiled, and its lock is
    // held. `tr` is an instance: a live file points to it.
    let same = unsafe {
        bindings::user_events_find_event_file(
            tr,
            SchedSwitch::SYSTEM.as_char_ptr(),
            SchedSwitch::NAME.as_char_ptr(),
        )
    };
    same == file
}
