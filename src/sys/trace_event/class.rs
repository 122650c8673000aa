// SPDX-License-Identifier: GPL-2.0

//! What the events of one system have in common, and those without fields.
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
use core::mem::{
    size_of,
    MaybeUninit, //
};
use kernel::prelude::*;
use kernel::sync::Arc;

/// What the events of one system have in common. C: `struct trace_event_class`.
///
/// # Invariants
///
/// `class.system` is `system`, which does not change and ends in the only NUL that it holds.
#[repr(C)]
pub(crate) struct EventClass<O> {
    pub(super) class: UnsafeCell<trace_event_class>,
    system: KVec<u8>,
    _owner: PhantomData<fn() -> O>,
}

// SAFETY: The text that the class points to goes with it.
unsafe impl<O> Send for EventClass<O> {}
// SAFETY: The trace core reads the class of an event that is registered, and changes nothing in it
// but the list of fields, which it does not use where there is a `get_fields`. We change
// `fields_array` with the mutex with which that is read.
unsafe impl<O> Sync for EventClass<O> {}

impl<O: TraceEventOwner> EventClass<O> {
    /// The class of the events of a system, whose name is these parts together. May sleep.
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
        // INVARIANT: Just made so. The bytes stay in place when the vector moves.
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

/// The list of the fields of an event without any. `trace_event_get_offsets()` takes the head of an
/// empty list for a field, and reads an offset and a size behind it: zeros, in more words than a
/// field has. The same zeros are the end of an array of fields, and nothing before it.
#[repr(C)]
pub(super) struct EmptyList {
    head: UnsafeCell<list_head>,
    behind: [usize; 16],
}

// SAFETY: The trace core reads it only: no fields are added to the list, and it takes none out.
unsafe impl Sync for EmptyList {}

impl EmptyList {
    /// The head of the list.
    pub(super) const fn head(&self) -> *mut list_head {
        self.head.get()
    }

    /// The array of no fields, to be read only.
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
