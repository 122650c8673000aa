// SPDX-License-Identifier: GPL-2.0

//! Descriptions: which are taken, what `format` says of them, which are refused.
//!
//! A sample, to see that the kernel is told what the description says. The schema's own tests, which
//! run on the host, know every case.

use crate::abi::Data;
use crate::errno::Errno;
use crate::event::{wait_gone, Event};
use crate::harness::tests;
use crate::memory::Mapping;
use crate::rows::Rows;
use crate::tracefs;

tests!("format":
    every_type_has_its_size_offset_and_sign,
    better_than_c_8_arrays_show_their_length,
    dynamic_fields_are_four_bytes,
    structs_have_the_given_size,
    no_fields,
    empty_fields_are_skipped,
    header_and_common_fields,
    row_malformed_descriptions_are_einval,
    better_than_c_3_bad_names_are_einval,
    better_than_c_6_bad_field_names_are_einval,
    better_than_c_7_a_fixed_part_no_buffer_holds_is_e2big,
);

/// What `format` says of our fields: (declaration, offset, size, signed) and the print format.
fn fields_of(name: &str) -> (Vec<(String, usize, usize, usize)>, String) {
    let text = tracefs::event_format(name);
    let mut fields = Vec::new();
    let mut print = String::new();
    for line in text.lines() {
        if let Some(format) = line.strip_prefix("print fmt: ") {
            print = format.to_string();
        }
        let Some(line) = line.strip_prefix("\tfield:") else {
            continue;
        };
        let mut parts = line.split(";\t");
        let declaration = parts.next().unwrap().to_string();
        let mut number = |key: &str| {
            let part = parts
                .next()
                .and_then(|part| part.trim_end_matches(';').strip_prefix(key));
            part.unwrap_or_else(|| panic!("{key} in {line:?}"))
                .parse()
                .unwrap()
        };
        let field = (
            declaration,
            number("offset:"),
            number("size:"),
            number("signed:"),
        );
        if !field.0.contains(" common_") {
            fields.push(field);
        }
    }
    (fields, print)
}

/// Registers the fields as an event and compares what `format` says.
#[track_caller]
fn check(name: &str, fields: &str, want: &[(&str, usize, usize, usize)], want_print: &str) {
    let event = Event::new(format!("{name} {fields}").trim_end());
    let (got, print) = fields_of(name);
    let want: Vec<_> = want
        .iter()
        .map(|&(d, o, s, g)| (d.to_string(), o, s, g))
        .collect();
    assert_eq!(got, want, "fields of {fields:?}");
    assert_eq!(print, want_print, "print fmt of {fields:?}");
    drop(event.data);
}

fn every_type_has_its_size_offset_and_sign() {
    let types: [(&str, usize, usize, &str); 15] = [
        ("s8", 1, 1, "%d"),
        ("u8", 1, 0, "%u"),
        ("s16", 2, 1, "%d"),
        ("u16", 2, 0, "%u"),
        ("s32", 4, 1, "%d"),
        ("u32", 4, 0, "%u"),
        ("s64", 8, 1, "%lld"),
        ("u64", 8, 0, "%llu"),
        ("char", 1, 1, "%d"),
        ("unsigned char", 1, 0, "%u"),
        ("short", 2, 1, "%d"),
        ("unsigned short", 2, 0, "%u"),
        ("int", 4, 1, "%d"),
        ("unsigned int", 4, 0, "%u"),
        ("u8", 1, 0, "%u"),
    ];
    let mut description = String::new();
    let mut want = Vec::new();
    let mut formats = Vec::new();
    let mut values = String::new();
    let mut offset = 8;
    for (i, (name, size, signed, format)) in types.into_iter().enumerate() {
        description += &format!("{name} f{i}; ");
        want.push((format!("{name} f{i}"), offset, size, signed));
        formats.push(format!("f{i}={format}"));
        values += &format!(", REC->f{i}");
        offset += size;
    }
    let want: Vec<_> = want
        .iter()
        .map(|(d, o, s, g)| (d.as_str(), *o, *s, *g))
        .collect();
    let print = format!("\"{}\"{values}", formats.join(" "));
    check(
        "st_fmt_types",
        description.trim_end().trim_end_matches(';'),
        &want,
        &print,
    );
}

fn better_than_c_8_arrays_show_their_length() {
    check(
        "st_fmt_array",
        "char[8] b; unsigned char[3] c; char[1024] d; u8 e",
        &[
            ("char b[8]", 8, 8, 1),
            ("unsigned char c[3]", 16, 3, 0),
            ("char d[1024]", 19, 1024, 1),
            ("u8 e", 1043, 1, 0),
        ],
        "\"b=%s c=%s d=%s e=%u\", REC->b, REC->c, REC->d, REC->e",
    );
    check(
        "st_fmt_hex",
        "char[0x10] b",
        &[("char b[16]", 8, 16, 1)],
        "\"b=%s\", REC->b",
    );
    check(
        "st_fmt_oct",
        "char[010] b",
        &[("char b[8]", 8, 8, 1)],
        "\"b=%s\", REC->b",
    );
}

fn dynamic_fields_are_four_bytes() {
    let name = "st_fmt_dynamic";
    let _event = Event::new(&format!(
        "{name} __data_loc char[] a; __rel_loc char[] b; u8 c; __data_loc u32[] d; \
         __rel_loc unsigned char[] e"
    ));
    let (fields, print) = fields_of(name);
    let places: Vec<_> = fields
        .iter()
        .map(|(_, offset, size, _)| (*offset, *size))
        .collect();
    assert_eq!(places, [(8, 4), (12, 4), (16, 1), (17, 4), (21, 4)]);
    // The kernel shows this kind as it was written.
    assert_eq!(fields[0].0, "__data_loc char[] a");
    assert_eq!(fields[3].0, "__data_loc u32[] d");
    assert!(fields[1].0.starts_with("__rel_loc char") && fields[1].0.contains(" b"));
    assert_eq!(
        print,
        "\"a=%s b=%s c=%u d=%llu e=%s\", __get_str(a), __get_rel_str(b), REC->c, REC->d, \
         __get_rel_str(e)"
    );
}

