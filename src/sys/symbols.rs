// SPDX-License-Identifier: GPL-2.0

//! Symbols that the kernel does not export.
//!
//! The table below names them. They are looked up once, when the module is loaded: a kprobe has the
//! address of `kallsyms_lookup_name()`, which has the others. Functions are called through static
//! calls: see `bindings/symbols.c` for the reason.

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

/// The address of a symbol; NULL before the lookup, and if the kernel lacks the symbol.
pub(super) struct Address(Atomic<*mut c_void>);

impl Address {
    const fn new() -> Self {
        Self(Atomic::new(ptr::null_mut()))
    }

    pub(super) fn get<T>(&self) -> *mut T {
        // Set before the `ResolvedSymbols` exists with which the module uses the address.
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

/// Tracepoints of [`Probes`](super::tracepoint::Probes).
pub(super) static SCHED_PROCESS_FORK: Address = Address::new();
/// A tracepoint, or on 6.12 a function: see [`exit_probe`](super::exit_probe).
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

/// The use of a symbol's address.
enum Target {
    /// Data: the address is stored.
    Data(&'static Address),
    /// A function: the static call in `bindings/symbols.c` is updated.
    Function(unsafe extern "C" fn(*mut c_void)),
    /// As `Data`, but the kernel may lack the symbol.
    Optional(&'static Address),
}

/// Bytes of a name, with its NUL.
const NAME_SIZE: usize = 32;

/// A symbol to look up. The table itself holds the name.
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

    /// Logs that the symbol is missing.
    fn missing(&self) -> Error {
        let name = self.name().to_str().unwrap_or("?");
        pr_err!("the kernel has no symbol '{name}'\n");
        ENOENT
    }
}

/// A name padded with NULs, at least one.
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

/// The function that looks up the others.
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
    Symbol::new(Data(&STEXT), "_stext"),
    Symbol::new(Data(&ETEXT), "_etext"),
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

/// Proof that all symbols were found, and that the trace core's private structures have the layout
/// that the module expects.
///
/// # Invariants
///
/// Exists only after [`ResolvedSymbols::resolve`] and [`ResolvedSymbols::check_layouts`] have
/// succeeded.
#[derive(Clone, Copy)]
pub(crate) struct CheckedSymbols(());

/// Proof that all symbols were found. Layouts are not checked yet.
///
/// # Invariants
///
/// Exists only after [`ResolvedSymbols::resolve`] has found all that are not optional: the
/// addresses of `Data` are those of the kernel's variables, and the calls of `Function` lead to the
/// kernel's functions.
pub(crate) struct ResolvedSymbols(());

/// Set by the first lookup, whose results may be in use from then on.
static IS_RESOLVED: Atomic<bool> = Atomic::new(false);

impl ResolvedSymbols {
    /// Looks up the symbols, once, while the module is loaded. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when a symbol is missing, whose name is logged; `EBUSY` in a second call.
    pub(crate) fn resolve() -> Result<ResolvedSymbols> {
        if IS_RESOLVED.xchg(true, Full) {
            return Err(EBUSY);
        }
        let lookup = kprobe_address(LOOKUP.name()).ok_or_else(|| LOOKUP.missing())?;
        // SAFETY: Nothing else uses the static calls: their use takes the value that the first call
        // of this function, this one, returns below. The function has the type of its declaration
        // in linux/kallsyms.h, for which the call was compiled. Process context; the kernel warns
        // if sleeping is not allowed.
        unsafe { bindings::user_events_link_kallsyms_lookup_name(lookup.as_ptr()) };
        for symbol in &SYMBOLS {
            // SAFETY: The call was just linked.
            let address = unsafe { lookup_name(symbol.name()) };
            match symbol.target {
                Optional(place) => place.0.store(address, Relaxed),
                _ if address.is_null() => return Err(symbol.missing()),
                Data(place) => place.0.store(address, Relaxed),
                // SAFETY: As above; the type is that of the kernel's header, or, for private
                // functions, of layouts.h, which is compared with the private header where there is
                // one.
                Function(link) => unsafe { link(address) },
            }
        }
        // INVARIANT: All were found, stored and linked.
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

/// The address of a function, which a registered kprobe has. The kprobe is never armed: to disarm
/// one takes memory, and the kernel keeps a kprobe that it fails to disarm, while its
/// unregistration returns no error. C: `register_kprobe()` (linux/kprobes.h).
fn kprobe_address(name: &CStr) -> Option<NonNull<c_void>> {
    let mut probe = kprobe {
        symbol_name: name.as_char_ptr(),
        flags: bindings::KPROBE_FLAG_DISABLED,
        ..Default::default()
    };
    let probe = &raw mut probe;
    // SAFETY: The probe stays in place until it is unregistered below, its name is a string, and it
    // has no handlers.
    if unsafe { bindings::register_kprobe(probe) } != 0 {
        return None;
    }
    // SAFETY: The probe is registered, and the kernel does not write to it meanwhile. Unregistering
    // an unarmed probe removes it.
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

    /// The proof of the layouts, too.
    ///
    /// # Safety
    ///
    /// The layouts must be those of [`layouts`](super::layouts).
    pub(super) unsafe fn with_known_layouts(self) -> CheckedSymbols {
        // INVARIANT: `self` proves that all was found. The rest is the safety requirement.
        CheckedSymbols(())
    }
}

// The variables of these names, which exist as long as the kernel. Valid if a `ResolvedSymbols` or
// `CheckedSymbols` exists.

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

/// The trace core's lock over the numbers of events and the printing of records.
pub(super) fn trace_event_sem() -> *mut rw_semaphore {
    TRACE_EVENT_SEM.get()
}

/// The operations of the inodes of character devices.
pub(super) fn def_chr_fops() -> *const file_operations {
    DEF_CHR_FOPS.get()
}

/// The kernel's own types (BTF); empty if the kernel was built without.
pub(super) fn btf(_found: &ResolvedSymbols) -> &'static [u8] {
    let (start, stop) = (START_BTF.get::<u8>(), STOP_BTF.get::<u8>());
    if start.is_null() || stop < start {
        return &[];
    }
    // SAFETY: The kernel has the symbols only if the linker has put BTF between them: read-only
    // data that is never freed.
    unsafe { core::slice::from_raw_parts(start, stop.addr() - start.addr()) }
}

/// The trace instances. Protected by `event_mutex`.
pub(super) fn trace_arrays() -> *const list_head {
    FTRACE_TRACE_ARRAYS.get()
}

/// The top instance, the last entry of `ftrace_trace_arrays`, which is never removed. The instance
/// begins with its list entry. C: `global_trace`.
///
/// # Safety
///
/// A [`ResolvedSymbols`] or [`CheckedSymbols`] must exist.
pub(super) unsafe fn top_trace_array() -> *mut trace_array {
    // SAFETY: The list's head was found, by the safety requirement. The list changes while
    // instances are added or removed, but for its last entry.
    unsafe { (&raw const (*FTRACE_TRACE_ARRAYS.get::<list_head>()).prev).read_volatile() }.cast()
}

/// A mutex of the kernel, locked until dropped.
///
/// # Invariants
///
/// The current context has locked the mutex, which is never freed.
pub(super) struct KernelMutexGuard {
    mutex: *mut mutex,
    _same_context: NotThreadSafe,
}

impl KernelMutexGuard {
    /// Locks a mutex; sleeps until it is free.
    ///
    /// # Safety
    ///
    /// `mutex` must be [`event_mutex`] or [`dyn_event_ops_mutex`], and a [`ResolvedSymbols`] or
    /// [`CheckedSymbols`] must exist.
    pub(super) unsafe fn lock(mutex: *mut mutex) -> Self {
        // SAFETY: A mutex of the kernel that was found, by the safety requirement.
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
