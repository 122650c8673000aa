// SPDX-License-Identifier: GPL-2.0

//! What the trace core shows of an event: its name, its fields and its print format.
//!
//! C: `struct ftrace_event_field` (kernel/trace/trace.h), which `bindings/helpers.h` declares again, and
//! `get_fields` of `struct trace_event_class` (linux/trace_events.h). Without `get_fields` the trace core
//! allocates the fields itself, and does not charge them to the memory cgroup of the caller.

use super::super::bindings::{self, ftrace_event_field};
use crate::schema::{Field, Kind};
use core::mem::{align_of, size_of};
use core::ptr;
use core::slice;
use kernel::prelude::*;

/// What all texts and fields are made of.
type Word = u64;

/// How many words a field takes.
const FIELD: usize = size_of::<ftrace_event_field>() / size_of::<Word>();
const _: () = assert!(size_of::<ftrace_event_field>() == FIELD * size_of::<Word>());
const _: () = assert!(align_of::<ftrace_event_field>() <= align_of::<Word>());

/// The fields and the texts of an event, in one allocation.
///
/// # Invariants
///
/// `words` begins with `count` fields, each of `FIELD` words, that point to each other, the outermost to
/// a list head, and to texts behind them. There lie the name, the owner's text, of the lengths given, and
/// the others, each with a NUL behind it. From `new` on nothing is changed but the links, and by
/// [`Format::link`] only, and nothing is moved.
pub(super) struct Format {
    words: KVec<Word>,
    count: u16,
    name_len: u16,
    owner_text_len: u16,
}

/// Texts that are written one after the other.
struct Texts<'a> {
    /// All of them: zeros where nothing was written yet.
    room: &'a mut [u8],
    used: usize,
}

impl Texts<'_> {
    /// Appends `text` and a NUL, and tells where it lies.
    fn add(&mut self, text: &[u8]) -> Result<*const kernel::ffi::c_char> {
        let room = self.room.get_mut(self.used..).ok_or(EINVAL)?;
        // One more for the NUL, which is there.
        let place = room.get_mut(..=text.len()).ok_or(EINVAL)?;
        // SAFETY: The place is longer than the text, and another one, as it is borrowed mutably.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr(), place.as_mut_ptr(), text.len()) };
        self.used += place.len();
        Ok(place.as_ptr().cast())
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
    ) -> Result<(
        Self,
        *const kernel::ffi::c_char,
        *const kernel::ffi::c_char,
    )> {
        // The fields in a row that have one type share its text.
        let types = fields.iter().scan(None, |before, field| {
            let text = field.type_text();
            Some((before.replace(text) != Some(text)).then_some(text))
        });
        let field_texts = fields.iter().map(Field::name).map(Some);
        let texts = [name, owner_text, print_fmt];
        let texts_len = Iterator::chain(field_texts, types.clone())
            .flatten()
            .fold(0, |sum, text| sum + text.len() + 1);
        let texts_len = texts.iter().fold(texts_len, |sum, text| sum + text.len() + 1);
        let fields_len = fields.len() * FIELD;
        let len = fields_len + texts_len.div_ceil(size_of::<Word>());
        let mut words = KVec::with_capacity(len, GFP_KERNEL_ACCOUNT)?;
        words.extend_with(len, 0, GFP_KERNEL_ACCOUNT)?;

        let first = words.as_mut_ptr();
        // SAFETY: There are more words than those of the fields; the others are initialised, as zeros, and
        // nothing else refers to them until the texts are written.
        let room = unsafe {
            let room = first.add(fields_len).cast::<u8>();
            slice::from_raw_parts_mut(room, (len - fields_len) * size_of::<Word>())
        };
        let mut texts = Texts { room, used: 0 };
        let name_at = texts.add(name)?;
        texts.add(owner_text)?;
        let print_fmt_at = texts.add(print_fmt)?;
        let mut type_ = ptr::null();
        for ((index, field), type_text) in fields.iter().enumerate().zip(types) {
            if let Some(text) = type_text {
                type_ = texts.add(text)?;
            }
            let field = Self::field(field, type_, texts.add(field.name())?);
            // SAFETY: The words begin with as many fields, aligned as these are.
            unsafe { first.cast::<ftrace_event_field>().add(index).write(field) };
        }
        // INVARIANT: Just made. A vector does not move its content.
        let this = Self {
            words,
            count: u16::try_from(fields.len()).map_err(|_| EINVAL)?,
            name_len: u16::try_from(name.len()).map_err(|_| EINVAL)?,
            owner_text_len: u16::try_from(owner_text.len()).map_err(|_| EINVAL)?,
        };
        Ok((this, name_at, print_fmt_at))
    }

    /// A field as the trace core wants it, but for the links.
    fn field(
        field: &Field<'_>,
        type_: *const kernel::ffi::c_char,
        name: *const kernel::ffi::c_char,
    ) -> ftrace_event_field {
        // What the trace core finds in the text of the type: see schema/field.rs.
        let filter_type = match field.kind() {
            Kind::Chars { .. } => bindings::FILTER_STATIC_STRING,
            Kind::DataLoc { string: true } => bindings::FILTER_DYN_STRING,
            Kind::RelLoc { string: true } => bindings::FILTER_RDYN_STRING,
            _ => bindings::FILTER_OTHER,
        };
        let mut result = ftrace_event_field {
            name,
            type_,
            filter_type: filter_type as i32,
            offset: field.offset() as i32,
            size: field.size() as i32,
            len: field.array_len() as i32,
            ..Default::default()
        };
        result.set_is_signed(field.is_signed().into());
        result
    }

    /// Links the fields to each other and to `head`, the last first, which is the order of the trace core.
    ///
    /// # Safety
    ///
    /// `head` must be valid and linked to nothing, and no other task may use it or the fields before this
    /// returns. It must not be used after the fields are freed.
    pub(super) unsafe fn link(&self, head: *mut ftrace_event_field) {
        let fields = self.words.as_ptr().cast_mut().cast::<ftrace_event_field>();
        // SAFETY: A valid field has a valid link.
        let head = unsafe { ptr::addr_of_mut!((*head).link) };
        let mut last = head;
        for index in (0..usize::from(self.count)).rev() {
            // SAFETY: There are `count` fields at the start of the words, and each has a link. The caller
            // vouches for the head, and that only this task uses any of them.
            unsafe {
                let link = ptr::addr_of_mut!((*fields.add(index)).link);
                (*last).next = link;
                (*link).prev = last;
                last = link;
            }
        }
        // SAFETY: As above.
        unsafe {
            (*last).next = head;
            (*head).prev = last;
        }
    }

    /// The texts.
    fn texts(&self) -> &[u8] {
        let words = self.words.get(usize::from(self.count) * FIELD..);
        let words = words.unwrap_or_default();
        // SAFETY: Initialised words, as the bytes that they are.
        unsafe { slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
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
