// SPDX-License-Identifier: GPL-2.0

//! Trace events made at run time.
//!
//! C: `struct trace_event_call`, `trace_add_event_call()`, `trace_remove_event_call()`
//! (linux/trace_events.h). A [`TraceEvent`] owns all that the trace core knows of an event: the
//! call, its class, its fields and the strings they point to. The trace core tells it when a
//! consumer (ftrace in some instance, or perf) attaches or detaches.

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

/// What the owner of a trace event wants to know of it.
pub(crate) trait TraceEventOwner: Send + Sync + Sized + 'static {
    /// The first consumer is about to attach. `event_mutex` is held.
    ///
    /// # Errors
    ///
    /// An error keeps the consumer away and is what the consumer gets.
    fn first_attaches(event: &Arc<TraceEvent<Self>>, held: &mut EventMutexHeld) -> Result;

    /// Records are wanted now and were not, or the other way round.
    fn toggled(event: &Arc<TraceEvent<Self>>, held: &EventMutexHeld);

    /// What [`TraceEvent::run_later`] asked for. Runs on the work queue.
    fn run(event: &Arc<TraceEvent<Self>>);

    /// Is a limit to be asked for each record of the event? [`TraceEvent::limit_changed`] is called
    /// when that changes.
    fn has_limit(event: &TraceEvent<Self>) -> bool;

    /// The last consumer has detached. `event_mutex` is held, and the trace core is still at work
    /// on the event: it cannot be unregistered from here, which is why that takes a [`Removal`].
    fn last_detached(event: &TraceEvent<Self>, held: &mut EventMutexHeld);

    /// The last reference to the event was dropped; there may be a new one since. `event_mutex` may
    /// be held.
    fn last_put(event: Arc<TraceEvent<Self>>);
}

/// An event of the trace core, with its owner's data `O`.
///
/// # Invariants
///
/// - `call`, `tracepoint`, `fields` and `format` point to each other, and stay in place and
///   unchanged from `new_unregistered` on.
/// - The class of `call` is NULL, or what [`Arc::into_raw`] gave for an [`EventClass`], and is
///   given back at the end.
/// - `fixed_size` and `locations` are those of the fields that the trace core is told of.
/// - While `registered`, the trace core has the pointer to `call`, and a reference count of the
///   `Arc` that holds `self` is its. The event has a number then, and while a [`KeptEvent`] holds
///   it.
/// - `files` has exactly the event's files for which the trace core has registered us and not
///   unregistered us again.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(crate) struct TraceEvent<O: TraceEventOwner> {
    #[pin]
    call: Opaque<trace_event_call>,
    #[pin]
    fields: FieldList,
    /// Gives the call its name, and eBPF something to call a tracepoint. It has no probes.
    #[pin]
    tracepoint: Opaque<bindings::tracepoint>,
    /// The event's entry in `dynamic_events`; in the list while `registered`.
    #[pin]
    dyn_event: Opaque<bindings::dyn_event>,
    format: Format,
    /// None where there are none: a vector takes 16 bytes more, and with these most events twice
    /// the memory.
    locations: Option<KBox<KVec<Location>>>,
    fixed_size: u32,
    /// Is a field an array of characters?
    has_chars: bool,
    consumers: Atomic<i8>,
    registered: EventMutexLocked<bool>,
    #[pin]
    is_listed: AtomicTracker,
    files: EventFiles,
    consumer_state: LazyBox<ConsumerState<O>>,
    refs: Atomic<usize>,
    /// For one list of the owner's.
    #[pin]
    links: ListLinks,
    #[pin]
    work: Work<TraceEvent<O>>,
    #[pin]
    owner: O,
}

/// What an event has from its first consumer on.
struct ConsumerState<O: TraceEventOwner> {
    perf_events: PerfEvents,
    recorded_in: EventMutexLocked<Instances>,
    /// The next in the list of events that are kept.
    next: EventMutexLocked<Option<KeptEvent<O>>>,
}

impl<O: TraceEventOwner> ConsumerState<O> {
    fn new() -> Self {
        Self {
            perf_events: PerfEvents::new(),
            recorded_in: EventMutexLocked::new(Instances::NONE),
            next: EventMutexLocked::new(None),
        }
    }
}

/// The task that has the trace core remove an event, as `current_key` has it, or 0. Written under
/// `event_mutex`.
static REMOVING_TASK: Atomic<usize> = Atomic::new(0);

/// An event that the trace core does not know yet.
pub(crate) struct UnregisteredEvent<O: TraceEventOwner> {
    event: Arc<TraceEvent<O>>,
}

// SAFETY: The raw pointers inside lead into the structure itself; the trace core may use a call
// from any thread.
unsafe impl<O: TraceEventOwner> Send for TraceEvent<O> {}
// SAFETY: What changes after `new` is atomic or protected by `event_mutex`.
unsafe impl<O: TraceEventOwner> Sync for TraceEvent<O> {}

#[pinned_drop]
impl<O: TraceEventOwner> PinnedDrop for TraceEvent<O> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The call is not used any more, so neither is its class by it. By the invariant.
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

    /// Makes an event that the trace core does not know yet. None of the texts may hold a NUL;
    /// `owner_text` is kept with the others, for the owner.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` when a text is too long, or what `owner` fails with.
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

        // SAFETY: Nothing else knows the event yet, and an `Arc` does not move its content: we may
        // write the C structures and make them point to each other. The fields are freed with their
        // head.
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
    /// The trace core frees what it finds here when it removes an event, and looks for nothing else
    /// then: for the task that has it do so there are no fields.
    ///
    /// # Safety
    ///
    /// `call` must be the call of a `TraceEvent<O>` that is alive, or stand in for one.
    unsafe extern "C" fn get_fields(call: *mut trace_event_call) -> *mut bindings::list_head {
        // SAFETY: Promised by the caller.
        let event = unsafe { number::event_of::<O>(call) };
        if event.format.count() == 0 || REMOVING_TASK.load(Relaxed) == current_key() {
            return EMPTY_LIST.head();
        }
        event.fields.head()
    }

    /// Has [`TraceEventOwner::run`] called once more from now on, by a task of `queue`. Any
    /// context.
    pub(crate) fn run_later(self: &Arc<Self>, queue: &OwnedQueue) {
        // Queued already is as good.
        let _ = queue.enqueue::<_, 0>(self.clone());
    }

    /// Bytes of payload that every record has at least.
    #[inline]
    pub(crate) fn fixed_size(&self) -> usize {
        self.fixed_size as usize
    }

    /// The system in which tracefs shows the event.
    pub(crate) fn system(&self) -> &[u8] {
        const { assert!(offset_of!(EventClass<O>, class) == 0) };
        // SAFETY: By the invariant; the pointer does not change once the event is made.
        let class = unsafe { (*self.call.get()).class.cast::<EventClass<O>>().as_ref() };
        class.map_or(&[], EventClass::system)
    }

    /// The name under which tracefs shows the event.
    pub(crate) fn name(&self) -> &[u8] {
        self.format.name()
    }

    /// The text that is kept for the owner.
    pub(crate) fn owner_text(&self) -> &[u8] {
        self.format.owner_text()
    }
}
