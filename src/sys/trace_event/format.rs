// SPDX-License-Identifier: GPL-2.0

//! What the trace core shows of an event: its name, its fields and its print format.
//!
//! C: `trace_define_field()`, and `get_fields` of `struct trace_event_class` (linux/trace_events.h). The trace core
//! allocates the fields, and does not charge them to the memory cgroup of the caller: the texts are in memory that is as much
//! larger.

use super::super::bindings::{
    self,
    list_head,
    trace_event_call, //
};
use crate::schema::{
    Field,
    Kind, //
};
use core::ptr::{
    self,
    NonNull, //
};
use core::slice;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::prelude::*;
use kernel::types::Opaque;

/// About as much as the trace core takes for a field, in bytes. C: `struct ftrace_event_field` (kernel/trace/trace.h).
const FIELD_SIZE: usize = 72;

/// The list of an event's fields, the one defined last first.
///
/// # Invariants
///
/// The list is empty, or of fields that `trace_define_field()` made and that nothing else frees. A field begins with the
/// link.
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
/// `texts` is that of a [`KVec`] of `texts_len` bytes with room for `capacity`. It begins with the name and the owner's
/// text, of the lengths given, and at `fields_at` come those of the fields: for each its type, unless the field before has that
/// as well, and its name. Each text has a NUL behind it. Nothing changes.
pub(super) struct Format {
    texts: NonNull<u8>,
    capacity: u32,
    texts_len: u16,
    name_len: u16,
    owner_text_len: u16,
    fields_at: u16,
}

// SAFETY: It owns what it points to.
unsafe impl Send for Format {}
// SAFETY: Nothing changes through a shared reference.
unsafe impl Sync for Format {}

/// The texts of fields as they are kept: the type, unless it is that of the field before, and the name.
fn texts_of<'a>(fields: &'a [Field<'a>]) -> impl Iterator<Item = (Option<&'a [u8]>, &'a [u8])> {
    fields.iter().scan(None, |before, field| {
        let type_text = field.type_text();
        let is_new = before.replace(type_text) != Some(type_text);
        Some((is_new.then_some(type_text), field.name()))
    })
}

impl Format {
    /// Keeps the texts of an event, none of which may hold a NUL, and tells where the name and the print format lie.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` when there is too much of anything.
    pub(super) fn new(
        name: &[u8],
        owner_text: &[u8],
        print_fmt: &[u8],
        fields: &[Field<'_>],
    ) -> Result<(Self, *const c_char, *const c_char)> {
        let heads = [name, owner_text, print_fmt];
        let of_fields = || {
            texts_of(fields)
                .flat_map(|(type_, name)| [type_, Some(name)])
                .flatten()
        };
        let len_of = |sum: usize, text: &[u8]| sum + text.len() + 1;
        let fields_at = heads.into_iter().fold(0, len_of);
        let texts_len = of_fields().fold(fields_at, len_of);
        let u16_of = |number: usize| u16::try_from(number).map_err(|_| EINVAL);
        let (texts_len, fields_at) = (u16_of(texts_len)?, u16_of(fields_at)?);

        let capacity = usize::from(texts_len) + fields.len() * FIELD_SIZE;
        let mut texts = KVec::with_capacity(capacity, GFP_KERNEL_ACCOUNT)?;
        for text in Iterator::chain(heads.into_iter(), of_fields()) {
            texts.extend_from_slice(text, GFP_KERNEL_ACCOUNT)?;
            texts.push(0, GFP_KERNEL_ACCOUNT)?;
        }
        let print_fmt_at = usize::from(fields_at) - print_fmt.len() - 1;
        let (texts, _, capacity) = texts.into_raw_parts();
        // INVARIANT: Just made so.
        let this = Self {
            // SAFETY: The pointer of a vector is not NULL.
            texts: unsafe { NonNull::new_unchecked(texts) },
            capacity: capacity as u32,
            texts_len,
            name_len: name.len() as u16,
            owner_text_len: owner_text.len() as u16,
            fields_at,
        };
        let (name_at, print_fmt_at) = (this.at(0), this.at(print_fmt_at));
        Ok((this, name_at, print_fmt_at))
    }

    /// Has the trace core list the fields, which are those that [`Self::new`] was given. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; some of them are listed then.
    ///
    /// # Safety
    ///
    /// `call` must be the one of the event, whose [`FieldList`] nothing else uses, and is dropped before this is.
    pub(super) unsafe fn define(
        &self,
        call: *mut trace_event_call,
        fields: &[Field<'_>],
    ) -> Result {
        let (mut at, mut type_) = (usize::from(self.fields_at), ptr::null());
        for (field, (type_text, name)) in fields.iter().zip(texts_of(fields)) {
            if let Some(text) = type_text {
                type_ = self.at(at);
                at += text.len() + 1;
            }
            let name_at = self.at(at);
            at += name.len() + 1;
            // What the trace core finds in the text of the type: see schema/field.rs.
            let filter_type = match field.kind() {
                Kind::Chars { .. } => bindings::FILTER_STATIC_STRING,
                Kind::DataLoc { string: true } => bindings::FILTER_DYN_STRING,
                Kind::RelLoc { string: true } => bindings::FILTER_RDYN_STRING,
                _ => bindings::FILTER_OTHER,
            };
            // SAFETY: Promised by the caller. Both texts end in a NUL, and stay where they are.
            to_result(unsafe {
                bindings::trace_define_field(
                    call,
                    type_,
                    name_at,
                    field.offset() as i32,
                    field.size() as i32,
                    field.is_signed().into(),
                    filter_type as i32,
                )
            })?;
        }
        Ok(())
    }

    /// Are there any fields?
    pub(super) fn has_fields(&self) -> bool {
        self.fields_at < self.texts_len
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
        let (len, capacity) = (usize::from(self.texts_len), self.capacity as usize);
        // SAFETY: By the invariants these are the parts of a vector, which is not used any more.
        drop(unsafe { KVec::from_raw_parts(self.texts.as_ptr(), len, capacity) });
    }
}
