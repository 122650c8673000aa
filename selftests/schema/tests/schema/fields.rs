// SPDX-License-Identifier: GPL-2.0

//! Types, names and sizes of fields.

use crate::event::{
    fixed_size,
    locations,
    print_fmt,
    Description, //
};
use user_events_schema::{
    Errno,
    Error,
    Field,
    Kind,
    COMMON_SIZE,
    MAX_FIXED, //
};

const STRING: bool = true;
const OTHER: bool = false;

/// Parses an event with just this field and hands it to `look`.
fn with_field<T>(field: &str, look: impl FnOnce(Field<'_>) -> T) -> Result<T, Error> {
    let text = format!("e {field}");
    let description = Description::parse(text.as_bytes())?;
    let mut fields = description.fields();
    let first = fields.next().unwrap();
    assert_eq!(fields.next(), None);
    assert_eq!(fixed_size(&description), first.size());
    Ok(look(first))
}

/// "Event descriptions", the table of types, with the rule for `signed` below it.
#[test]
fn every_type() {
    let chars = |len| Kind::Chars { len };
    let data = |string| Kind::DataLoc { string };
    let rel = |string| Kind::RelLoc { string };
    // type, size, signed, kind, conversion
    let table: &[(&str, u32, bool, Kind, &str)] = &[
        ("s8", 1, true, Kind::Integer, "%d"),
        ("u8", 1, false, Kind::Integer, "%u"),
        ("s16", 2, true, Kind::Integer, "%d"),
        ("u16", 2, false, Kind::Integer, "%u"),
        ("s32", 4, true, Kind::Integer, "%d"),
        ("u32", 4, false, Kind::Integer, "%u"),
        ("s64", 8, true, Kind::Integer, "%lld"),
        ("u64", 8, false, Kind::Integer, "%llu"),
        ("char", 1, true, Kind::Integer, "%d"),
        ("unsigned char", 1, false, Kind::Integer, "%u"),
        ("short", 2, true, Kind::Integer, "%d"),
        ("unsigned short", 2, false, Kind::Integer, "%u"),
        ("int", 4, true, Kind::Integer, "%d"),
        ("unsigned int", 4, false, Kind::Integer, "%u"),
        ("char[1]", 1, true, chars(1), "%s"),
        ("char[8]", 8, true, chars(8), "%s"),
        ("char[20]", 20, true, chars(20), "%s"),
        ("char[1024]", 1024, true, chars(1024), "%s"),
        ("char[001024]", 532, true, chars(532), "%s"),
        ("char[02000]", 1024, true, chars(1024), "%s"),
        ("char[0x14]", 20, true, chars(20), "%s"),
        ("char[0X1f]", 31, true, chars(31), "%s"),
        ("char[0x00fF]", 255, true, chars(255), "%s"),
        ("char[+7]", 7, true, chars(7), "%s"),
        ("unsigned char[3]", 3, false, chars(3), "%s"),
        ("unsigned char[010]", 8, false, chars(8), "%s"),
        ("__data_loc char[]", 4, true, data(STRING), "%s"),
        ("__data_loc unsigned char[]", 4, true, data(STRING), "%s"),
        ("__data_loc u8[]", 4, true, data(OTHER), "%llu"),
        ("__data_loc unsigned long[]", 4, true, data(OTHER), "%llu"),
        ("__data_loc anything[]", 4, true, data(OTHER), "%llu"),
        ("__rel_loc char[]", 4, true, rel(STRING), "%s"),
        ("__rel_loc unsigned char[]", 4, true, rel(STRING), "%s"),
        // The kernel looks for "char" anywhere in the text.
        ("__rel_loc uchar_t[]", 4, true, rel(STRING), "%s"),
        ("__rel_loc u16[]", 4, true, rel(OTHER), "%llu"),
        ("__rel_loc unsigned int[]", 4, true, rel(OTHER), "%llu"),
        ("__rel_loc \u{e9}[]", 4, true, rel(OTHER), "%llu"),
    ];
    for (type_text, size, signed, kind, conversion) in table {
        let text = format!("e {type_text} f");
        let description =
            Description::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        let [field] = description.fields().collect::<Vec<_>>()[..] else {
            panic!("{text}");
        };
        assert_eq!(field.type_text(), type_text.as_bytes());
        assert_eq!(field.name(), b"f");
        assert_eq!(field.end() - field.size(), 8, "{text}");
        assert_eq!(field.size(), *size, "{text}");
        assert_eq!(fixed_size(&description), *size, "{text}");
        assert_eq!(field.is_signed(), *signed, "{text}");
        assert_eq!(field.kind(), *kind, "{text}");
        let (argument, is_location) = match kind {
            Kind::DataLoc { string: STRING } => ("__get_str(f)", true),
            Kind::RelLoc { string: STRING } => ("__get_rel_str(f)", true),
            Kind::DataLoc { .. } | Kind::RelLoc { .. } => ("REC->f", true),
            _ => ("REC->f", false),
        };
        assert_eq!(field.location().is_some(), is_location, "{text}");
        let shown = format!("\"f={conversion}\", {argument}");
        assert_eq!(print_fmt(&description), shown.as_bytes(), "{text}");
    }
}

/// "Event descriptions": `struct TAG NAME SIZE`.
#[test]
fn structs() {
    let table = [
        ("struct custom a 20", "struct custom", 20),
        ("struct x a 1", "struct x", 1),
        ("struct x a 010", "struct x", 10),
        ("struct x a +3", "struct x", 3),
        ("struct x a 4\n", "struct x", 4),
        // Neither a location nor an array: the kernel takes the field as bytes.
        ("struct char a 4", "struct char", 4),
        ("struct loc__ a 4", "struct loc__", 4),
    ];
    for (field, type_text, size) in table {
        with_field(field, |parsed| {
            assert_eq!(parsed.type_text(), type_text.as_bytes());
            assert_eq!(parsed.name(), b"a");
            assert_eq!(parsed.size(), size, "{field}");
            assert_eq!(parsed.kind(), Kind::Struct);
            assert!(parsed.is_signed());
            assert_eq!(parsed.location(), None);
        })
        .unwrap_or_else(|error| panic!("{field}: {error:?}"));
    }
}

/// Each field that is refused with EINVAL, the error, and the part of the ABI.
#[test]
fn refused_fields() {
    let table: &[(&str, Error)] = &[
        // "Event descriptions": two spaces, a trailing space, a tab, a third word, no name.
        ("u32  a", Error::FieldSyntax),
        ("u32 a ", Error::FieldSyntax),
        ("u32", Error::FieldSyntax),
        ("u32\ta", Error::FieldSyntax),
        ("u32 a b", Error::FieldSyntax),
        ("u32 a 4", Error::FieldSyntax),
        ("unsigned int", Error::FieldSyntax),
        ("unsigned  int a", Error::FieldSyntax),
        ("unsigned int  a", Error::FieldSyntax),
        ("struct x", Error::FieldSyntax),
        ("struct  x a 4", Error::FieldSyntax),
        ("struct x  a 4", Error::FieldSyntax),
        ("struct x a  4", Error::FieldSyntax),
        ("struct x a 4 ", Error::FieldSyntax),
        ("__rel_loc char[]", Error::FieldSyntax),
        ("__rel_loc char[] a 4", Error::FieldSyntax),
        ("__rel_loc  char[] a", Error::FieldSyntax),
        ("__data_loc unsigned char[]", Error::FieldSyntax),
        ("__data_loc unsigned  char[] a", Error::FieldSyntax),
        ("__data_loc struct x[] a", Error::FieldSyntax),
        // "Event descriptions": anything else is no type.
        ("long a", Error::UnknownType),
        ("bool a", Error::UnknownType),
        ("unsigned u32 a", Error::UnknownType),
        ("signed char a", Error::FieldSyntax),
        ("U32 a", Error::UnknownType),
        ("char* a", Error::UnknownType),
        ("u32[4] a", Error::UnknownType),
        ("stru a 4", Error::FieldSyntax),
        ("\u{a0}u32 a", Error::UnknownType),
        // ... nor is a location without `TYPE[]`.
        ("__rel_loc char a", Error::UnknownType),
        ("__data_loc u8 a", Error::UnknownType),
        ("__rel_loc [] a", Error::UnknownType),
        ("__data_loc unsigned [] a", Error::UnknownType),
        ("__rel_loc char[4] a", Error::UnknownType),
        ("__rel_loc char[]x a", Error::UnknownType),
        // 1 <= N <= 1024, decimal, octal or hex
        ("char[] a", Error::ArrayLength),
        ("char[0] a", Error::ArrayLength),
        ("char[1025] a", Error::ArrayLength),
        ("char[02001] a", Error::ArrayLength),
        ("char[0x401] a", Error::ArrayLength),
        ("unsigned char[1025] a", Error::ArrayLength),
        ("char[aa] a", Error::ArrayLength),
        ("char[08] a", Error::ArrayLength),
        ("char[0x] a", Error::ArrayLength),
        ("char[-1] a", Error::ArrayLength),
        ("char[+] a", Error::ArrayLength),
        ("char[++4] a", Error::ArrayLength),
        ("char[4\n] a", Error::ArrayLength),
        ("char[4 a", Error::ArrayLength),
        ("char[ 4] a", Error::FieldSyntax),
        ("char[0000001] a", Error::ArrayLength),
        // Row 6 of the differences: `char[4][4]`
        ("char[4][4] a", Error::ArrayLength),
        ("char[4]x a", Error::ArrayLength),
        // `struct TAG`: the size is given, decimal, > 0
        ("struct x a", Error::StructSize),
        ("struct x a 0", Error::StructSize),
        ("struct x a -1", Error::StructSize),
        ("struct x a 0x10", Error::StructSize),
        ("struct x a +", Error::StructSize),
        ("struct x a 4\n\n", Error::StructSize),
        ("struct x a\t4", Error::StructSize),
        // Row 6 of the differences: names of fields
        ("u32 common_type", Error::ReservedFieldName),
        ("u32 common_flags", Error::ReservedFieldName),
        ("u32 common_preempt_count", Error::ReservedFieldName),
        ("u32 common_pid", Error::ReservedFieldName),
        ("u32 common_cpu", Error::ReservedFieldName),
        ("u32 common_comm", Error::ReservedFieldName),
        ("u32 common_timestamp", Error::ReservedFieldName),
        ("u32 common_stacktrace", Error::ReservedFieldName),
        ("u32 a\nb", Error::FieldName),
        ("u32 \x01", Error::FieldName),
        ("u32 a\x7f", Error::FieldName),
        ("u32 \"", Error::FieldName),
        ("u32 a%s", Error::FieldName),
        ("u32 a\\", Error::FieldName),
        ("u32 a]", Error::FieldName),
        ("u32 *p", Error::FieldName),
        ("struct x a\" 4", Error::FieldName),
        ("u32 a; u32 a", Error::DuplicateField),
        ("u32 a; u8 b; char[4] a", Error::DuplicateField),
        ("u32 b; u8 a; struct x a 4", Error::DuplicateField),
        // Fields that the rest of the kernel would misread, or `format` could not show
        ("struct __data_loc a 4", Error::UnsafeType),
        ("struct my__rel_loc a 4", Error::UnsafeType),
        ("struct cpumask_t a 8", Error::UnsafeType),
        ("struct char[4] a 8", Error::UnsafeType),
        ("struct x* a 8", Error::UnsafeType),
        ("struct \" a 8", Error::UnsafeType),
        ("struct x% a 8", Error::UnsafeType),
        ("struct \\n a 8", Error::UnsafeType),
        ("struct x\n a 8", Error::UnsafeType),
        ("__rel_loc x__data_loc[] a", Error::UnsafeType),
        ("__rel_loc __data_loc_char[] a", Error::UnsafeType),
        ("__data_loc __rel_loc[] a", Error::UnsafeType),
        ("__rel_loc cpumask_t[] a", Error::UnsafeType),
        ("__data_loc unsigned cpumask_t[] a", Error::UnsafeType),
        ("__data_loc char*[] a", Error::UnsafeType),
        ("__rel_loc char[4][] a", Error::UnsafeType),
        ("__rel_loc \"[] a", Error::UnsafeType),
        ("__rel_loc %s[] a", Error::UnsafeType),
        ("__rel_loc x\\[] a", Error::UnsafeType),
    ];
    for (field, error) in table {
        let got = with_field(field, |_| ());
        assert_eq!(got, Err(*error), "{}", field.escape_debug());
        assert_eq!(error.errno(), Errno::Inval);

        // Fields before or after do not change the error.
        for text in [format!("e u8 z;{field}"), format!("e {field};u8 z")] {
            let got = Description::parse(text.as_bytes()).map(|_| ());
            assert_eq!(got, Err(*error), "{}", text.escape_debug());
        }
    }
}

/// Names that row 6 does not forbid are accepted, as in C.
#[test]
fn accepted_field_names() {
    let names =
        "a _ 9 a.b a-b a->b ( a,b REC common common_x cpu comm \u{e9} u32 ' : / unsigned struct";
    for name in names.split(' ') {
        let got = with_field(&format!("u32 {name}"), |field| field.name().to_vec());
        assert_eq!(got, Ok(name.as_bytes().to_vec()), "{name}");
    }
    let text = b"e u32 \x80\xff;u32 \x80\xfe";
    assert!(Description::parse(text).is_ok());
    // A duplicate is the same name, not one with the same start.
    assert!(Description::parse(b"e u32 a;u32 ab;u32 A;u32 b").is_ok());
}

/// "Event descriptions": one after the other, no padding, the first at offset 8.
#[test]
fn offsets() {
    let text = b"e u8 a;u64 b;char[3] c;struct x d 5;__rel_loc char[] e;u16 f";
    let description = Description::parse(text).unwrap();
    let layout: Vec<_> = description
        .fields()
        .map(|field| (field.name(), field.end() - field.size(), field.size()))
        .collect();
    let expected: [(&[u8], u32, u32); 6] = [
        (b"a", 8, 1),
        (b"b", 9, 8),
        (b"c", 17, 3),
        (b"d", 20, 5),
        (b"e", 25, 4),
        (b"f", 29, 2),
    ];
    assert_eq!(layout, expected);
    assert_eq!(fixed_size(&description), 23);
    assert_eq!(locations(&description).len(), 1);
}

/// Row 7 of the differences: a fixed part larger than any buffer.
#[test]
fn too_large() {
    assert_eq!(COMMON_SIZE, 8);
    assert_eq!(MAX_FIXED, 524_256);

    for (size, fits) in [
        ("524256", true),
        ("524257", false),
        ("2147483648", false),
        ("4294967287", false),
        ("4294967288", false),
        ("4294967295", false),
        ("4294967296", false),
        ("18446744073709551616", false),
        ("18446744073709551620", false),
        ("99999999999999999999999999999999", false),
    ] {
        let got = with_field(&format!("struct x a {size}"), |field| field.size());
        match fits {
            true => assert_eq!(got, Ok(MAX_FIXED)),
            false => assert_eq!(got, Err(Error::FixedPartTooLarge), "{size}"),
        }
    }
    assert_eq!(Error::FixedPartTooLarge.errno(), Errno::TooBig);

    let sum = |text: &str| Description::parse(text.as_bytes()).map(|found| fixed_size(&found));
    let too_large = Err(Error::FixedPartTooLarge);
    assert_eq!(sum("e struct x a 524252;u32 b"), Ok(MAX_FIXED));
    assert_eq!(sum("e struct x a 524253;u32 b"), too_large);
    assert_eq!(sum("e u32 b;struct x a 524253"), too_large);
    assert_eq!(
        sum("e struct x a 4294967295;struct x b 4294967295"),
        too_large
    );
    assert_eq!(sum("e struct x a 262128;struct x b 262128"), Ok(MAX_FIXED));
    assert_eq!(sum("e struct x a 262128;struct x b 262129"), too_large);
}
