// SPDX-License-Identifier: GPL-2.0

//! What the kernel has and does not export.
//!
//! `event_mutex`, `find_event_file` (kernel/trace/trace_events.c), `ftrace_trace_arrays`
//! (kernel/trace/trace.c), the lists of dynamic events (kernel/trace/trace_dynevent.c),
//! `tracefs_create_file`, `tracefs_remove` (fs/tracefs/inode.c), `def_chr_fops`, `cd_forget`
//! (fs/char_dev.c), `print_event_fields` (kernel/trace/trace_output.c) and three tracepoints are
//! looked up by name once, at load, by the table below. A kprobe gives the address of
//! `kallsyms_lookup_name`, which gives the others. See `bindings/symbols.c` for why functions are
//! called through static calls.

use super::bindings::{
    self,
    file_operations,
    kprobe,
    list_head,
    mutex,
    trace_array, //
};
use core::ffi::c_void;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::bindings::rw_semaphore;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed, //
};
use kernel::types::NotThreadSafe;

/// Where something of the kernel's lies: NULL if the kernel lacks it, and until it was looked for.
pub(super) struct Address(Atomic<*mut c_void>);

impl Address {
    const fn new() -> Self {
        Self(Atomic::new(ptr::null_mut()))
    }

    pub(super) fn get<T>(&self) -> *mut T {
        // It is set before the `ResolvedSymbols` exists that lets the module use what lies there.
        self.0.load(Relaxed).cast()
    }
}

static EVENT_MUTEX: Address = Address::new();
static DYN_EVENT_OPS_MUTEX: Address = Address::new();
static DYN_EVENT_LIST: Address = Address::new();
static DYN_EVENT_OPS_LIST: Address = Address::new();
static FTRACE_TRACE_ARRAYS: Address = Address::new();
static TRACE_EVENT_SEM: Address = Address::new();
static DEF_CHR_FOPS: Address = Address::new();

/// Those whose [`Probes`](super::tracepoint::Probes) there are.
pub(super) static SCHED_PROCESS_FORK: Address = Address::new();
/// Of a tracepoint, or of the function that tells of exits in its place: see
/// [`exit_probe`](super::exit_probe).
pub(super) static TASK_EXIT: Address = Address::new();
pub(super) static SCHED_PREPARE_EXEC: Address = Address::new();

/// Used by [`layouts`](super::layouts) to check the structures.
pub(super) static STEXT: Address = Address::new();
pub(super) static ETEXT: Address = Address::new();
pub(super) static EPROBE_CREATE: Address = Address::new();
pub(super) static EPROBE_SHOW: Address = Address::new();
pub(super) static EPROBE_IS_BUSY: Address = Address::new();
pub(super) static EPROBE_RELEASE: Address = Address::new();
pub(super) static EPROBE_MATCH: Address = Address::new();
static START_BTF: Address = Address::new();
static STOP_BTF: Address = Address::new();

/// What is done with the address of a symbol.
enum Target {
    /// Data: the address is noted.
    Data(&'static Address),
    /// A function: the call in `bindings/symbols.c` is linked to it.
    Function(unsafe extern "C" fn(*mut c_void)),
    /// A symbol that the kernel may lack.
    Optional(&'static Address),
}

/// Bytes for a name and its NUL.
const NAME_SIZE: usize = 32;

/// A name to look for, which lies in the table itself, and what for.
#[repr(C)]
struct Symbol {
    target: Target,
    name: [u8; NAME_SIZE],
}

impl Symbol {
    const fn new(target: Target, name: &str) -> Self {
        Self {
            target,
            name: padded(name),
        }
    }

    fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.name).unwrap_or_default()
    }

    /// Says in the log that it is missing.
    fn missing(&self) -> Error {
        let name = self.name().to_str().unwrap_or("?");
        pr_err!("the kernel has no symbol '{name}'\n");
        ENOENT
    }
}

/// A name with NULs behind it, one at least.
const fn padded<const SIZE: usize>(name: &str) -> [u8; SIZE] {
    let (from, mut to) = (name.as_bytes(), [0; SIZE]);
    assert!(from.len() < SIZE);
    let mut at = 0;
    while at < from.len() {
        to[at] = from[at];
        at += 1;
    }
    to
}

use Target::{
    Data,
    Function,
    Optional, //
};

/// The one that finds the others.
static LOOKUP: Symbol = Symbol::new(
    Function(bindings::user_events_link_kallsyms_lookup_name),
    "kallsyms_lookup_name",
);

