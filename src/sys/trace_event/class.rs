// SPDX-License-Identifier: GPL-2.0

//! Classes of trace events, one for each system.
//!
//! C: `struct trace_event_class`, `struct trace_event_fields` (linux/trace_events.h).

use super::super::bindings::{
    self,
    list_head,
    trace_event_class,
    trace_event_fields, //
};
use super::{
    TraceEvent,
    TraceEventOwner, //
};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The class of a system's events. C: `struct trace_event_class`.
///
/// # Invariants
///
/// `class.system` points to `system`, which does not change, and whose only NUL is its last byte.
#[repr(C)]
pub(crate) struct EventClass<O> {
    pub(super) class: UnsafeCell<trace_event_class>,
    system: KVec<u8>,
    _owner: PhantomData<fn() -> O>,
}

// SAFETY: The class owns the text that it points to.
unsafe impl<O> Send for EventClass<O> {}
// SAFETY: The trace core reads the class of a registered event, and changes only the list of
// fields, which it does not use if there is a `get_fields`. The module changes `fields_array` under
// the mutex under which the trace core reads that.
unsafe impl<O> Sync for EventClass<O> {}

impl<O: TraceEventOwner> EventClass<O> {
    /// The class of the system whose name is the concatenated `parts`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` when a part holds a NUL.
    pub(crate) fn new(parts: &[&[u8]]) -> Result<Arc<Self>> {
        let mut system = KVec::new();
        for part in parts {
            system.extend_from_slice(part, GFP_KERNEL_ACCOUNT)?;
        }
        if system.contains(&0) {
            return Err(EINVAL);
        }
        system.push(0, GFP_KERNEL_ACCOUNT)?;
        // SAFETY: Integers, and pointers that may be NULL.
        let mut class: trace_event_class = unsafe { MaybeUninit::zeroed().assume_init() };
        class.system = system.as_ptr();
        class.reg = Some(bindings::user_events_reg);
        class.get_fields = Some(TraceEvent::<O>::get_fields);
        class.fields_array = EMPTY_LIST.array();
        // INVARIANT: Set above. The bytes stay in place when the vector moves.
        let class = Self {
            class: UnsafeCell::new(class),
            system,
            _owner: PhantomData,
        };
        Ok(Arc::new(class, GFP_KERNEL_ACCOUNT)?)
    }

    /// The name of the system.
    pub(crate) fn system(&self) -> &[u8] {
        self.system.split_last().map_or(&[], |(_, name)| name)
    }
}

/// The list of fields of an event without fields. `trace_event_get_offsets()` takes the head of an
/// empty list for a field, and reads its offset and size from the bytes behind the head: zeros,
/// more than a field has. The same zeros are the end of an array of fields.
#[repr(C)]
pub(super) struct EmptyList {
    head: UnsafeCell<list_head>,
    behind: [usize; 16],
}

// SAFETY: The trace core only reads the list, as no field is added or removed.
unsafe impl Sync for EmptyList {}

impl EmptyList {
    /// The head of the list.
    pub(super) const fn head(&self) -> *mut list_head {
        self.head.get()
    }

    /// An empty array of fields, to be read only.
    pub(super) const fn array(&self) -> *mut trace_event_fields {
        const { assert!(size_of::<trace_event_fields>() <= size_of::<[usize; 16]>()) };
        (&raw const self.behind).cast_mut().cast()
    }
}

pub(super) static EMPTY_LIST: EmptyList = EmptyList {
    head: UnsafeCell::new(list_head {
        next: EMPTY_LIST.head(),
        prev: EMPTY_LIST.head(),
    }),
    behind: [0; 16],
};
