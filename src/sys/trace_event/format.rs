// SPDX-License-Identifier: GPL-2.0

//! What the trace core shows of an event: its name, its fields and its print format.
//!
//! C: `struct trace_event_fields`, and `get_fields` of `struct trace_event_class`
//! (linux/trace_events.h). The trace core allocates the fields, and does not charge them to the
//! memory cgroup of the caller: the texts are in memory that is as much larger.

use super::super::bindings::{
    self,
    list_head,
    trace_event_fields, //
};
use super::super::c_list::Entries;
use crate::schema::{
    Field,
    Kind, //
};
use core::ptr::{
    self,
    NonNull, //
};
use core::slice;
use kernel::ffi::c_char;
use kernel::prelude::*;
use kernel::types::Opaque;

/// About as much as the trace core takes for a field, in bytes. C: `struct ftrace_event_field` (kernel/trace/trace.h).
const FIELD_SIZE: usize = 72;

/// The list of an event's fields, the one defined last first.
///
/// # Invariants
///
/// The list is empty, or of fields that the trace core made and that nothing else frees. A field
/// begins with the link.
#[pin_data(PinnedDrop)]
pub(super) struct FieldList {
    #[pin]
    head: Opaque<list_head>,
}

impl FieldList {
    /// No fields.
    pub(super) fn new() -> impl PinInit<Self> {
        // INVARIANT: Empty.
        pin_init!(Self {
            head <- Opaque::ffi_init(|head: *mut list_head| {
                // SAFETY: There is room for it, and it does not move.
                unsafe { head.write(list_head { next: head, prev: head }) }
            }),
        })
    }

    /// How many there are.
    ///
    /// # Safety
    ///
    /// `event_mutex` must be held, and the event be known to the trace core.
    pub(super) unsafe fn len(&self) -> usize {
        // SAFETY: Promised by the caller: the list is changed under the mutex.
        unsafe { Entries::of(self.head()) }.count()
    }

    /// The head, as the trace core uses it.
    pub(super) fn head(&self) -> *mut list_head {
        self.head.get()
    }
}

#[pinned_drop]
impl PinnedDrop for FieldList {
    fn drop(self: Pin<&mut Self>) {
        let head = self.head.get();
        // SAFETY: By the invariant, and nothing uses the list any more. `kfree()` also takes what is of a cache.
        unsafe {
            let mut link = (*head).next;
            while link != head {
                let next = (*link).next;
                bindings::kfree(link.cast());
                link = next;
            }
        }
    }
}

/// The texts of an event.
///
/// # Invariants
///
/// `texts` is that of a [`KVec`] of `texts_len` bytes, with room for [`FIELD_SIZE`] more for each of
/// `count` fields. It begins with the name and the owner's text, of the lengths given. Each text has a
/// NUL behind it. Nothing changes.
pub(super) struct Format {
    texts: NonNull<u8>,
    texts_len: u16,
    name_len: u16,
    owner_text_len: u16,
    count: u16,
}

/// Where parts of a [`Format`] lie, which stay there.
pub(super) struct Parts {
    pub(super) name: *const c_char,
    pub(super) print_fmt: *const c_char,
    /// What the trace core is to make the fields of, with the end behind them.
    pub(super) fields: KVec<trace_event_fields>,
}

// SAFETY: It owns what it points to.
unsafe impl Send for Format {}
// SAFETY: Nothing changes through a shared reference.
unsafe impl Sync for Format {}

/// The texts of fields as they are kept: the type, unless it is that of the field before, and the name.
fn texts_of<'a>(
    fields: &'a [Field<'a>],
) -> impl Iterator<Item = (Option<&'a [u8]>, &'a [u8])> + Clone {
    fields.iter().scan(None, |before, field| {
        let type_text = field.type_text();
        let is_new = before.replace(type_text) != Some(type_text);
        Some((is_new.then_some(type_text), field.name()))
    })
}

/// The room for texts of this length, and for what the trace core takes for so many fields.
fn capacity(texts_len: u16, count: u16) -> usize {
    usize::from(texts_len) + usize::from(count) * FIELD_SIZE
}

