// SPDX-License-Identifier: GPL-2.0

//! "Event descriptions": accepted and refused names and fields.
//!
//! The lists have no results: these are predicted by the model of the schema's tests, as for the
//! [corpus](super::corpus). The schema's tests compare their model with tables of results. A row in
//! which C differs has checks with their results here, too.

use super::check::{expect, Check, Row, TEXT};
use super::corpus::are_taken_or_refused;
use super::formats::id_of;
use crate::kit::abi::{Data, MULTI_FORMAT};
use crate::kit::errno::{Errno, Result};
use crate::kit::memory::Mapping;
use crate::kit::tracefs::{count_of_events, formats_of};

const NAME: Row = Row::new(
    "names",
    "NAME[ FIELD[;FIELD…]]: the name ends at the first space; 1 to 255 bytes; a : in the name \
     introduces flags, of which none is supported → EINVAL",
);
const BAD_NAME: Row = Row::better_than_c(
    3,
    "names",
    "names: 1 to 255 bytes (multi-format: with its suffix), no byte ≤ 0x20 or 0x7f, no /, not ., .., \
     enable, filter, else EINVAL",
    "got Ok(0)",
);
const FIELD: Row = Row::new(
    "fields",
    "A field is TYPE NAME, for struct TAG also a size (decimal). Two spaces between type and name, a \
     trailing space, a tab, or a third word elsewhere → EINVAL. Empty fields and leading spaces are \
     skipped. Anything else (long, bool, size_t, float, pointers, …) → EINVAL; arrays of 1 to 1024",
);
const FIELD_NAME: Row = Row::better_than_c(
    6,
    "fields",
    "field names: duplicates, common_pid, newlines, \", %, a[20], *p; char[4][4] → EINVAL",
    "got Ok(0)",
);
const MISREAD: Row = Row::better_than_c(
    6,
    "fields",
    "struct tags and types of locations with __data_loc, __rel_loc or cpumask_t in them, control bytes, \
     \", %, \\, [, ] or * → EINVAL",
    "got Ok(0)",
);
const TOO_LARGE: Row = Row::better_than_c(
    7,
    "fields",
    "a fixed part that no buffer can ever hold → E2BIG",
    "got Ok(0)",
);

/// Descriptions with names of all kinds. The rows in which C differs have more, and so have the
/// tables of the schema's tests.
const NAMES: &[&str] = &[
    // Taken:
    "x u32 a",
    "4711 u32 a",
    "st.a.b u32 a",
    "st,a=b(c)! u32 a",
    "st_größe u32 a",
    // Flags:
    "st_conform:flag u32 a",
    "st_conform: u32 a",
    ":flag u32 a",
    "st_conform:flag",
    // No names of files, or not one word of one line:
    "",
    "enable u32 a",
    "../st_b u32 a",
    "st_a\tb u32 a",
    "st_a\x01 u32 a",
    "st_a\x1fb u32 a",
    "st_a\x7fb u32 a",
    "st_a#b u32 a",
    "#st_a u32 a",
];

