// SPDX-License-Identifier: GPL-2.0

//! Trace events that are created at run time.
//!
//! C: `struct trace_event_call`, `trace_add_event_call()`, `trace_remove_event_call()`
//! (linux/trace_events.h). A [`TraceEvent`] owns all parts of an event: the call, its class, its
//! fields, and their strings. The trace core calls it when a consumer (ftrace in an instance, or
//! perf) attaches or detaches.

mod class;
mod consumers;
mod event_ref;
mod format;
mod kept_event;
mod number;
mod record;
mod register;

pub(crate) use class::EventClass;
use class::EMPTY_LIST;
pub(crate) use event_ref::EventRef;
use format::{
    FieldList,
    Format, //
};
pub(crate) use kept_event::{
    KeptEvent,
    KeptList, //
};
pub(crate) use number::Instances;
pub(crate) use register::Removal;

use super::bindings::{
    self,
    trace_event_call, //
};
use super::event_files::EventFiles;
use super::event_mutex::{
    EventMutexHeld,
    EventMutexLocked, //
};
use super::lazy_box::LazyBox;
use super::perf::PerfEvents;
use super::task::current_key;
use super::work_queue::OwnedQueue;
use crate::schema::{
    Field,
    Location,
    COMMON_SIZE, //
};
use core::mem::offset_of;
use core::ops::Deref;
use core::ptr;
use kernel::list::{
    impl_list_arc_safe,
    impl_list_item,
    AtomicTracker,
    ListLinks,
    TryNewListArc, //
};
use kernel::new_work;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;
use kernel::types::Opaque;
use kernel::workqueue::{
    self,
    Work,
    WorkItem, //
};

/// Callbacks to the owner of a trace event.
pub(crate) trait TraceEventOwner: Send + Sync + Sized + 'static {
    /// Data of the owner that an event has from its first consumer on.
    type ConsumerData: Default + Send + Sync;

    /// The first consumer is about to attach; there is [`TraceEvent::consumer_data`]. `event_mutex`
    /// is held.
    ///
    /// # Errors
    ///
    /// The consumer gets the error, and does not attach.
    fn first_attaches(event: &Arc<TraceEvent<Self>>, held: &mut EventMutexHeld) -> Result;

    /// Records start or cease to be wanted. `event_mutex` is held.
    fn toggled(event: &Arc<TraceEvent<Self>>, held: &EventMutexHeld);

    /// Called on the work queue after [`TraceEvent::run_later`].
    fn run(event: &Arc<TraceEvent<Self>>);

    /// Whether a limit is to be checked for each record of the event. [`TraceEvent::limit_changed`]
    /// is called when the result changes.
    fn has_limit(event: &TraceEvent<Self>) -> bool;

    /// The last consumer has detached. `event_mutex` is held. The trace core still uses the event,
    /// which cannot be unregistered from here: that takes a [`Removal`].
    fn last_detached(event: &TraceEvent<Self>, held: &mut EventMutexHeld);

    /// The last reference to the event was dropped. There may be a new one already. `event_mutex`
    /// may be held.
    fn last_put(event: Arc<TraceEvent<Self>>);
}