static SYMBOLS: [Symbol; 25] = [
    Symbol::new(Data(&EVENT_MUTEX), "event_mutex"),
    Symbol::new(Data(&DYN_EVENT_OPS_MUTEX), "dyn_event_ops_mutex"),
    Symbol::new(Data(&DYN_EVENT_LIST), "dyn_event_list"),
    Symbol::new(Data(&DYN_EVENT_OPS_LIST), "dyn_event_ops_list"),
    Symbol::new(Data(&FTRACE_TRACE_ARRAYS), "ftrace_trace_arrays"),
    Symbol::new(Data(&TRACE_EVENT_SEM), "trace_event_sem"),
    Symbol::new(Data(&DEF_CHR_FOPS), "def_chr_fops"),
    Symbol::new(
        Function(bindings::user_events_link_tracefs_create_file),
        "tracefs_create_file",
    ),
    Symbol::new(
        Function(bindings::user_events_link_tracefs_remove),
        "tracefs_remove",
    ),
    Symbol::new(Function(bindings::user_events_link_cd_forget), "cd_forget"),
    Symbol::new(
        Function(bindings::user_events_link_print_event_fields),
        "print_event_fields",
    ),
    Symbol::new(
        Function(bindings::user_events_link_find_event_file),
        "find_event_file",
    ),
    Symbol::new(
        Function(bindings::user_events_link_tracing_reset_all_online_cpus),
        "tracing_reset_all_online_cpus",
    ),
    Symbol::new(Optional(&STEXT), "_stext"),
    Symbol::new(Optional(&ETEXT), "_etext"),
    Symbol::new(Optional(&EPROBE_CREATE), "eprobe_dyn_event_create"),
    Symbol::new(Optional(&EPROBE_SHOW), "eprobe_dyn_event_show"),
    Symbol::new(Optional(&EPROBE_IS_BUSY), "eprobe_dyn_event_is_busy"),
    Symbol::new(Optional(&EPROBE_RELEASE), "eprobe_dyn_event_release"),
    Symbol::new(Optional(&EPROBE_MATCH), "eprobe_dyn_event_match"),
    Symbol::new(Optional(&START_BTF), "__start_BTF"),
    Symbol::new(Optional(&STOP_BTF), "__stop_BTF"),
    Symbol::new(
        Optional(&SCHED_PROCESS_FORK),
        "__tracepoint_sched_process_fork",
    ),
    Symbol::new(
        Optional(&TASK_EXIT),
        if cfg!(USER_EVENTS_KERNEL_6_12) {
            "exit_mm_release"
        } else {
            "__tracepoint_sched_process_exit"
        },
    ),
    Symbol::new(
        Optional(&SCHED_PREPARE_EXEC),
        "__tracepoint_sched_prepare_exec",
    ),
];

/// Proof that every symbol was found, and that private structures are as this module knows them:
/// what needs one asks for this value.
///
/// # Invariants
///
/// Exists only after [`CheckedSymbols::resolve`] has found all that are not optional, and
/// [`ResolvedSymbols::check_layouts`] nothing that is otherwise.
#[derive(Clone, Copy)]
pub(crate) struct CheckedSymbols(());

/// CheckedSymbols that were looked for and found. What they lead to has not been looked at.
///
/// # Invariants
///
/// Exists only after [`CheckedSymbols::resolve`] has found all that are not optional: the addresses
/// of `Data` are those of the kernel's variables of these names, and the calls of `Function` are
/// linked to the kernel's functions.
pub(crate) struct ResolvedSymbols(());

/// Set once the symbols have been looked for: from then on what was found may be in use.
static IS_RESOLVED: Atomic<bool> = Atomic::new(false);

impl CheckedSymbols {
    /// Finds the symbols. To be called once, when the module is loaded; may sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` after a line in the log that names the symbol that is missing; `EBUSY` when it was
    /// called before.
    pub(crate) fn resolve() -> Result<ResolvedSymbols> {
        if IS_RESOLVED.xchg(true, Full) {
            return Err(EBUSY);
        }
        let lookup = kprobe_address(LOOKUP.name()).ok_or_else(|| LOOKUP.missing())?;
        // SAFETY: This is the first call, and nothing else uses the calls of symbols.c before it
        // has returned, as all of that takes a value that is made here. It is a function of the
        // type that the call was compiled for: that of its declaration in linux/kallsyms.h. Where
        // sleeping is not allowed, the kernel says so.
        unsafe { bindings::user_events_link_kallsyms_lookup_name(lookup.as_ptr()) };
        for symbol in &SYMBOLS {
            // SAFETY: The call was just linked.
            let address = unsafe { lookup_name(symbol.name()) };
            match symbol.target {
                Optional(place) => place.0.store(address, Relaxed),
                _ if address.is_null() => return Err(symbol.missing()),
                Data(place) => place.0.store(address, Relaxed),
                // SAFETY: As above: of the type that its header declares, or, if that is private,
                // layouts.h, which is compared with the header where there is one.
                Function(link) => unsafe { link(address) },
            }
        }
        // INVARIANT: All was found, noted and linked.
        Ok(ResolvedSymbols(()))
    }
}

/// The address of a symbol, or NULL. C: `kallsyms_lookup_name()`.
///
/// # Safety
///
/// The call in `bindings/symbols.c` must be linked.
unsafe fn lookup_name(name: &CStr) -> *mut c_void {
    // SAFETY: The call is linked by the safety requirement, and the name is a string.
    unsafe { bindings::user_events_kallsyms_lookup_name(name.as_char_ptr()) as *mut c_void }
}

