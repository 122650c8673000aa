// SPDX-License-Identifier: GPL-2.0

//! "Writing": valid targets of `__data_loc` and `__rel_loc`.
//!
//! The payload is a u32, the location and 8 bytes of data. The data are at 16 from the record's
//! start, to which `__data_loc` is relative, and at 0 from the end of the field, to which
//! `__rel_loc` is relative.

use super::check::{expect, Check, Row, NAME};
use crate::kit::abi::location;
use crate::kit::errno::Errno;
use crate::kit::traced::Traced;

const GOOD: Row = Row::new(
    "locations",
    "Trailing bytes are what __data_loc/__rel_loc point into: the value is size << 16 | offset, offset \
     from the start of the record for __data_loc, from the end of the field itself for __rel_loc",
);
const PAST: Row = Row::new(
    "locations",
    "Data reaching past the record → EFAULT, nothing recorded",
);
const NUL: Row = Row::new(
    "locations",
    "a char type whose last byte is not NUL → EFAULT, nothing recorded",
);
const EMPTY: Row = Row::better_than_c(
    9,
    "locations",
    "zero length is an empty value, checked for bounds only",
    "got Err(EFAULT)",
);
const HEADER: Row = Row::better_than_c(
    9,
    "locations",
    "non-empty data lies wholly inside the payload, else EFAULT",
    "got Ok(())",
);

/// The kind of location and the type; offset and size; the data.
type Case = (&'static str, u32, u32, &'static [u8; 8]);

const STRINGS: &[u8; 8] = b"abc\0def\0";
const ZEROS: &[u8; 8] = &[0; 8];
const ONES: &[u8; 8] = &[0xff; 8];

