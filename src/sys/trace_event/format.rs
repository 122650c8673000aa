// SPDX-License-Identifier: GPL-2.0

//! The name, fields and print format of an event, as the trace core needs them.
//!
//! C: `struct trace_event_fields`, and `get_fields` of `struct trace_event_class`
//! (linux/trace_events.h). The trace core allocates the fields without charging them to the
//! caller's memory cgroup, so the memory of the texts, which is charged, is larger by that much.

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

/// About the bytes that the trace core allocates for a field. C: `struct ftrace_event_field`
/// (kernel/trace/trace.h).
const FIELD_SIZE: usize = 72;

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
/// `texts` is the pointer of a [`KVec`] with [`capacity`] for `texts_len` bytes and `count` fields.
/// At its start are the name and the owner's text, of the given lengths; a NUL is behind each text.
/// The array of the fields, with its end, is at the next multiple of [`ALIGNMENT`] behind the
/// texts. Nothing changes.
pub(super) struct Format {
    texts: NonNull<u64>,
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

/// The alignment of the fields, which the memory has.
const ALIGNMENT: usize = align_of::<trace_event_fields>();
const _: () = assert!(ALIGNMENT <= align_of::<u64>());

/// The words for texts of this length, and for the trace core's own allocations for `count` fields,
/// which are not smaller than the array of the fields that is put there.
fn capacity(texts_len: u16, count: u16) -> usize {
    let (texts, count) = (usize::from(texts_len), usize::from(count));
    let fields = (count * FIELD_SIZE).max((count + 1) * size_of::<trace_event_fields>());
    texts.div_ceil(size_of::<u64>()) + fields.div_ceil(size_of::<u64>())
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
        let (texts_len, count) = (u16_of(texts_len)?, u16_of(fields.len())?);

        let memory = KVec::with_capacity(capacity(texts_len, count), GFP_KERNEL_ACCOUNT)?;
        let (texts, _, _) = memory.into_raw_parts();
        // INVARIANT: The texts and fields are written below.
        let this = Self {
            // SAFETY: The pointer of a vector is not NULL.
            texts: unsafe { NonNull::new_unchecked(texts) },
            texts_len,
            name_len: name.len() as u16,
            owner_text_len: owner_text.len() as u16,
            count,
        };
        let mut at = 0;
        for text in all {
            // SAFETY: There is room for all texts, each with a NUL.
            unsafe {
                let to = this.texts.as_ptr().cast::<u8>().add(at);
                ptr::copy_nonoverlapping(text.as_ptr(), to, text.len());
                to.add(text.len()).write(0);
            }
            at += text.len() + 1;
        }
        let print_fmt_at = name.len() + 1 + owner_text.len() + 1;
        this.put_fields(print_fmt_at + print_fmt.len() + 1, fields);
        let places = (this.at(0), this.at(print_fmt_at));
        Ok((this, places))
    }

    /// The array from which the trace core allocates the fields, with its end. To be read only.
    pub(super) fn fields_array(&self) -> *mut trace_event_fields {
        let behind_texts = usize::from(self.texts_len).next_multiple_of(ALIGNMENT);
        let memory = self.texts.as_ptr().cast::<u8>();
        memory.wrapping_add(behind_texts).cast()
    }

    /// The number of fields.
    pub(super) fn count(&self) -> usize {
        self.count.into()
    }

    /// Writes [`Self::fields_array`]. `at` is the offset of the fields' texts.
    fn put_fields(&self, mut at: usize, fields: &[Field<'_>]) {
        let mut type_ = ptr::null();
        let (mut to, end) = (self.fields_array(), trace_event_fields::default());
        for (field, (type_text, name)) in fields.iter().zip(texts_of(fields)) {
            if let Some(text) = type_text {
                type_ = self.at(at);
                at += text.len() + 1;
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
            member.name = self.at(at);
            member.size = field.size() as i32;
            member.align = 1;
            member.set_is_signed(field.is_signed().into());
            member.filter_type = filter_type as i32;
            member.len = len as i32;
            at += name.len() + 1;
            // SAFETY: There is room for all fields, and for the end.
            unsafe { to.write(entry) };
            to = to.wrapping_add(1);
        }
        // SAFETY: As above.
        unsafe { to.write(end) };
    }

    /// The address of a text.
    fn at(&self, at: usize) -> *const c_char {
        self.texts.as_ptr().cast::<c_char>().wrapping_add(at)
    }

    /// All texts.
    fn texts(&self) -> &[u8] {
        // SAFETY: By the invariants there are `texts_len` bytes, which do not change.
        unsafe { slice::from_raw_parts(self.at(0).cast(), self.texts_len.into()) }
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
        let capacity = capacity(self.texts_len, self.count);
        // SAFETY: By the invariants these are the parts of a vector, which is not used any more.
        drop(unsafe { KVec::from_raw_parts(self.texts.as_ptr(), 0, capacity) });
    }
}
