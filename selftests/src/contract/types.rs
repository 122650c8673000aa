// SPDX-License-Identifier: GPL-2.0

//! "Event descriptions": the table of types, by their properties in `format`.

use super::check::{expect, Check, Row, NAME, TEXT};
use crate::kit::event::Event;
use crate::kit::tracefs;

const TYPE: Row = Row::new(
    "types",
    "type, size, print; signed is 1 for every type not starting with u",
);
// C prints uninitialized memory, which is no text if it was 0.
const LENGTH: Row = Row::better_than_c(
    8,
    "types",
    "format prints the array's length: char b[8]",
    "got \"*char a[*]\"",
);
const OFFSET: Row = Row::new(
    "types",
    "Fields lie one after the other with no padding, the first at offset 8, after the common fields",
);
const PRINT: Row = Row::new(
    "types",
    "print fmt is \"a=%u b=%s\", REC->a, __get_rel_str(b); with no fields \"\"",
);

/// Of a field `a`: size, sign, conversion and argument in the print format.
type Shape = (usize, usize, &'static str, &'static str);

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        TYPE.cases(
            shape,
            &[
                ("s8", "s8 a", (1, 1, "%d", "REC->a")),
                ("u8", "u8 a", (1, 0, "%u", "REC->a")),
                ("s16", "s16 a", (2, 1, "%d", "REC->a")),
                ("u16", "u16 a", (2, 0, "%u", "REC->a")),
                ("s32", "s32 a", (4, 1, "%d", "REC->a")),
                ("u32", "u32 a", (4, 0, "%u", "REC->a")),
                ("s64", "s64 a", (8, 1, "%lld", "REC->a")),
                ("u64", "u64 a", (8, 0, "%llu", "REC->a")),
                ("char", "char a", (1, 1, "%d", "REC->a")),
                ("unsigned_char", "unsigned char a", (1, 0, "%u", "REC->a")),
                ("short", "short a", (2, 1, "%d", "REC->a")),
                ("unsigned_short", "unsigned short a", (2, 0, "%u", "REC->a")),
                ("int", "int a", (4, 1, "%d", "REC->a")),
                ("unsigned_int", "unsigned int a", (4, 0, "%u", "REC->a")),
                ("array_of_1_char", "char[1] a", (1, 1, "%s", "REC->a")),
                ("array_of_8_char", "char[8] a", (8, 1, "%s", "REC->a")),
                (
                    "array_of_1024_char",
                    "char[1024] a",
                    (1024, 1, "%s", "REC->a"),
                ),
                (
                    "array_of_hexadecimal_16_char",
                    "char[0x10] a",
                    (16, 1, "%s", "REC->a"),
                ),
                (
                    "array_of_upper_case_hexadecimal_255_char",
                    "char[0XfF] a",
                    (255, 1, "%s", "REC->a"),
                ),
                (
                    "array_of_octal_10_char",
                    "char[010] a",
                    (8, 1, "%s", "REC->a"),
                ),
                (
                    "array_of_octal_10_char_in_6_digits",
                    "char[000010] a",
                    (8, 1, "%s", "REC->a"),
                ),
                (
                    "array_of_3_unsigned_char",
                    "unsigned char[3] a",
                    (3, 0, "%s", "REC->a"),
                ),
                (
                    "array_of_1024_unsigned_char",
                    "unsigned char[1024] a",
                    (1024, 0, "%s", "REC->a"),
                ),
                ("struct_of_1_byte", "struct p a 1", (1, 1, "%llu", "REC->a")),
                (
                    "struct_of_16_bytes",
                    "struct p a 16",
                    (16, 1, "%llu", "REC->a"),
                ),
                (
                    "struct_of_3000_bytes",
                    "struct p a 3000",
                    (3000, 1, "%llu", "REC->a"),
                ),
                (
                    "data_loc_of_char",
                    "__data_loc char[] a",
                    (4, 1, "%s", "__get_str(a)"),
                ),
                (
                    "data_loc_of_unsigned_char",
                    "__data_loc unsigned char[] a",
                    (4, 1, "%s", "__get_str(a)"),
                ),
                (
                    "data_loc_of_u8",
                    "__data_loc u8[] a",
                    (4, 1, "%llu", "REC->a"),
                ),
                (
                    "data_loc_of_u32",
                    "__data_loc u32[] a",
                    (4, 1, "%llu", "REC->a"),
                ),
                (
                    "data_loc_of_unsigned_int",
                    "__data_loc unsigned int[] a",
                    (4, 1, "%llu", "REC->a"),
                ),
                (
                    "rel_loc_of_char",
                    "__rel_loc char[] a",
                    (4, 1, "%s", "__get_rel_str(a)"),
                ),
                (
                    "rel_loc_of_unsigned_char",
                    "__rel_loc unsigned char[] a",
                    (4, 1, "%s", "__get_rel_str(a)"),
                ),
                (
                    "rel_loc_of_u8",
                    "__rel_loc u8[] a",
                    (4, 1, "%llu", "REC->a"),
                ),
                (
                    "rel_loc_of_s64",
                    "__rel_loc s64[] a",
                    (4, 1, "%llu", "REC->a"),
                ),
                (
                    "rel_loc_of_unsigned_short",
                    "__rel_loc unsigned short[] a",
                    (4, 1, "%llu", "REC->a"),
                ),
            ],
        ),
        LENGTH.cases(
            declared,
            &[
                ("length_1_is_shown", "char[1] a", "char a[1]"),
                ("length_8_is_shown", "char[8] a", "char a[8]"),
                ("length_1024_is_shown", "char[1024] a", "char a[1024]"),
                ("hexadecimal_length_is_shown", "char[0x10] a", "char a[16]"),
                ("octal_length_is_shown", "char[010] a", "char a[8]"),
                (
                    "unsigned_length_is_shown",
                    "unsigned char[3] a",
                    "unsigned char a[3]",
                ),
            ],
        ),
        TYPE.cases(
            declared,
            &[
                ("a_number_is_shown", "u32 a", "u32 a"),
                (
                    "a_type_of_two_words_is_shown",
                    "unsigned short a",
                    "unsigned short a",
                ),
                ("a_struct_is_shown", "struct point a 16", "struct point a"),
                (
                    "a_data_loc_is_shown",
                    "__data_loc char[] a",
                    "__data_loc char[] a",
                ),
                (
                    "a_data_loc_of_numbers_is_shown",
                    "__data_loc u32[] a",
                    "__data_loc u32[] a",
                ),
            ],
        ),
        OFFSET.cases(
            offsets,
            &[
                (
                    "no_padding_after_u8",
                    "u8 a; u64 b; u16 c; u32 d",
                    &[8, 9, 17, 19],
                ),
                ("no_padding_after_an_array", "char[3] a; u32 b", &[8, 11]),
                (
                    "no_padding_after_a_struct",
                    "struct p a 5; struct q b 7; u8 c",
                    &[8, 13, 20],
                ),
                (
                    "no_padding_after_a_location",
                    "u8 a; __rel_loc char[] b; __data_loc u8[] c; u64 d",
                    &[8, 9, 13, 17],
                ),
                ("empty_fields_take_no_room", "u8 a;; ;u8 b", &[8, 9]),
            ],
        ),
        PRINT.cases(
            print,
            &[
                ("print_no_fields", "", "\"\""),
                ("print_one_field", "u32 a", "\"a=%u\", REC->a"),
                (
                    "print_a_number_and_a_string",
                    "u32 a; __rel_loc char[] b",
                    "\"a=%u b=%s\", REC->a, __get_rel_str(b)",
                ),
                (
                    "print_both_kinds_of_strings",
                    "__data_loc char[] a; __rel_loc char[] b",
                    "\"a=%s b=%s\", __get_str(a), __get_rel_str(b)",
                ),
                (
                    "print_three_numbers",
                    "s8 x; u64 y; s64 z",
                    "\"x=%d y=%llu z=%lld\", REC->x, REC->y, REC->z",
                ),
            ],
        ),
        OFFSET.scenarios(&[("format_begins_with_name_id_and_common_fields", header)]),
    ]
}