fn structs_have_the_given_size() {
    check(
        "st_fmt_struct",
        "struct point p 16; u32 a; struct q q 1",
        &[
            ("struct point p", 8, 16, 1),
            ("u32 a", 24, 4, 0),
            ("struct q q", 28, 1, 1),
        ],
        "\"p=%llu a=%u q=%llu\", REC->p, REC->a, REC->q",
    );
}

fn no_fields() {
    check("st_fmt_none", "", &[], "\"\"");
}

fn empty_fields_are_skipped() {
    let want = [("u32 a", 8, 4, 0), ("u8 b", 12, 1, 0)];
    let print = "\"a=%u b=%u\", REC->a, REC->b";
    check("st_fmt_empty1", "u32 a;;u8 b;", &want, print);
    check("st_fmt_empty2", "u32 a; ; ;   u8 b;;;", &want, print);
    check("st_fmt_empty3", "   u32 a;u8 b", &want, print);
}

fn header_and_common_fields() {
    let event = Event::new("st_fmt_header u32 a");
    let text = tracefs::event_format(&event.name);
    let head = format!("name: st_fmt_header\nID: {}\nformat:\n", event.id());
    assert!(text.starts_with(&head), "{text}");
    for field in [
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n",
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n",
    ] {
        assert!(text.contains(field), "{text}");
    }
}

/// Every description must be refused with `want`, and leave no event.
fn refuse(row: &str, descriptions: &[&str], want: Errno) {
    let data = Data::open();
    let page = Mapping::new(1);
    let mut rows = Rows::new();
    for (bit, text) in descriptions.iter().enumerate() {
        let got = data.register_text(text, page.address(), bit as u8 % 32);
        if got.is_ok() {
            data.unregister_bit(page.address(), bit as u8 % 32).unwrap();
        }
        rows.fails(row, &format!("{text:?}"), got, want);
    }
    rows.gives(row, "events left", tracefs::events_of_tests(), Vec::new());
    rows.finish();
}

fn row_malformed_descriptions_are_einval() {
    refuse(
        "Anything else → EINVAL",
        &[
            "st_fmt_bad long a",
            "st_fmt_bad unsigned long a",
            "st_fmt_bad bool a",
            "st_fmt_bad size_t a",
            "st_fmt_bad float a",
            "st_fmt_bad u128 a",
            "st_fmt_bad void* a",
            "st_fmt_bad unsigned a",
            "st_fmt_bad u32",
            "st_fmt_bad a",
            "st_fmt_bad u32 a b",
            "st_fmt_bad u32  a",
            "st_fmt_bad u32 a ",
            "st_fmt_bad u32\ta",
            "st_fmt_bad u32 a 4",
            "st_fmt_bad char[] a",
            "st_fmt_bad char[0] a",
            "st_fmt_bad char[1025] a",
            "st_fmt_bad char[-1] a",
            "st_fmt_bad char[x] a",
            "st_fmt_bad u32[4] a",
            "st_fmt_bad struct point p",
            "st_fmt_bad struct point p 0",
            "st_fmt_bad struct point p 0x10",
            "st_fmt_bad struct p",
            "st_fmt_bad __data_loc a",
            "st_fmt_bad u32 a; long b",
            "st_fmt_bad:flag u32 a",
        ],
        Errno::EINVAL,
    );
}

fn better_than_c_3_bad_names_are_einval() {
    let long = format!("st_{} u32 a", "x".repeat(253));
    refuse(
        "names: 1 to 255 bytes, no byte ≤ 0x20 or 0x7f, no /, not . .. enable filter → EINVAL",
        &[
            "",
            " u32 a",
            ". u32 a",
            ".. u32 a",
            "enable u32 a",
            "filter u32 a",
            "st_a/b u32 a",
            "/st_b u32 a",
            "st_a\tb u32 a",
            "st_a\nb u32 a",
            "st_a\x7fb u32 a",
            "st_a\x01 u32 a",
            &long,
        ],
        Errno::EINVAL,
    );
    let longest = format!("st_{}", "x".repeat(252));
    let event = Event::new(&format!("{longest} u32 a"));
    assert!(tracefs::event_exists(&longest));
    drop(event);
}

fn better_than_c_6_bad_field_names_are_einval() {
    refuse(
        "field names: duplicates, common_pid, newlines, \", %, a[20], *p; char[4][4] → EINVAL",
        &[
            "st_fmt_field u32 a; u64 a",
            "st_fmt_field u32 common_pid",
            "st_fmt_field u32 common_type",
            "st_fmt_field u32 a\nb",
            "st_fmt_field u32 a\"b",
            "st_fmt_field u32 a%d",
            "st_fmt_field char a[20]",
            "st_fmt_field u32 *p",
            "st_fmt_field char[4][4] a",
        ],
        Errno::EINVAL,
    );
}

fn better_than_c_7_a_fixed_part_no_buffer_holds_is_e2big() {
    refuse(
        "a fixed part that no buffer can ever hold → E2BIG",
        &[
            "st_fmt_huge struct s s 2147483648",
            "st_fmt_huge struct s s 4294967295",
            "st_fmt_huge struct s s 2147483647",
            "st_fmt_huge struct s s 1048576",
            "st_fmt_huge struct s s 4294967290; struct t t 20",
        ],
        Errno::E2BIG,
    );
    wait_gone("st_fmt_huge");
}
