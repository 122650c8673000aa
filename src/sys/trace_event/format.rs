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
use core::mem::{
    align_of,
    size_of, //
};
use core::ptr::{
    self,
    NonNull, //
};
use core::slice;
use kernel::ffi::c_char;
use kernel::prelude::*;
use kernel::types::Opaque;

/// About as much as the trace core takes for a field, in bytes. C: `struct ftrace_event_field`
/// (kernel/trace/trace.h).
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
        // SAFETY: Nothing uses the list any more. The next link is read before one is given out.
        for link in unsafe { Entries::of(self.head()) } {
            // SAFETY: By the invariant. `kfree()` also frees objects of a cache.
            unsafe { bindings::kfree(link.cast()) };
        }
    }
}

/// The texts of an event, and what the trace core is to make its fields of.
///
/// # Invariants
///
/// `texts` is that of a [`KVec`] of `texts_len` bytes with [`capacity`] for them and `count`
/// fields. It begins with the name and the owner's text, of the lengths given. Each text has a NUL
/// behind it. At the next multiple of [`ALIGNMENT`] behind them are the fields, and the end of
/// these. Nothing changes.
pub(super) struct Format {
    texts: NonNull<u64>,
    texts_len: u16,
    name_len: u16,
    owner_text_len: u16,
    count: u16,
}

/// Where the name and the print format lie, which stay there.
pub(super) type Places = (*const c_char, *const c_char);

// SAFETY: It owns what it points to.
unsafe impl Send for Format {}
// SAFETY: Nothing changes through a shared reference.
unsafe impl Sync for Format {}

/// The texts of fields as they are kept: the type, unless it is that of the field before, and the
/// name.
fn texts_of<'a>(
    fields: &'a [Field<'a>],
) -> impl Iterator<Item = (Option<&'a [u8]>, &'a [u8])> + Clone {
    fields.iter().scan(None, |before, field| {
        let type_text = field.type_text();
        let is_new = before.replace(type_text) != Some(type_text);
        Some((is_new.then_some(type_text), field.name()))
    })
}

/// What the fields lie at a multiple of, as the memory does.
const ALIGNMENT: usize = align_of::<trace_event_fields>();
const _: () = assert!(ALIGNMENT <= align_of::<u64>());

/// The room, in words, for texts of this length, and for what the trace core takes for so many
/// fields: in which lies what it makes them of, until it has.
fn capacity(texts_len: u16, count: u16) -> usize {
    let (texts, count) = (usize::from(texts_len), usize::from(count));
    let fields = (count * FIELD_SIZE).max((count + 1) * size_of::<trace_event_fields>());
    texts.div_ceil(size_of::<u64>()) + fields.div_ceil(size_of::<u64>())
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
    ) -> Result<(Self, Places)> {
        let heads = [name, owner_text, print_fmt];
        let of_fields = texts_of(fields).flat_map(|(type_, name)| [type_, Some(name)]);
        let all = Iterator::chain(heads.into_iter(), of_fields.flatten());
        let texts_len = all.clone().fold(0, |sum, text| sum + text.len() + 1);
        let u16_of = |number: usize| u16::try_from(number).map_err(|_| EINVAL);
        let (texts_len, count) = (u16_of(texts_len)?, u16_of(fields.len())?);

        let memory = KVec::with_capacity(capacity(texts_len, count), GFP_KERNEL_ACCOUNT)?;
        let (texts, _, _) = memory.into_raw_parts();
        // INVARIANT: The texts and fields are put there below.
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

    /// What the trace core is to make the fields of, with the end behind them. It only reads that.
    pub(super) fn fields_array(&self) -> *mut trace_event_fields {
        let behind_texts = usize::from(self.texts_len).next_multiple_of(ALIGNMENT);
        let memory = self.texts.as_ptr().cast::<u8>();
        memory.wrapping_add(behind_texts).cast()
    }

    /// How many fields there are.
    pub(super) fn count(&self) -> usize {
        self.count.into()
    }

    /// Puts [`Self::fields_array`] there. `at` is where the texts of the fields are.
    fn put_fields(&self, mut at: usize, fields: &[Field<'_>]) {
        let mut type_ = ptr::null();
        let (mut to, end) = (self.fields_array(), trace_event_fields::default());
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
            at += name.len() + 1;
            // SAFETY: There is room for all, and for the end.
            unsafe { to.write(entry) };
            to = to.wrapping_add(1);
        }
        // SAFETY: As above.
        unsafe { to.write(end) };
    }

    /// Where a text lies.
    fn at(&self, at: usize) -> *const c_char {
        self.texts.as_ptr().cast::<c_char>().wrapping_add(at)
    }

    /// The texts.
    fn texts(&self) -> &[u8] {
        // SAFETY: By the invariants there are as many bytes, which do not change.
        unsafe { slice::from_raw_parts(self.at(0).cast(), self.texts_len.into()) }
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
        let capacity = capacity(self.texts_len, self.count);
        // SAFETY: By the invariants these are the parts of a vector, which is not used any more.
        drop(unsafe { KVec::from_raw_parts(self.texts.as_ptr(), 0, capacity) });
    }
}