pub fn checks() -> Vec<Vec<Check>> {
    let bad = Err(Errno::EFAULT);
    vec![
        GOOD.all(
            write,
            Ok(()),
            &[
                ("data_loc_of_all", ("__data_loc char", 16, 8, STRINGS)),
                (
                    "data_loc_of_the_beginning",
                    ("__data_loc char", 16, 4, STRINGS),
                ),
                (
                    "data_loc_of_the_middle",
                    ("__data_loc char", 18, 2, STRINGS),
                ),
                ("data_loc_of_the_end", ("__data_loc char", 20, 4, STRINGS)),
                (
                    "data_loc_of_the_last_byte",
                    ("__data_loc unsigned char", 23, 1, STRINGS),
                ),
                ("data_loc_of_numbers", ("__data_loc u32", 16, 8, ONES)),
                ("data_loc_of_odd_bytes", ("__data_loc u8", 17, 3, ONES)),
                ("data_loc_of_the_fixed_part", ("__data_loc u8", 8, 16, ONES)),
                ("rel_loc_of_all", ("__rel_loc char", 0, 8, STRINGS)),
                (
                    "rel_loc_of_the_beginning",
                    ("__rel_loc char", 0, 4, STRINGS),
                ),
                ("rel_loc_of_the_middle", ("__rel_loc char", 2, 2, STRINGS)),
                ("rel_loc_of_the_end", ("__rel_loc char", 4, 4, STRINGS)),
                (
                    "rel_loc_of_the_last_byte",
                    ("__rel_loc unsigned char", 7, 1, STRINGS),
                ),
                ("rel_loc_of_numbers", ("__rel_loc u64", 0, 8, ONES)),
                ("rel_loc_of_odd_bytes", ("__rel_loc u8", 1, 3, ONES)),
                ("data_loc_of_no_numbers", ("__data_loc u32", 16, 0, ONES)),
                ("rel_loc_of_no_numbers", ("__rel_loc u32", 0, 0, ONES)),
                (
                    "data_loc_of_no_numbers_at_the_end",
                    ("__data_loc u32", 24, 0, ONES),
                ),
                (
                    "rel_loc_of_no_numbers_at_the_end",
                    ("__rel_loc u32", 8, 0, ONES),
                ),
                (
                    "rel_loc_of_no_string_behind_a_nul",
                    ("__rel_loc char", 4, 0, STRINGS),
                ),
            ],
        ),
        PAST.all(
            write,
            bad,
            &[
                (
                    "data_loc_one_byte_past_is_efault",
                    ("__data_loc char", 16, 9, ZEROS),
                ),
                (
                    "data_loc_of_numbers_one_byte_past_is_efault",
                    ("__data_loc u8", 17, 8, ZEROS),
                ),
                (
                    "data_loc_behind_the_record_is_efault",
                    ("__data_loc u8", 24, 1, ZEROS),
                ),
                (
                    "data_loc_far_behind_is_efault",
                    ("__data_loc char", 0xffff, 1, ZEROS),
                ),
                (
                    "data_loc_of_the_largest_size_is_efault",
                    ("__data_loc u8", 16, 0xffff, ZEROS),
                ),
                (
                    "data_loc_of_all_ones_is_efault",
                    ("__data_loc char", 0xffff, 0xffff, ZEROS),
                ),
                (
                    "data_loc_empty_behind_the_record_is_efault",
                    ("__data_loc u8", 25, 0, ZEROS),
                ),
                (
                    "rel_loc_one_byte_past_is_efault",
                    ("__rel_loc char", 0, 9, ZEROS),
                ),
                (
                    "rel_loc_of_numbers_one_byte_past_is_efault",
                    ("__rel_loc u64", 1, 8, ZEROS),
                ),
                (
                    "rel_loc_behind_the_record_is_efault",
                    ("__rel_loc u8", 8, 1, ZEROS),
                ),
                (
                    "rel_loc_far_behind_is_efault",
                    ("__rel_loc char", 0xffff, 1, ZEROS),
                ),
                (
                    "rel_loc_of_the_largest_size_is_efault",
                    ("__rel_loc u8", 0, 0xffff, ZEROS),
                ),
                (
                    "rel_loc_of_all_ones_is_efault",
                    ("__rel_loc char", 0xffff, 0xffff, ZEROS),
                ),
                (
                    "rel_loc_empty_behind_the_record_is_efault",
                    ("__rel_loc u8", 9, 0, ZEROS),
                ),
                (
                    "rel_loc_counted_from_the_record_is_efault",
                    ("__rel_loc char", 16, 8, ZEROS),
                ),
            ],
        ),
        NUL.all(
            write,
            bad,
            &[
                (
                    "data_loc_without_nul_is_efault",
                    ("__data_loc char", 16, 3, STRINGS),
                ),
                (
                    "data_loc_with_nul_inside_is_efault",
                    ("__data_loc char", 16, 7, STRINGS),
                ),
                (
                    "data_loc_of_unsigned_char_without_nul_is_efault",
                    ("__data_loc unsigned char", 17, 1, STRINGS),
                ),
                (
                    "rel_loc_without_nul_is_efault",
                    ("__rel_loc char", 0, 3, STRINGS),
                ),
                (
                    "rel_loc_with_nul_inside_is_efault",
                    ("__rel_loc char", 0, 7, STRINGS),
                ),
                (
                    "rel_loc_of_unsigned_char_without_nul_is_efault",
                    ("__rel_loc unsigned char", 5, 2, STRINGS),
                ),
                (
                    "rel_loc_that_ends_before_the_nul_is_efault",
                    ("__rel_loc char", 4, 3, STRINGS),
                ),
            ],
        ),
        EMPTY.all(
            write,
            Ok(()),
            &[
                (
                    "data_loc_of_no_string_is_empty",
                    ("__data_loc char", 19, 0, ONES),
                ),
                (
                    "data_loc_of_no_string_at_the_end_is_empty",
                    ("__data_loc char", 24, 0, ONES),
                ),
                (
                    "data_loc_of_no_unsigned_string_is_empty",
                    ("__data_loc unsigned char", 17, 0, ONES),
                ),
                (
                    "rel_loc_of_no_string_is_empty",
                    ("__rel_loc char", 3, 0, ONES),
                ),
                (
                    "rel_loc_of_no_string_at_the_end_is_empty",
                    ("__rel_loc char", 8, 0, ONES),
                ),
                (
                    "rel_loc_of_no_unsigned_string_is_empty",
                    ("__rel_loc unsigned char", 1, 0, ONES),
                ),
            ],
        ),
        HEADER.all(
            write,
            bad,
            &[
                (
                    "data_loc_of_the_header_is_efault",
                    ("__data_loc u8", 0, 8, ZEROS),
                ),
                (
                    "data_loc_of_the_first_byte_is_efault",
                    ("__data_loc u8", 0, 1, ZEROS),
                ),
                (
                    "data_loc_of_the_process_id_is_efault",
                    ("__data_loc u8", 4, 4, ZEROS),
                ),
                (
                    "data_loc_of_the_last_byte_of_the_header_is_efault",
                    ("__data_loc char", 7, 1, ZEROS),
                ),
                (
                    "data_loc_half_in_the_header_is_efault",
                    ("__data_loc u8", 7, 2, ZEROS),
                ),
                (
                    "data_loc_of_the_whole_record_is_efault",
                    ("__data_loc char", 0, 24, ZEROS),
                ),
            ],
        ),
    ]
}

fn write((kind, offset, size, data): Case, want: Result<(), Errno>) {
    let traced = Traced::new(&format!("{NAME} u32 a; {kind}[] b"));
    let payload = |offset, size, data| [&[0xaa; 4][..], &location(offset, size), data].concat();
    let bytes = payload(offset, size, data);
    expect(traced.event.write(&bytes).map(drop), want);
    let records = traced.tracer.take_records(traced.event.id());
    expect(records.len(), usize::from(want.is_ok()));
    if let Some(record) = records.first() {
        expect(&record.bytes[8..24], &bytes[..]);
    }
    // A good record is recorded.
    let offset = if kind.starts_with("__data_loc") {
        16
    } else {
        0
    };
    traced.only_this_is_recorded(&payload(offset, 4, STRINGS));
}
