// SPDX-License-Identifier: GPL-2.0

//! The name, fields and print format of an event, as the trace core needs them.
//!
//! C: `struct trace_event_fields`, and `get_fields` of `struct trace_event_class`
//! (linux/trace_events.h). The trace core allocates the fields without charging them to the
//! caller's memory cgroup, so the array from which it does, which is charged, is as large.

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

/// The bytes that the trace core allocates for a field. C: `struct ftrace_event_field`
/// (kernel/trace/trace.h).
const FIELD_SIZE: usize = 56;

/// The list of an event's fields, the last one first.
///
/// # Invariants
///
/// All entries are fields that the trace core has allocated, and that nothing else frees. A field
/// begins with its list entry.
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
                // SAFETY: The memory is valid and pinned.
                unsafe { head.write(list_head { next: head, prev: head }) }
            }),
        })
    }

    /// The number of fields.
    ///
    /// # Safety
    ///
    /// `event_mutex` must be held, and the trace core know the event.
    pub(super) unsafe fn len(&self) -> usize {
        // SAFETY: The list changes only under the mutex, which is held by the safety requirement.
        unsafe { Entries::of(self.head()) }.count()
    }

    /// The head, for the trace core.
    pub(super) fn head(&self) -> *mut list_head {
        self.head.get()
    }
}

#[pinned_drop]
impl PinnedDrop for FieldList {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Nothing else uses the list any more, and the iterator reads the next entry before
        // it returns one.
        for link in unsafe { Entries::of(self.head()) } {
            // SAFETY: An object of the trace core by the invariant. `kfree()` also frees objects of
            // a cache.
            unsafe { bindings::kfree(link.cast()) };
        }
    }
}

/// The texts of an event, and the array from which the trace core allocates its fields.
///
/// # Invariants
///
/// `texts` is the pointer of a full [`KVec`] of `texts_len` bytes. The vector has the name, the
/// owner's text, of the given lengths, and all others, each with a NUL. `fields` is the pointer of
/// a [`KVec`] with [`fields_capacity`] for `count` fields, which has these, and the array's end.
/// Nothing changes.
pub(super) struct Format {
    texts: NonNull<u8>,
    fields: NonNull<trace_event_fields>,
    texts_len: u16,
    name_len: u16,
    owner_text_len: u16,
    count: u16,
}

/// The addresses of the name and the print format, which do not move.
pub(super) type Places = (*const c_char, *const c_char);

// SAFETY: The value owns the memory that it points to.
unsafe impl Send for Format {}
// SAFETY: Nothing changes through a shared reference.
unsafe impl Sync for Format {}

/// The texts of the fields: the type, unless the previous field has the same, and the name.
fn texts_of<'a>(
    fields: &'a [Field<'a>],
) -> impl Iterator<Item = (Option<&'a [u8]>, &'a [u8])> + Clone {
    fields.iter().scan(None, |before, field| {
        let type_text = field.type_text();
        let is_new = before.replace(type_text) != Some(type_text);
        Some((is_new.then_some(type_text), field.name()))
    })
}

/// The entries of an array for `count` fields and its end, which is not smaller than the trace
/// core's own allocations.
fn fields_capacity(count: u16) -> usize {
    let count = usize::from(count);
    (count + 1).max((count * FIELD_SIZE).div_ceil(size_of::<trace_event_fields>()))
}

