// SPDX-License-Identifier: GPL-2.0

//! Why a description or a payload was refused.

/// Why a description or a payload was refused.
///
/// Finer than what user space gets to see, so that tests and messages can tell the cases apart;
/// [`Error::errno`] is what user space gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The description is longer than [`MAX_DESCRIPTION`](super::MAX_DESCRIPTION).
    TooLong,
    /// The description starts with a space or holds nothing at all.
    NameEmpty,
    /// The name is longer than [`MAX_NAME`](super::MAX_NAME).
    NameTooLong,
    /// The name holds a control byte, white space or a `/`.
    NameByte,
    /// The name is taken where the event's directory goes: `.`, `..`, `enable`, `filter`.
    NameReserved,
    /// The name holds a `:`, which introduces flags, and no flag exists.
    Flags,
    /// The event is said to be in a group other than ours.
    Group,
    /// A field is not `TYPE NAME`, or `struct TAG NAME SIZE`, with single spaces.
    FieldSyntax,
    /// The type is none of those that have a known size.
    UnknownType,
    /// The type could be taken for another one by the rest of the kernel, or garbles `format`.
    UnsafeType,
    /// The length of an array is no number, zero, or too large.
    ArrayLength,
    /// The size of a struct is missing, no number, or zero.
    StructSize,
    /// The name of a field holds a byte that would garble `format`.
    FieldName,
    /// Two fields have the same name.
    DuplicateField,
    /// The kernel itself puts a field of that name into every event.
    ReservedFieldName,
    /// The fields together are larger than any buffer can hold.
    FixedPartTooLarge,
    /// The payload is shorter than its fixed part.
    PayloadShort,
    /// A location reaches out of the payload.
    LocationOutOfBounds,
    /// The bytes a location of characters tells of do not end in NUL.
    MissingNul,
}

/// What user space is told, as an errno of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// `EINVAL`
    Inval,
    /// `E2BIG`
    TooBig,
    /// `EFAULT`
    Fault,
}

impl Error {
    /// The errno that stands for this error in the ABI.
    pub const fn errno(self) -> Errno {
        match self {
            Error::FixedPartTooLarge => Errno::TooBig,
            Error::LocationOutOfBounds | Error::MissingNul => Errno::Fault,
            Error::TooLong
            | Error::NameEmpty
            | Error::NameTooLong
            | Error::NameByte
            | Error::NameReserved
            | Error::Flags
            | Error::Group
            | Error::FieldSyntax
            | Error::UnknownType
            | Error::UnsafeType
            | Error::ArrayLength
            | Error::StructSize
            | Error::FieldName
            | Error::DuplicateField
            | Error::ReservedFieldName
            | Error::PayloadShort => Errno::Inval,
        }
    }
}
