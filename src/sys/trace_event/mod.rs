// SPDX-License-Identifier: GPL-2.0

//! Trace events made at run time.
//!
//! C: `struct trace_event_call`, `trace_add_event_call()`, `trace_remove_event_call()`
//! (linux/trace_events.h). A [`TraceEvent`] owns all that the trace core knows of an event: the
//! call, its class, its fields and the strings they point to. The trace core tells it when a
//! consumer (ftrace in some instance, or perf) attaches or detaches.

mod consumers;
mod publish;
mod record;
mod uses;

pub(crate) use publish::Removal;
pub(crate) use uses::Use;

use super::bindings::{self, trace_event_call, trace_event_fields};
use super::event_mutex::{ByEventMutex, EventMutexHeld};
use super::probe_list::ProbeList;
use super::work_queue::OwnedQueue;
use crate::schema::{Field, Location, COMMON_SIZE};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::ptr;
use kernel::list::{impl_list_arc_safe, impl_list_item, AtomicTracker, ListLinks, TryNewListArc};
use kernel::new_work;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::atomic::Atomic;
use kernel::sync::Arc;
use kernel::types::Opaque;
use kernel::workqueue::{self, Work, WorkItem};

/// What the owner of a trace event wants to know of it.
pub(crate) trait TraceEventOwner: Send + Sync + Sized + 'static {
    /// The first consumer is about to attach. `event_mutex` is held.
    ///
    /// # Errors
    ///
    /// An error keeps the consumer away and is what the consumer gets.
    fn first_attaches(event: &Arc<TraceEvent<Self>>, held: &mut EventMutexHeld) -> Result;

    /// Records are wanted now and were not, or the other way round. `event_mutex` is held.
    fn toggled(event: &Arc<TraceEvent<Self>>);

    /// What [`TraceEvent::run_later`] asked for. Runs on the work queue.
    fn run(event: &Arc<TraceEvent<Self>>);

    /// The last consumer has detached. `event_mutex` is held, and the trace core is still at work
    /// on the event: it cannot be withdrawn from here, which is why that takes a [`Removal`].
    fn last_detached(event: &TraceEvent<Self>, held: &mut EventMutexHeld);

    /// Nobody uses the event any more, unless somebody began to since. `event_mutex` may be held.
    fn last_use_dropped(event: Arc<TraceEvent<Self>>);
}

/// An event of the trace core, with its owner's data `O`.
///
/// # Invariants
///
/// - `call`, `class` and `tracepoint` point to each other and to `strings`, all of which stay in
///   place and unchanged from `draft` on. Once published, `class` points to no fields any more: the
///   trace core has made its own of them.
/// - `fixed_size` and `locations` are those of the fields that the trace core is told of.
/// - While `published`, the trace core has the pointer to `call`, and a reference count of the
///   `Arc` that holds `self` is its.
/// - `probes` has exactly the event's files for which the trace core has registered us and not
///   unregistered us again.
#[repr(C)]
#[pin_data]
pub(crate) struct TraceEvent<O: TraceEventOwner> {
    #[pin]
    call: Opaque<trace_event_call>,
    #[pin]
    class: Opaque<bindings::trace_event_class>,
    /// Zeros. For an event without fields `trace_event_get_offsets()` takes the head of the list
    /// of fields for a field, and reads an offset and a size from behind the class.
    no_fields: [u64; 2],
    /// Gives the call its name, and eBPF something to call a tracepoint. It has no probes.
    #[pin]
    tracepoint: Opaque<bindings::tracepoint>,
    /// The event's entry in `dynamic_events`; in the list while `published`.
    #[pin]
    dyn_event: Opaque<bindings::dyn_event>,
    /// All texts, each with a NUL behind it; the name comes first, and then the owner's.
    strings: KVec<u8>,
    name_len: u16,
    owner_text_len: u16,
    fixed_size: u32,
    locations: KVec<Location>,
    consumers: Atomic<i8>,
    published: ByEventMutex<bool>,
    #[pin]
    is_listed: AtomicTracker,
    probes: ProbeList,
    uses: Atomic<usize>,
    /// For one list of the owner's.
    #[pin]
    links: ListLinks,
    #[pin]
    work: Work<TraceEvent<O>>,
    #[pin]
    owner: O,
}