impl Format {
    /// Copies the texts of an event, none of which may contain a NUL.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` when there are too many fields, or bytes of text.
    pub(super) fn new(
        name: &[u8],
        owner_text: &[u8],
        print_fmt: &[u8],
        fields: &[Field<'_>],
    ) -> Result<(Self, Places)> {
        let heads = [name, owner_text, print_fmt];
        let of_fields = texts_of(fields).flat_map(|(type_, name)| [type_, Some(name)]);
        let all = Iterator::chain(heads.into_iter(), of_fields.flatten());
        let texts_len = all.clone().fold(0, |sum, text| sum + text.len() + 1);
        let u16_of = |number: usize| u16::try_from(number).map_err(|_| EINVAL);
        let (len, count) = (u16_of(texts_len)?, u16_of(fields.len())?);

        let mut texts = KVec::with_capacity(texts_len, GFP_KERNEL_ACCOUNT)?;
        for text in all {
            texts.extend_from_slice(text, GFP_KERNEL_ACCOUNT)?;
            texts.push(0, GFP_KERNEL_ACCOUNT)?;
        }
        let print_fmt_at = name.len() + 1 + owner_text.len() + 1;
        let fields_at = print_fmt_at + print_fmt.len() + 1;
        let array = Self::array(fields, texts.get(fields_at..).unwrap_or_default(), count)?;
        let (texts, _, _) = texts.into_raw_parts();
        let (array, _, _) = array.into_raw_parts();
        // INVARIANT: As just made: the capacity sufficed, so the vectors were not moved.
        // SAFETY: The pointer of a vector is not NULL.
        let (texts, fields) =
            unsafe { (NonNull::new_unchecked(texts), NonNull::new_unchecked(array)) };
        let this = Self {
            texts,
            fields,
            texts_len: len,
            name_len: name.len() as u16,
            owner_text_len: owner_text.len() as u16,
            count,
        };
        let places = (this.at(0), this.at(print_fmt_at));
        Ok((this, places))
    }

    /// The array from which the trace core allocates the fields, with its end. To be read only.
    pub(super) fn fields_array(&self) -> *mut trace_event_fields {
        self.fields.as_ptr()
    }

    /// The number of fields.
    pub(super) fn count(&self) -> usize {
        self.count.into()
    }

    /// Makes [`Self::fields_array`] with pointers to `texts`, those of the fields.
    fn array(fields: &[Field<'_>], texts: &[u8], count: u16) -> Result<KVec<trace_event_fields>> {
        let mut array = KVec::with_capacity(fields_capacity(count), GFP_KERNEL_ACCOUNT)?;
        let mut text = texts.as_ptr().cast::<c_char>();
        let mut type_ = ptr::null();
        for (field, (type_text, name)) in fields.iter().zip(texts_of(fields)) {
            if let Some(of_type) = type_text {
                type_ = text;
                text = text.wrapping_add(of_type.len() + 1);
            }
            // The filter type that the trace core derives from the type's text: see
            // schema/field.rs.
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
            member.name = text;
            member.size = field.size() as i32;
            member.align = 1;
            member.set_is_signed(field.is_signed().into());
            member.filter_type = filter_type as i32;
            member.len = len as i32;
            text = text.wrapping_add(name.len() + 1);
            array.push(entry, GFP_KERNEL_ACCOUNT)?;
        }
        array.push(trace_event_fields::default(), GFP_KERNEL_ACCOUNT)?;
        Ok(array)
    }

    /// The address of a text.
    fn at(&self, at: usize) -> *const c_char {
        self.texts.as_ptr().cast::<c_char>().wrapping_add(at)
    }

    /// All texts.
    fn texts(&self) -> &[u8] {
        // SAFETY: By the invariants there are `texts_len` bytes, which do not change.
        unsafe { slice::from_raw_parts(self.texts.as_ptr(), self.texts_len.into()) }
    }

    /// The event's name.
    pub(super) fn name(&self) -> &[u8] {
        let name = self.texts().get(..usize::from(self.name_len));
        name.unwrap_or_default()
    }

    /// The owner's text.
    pub(super) fn owner_text(&self) -> &[u8] {
        let start = usize::from(self.name_len) + 1;
        let text = (self.texts()).get(start..start + usize::from(self.owner_text_len));
        text.unwrap_or_default()
    }
}

impl Drop for Format {
    fn drop(&mut self) {
        let (len, capacity) = (self.texts_len.into(), fields_capacity(self.count));
        // SAFETY: By the invariants these are the parts of two vectors, which are not used any
        // more.
        unsafe {
            drop(KVec::from_raw_parts(self.texts.as_ptr(), len, len));
            drop(KVec::from_raw_parts(self.fields.as_ptr(), 0, capacity));
        }
    }
}