/// The same with fields.
const FIELDS: &[&str] = &[
    // Empty ones, and white space in front of one:
    "u32 a;",
    "u32 a;;u8 b",
    ";;;",
    "\t u32 a;\t\n u8 b",
    "",
    // Too few or too many words, or blanks:
    "u32  a",
    "struct  p p 16",
    "struct p  p 16",
    "struct p p  16",
    "u32 a ",
    "u32 a ;u8 b",
    "u32\ta",
    "char[8] a 8",
    "struct p p 16 4",
    "u32 a; u8",
    "u8; u32 a",
    "struct p p",
    "struct p 16",
    "struct p p 0",
    "struct p p 0x10",
    "struct p p -1",
    "struct p p x",
    "__rel_loc a",
    "unsigned a",
    // Other types and lengths:
    "long a",
    "void* a",
    "char[] a",
    "char[0] a",
    "char[1025] a",
    "char[0000010] a",
    "unsigned short[4] a",
    // Names that cannot be shown, and those that are taken already:
    "u32 a; struct p a 4",
    "u32 ",
    "struct p  16",
    "u8 common_flags",
    "u8 common_preempt_count",
    "char[16] common_comm",
    "u64 common_timestamp",
    "__rel_loc u64[] common_stacktrace",
    "u32 a\nb",
    "u32 a\"b",
    "u32 a%d",
    "u32 a#b",
    "struct x#y p 8",
    "char *p",
    // Tags and elements that the kernel takes for others:
    "struct x__data_loc p 8",
    "struct x* p 8",
    "struct char[4] p 8",
    "struct x\" p 8",
    "struct x\ny p 8",
    "__rel_loc x__data_loc_char[] a",
    "__data_loc x__rel_loc[] a",
    "__data_loc u8[4][] a",
    // The largest fixed part, and larger ones:
    "struct p p 524256",
    "struct p p 524252; u32 a",
    "struct p p 524253; u32 a",
    "struct p p 300000; struct q q 300000",
    "struct p p 2147483648",
    "struct p p 4294967300",
    "struct p p 18446744073709551620",
    "struct p p 4294967290; struct q q 20",
];

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        NAME.scenarios(&[("are_taken_or_refused", || {
            are_taken_or_refused(NAMES.iter().map(|text| text.to_string()));
        })]),
        NAME.scenarios(&[("255_bytes_are_taken", || long_name(255, Ok(0)))]),
        BAD_NAME.scenarios(&[("256_bytes_are_einval", || {
            long_name(256, Err(Errno::EINVAL))
        })]),
        BAD_NAME.scenarios(&[(
            "the_suffix_of_a_format_counts_for_its_255_bytes",
            longest_with_suffix,
        )]),
        BAD_NAME.all(
            refused,
            Errno::EINVAL,
            &[
                ("an_empty_name_is_einval", " u32 a"),
                ("filter_is_einval", "filter u32 a"),
                ("a_slash_is_einval", "st_a/b u32 a"),
                ("a_newline_is_einval", "st_a\nst_b"),
            ],
        ),
        FIELD.scenarios(&[("are_taken_or_refused", || {
            are_taken_or_refused(FIELDS.iter().map(|fields| format!("st_conform {fields}")));
        })]),
        FIELD_NAME.all(
            refused,
            Errno::EINVAL,
            &[
                ("the_same_name_twice_is_einval", "st_conform u32 a; u64 a"),
                ("common_pid_is_einval", "st_conform u32 common_pid"),
                ("an_array_as_in_c_is_einval", "st_conform char a[20]"),
            ],
        ),
        MISREAD.all(
            refused,
            Errno::EINVAL,
            &[
                ("a_cpu_mask_is_einval", "st_conform struct cpumask_t p 8"),
                ("pointers_are_einval", "st_conform __rel_loc char*[] a"),
            ],
        ),
        TOO_LARGE.all(
            refused,
            Errno::E2BIG,
            &[("524257_bytes_are_e2big", "st_conform struct p p 524257")],
        ),
        // C returns the size as an errno.
        TOO_LARGE.on_c("got Err(EPERM)").all(
            refused,
            Errno::E2BIG,
            &[(
                "a_size_of_all_ones_is_e2big",
                "st_conform struct p p 4294967295",
            )],
        ),
    ]
}

fn refused(text: &str, want: Errno) {
    let (data, page) = (Data::open(), Mapping::kept(1));
    expect(data.register_text(text, page.address(), 0), Err(want));
    expect(count_of_events(), 0);
    // The name must still be free.
    expect(data.register_text(TEXT, page.address(), 0), Ok(0));
}

fn long_name(length: usize, want: Result<u32>) {
    let (data, page) = (Data::open(), Mapping::kept(1));
    let text = format!("st_{} u32 a", "x".repeat(length - 3));
    expect(data.register_text(&text, page.address(), 0), want);
}

fn longest_with_suffix() {
    let (data, page) = (Data::open(), Mapping::kept(1));
    let name = |length: usize| format!("st_{}", "x".repeat(length - 3));
    let register = |name: &str| data.register_flags(name, page.address(), 0, MULTI_FORMAT);
    expect(register(&name(300)), Err(Errno::EINVAL));
    expect(register("st_next"), Ok(0));
    expect(data.unregister_bit(page.address(), 0), Ok(()));
    // The suffix of the next format.
    let id = id_of(&formats_of("st_next")[0]) + 1;
    let length = 255 - format!(".{id:x}").len();
    expect(register(&name(length + 1)), Err(Errno::EINVAL));
    expect(register(&name(length)), Ok(1));
    expect(formats_of(&name(length)).len(), 1);
}