/// An event that the trace core does not know yet, and what only the trace core is to know: the
/// fields, the last followed by zeros.
pub(crate) struct Draft<O: TraceEventOwner> {
    event: Arc<TraceEvent<O>>,
    fields: KVec<trace_event_fields>,
}

/// The end of an array of fields, and nothing before it: zeros.
struct NoFields(UnsafeCell<MaybeUninit<trace_event_fields>>);

// SAFETY: Nobody writes to it.
unsafe impl Sync for NoFields {}

static NO_FIELDS: NoFields = NoFields(UnsafeCell::new(MaybeUninit::zeroed()));

// SAFETY: The raw pointers inside lead into the structure itself; the trace core may use a call
// from any thread.
unsafe impl<O: TraceEventOwner> Send for TraceEvent<O> {}
// SAFETY: What changes after `new` is atomic or protected by `event_mutex`.
unsafe impl<O: TraceEventOwner> Sync for TraceEvent<O> {}

impl_list_arc_safe! {
    impl{O: TraceEventOwner} ListArcSafe<0> for TraceEvent<O> {
        tracked_by is_listed: AtomicTracker;
    }
}

impl_list_item! {
    impl{O: TraceEventOwner} ListItem<0> for TraceEvent<O> {
        using ListLinks { self.links };
    }
}

workqueue::impl_has_work! {
    impl{O: TraceEventOwner} HasWork<Self> for TraceEvent<O> { self.work }
}

impl<O: TraceEventOwner> WorkItem for TraceEvent<O> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        O::run(&this);
    }
}

impl<O: TraceEventOwner> Deref for TraceEvent<O> {
    type Target = O;

    #[inline]
    fn deref(&self) -> &O {
        &self.owner
    }
}

/// Appends `text` and a NUL; returns where it begins.
fn add_string(strings: &mut KVec<u8>, text: &[u8]) -> Result<usize> {
    let start = strings.len();
    strings.extend_from_slice(text, GFP_KERNEL_ACCOUNT)?;
    strings.push(0, GFP_KERNEL_ACCOUNT)?;
    Ok(start)
}

