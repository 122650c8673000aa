// SPDX-License-Identifier: GPL-2.0

//! The reasons for which a description or a payload is refused, and their errnos.

/// The reason for which a description or a payload is refused. C has no names for these: the
/// functions of kernel/trace/trace_events_user.c return errnos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The description is longer than 511 bytes.
    TooLong,
    /// The description starts with a space or is empty.
    NameEmpty,
    /// The name is longer than 255 bytes.
    NameTooLong,
    /// The name holds a control byte, white space or a `/`.
    NameByte,
    /// The directory of the events has a file of this name, or no directory can have it: `.`, `..`,
    /// `enable`, `filter`.
    NameReserved,
    /// The name holds a `:`, which introduces flags, and no flag exists.
    Flags,
    /// No group has the system in the line.
    Group,
    /// A group cannot have this name.
    GroupName,
    /// A line about groups is not valid.
    GroupLine,
    /// A field is not `TYPE NAME`, or `struct TAG NAME SIZE`, with single spaces.
    FieldSyntax,
    /// The type has no known size.
    UnknownType,
    /// The rest of the kernel could mistake the type for another one, or the type would garble
    /// `format`.
    UnsafeType,
    /// The length of an array is not a number, zero, or too large.
    ArrayLength,
    /// The size of a struct is missing, not a number, or zero.
    StructSize,
    /// The name of a field holds a byte that would garble `format`.
    FieldName,
    /// Two fields have the same name.
    DuplicateField,
    /// Every event has a field of this name: a common one, or one for filters and histograms.
    ReservedFieldName,
    /// The fields together are larger than any buffer can hold.
    FixedPartTooLarge,
    /// The payload is shorter than its fixed part.
    PayloadShort,
    /// The data of a location does not lie in the payload.
    LocationOutOfBounds,
    /// The data of a location of characters does not end in NUL.
    MissingNul,
}

/// An errno (include/uapi/asm-generic/errno-base.h), by name only: this code is also built without
/// the kernel.
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
    /// The errno for user space.
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
            | Error::GroupName
            | Error::GroupLine
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
