// SPDX-License-Identifier: GPL-2.0

//! Trace events made at run time.
//!
//! C: `struct trace_event_call`, `trace_add_event_call()`, `trace_remove_event_call()`
//! (linux/trace_events.h). A [`TraceEvent`] owns all that the trace core knows of an event: the
//! call, its class, its fields and the strings they point to. The trace core tells it when a
//! consumer (ftrace in some instance, or perf) attaches or detaches.

use super::bindings::{self, trace_event_call, trace_event_fields};
use super::dyn_event::{DynEventOwner, DynEvents};
use super::event_mutex::{ByEventMutex, EventMutexHeld};
use super::perf;
use super::probe_list::{ProbeList, Reader};
use super::ring_buffer::{Outcome, TraceFile};
use super::work_queue::OwnedQueue;
use core::ffi::c_void;
use core::mem;
use core::ops::Deref;
use core::ptr;
use kernel::error::{from_result, to_result};
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::atomic::{Acquire, Atomic, Release};
use kernel::sync::Arc;
use kernel::types::Opaque;
use kernel::workqueue::{self, Work, WorkItem};

/// Who takes the records of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Consumers(u32);

impl Consumers {
    const FTRACE: u32 = 1;
    const PERF: u32 = 2;

    /// Does nobody?
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Does the ring buffer of any trace instance?
    #[inline]
    pub(crate) fn has_ftrace(self) -> bool {
        self.0 & Self::FTRACE != 0
    }

    /// Does perf?
    #[inline]
    pub(crate) fn has_perf(self) -> bool {
        self.0 & Self::PERF != 0
    }
}

/// What the owner of a trace event wants to know of it.
pub(crate) trait TraceEventOwner: Send + Sync + Sized + 'static {
    /// The first consumer is about to attach. `event_mutex` is held.
    ///
    /// # Errors
    ///
    /// An error keeps the consumer away and is what the consumer gets.
    fn first_attaches(event: &Arc<TraceEvent<Self>>, held: &EventMutexHeld) -> Result;

    /// The set of consumers has changed. `event_mutex` is held.
    fn consumers_changed(event: &TraceEvent<Self>);

    /// The last consumer has detached. `event_mutex` is held, and the trace core is still at work
    /// on the event: it cannot be withdrawn from here.
    fn last_detached(event: &TraceEvent<Self>);

    /// Runs on the work queue after [`TraceEvent::defer`]. May sleep.
    fn deferred(event: Arc<TraceEvent<Self>>);
}

/// One field of an event as the trace core is to know it.
pub(crate) struct FieldSpec<'a> {
    /// The type's text, as `format` shows it.
    pub(crate) type_text: &'a [u8],
    /// The field's name.
    pub(crate) name: &'a [u8],
    /// Bytes in the record.
    pub(crate) size: u32,
    /// Elements, where the type is an array of fixed length; else 0.
    pub(crate) array_len: u32,
    /// Is it to be shown as a signed number?
    pub(crate) is_signed: bool,
}

/// An event of the trace core, with its owner's data `O`.
///
/// # Invariants
///
/// - `call`, `class` and `tracepoint` point to each other, to `strings` and to `fields`, all of
///   which stay in place and unchanged from `new` on.
/// - While `published`, the trace core has the pointer to `call`, and a reference count of the
///   `Arc` that holds `self` is its.
/// - `probes` has exactly the files for which the trace core has registered us and not
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
    /// All texts, each with a NUL behind it; the name comes first.
    strings: KVec<u8>,
    name_len: usize,
    fields: KVec<trace_event_fields>,
    probes: ProbeList,
    consumers: Atomic<u32>,
    published: ByEventMutex<bool>,
    #[pin]
    work: Work<TraceEvent<O>>,
    #[pin]
    owner: O,
}

// SAFETY: The raw pointers inside lead into the structure itself; the trace core may use a call
// from any thread.
unsafe impl<O: TraceEventOwner> Send for TraceEvent<O> {}
// SAFETY: What changes after `new` is atomic or protected by `event_mutex`.
unsafe impl<O: TraceEventOwner> Sync for TraceEvent<O> {}

workqueue::impl_has_work! {
    impl{O: TraceEventOwner} HasWork<Self> for TraceEvent<O> { self.work }
}

