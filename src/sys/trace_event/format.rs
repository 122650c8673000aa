// SPDX-License-Identifier: GPL-2.0

//! What the trace core shows of an event: its name, its fields and its print format.
//!
//! C: `trace_define_field()`, `struct trace_event_fields` (linux/trace_events.h). The trace core allocates the fields,
//! and does not charge them to the memory cgroup of the caller. What is kept here is charged, and as large.

use super::super::bindings::{
    self,
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

/// A field, and memory that is charged: together as much as the trace core's own field takes.
struct FieldDef {
    type_: *const c_char,
    name: *const c_char,
    offset: i32,
    size: i32,
    is_signed: i32,
    filter_type: i32,
    _charge: [usize; 4],
}

/// The fields and the texts of an event.
///
/// # Invariants
///
/// `fields` and `texts` are those of a [`KVec`] each, of `count` fields and `texts_len` bytes, which is also
/// their capacity. The texts begin with the name and the owner's text, of the lengths given, and each of them
/// has a NUL behind it. The fields point into the texts.
pub(super) struct Format {
    fields: NonNull<FieldDef>,
    texts: NonNull<u8>,
    count: u16,
    texts_len: u16,
    name_len: u16,
    owner_text_len: u16,
}

// SAFETY: It owns what it points to, and what that points to.
unsafe impl Send for Format {}
// SAFETY: Nothing changes through a shared reference.
unsafe impl Sync for Format {}

/// Texts that do not move while more are added.
struct Texts(KVec<u8>);

impl Texts {
    /// Appends `text` and a NUL, and tells where it lies.
    fn add(&mut self, text: &[u8]) -> Result<*const c_char> {
        let start = self.0.len();
        if self.0.capacity() - start <= text.len() {
            return Err(EINVAL);
        }
        self.0.extend_from_slice(text, GFP_KERNEL_ACCOUNT)?;
        self.0.push(0, GFP_KERNEL_ACCOUNT)?;
        Ok(self.0.as_ptr().wrapping_add(start).cast())
    }
}

impl Format {
    /// Makes the fields and texts of an event, and tells where the name and the print format lie. None of
    /// the texts may hold a NUL.
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
        // The fields in a row that have one type share its text.
        let types = fields.iter().scan(None, |before, field| {
            let text = field.type_text();
            Some((before.replace(text) != Some(text)).then_some(text))
        });
        let field_texts = Iterator::chain(fields.iter().map(Field::name), types.clone().flatten());
        let texts_len = Iterator::chain([name, owner_text, print_fmt].into_iter(), field_texts)
            .fold(0, |sum, text| sum + text.len() + 1);
        let (count, texts_len, name_len, owner_text_len) = (
            u16::try_from(fields.len()).map_err(|_| EINVAL)?,
            u16::try_from(texts_len).map_err(|_| EINVAL)?,
            u16::try_from(name.len()).map_err(|_| EINVAL)?,
            u16::try_from(owner_text.len()).map_err(|_| EINVAL)?,
        );

        let mut array = KVec::with_capacity(usize::from(count), GFP_KERNEL_ACCOUNT)?;
        let mut texts = Texts(KVec::with_capacity(
            usize::from(texts_len),
            GFP_KERNEL_ACCOUNT,
        )?);
        let name_at = texts.add(name)?;
        texts.add(owner_text)?;
        let print_fmt_at = texts.add(print_fmt)?;
        let mut type_ = ptr::null();
        for (field, type_text) in Iterator::zip(fields.iter(), types) {
            if let Some(text) = type_text {
                type_ = texts.add(text)?;
            }
            let field = Self::field(field, type_, texts.add(field.name())?);
            array.push(field, GFP_KERNEL_ACCOUNT)?;
        }
        let (fields, _, _) = array.into_raw_parts();
        let (texts, _, _) = texts.0.into_raw_parts();
        // SAFETY: The pointer of a vector is not NULL.
        let (fields, texts) = unsafe {
            (
                NonNull::new_unchecked(fields),
                NonNull::new_unchecked(texts),
            )
        };
        // INVARIANT: Just made: both are as long as there was room for.
        let this = Self {
            fields,
            texts,
            count,
            texts_len,
            name_len,
            owner_text_len,
        };
        Ok((this, name_at, print_fmt_at))
    }

    /// A field as the trace core is told of it.
    fn field(field: &Field<'_>, type_: *const c_char, name: *const c_char) -> FieldDef {
        // What the trace core finds in the text of the type: see schema/field.rs.
        let filter_type = match field.kind() {
            Kind::Chars { .. } => bindings::FILTER_STATIC_STRING,
            Kind::DataLoc { string: true } => bindings::FILTER_DYN_STRING,
            Kind::RelLoc { string: true } => bindings::FILTER_RDYN_STRING,
            _ => bindings::FILTER_OTHER,
        };
        FieldDef {
            type_,
            name,
            offset: field.offset() as i32,
            size: field.size() as i32,
            is_signed: field.is_signed().into(),
            filter_type: filter_type as i32,
            _charge: [0; 4],
        }
    }

    /// Are there any fields?
    pub(super) fn has_fields(&self) -> bool {
        self.count != 0
    }

    /// Tells the trace core of the fields. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `call` must be the one of the event, whose list of fields nothing else uses. The fields must be taken out of the list before
    /// this is dropped.
    pub(super) unsafe fn define_fields(&self, call: *mut trace_event_call) -> Result {
        // SAFETY: By the invariants there are as many fields, which do not change.
        let fields = unsafe { slice::from_raw_parts(self.fields.as_ptr(), self.count.into()) };
        for field in fields {
            // SAFETY: Promised by the caller. Both texts end in a NUL, and stay where they are.
            to_result(unsafe {
                bindings::trace_define_field(
                    call,
                    field.type_,
                    field.name,
                    field.offset,
                    field.size,
                    field.is_signed,
                    field.filter_type,
                )
            })?;
        }
        Ok(())
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
        let (count, texts_len) = (usize::from(self.count), usize::from(self.texts_len));
        // SAFETY: By the invariants these are the parts of two vectors, which are not used any more.
        unsafe {
            drop(KVec::from_raw_parts(self.fields.as_ptr(), count, count));
            drop(KVec::from_raw_parts(
                self.texts.as_ptr(),
                texts_len,
                texts_len,
            ));
        }
    }
}