impl Format {
    /// Keeps the texts of an event, none of which may hold a NUL.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` when there is too much of anything.
    pub(super) fn new(
        name: &[u8],
        owner_text: &[u8],
        print_fmt: &[u8],
        fields: &[Field<'_>],
    ) -> Result<(Self, Parts)> {
        let heads = [name, owner_text, print_fmt];
        let of_fields = texts_of(fields).flat_map(|(type_, name)| [type_, Some(name)]);
        let all = Iterator::chain(heads.into_iter(), of_fields.flatten());
        let texts_len = all.clone().fold(0, |sum, text| sum + text.len() + 1);
        let u16_of = |number: usize| u16::try_from(number).map_err(|_| EINVAL);
        let (texts_len, count) = (u16_of(texts_len)?, u16_of(fields.len())?);

        let mut texts = KVec::with_capacity(capacity(texts_len, count), GFP_KERNEL_ACCOUNT)?;
        for text in all {
            texts.extend_from_slice(text, GFP_KERNEL_ACCOUNT)?;
            texts.push(0, GFP_KERNEL_ACCOUNT)?;
        }
        let (texts, _, _) = texts.into_raw_parts();
        // INVARIANT: Just made so.
        let this = Self {
            // SAFETY: The pointer of a vector is not NULL.
            texts: unsafe { NonNull::new_unchecked(texts) },
            texts_len,
            name_len: name.len() as u16,
            owner_text_len: owner_text.len() as u16,
            count,
        };
        let print_fmt_at = name.len() + 1 + owner_text.len() + 1;
        let parts = Parts {
            name: this.at(0),
            print_fmt: this.at(print_fmt_at),
            fields: this.fields_array(print_fmt_at + print_fmt.len() + 1, fields)?,
        };
        Ok((this, parts))
    }

    /// See [`Parts::fields`]. `at` is where the texts of the fields are.
    fn fields_array(
        &self,
        mut at: usize,
        fields: &[Field<'_>],
    ) -> Result<KVec<trace_event_fields>> {
        let mut array = KVec::with_capacity(fields.len() + 1, GFP_KERNEL_ACCOUNT)?;
        let mut type_ = ptr::null();
        for (field, (type_text, name)) in fields.iter().zip(texts_of(fields)) {
            if let Some(text) = type_text {
                type_ = self.at(at);
                at += text.len() + 1;
            }
            // What the trace core finds in the text of the type: see schema/field.rs.
            let (filter_type, len) = match field.kind() {
                Kind::Chars { len } => (bindings::FILTER_STATIC_STRING, len),
                Kind::DataLoc { string: true } => (bindings::FILTER_DYN_STRING, 0),
                Kind::RelLoc { string: true } => (bindings::FILTER_RDYN_STRING, 0),
                _ => (bindings::FILTER_OTHER, 0),
            };
            let mut entry = trace_event_fields {
                type_,
                ..Default::default()
            };
            // SAFETY: All members are numbers, or pointers that may be NULL.
            let member = unsafe { &mut entry.__bindgen_anon_1.__bindgen_anon_1 };
            member.name = self.at(at);
            member.size = field.size() as i32;
            member.align = 1;
            member.set_is_signed(field.is_signed().into());
            member.filter_type = filter_type as i32;
            member.len = len as i32;
            array.push(entry, GFP_KERNEL_ACCOUNT)?;
            at += name.len() + 1;
        }
        array.push(trace_event_fields::default(), GFP_KERNEL_ACCOUNT)?;
        Ok(array)
    }

    /// Are there any fields?
    pub(super) fn has_fields(&self) -> bool {
        self.count != 0
    }

    /// Where a text lies.
    fn at(&self, at: usize) -> *const c_char {
        self.texts.as_ptr().wrapping_add(at).cast_const()
    }

    /// The texts.
    fn texts(&self) -> &[u8] {
        // SAFETY: By the invariants there are as many bytes, which do not change.
        unsafe { slice::from_raw_parts(self.texts.as_ptr(), usize::from(self.texts_len)) }
    }

    /// The event's name.
    pub(super) fn name(&self) -> &[u8] {
        let name = self.texts().get(..usize::from(self.name_len));
        name.unwrap_or_default()
    }

    /// The text that is kept for the owner.
    pub(super) fn owner_text(&self) -> &[u8] {
        let start = usize::from(self.name_len) + 1;
        let text = (self.texts()).get(start..start + usize::from(self.owner_text_len));
        text.unwrap_or_default()
    }
}

impl Drop for Format {
    fn drop(&mut self) {
        let (len, capacity) = (self.texts_len, capacity(self.texts_len, self.count));
        // SAFETY: By the invariants these are the parts of a vector, which is not used any more.
        drop(unsafe { KVec::from_raw_parts(self.texts.as_ptr(), len.into(), capacity) });
    }
}