impl<O: TraceEventOwner> WorkItem for TraceEvent<O> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        O::deferred(this);
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

    /// Makes an event that the trace core does not know yet. None of the texts may hold a NUL.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what `owner` fails with.
    pub(crate) fn new<'a>(
        system: &'static CStr,
        name: &[u8],
        print_fmt: &[u8],
        fields: impl Iterator<Item = FieldSpec<'a>> + Clone,
        owner: impl PinInit<O, Error>,
    ) -> Result<Arc<Self>> {
        let mut strings = KVec::new();
        let name_at = add_string(&mut strings, name)?;
        let print_fmt_at = add_string(&mut strings, print_fmt)?;
        let mut texts = KVec::new();
        for field in fields.clone() {
            let type_at = add_string(&mut strings, field.type_text)?;
            let field_at = add_string(&mut strings, field.name)?;
            texts.push((type_at, field_at), GFP_KERNEL)?;
        }
        // From here on `strings` does not grow, so what it holds stays in place.
        let base = strings.as_ptr();
        let at = |offset: usize| base.wrapping_add(offset).cast::<kernel::ffi::c_char>();
        let mut array = KVec::with_capacity(texts.len() + 1, GFP_KERNEL_ACCOUNT)?;
        for (field, (type_at, name_at)) in fields.zip(texts.iter()) {
            array.push(
                Self::field(&field, at(*type_at), at(*name_at)),
                GFP_KERNEL_ACCOUNT,
            )?;
        }
        array.push(trace_event_fields::default(), GFP_KERNEL_ACCOUNT)?;
        let fields_at = array.as_mut_ptr();

        let event = Arc::pin_init(
            try_pin_init!(Self {
                call: Opaque::zeroed(),
                class: Opaque::zeroed(),
                no_fields: [0; 2],
                tracepoint: Opaque::zeroed(),
                dyn_event: Opaque::zeroed(),
                strings,
                name_len: name.len(),
                fields: array,
                probes: ProbeList::new(),
                consumers: Atomic::new(0),
                published: ByEventMutex::new(false),
                work <- kernel::new_work!("TraceEvent::work"),
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
            class.fields_array = fields_at;
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
        Ok(event)
    }

    /// A field as the trace core wants it. Without alignment: fields follow each other directly.
    fn field(
        spec: &FieldSpec<'_>,
        type_: *const kernel::ffi::c_char,
        name: *const kernel::ffi::c_char,
    ) -> trace_event_fields {
        let mut inner = bindings::trace_event_fields__bindgen_ty_1__bindgen_ty_1 {
            name,
            size: spec.size as i32,
            align: 1,
            len: spec.array_len as i32,
            ..Default::default()
        };
        inner.set_is_signed(spec.is_signed.into());
        let mut field = trace_event_fields {
            type_,
            ..Default::default()
        };
        field.__bindgen_anon_1.__bindgen_anon_1 = inner;
        field
    }

    /// The name under which tracefs shows the event.
    pub(crate) fn name(&self) -> &[u8] {
        self.strings.get(..self.name_len).unwrap_or_default()
    }

    /// Runs [`TraceEventOwner::deferred`] on `queue`, once however often it is asked for before it
    /// begins to run. Any context.
    pub(crate) fn defer(self: Arc<Self>, queue: &OwnedQueue) {
        // Already queued is as good.
        let _ = queue.enqueue::<_, 0>(self);
    }

    /// Who takes records now. One load: a consumer may come or go meanwhile.
    #[inline]
    pub(crate) fn consumers(&self) -> Consumers {
        // Whoever sees a consumer here also sees what the trace core prepared for it before.
        Consumers(self.consumers.load(Acquire))
    }

    /// Begins to deliver a record. Until the returned value is dropped, preemption is off.
    #[inline]
    pub(crate) fn deliver(&self) -> Delivery<'_, O> {
        Delivery {
            event: self,
            reader: self.probes.enter(),
        }
    }

    /// Notes who takes records, and tells the owner.
    fn set_consumers(&self, consumers: u32) {
        self.consumers.store(consumers, Release);
        O::consumers_changed(self);
    }

    /// What the trace core calls when a consumer comes or goes.
    ///
    /// # Safety
    ///
    /// For the trace core: `call` is one that `publish` gave it, `event_mutex` is held where `type_`
    /// is about registering, and `data` is what belongs to `type_`.
    unsafe extern "C" fn reg(
        call: *mut trace_event_call,
        type_: kernel::ffi::c_int,
        data: *mut c_void,
    ) -> kernel::ffi::c_int {
        // SAFETY: A published call lies in a `TraceEvent<O>`, as its first field, which the trace
        // core's own reference keeps alive.
        let event = unsafe { Arc::from_raw(call.cast_const().cast::<Self>()) };
        // That reference is lent, not given.
        let event = mem::ManuallyDrop::new(event);
        // SAFETY: The trace core holds `event_mutex` where a consumer comes or goes. Either it was
        // called from outside of this module, or by a function of ours that borrows the proof
        // mutably.
        let held = || unsafe { EventMutexHeld::assume() };
        let result = match type_ as u32 {
            // SAFETY: For this type `data` is the event's file in an instance. The trace core
            // unregisters it and waits for tracepoint_srcu before it frees it.
            bindings::trace_reg_TRACE_REG_REGISTER => unsafe {
                event.attach_file(data.cast(), &mut held())
            },
            bindings::trace_reg_TRACE_REG_UNREGISTER => {
                event.detach_file(data.cast(), &mut held());
                Ok(())
            }
            bindings::trace_reg_TRACE_REG_PERF_REGISTER => event.attach_perf(&held()),
            bindings::trace_reg_TRACE_REG_PERF_UNREGISTER => {
                event.detach(event.consumers().0 & !Consumers::PERF);
                Ok(())
            }
            // Opening, closing and scheduling a perf event, the last of them without the mutex: the
            // trace core's own way will do.
            _ => Ok(()),
        };
        from_result(|| result.map(|()| 0))
    }

    /// # Safety
    ///
    /// As for [`ProbeList::insert`].
    unsafe fn attach_file(
        self: &Arc<Self>,
        file: *mut bindings::trace_event_file,
        held: &mut EventMutexHeld,
    ) -> Result {
        let before = self.consumers();
        if before.is_none() {
            O::first_attaches(self, held)?;
        }
        // SAFETY: Promised by the caller.
        let inserted = unsafe { self.probes.insert(file, held) };
        if inserted.is_err() {
            if before.is_none() {
                O::last_detached(self);
            }
            return inserted;
        }
        self.set_consumers(before.0 | Consumers::FTRACE);
        Ok(())
    }

    fn detach_file(&self, file: *mut bindings::trace_event_file, held: &mut EventMutexHeld) {
        self.probes.remove(file, held);
        if self.probes.is_empty() {
            self.detach(self.consumers().0 & !Consumers::FTRACE);
        }
    }

    fn attach_perf(self: &Arc<Self>, held: &EventMutexHeld) -> Result {
        let before = self.consumers();
        if before.is_none() {
            O::first_attaches(self, held)?;
        }
        self.set_consumers(before.0 | Consumers::PERF);
        Ok(())
    }

    fn detach(&self, left: u32) {
        self.set_consumers(left);
        if left == 0 {
            O::last_detached(self);
        }
    }
}

impl<O: DynEventOwner> TraceEvent<O> {
    /// Makes the event known to the trace core: from now on tracefs shows it, `dynamic_events`
    /// lists it, and consumers can attach. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` when no event number is left; `ENOMEM`, and what `trace_add_event_call()` fails with.
    pub(crate) fn publish(self: &Arc<Self>, held: &mut EventMutexHeld) -> Result {
        if *self.published.get(held) {
            return Err(EBUSY);
        }
        let call = self.call.get();
        // INVARIANT: The reference that the trace core gets with the pointer.
        let trace_cores = Arc::into_raw(self.clone());
        // SAFETY: The call is complete since `new`, stays in place, and is not registered yet. The
        // reference made above keeps it alive until it is removed again.
        let ret = unsafe {
            if bindings::register_trace_event(ptr::addr_of_mut!((*call).event)) == 0 {
                Err(ENODEV)
            } else if let Err(error) = to_result(bindings::trace_add_event_call(call)) {
                bindings::unregister_trace_event(ptr::addr_of_mut!((*call).event));
                Err(error)
            } else if self.defined_fields(held) + 1 != self.fields.len() {
                // The trace core does not say when it runs out of memory on the way. Nobody can be
                // attached yet, so the removal cannot fail; it also unregisters the number.
                to_result(bindings::trace_remove_event_call(call)).and(Err(ENOMEM))
            } else {
                Ok(())
            }
        };
        if ret.is_err() {
            // SAFETY: The trace core did not take the call, so the reference is still ours.
            drop(unsafe { Arc::from_raw(trace_cores) });
        } else {
            *self.published.get_mut(held) = true;
            let entry = self.dyn_event.get();
            // SAFETY: The entry stays in place and is in no list yet; the operations are a constant
            // that nobody writes to. `event_mutex` is held.
            unsafe {
                (*entry).ops = ptr::from_ref(DynEvents::<O>::OPERATIONS).cast_mut();
                bindings::user_events_add_dyn_event(entry);
            }
        }
        ret
    }

    /// How many fields the trace core has defined for the event.
    fn defined_fields(&self, _held: &EventMutexHeld) -> usize {
        // SAFETY: The list of the class is complete since `new`, and `event_mutex` is held: the
        // trace core adds to and removes from it under that only.
        unsafe {
            let head = ptr::addr_of!((*self.class.get()).fields);
            let mut count = 0;
            let mut entry = (*head).next.cast_const();
            while entry != head {
                count += 1;
                entry = (*entry).next.cast_const();
            }
            count
        }
    }

    /// Takes the event away from the trace core. Does nothing if it was not published. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` while a consumer is attached, or something in the trace core (an event probe, a
    /// histogram, a trigger of another event) refers to the event; nothing has changed then.
    pub(crate) fn withdraw(&self, held: &mut EventMutexHeld) -> Result {
        if !*self.published.get(held) {
            return Ok(());
        }
        let call = self.call.get();
        // SAFETY: The call is published, hence alive. `event_mutex` is held, so the count, which is
        // only raised under it, cannot rise before the removal.
        if unsafe { bindings::user_events_call_is_referenced(call) } {
            return Err(EBUSY);
        }
        // SAFETY: As above. On success the trace core has forgotten the call: nobody runs its
        // functions any more, since those who print hold `trace_event_sem`, which the removal takes
        // for writing, and consumers are detached.
        to_result(unsafe { bindings::trace_remove_event_call(call) })?;
        *self.published.get_mut(held) = false;
        // SAFETY: `publish` put the entry into the list; `event_mutex` is held.
        unsafe { bindings::user_events_remove_dyn_event(self.dyn_event.get()) };
        // SAFETY: The reference that `publish` gave away, given back. `self` is borrowed from
        // another one, so it outlives this.
        drop(unsafe { Arc::from_raw(ptr::from_ref(self)) });
        Ok(())
    }

    /// The event that an entry of `dynamic_events` lies in.
    ///
    /// # Safety
    ///
    /// `entry` must lie in a `TraceEvent<O>`.
    pub(super) unsafe fn of_dyn_event(entry: *mut bindings::dyn_event) -> *const Self {
        let entry = Opaque::cast_from(entry.cast_const());
        // SAFETY: Promised by the caller.
        unsafe { kernel::container_of!(entry, Self, dyn_event) }
    }
}

/// A record on its way to the consumers of an event. Preemption is off while it exists.
pub(crate) struct Delivery<'a, O: TraceEventOwner> {
    event: &'a TraceEvent<O>,
    reader: Reader<'a>,
}

impl<O: TraceEventOwner> Delivery<'_, O> {
    /// The event's files in trace instances that are enabled.
    #[inline]
    pub(crate) fn files(&self) -> impl Iterator<Item = TraceFile<'_>> {
        self.reader.files()
    }

    /// Hands the record to perf and eBPF, if they are attached.
    #[inline]
    pub(crate) fn perf(&self, payload: &[u8]) -> Option<Outcome> {
        if !self.event.consumers().has_perf() {
            return None;
        }
        // SAFETY: Perf is attached, and the flag was seen after the reader was entered: perf
        // clears it and then waits for readers like ours before it frees anything.
        Some(unsafe { perf::record(self.event.call.get(), payload) })
    }
}