/// An event of the trace core, with its owner's data `O`.
///
/// # Invariants
///
/// - `call`, `tracepoint`, `fields` and `format` point to each other, stay in place, and do not
///   change after `new_unregistered`.
/// - The class of `call` is NULL, or a pointer from [`Arc::into_raw`] of an [`EventClass`], which
///   the drop takes back.
/// - `fixed_size` and `locations` are those of the fields that the trace core knows.
/// - While `registered`, the trace core has the pointer to `call`, and owns a count of the `Arc` of
///   `self`. The event has a number then, and while a [`KeptEvent`] holds it.
/// - `files` has exactly the event's files that the trace core has registered and not unregistered.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(crate) struct TraceEvent<O: TraceEventOwner> {
    #[pin]
    call: Opaque<trace_event_call>,
    #[pin]
    fields: FieldList,
    /// The name of the call, and the tracepoint for eBPF. Has no probes.
    #[pin]
    tracepoint: Opaque<bindings::tracepoint>,
    /// The entry in `dynamic_events`; in the list while `registered`.
    #[pin]
    dyn_event: Opaque<bindings::dyn_event>,
    format: Format,
    /// `None` if there are none, as for most events: a vector takes 16 bytes more, with which the
    /// allocation would be twice as large.
    locations: Option<KBox<KVec<Location>>>,
    fixed_size: u32,
    /// A field is an array of characters.
    has_chars: bool,
    consumers: Atomic<i8>,
    registered: EventMutexLocked<bool>,
    #[pin]
    is_listed: AtomicTracker,
    files: EventFiles,
    consumer_state: LazyBox<ConsumerState<O>>,
    refs: Atomic<usize>,
    /// For one list of the owner.
    #[pin]
    links: ListLinks,
    #[pin]
    work: Work<TraceEvent<O>>,
    #[pin]
    owner: O,
}

/// State that an event has from its first consumer on.
struct ConsumerState<O: TraceEventOwner> {
    perf_events: PerfEvents,
    recorded_in: EventMutexLocked<Instances>,
    /// The next event in a [`KeptList`].
    next: EventMutexLocked<Option<KeptEvent<O>>>,
    data: O::ConsumerData,
}

impl<O: TraceEventOwner> ConsumerState<O> {
    fn new() -> Self {
        Self {
            perf_events: PerfEvents::new(),
            recorded_in: EventMutexLocked::new(Instances::NONE),
            next: EventMutexLocked::new(None),
            data: O::ConsumerData::default(),
        }
    }
}

/// The key of the task in which the trace core is removing an event, or 0. Written under
/// `event_mutex`.
static REMOVING_TASK: Atomic<usize> = Atomic::new(0);

/// An event that the trace core does not know yet.
pub(crate) struct UnregisteredEvent<O: TraceEventOwner> {
    event: Arc<TraceEvent<O>>,
}

// SAFETY: The raw pointers point into the structure itself. The trace core may use a call from any
// thread.
unsafe impl<O: TraceEventOwner> Send for TraceEvent<O> {}
// SAFETY: All members that change after `new_unregistered` are atomic, or protected by
// `event_mutex`.
unsafe impl<O: TraceEventOwner> Sync for TraceEvent<O> {}

#[pinned_drop]
impl<O: TraceEventOwner> PinnedDrop for TraceEvent<O> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The call does not use its class any more, which by the invariant is NULL or from
        // `Arc::into_raw`.
        unsafe {
            let class = (*self.call.get()).class.cast::<EventClass<O>>();
            if !class.is_null() {
                drop(Arc::from_raw(class));
            }
        }
    }
}

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