impl<O: TraceEventOwner> TraceEvent<O> {
    const CALL_OPS: &'static bindings::user_events_call_ops = &bindings::user_events_call_ops {
        reg: Some(Self::reg),
    };

    /// Makes an event that the trace core does not know yet. None of the texts may hold a NUL;
    /// `owner_text` is kept with the others, for the owner.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` when a text is too long, or what `owner` fails with.
    pub(crate) fn draft(
        system: &'static CStr,
        name: &[u8],
        owner_text: &[u8],
        print_fmt: &[u8],
        fields: &[Field<'_>],
        owner: impl PinInit<O, Error>,
    ) -> Result<Draft<O>> {
        let end = fields.iter().map(Field::end).max();
        let end = end.unwrap_or(COMMON_SIZE);
        let mut locations = KVec::new();
        for location in fields.iter().filter_map(Field::location) {
            locations.push(location, GFP_KERNEL_ACCOUNT)?;
        }
        // Each text has a NUL behind it. The fields in a row that have one type share its text.
        let fields = fields.iter().scan(None, |before, field| {
            let is_new = before.replace(field.type_text()) != Some(field.type_text());
            Some((field, is_new))
        });
        let (count, texts_len) = fields
            .clone()
            .fold((0, 0), |(count, len), (field, is_new)| {
                let type_len = if is_new {
                    field.type_text().len() + 1
                } else {
                    0
                };
                (count + 1, len + type_len + field.name().len() + 1)
            });
        let all = name.len() + owner_text.len() + print_fmt.len() + 3 + texts_len;
        let mut strings = KVec::with_capacity(all, GFP_KERNEL_ACCOUNT)?;
        let name_at = add_string(&mut strings, name)?;
        add_string(&mut strings, owner_text)?;
        let print_fmt_at = add_string(&mut strings, print_fmt)?;
        let mut next_at = strings.len();
        for (field, is_new) in fields.clone() {
            if is_new {
                add_string(&mut strings, field.type_text())?;
            }
            add_string(&mut strings, field.name())?;
        }
        // From here on `strings` does not grow, so what it holds stays in place.
        let base = strings.as_ptr();
        let at = |offset: usize| base.wrapping_add(offset).cast::<kernel::ffi::c_char>();
        let mut array = KVec::with_capacity(count + 1, GFP_KERNEL)?;
        let mut type_at = next_at;
        for (field, is_new) in fields {
            if is_new {
                type_at = next_at;
                next_at += field.type_text().len() + 1;
            }
            array.push(Self::field(field, at(type_at), at(next_at)), GFP_KERNEL)?;
            next_at += field.name().len() + 1;
        }
        array.push(trace_event_fields::default(), GFP_KERNEL)?;

        let event = Arc::pin_init(
            try_pin_init!(Self {
                call: Opaque::zeroed(),
                class: Opaque::zeroed(),
                no_fields: [0; 2],
                tracepoint: Opaque::zeroed(),
                dyn_event: Opaque::zeroed(),
                strings,
                name_len: u16::try_from(name.len()).map_err(|_| EINVAL)?,
                owner_text_len: u16::try_from(owner_text.len()).map_err(|_| EINVAL)?,
                consumers: Atomic::new(0),
                fixed_size: end.saturating_sub(COMMON_SIZE),
                locations,
                published: ByEventMutex::new(false),
                is_listed <- AtomicTracker::new(),
                probes: ProbeList::new(),
                uses: Atomic::new(0),
                links <- ListLinks::new(),
                work <- new_work!("TraceEvent::work"),
                owner <- owner,
            }? Error),
            GFP_KERNEL_ACCOUNT,
        )?;

        // SAFETY: Nobody else knows the event yet, and an `Arc` does not move its content: we may
        // write the C structures and make them point to each other. A bindgen `default` is zero.
        unsafe {
            let class = &mut *event.class.get();
            class.system = system.as_char_ptr();
            class.reg = Some(bindings::user_events_reg);
            class.fields_array = NO_FIELDS.0.get().cast();
            class.fields.next = ptr::addr_of_mut!(class.fields);
            class.fields.prev = class.fields.next;

            (*event.tracepoint.get()).name = at(name_at);

            let call = &mut *event.call.get();
            call.class = event.class.get();
            call.__bindgen_anon_1.tp = event.tracepoint.get();
            call.event.funcs = ptr::addr_of_mut!(bindings::user_events_print_functions);
            call.print_fmt = at(print_fmt_at).cast_mut();
            call.data = ptr::from_ref(Self::CALL_OPS).cast_mut().cast();
            call.flags =
                (bindings::TRACE_EVENT_FL_DYNAMIC | bindings::TRACE_EVENT_FL_TRACEPOINT) as i32;
        }
        Ok(Draft {
            event,
            fields: array,
        })
    }

    /// A field as the trace core wants it. Without alignment: fields follow each other directly.
    fn field(
        spec: &Field<'_>,
        type_: *const kernel::ffi::c_char,
        name: *const kernel::ffi::c_char,
    ) -> trace_event_fields {
        let mut inner = bindings::trace_event_fields__bindgen_ty_1__bindgen_ty_1 {
            name,
            size: spec.size() as i32,
            align: 1,
            len: spec.array_len() as i32,
            ..Default::default()
        };
        inner.set_is_signed(spec.is_signed().into());
        let mut field = trace_event_fields {
            type_,
            ..Default::default()
        };
        field.__bindgen_anon_1.__bindgen_anon_1 = inner;
        field
    }

    /// Has [`TraceEventOwner::run`] called once more from now on, by a task of `queue`. Any context.
    pub(crate) fn run_later(self: &Arc<Self>, queue: &OwnedQueue) {
        // Queued already is as good.
        let _ = queue.enqueue::<_, 0>(self.clone());
    }

    /// Bytes of payload that every record has at least.
    #[inline]
    pub(crate) fn fixed_size(&self) -> usize {
        self.fixed_size as usize
    }

    /// The name under which tracefs shows the event.
    pub(crate) fn name(&self) -> &[u8] {
        let name = self.strings.get(..usize::from(self.name_len));
        name.unwrap_or_default()
    }

    /// The text that is kept for the owner.
    pub(crate) fn owner_text(&self) -> &[u8] {
        let start = usize::from(self.name_len) + 1;
        let text = self
            .strings
            .get(start..start + usize::from(self.owner_text_len));
        text.unwrap_or_default()
    }
}