/// A field in `format`.
struct Field {
    declaration: String,
    offset: usize,
    size: usize,
    signed: usize,
}

/// Registers the fields. Returns those in `format`, and the print format.
fn format_of(fields: &str) -> (Vec<Field>, String) {
    let _event = Event::new(format!("{NAME} {fields}").trim_end());
    let text = tracefs::event_format(NAME);
    let print = text
        .lines()
        .find_map(|line| line.strip_prefix("print fmt: "));
    let fields = text.lines().filter_map(|line| {
        let mut parts = line.strip_prefix("\tfield:")?.split(";\t");
        let declaration = parts.next()?.to_string();
        let mut number = |key| {
            let part = parts.next()?.trim_end_matches(';');
            part.strip_prefix(key)?.parse().ok()
        };
        let field = Field {
            declaration,
            offset: number("offset:")?,
            size: number("size:")?,
            signed: number("signed:")?,
        };
        (!field.declaration.contains(" common_")).then_some(field)
    });
    let print = print.expect("a print format").to_string();
    (fields.collect(), print)
}

/// One field, followed by another that shows its end.
fn shape(field: &str, (size, signed, conversion, argument): Shape) {
    let (fields, print) = format_of(&format!("{field}; u8 z"));
    expect(fields.len(), 2);
    expect(
        (fields[0].offset, fields[0].size, fields[0].signed),
        (8, size, signed),
    );
    expect((fields[1].offset, fields[1].size), (8 + size, 1));
    expect(
        print,
        format!("\"a={conversion} z=%u\", {argument}, REC->z"),
    );
}

fn declared(field: &str, want: &str) {
    let (fields, _) = format_of(field);
    expect(fields.len(), 1);
    expect(fields[0].declaration.as_str(), want);
}

fn offsets(text: &str, want: &[usize]) {
    let (fields, _) = format_of(text);
    let got: Vec<_> = fields.iter().map(|field| field.offset).collect();
    expect(&got[..], want);
}

fn print(text: &str, want: &str) {
    expect(format_of(text).1.as_str(), want);
}

fn header() {
    let event = Event::new(TEXT);
    let text = tracefs::event_format(NAME);
    let head = format!("name: {NAME}\nID: {}\nformat:\n", event.id());
    assert!(text.starts_with(&head), "{text}");
    for field in [
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n",
        "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n",
        "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n",
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n",
    ] {
        assert!(text.contains(field), "{text}");
    }
}