impl<O: TraceEventOwner> TraceEvent<O> {
    const CALL_OPS: &'static bindings::user_events_call_ops = &bindings::user_events_call_ops {
        reg: Some(Self::reg),
    };

    /// Creates an event that the trace core does not know yet. None of the texts may contain a NUL.
    /// `owner_text` is stored with the others, for the owner.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` when a text is too long; the errors of `owner`.
    pub(crate) fn new_unregistered(
        class: &Arc<EventClass<O>>,
        name: &[u8],
        owner_text: &[u8],
        print_fmt: &[u8],
        fields: &[Field<'_>],
        owner: impl PinInit<O, Error>,
    ) -> Result<UnregisteredEvent<O>> {
        let has_chars = fields.iter().any(Field::is_chars);
        let end = fields.iter().map(Field::end).max();
        let end = end.unwrap_or(COMMON_SIZE);
        let mut locations = KVec::new();
        for location in fields.iter().filter_map(Field::location) {
            locations.push(location, GFP_KERNEL_ACCOUNT)?;
        }
        let locations = match locations.is_empty() {
            true => None,
            false => Some(KBox::new(locations, GFP_KERNEL_ACCOUNT)?),
        };
        let (format, (name_at, print_fmt_at)) = Format::new(name, owner_text, print_fmt, fields)?;
        let event = Arc::pin_init(
            try_pin_init!(Self {
                call: Opaque::zeroed(),
                fields <- FieldList::new(),
                tracepoint: Opaque::zeroed(),
                dyn_event: Opaque::zeroed(),
                format,
                consumers: Atomic::new(0),
                fixed_size: end.saturating_sub(COMMON_SIZE),
                has_chars,
                locations,
                registered: EventMutexLocked::new(false),
                is_listed <- AtomicTracker::new(),
                files: EventFiles::new(),
                consumer_state: LazyBox::new(),
                refs: Atomic::new(0),
                links <- ListLinks::new(),
                work <- new_work!("TraceEvent::work"),
                owner <- owner,
            }? Error),
            GFP_KERNEL_ACCOUNT,
        )?;

        // SAFETY: Nothing else uses the event yet, and an `Arc` does not move its content, so the C
        // structures may be written, and point to each other.
        unsafe {
            (*event.tracepoint.get()).name = name_at;

            let call = &mut *event.call.get();
            // INVARIANT: The class is the first member.
            call.class = Arc::into_raw(class.clone()).cast_mut().cast();
            call.__bindgen_anon_1.tp = event.tracepoint.get();
            call.event.funcs = ptr::addr_of_mut!(bindings::user_events_print_functions);
            call.print_fmt = print_fmt_at.cast_mut();
            call.data = ptr::from_ref(Self::CALL_OPS).cast_mut().cast();
            call.flags =
                (bindings::TRACE_EVENT_FL_DYNAMIC | bindings::TRACE_EVENT_FL_TRACEPOINT) as i32;
        }
        Ok(UnregisteredEvent { event })
    }

    /// The list of the event's fields. C: `get_fields` of `struct trace_event_class`.
    ///
    /// When the trace core removes an event, it frees these fields, and needs them for nothing
    /// else. So the list is empty for the removing task.
    ///
    /// # Safety
    ///
    /// `call` must be that of a live `TraceEvent<O>`, or its stand-in.
    unsafe extern "C" fn get_fields(call: *mut trace_event_call) -> *mut bindings::list_head {
        // SAFETY: By the safety requirement.
        let event = unsafe { number::event_of::<O>(call) };
        if event.format.count() == 0 || REMOVING_TASK.load(Relaxed) == current_key() {
            return EMPTY_LIST.head();
        }
        event.fields.head()
    }

    /// The owner's data, if a consumer has ever attached. Any context.
    #[inline]
    pub(crate) fn consumer_data(&self) -> Option<&O::ConsumerData> {
        Some(&self.consumer_state.get()?.data)
    }

    /// Queues a call of [`TraceEventOwner::run`] on `queue`. Any context.
    pub(crate) fn run_later(self: &Arc<Self>, queue: &OwnedQueue) {
        // Fine if it is queued already.
        let _ = queue.enqueue::<_, 0>(self.clone());
    }

    /// Minimum size of a record's payload, in bytes.
    #[inline]
    pub(crate) fn fixed_size(&self) -> usize {
        self.fixed_size as usize
    }

    /// The system of the event in tracefs.
    pub(crate) fn system(&self) -> &[u8] {
        const { assert!(offset_of!(EventClass<O>, class) == 0) };
        // SAFETY: NULL or a class by the invariant; the pointer does not change after the creation.
        let class = unsafe { (*self.call.get()).class.cast::<EventClass<O>>().as_ref() };
        class.map_or(&[], EventClass::system)
    }

    /// The name of the event in tracefs.
    pub(crate) fn name(&self) -> &[u8] {
        self.format.name()
    }

    /// The owner's text.
    pub(crate) fn owner_text(&self) -> &[u8] {
        self.format.owner_text()
    }
}