/// The address of a function. A kprobe, once registered, knows the address of the symbol it sits
/// on. This one is never armed: disarming takes memory, and the kernel keeps a kprobe that it
/// cannot disarm, without telling what takes it away. C: `register_kprobe()` (linux/kprobes.h).
fn kprobe_address(name: &CStr) -> Option<NonNull<c_void>> {
    let mut probe = kprobe {
        symbol_name: name.as_char_ptr(),
        flags: bindings::KPROBE_FLAG_DISABLED,
        ..Default::default()
    };
    let probe = &raw mut probe;
    // SAFETY: The probe stays in place until it is unregistered, below, and its name is a string.
    // It has no handlers, and is not armed.
    if unsafe { bindings::register_kprobe(probe) } != 0 {
        return None;
    }
    // SAFETY: The probe is registered, and the kernel does not write to it meanwhile. After the
    // call that takes it away the kernel knows it no more.
    let address = unsafe {
        let address = (*probe).addr;
        bindings::unregister_kprobe(probe);
        address
    };
    NonNull::new(address.cast())
}

impl ResolvedSymbols {
    /// Whether the kernel, or a module, has a symbol of this name.
    pub(crate) fn has_symbol(&self, name: &CStr) -> bool {
        // SAFETY: The call is linked, by the invariant.
        !unsafe { lookup_name(name) }.is_null()
    }

    /// The proof that the structures are as this module knows them, too.
    ///
    /// # Safety
    ///
    /// They must be: see [`layouts`](super::layouts).
    pub(super) unsafe fn with_known_layouts(self) -> CheckedSymbols {
        // INVARIANT: All was found, as `self` shows; the rest the caller promises.
        CheckedSymbols(())
    }
}

// The variables of these names. They live for ever; where there is a `ResolvedSymbols` or
// `CheckedSymbols`, they were found.

pub(super) fn event_mutex() -> *mut mutex {
    EVENT_MUTEX.get()
}

pub(super) fn dyn_event_ops_mutex() -> *mut mutex {
    DYN_EVENT_OPS_MUTEX.get()
}

/// Protected by `event_mutex`.
pub(super) fn dyn_event_list() -> *mut list_head {
    DYN_EVENT_LIST.get()
}

/// Protected by `dyn_event_ops_mutex`.
pub(super) fn dyn_event_ops_list() -> *mut list_head {
    DYN_EVENT_OPS_LIST.get()
}

/// The semaphore with which the trace core finds events by their numbers, and prints their records.
pub(super) fn trace_event_sem() -> *mut rw_semaphore {
    TRACE_EVENT_SEM.get()
}

/// What the inodes of character devices have for operations.
pub(super) fn def_chr_fops() -> *const file_operations {
    DEF_CHR_FOPS.get()
}

/// What the kernel says of its own types (BTF); nothing if it was built without.
pub(super) fn btf(_found: &ResolvedSymbols) -> &'static [u8] {
    let (start, stop) = (START_BTF.get::<u8>(), STOP_BTF.get::<u8>());
    if start.is_null() || stop < start {
        return &[];
    }
    // SAFETY: The kernel has the symbols only where the linker has put BTF between them: read-only
    // data, which stays for ever.
    unsafe { core::slice::from_raw_parts(start, stop.addr() - start.addr()) }
}

/// The trace instances. Protected by `event_mutex`.
pub(super) fn trace_arrays() -> *const list_head {
    FTRACE_TRACE_ARRAYS.get()
}

/// The top instance, which is there always, the last of the list `ftrace_trace_arrays`; it begins
/// with its place there. C: `global_trace`.
///
/// # Safety
///
/// There must be a [`ResolvedSymbols`] or [`CheckedSymbols`].
pub(super) unsafe fn top_trace_array() -> *mut trace_array {
    // SAFETY: The list's head was found, says the caller. It changes only when instances are made
    // or go, and its last entry never does.
    unsafe { (&raw const (*FTRACE_TRACE_ARRAYS.get::<list_head>()).prev).read_volatile() }.cast()
}

/// A mutex of the kernel's, locked until this is dropped.
///
/// # Invariants
///
/// The current context has locked the mutex, which lives for ever.
pub(super) struct KernelMutexGuard {
    mutex: *mut mutex,
    _same_context: NotThreadSafe,
}

impl KernelMutexGuard {
    /// Locks a mutex; sleeps until it is free.
    ///
    /// # Safety
    ///
    /// It must be [`event_mutex`] or [`dyn_event_ops_mutex`], and there be a [`ResolvedSymbols`] or
    /// [`CheckedSymbols`].
    pub(super) unsafe fn lock(mutex: *mut mutex) -> Self {
        // SAFETY: A mutex of the kernel's that was found, says the caller.
        unsafe { kernel::bindings::mutex_lock(mutex) };
        // INVARIANT: Just locked.
        Self {
            mutex,
            _same_context: NotThreadSafe,
        }
    }
}

impl Drop for KernelMutexGuard {
    fn drop(&mut self) {
        // SAFETY: By the invariant the current context has locked it.
        unsafe { kernel::bindings::mutex_unlock(self.mutex) };
    }
}
