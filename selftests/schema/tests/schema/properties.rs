// SPDX-License-Identifier: GPL-2.0

//! Random descriptions: nothing panics, and the schema agrees with the model.

use crate::claims;
use crate::event::{
    check,
    fixed_size,
    listing,
    locations,
    print_fmt,
    same_fields,
    Description, //
};
use crate::model::{
    self,
    ModelField,
    Type, //
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{
    select,
    Index, //
};
use std::collections::HashSet;
use user_events_schema::{
    check_payload,
    Kind, //
};

/// Returns `times` the usual number of cases, which `PROPTEST_CASES` in the environment sets. No
/// file is written into the sources.
pub fn config(times: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases.saturating_mul(times),
        failure_persistence: None,
        ..usual
    }
}

/// Words that may be the tag of a struct or the element of a location.
fn free_word() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec![
            "char",
            "u8",
            "my_struct",
            "uchar_t",
            "long",
            "__rel",
            "data_loc",
            "cpumask"
        ])
        .prop_map(str::to_string),
        "[a-zA-Z_][a-zA-Z0-9_.:()-]{0,6}",
    ]
}

/// Types of each kind.
fn any_type() -> impl Strategy<Value = Type> {
    let chars = (any::<bool>(), 1..=1024i128, 0..4).prop_map(|(unsigned, len, base)| {
        let number = match base {
            0 => format!("{len}"),
            1 => format!("0{len:o}"),
            2 => format!("0x{len:x}"),
            _ => format!("0X{len:03X}"),
        };
        let prefix = if unsigned { "unsigned " } else { "" };
        Type::Chars(format!("{prefix}char[{number}]"), len)
    });
    let location = (any::<bool>(), any::<bool>(), free_word()).prop_filter_map(
        "`unsigned` is no element",
        |(relative, unsigned, word)| {
            let prefix = if unsigned { "unsigned " } else { "" };
            (word != "unsigned").then(|| Type::Location(relative, format!("{prefix}{word}")))
        },
    );
    prop_oneof![
        4 => select(model::INTEGERS.to_vec())
            .prop_map(|(name, size, conversion)| Type::Integer(name, size, conversion)),
        2 => chars,
        1 => (free_word(), 1..=5000i128).prop_map(|(tag, size)| Type::Struct(tag, size)),
        3 => location,
    ]
}

/// Fields with different names that fit into a description.
pub fn any_fields() -> impl Strategy<Value = Vec<ModelField>> {
    let field = ("[a-zA-Z_][a-zA-Z0-9_.()>-]{0,5}", any_type())
        .prop_map(|(name, what)| ModelField { what, name });
    vec(field, 0..14).prop_map(|mut fields| {
        let mut names = HashSet::new();
        fields.retain(|field| names.insert(field.name.clone()));
        while model::description("event", &fields).len() > 511 {
            fields.pop();
        }
        fields
    })
}

/// Fragments of valid and invalid descriptions in any order.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let fragments: Vec<&[u8]> = vec![
        b" ",
        b" ",
        b" ",
        b" ",
        b";",
        b";",
        b"; ",
        b"u32",
        b"u8",
        b"s64",
        b"int",
        b"unsigned",
        b"unsigned int",
        b"struct",
        b"struct tag",
        b"__data_loc",
        b"__rel_loc",
        b"char[]",
        b"u16[]",
        b"char",
        b"char[",
        b"]",
        b"[]",
        b"[",
        b"16",
        b"0x1f",
        b"017",
        b"08",
        b"1024",
        b"1025",
        b"0",
        b"+3",
        b"524256",
        b"524250",
        b"4294967295",
        b"a",
        b"b",
        b"c",
        b"name",
        b"common_pid",
        b"common_comm",
        b"\t",
        b"\n",
        b"\0",
        b"\"",
        b"%",
        b"\\",
        b"*",
        b"/",
        b":",
        b".",
        b"\x7f",
        b"\x80",
        b"\xa0",
        b"cpumask_t",
        b"e u32 a",
        b"u32 a",
        b"u32 b;",
        b"u32 b;",
        b"u32 a;",
        b" c",
        b"struct t d 4",
        b"__rel_loc char[] e",
        b"__data_loc unsigned u8[] f",
        b"char[4] g",
        b"struct x__data_loc_char h 8",
        b"struct __rel_loc i 4",
        b"struct char[ j 4",
        b"__data_loc cpumask_t[] k",
        b"__rel_loc __data_loc_char[] l",
        b"__data_loc u8[][] m",
        b"enable",
        b"filter",
    ];
    (any::<bool>(), vec(select(fragments), 0..14)).prop_map(|(named, fragments)| {
        let name: &[u8] = if named { b"e " } else { b"" };
        [name, &fragments.concat()].concat()
    })
}

/// Valid descriptions with a few bytes changed, inserted or removed.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![select(b" ;[]u8_0x1\t\n\"*%\\:/".to_vec()), any::<u8>()];
    (any_fields(), vec((any::<Index>(), 0..3, byte), 0..3)).prop_map(|(fields, changes)| {
        let mut text = model::description("event", &fields).into_bytes();
        for (index, how, byte) in changes {
            let at = index.index(text.len());
            match how {
                0 => text[at] = byte,
                1 => text.insert(at, byte),
                _ => _ = text.remove(at),
            }
            if text.is_empty() {
                text.push(byte);
            }
        }
        text
    })
}

/// Any bytes, most of them invalid.
pub fn any_text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..600),
        fragments(),
        fragments(),
        damaged()
    ]
}

proptest! {
    #![proptest_config(config(4))]

    #[test]
    fn layouts(text in any_text()) {
        claims::layout(&text);
    }

    /// No bytes cause a panic.
    #[test]
    fn any_bytes(text in any_text(), payload in vec(any::<u8>(), 0..80)) {
        let _ = Description::parse_listing(&text);
        let _ = Description::parse_line(&text);
        let Ok(description) = Description::parse(&text) else {
            return Ok(());
        };
        let _ = check(&description, &payload);
        let _ = check_payload(&payload, 0, &locations(&description));
    }

    #[test]
    fn grammar(text in any_text()) {
        claims::grammar(&text);
    }

    #[test]
    fn listing_round_trip(text in any_text()) {
        claims::round_trip(&text);
    }

    #[test]
    fn print_formats(text in any_text()) {
        claims::formats(&text);
    }

    /// A description has the fields that it was made of.
    #[test]
    fn layout(fields in any_fields()) {
        let text = model::description("event", &fields);
        let description = Description::parse(text.as_bytes());
        prop_assert!(description.is_ok(), "{}: {:?}", text, description);
        let description = description.unwrap();

        let mut offset = 8;
        prop_assert_eq!(description.fields().count(), fields.len());
        for (field, made) in description.fields().zip(&fields) {
            prop_assert_eq!(field.type_text().to_vec(), made.type_text().into_bytes());
            prop_assert_eq!(field.name(), made.name.as_bytes());
            prop_assert_eq!(i128::from(field.end() - field.size()), offset);
            prop_assert_eq!(i128::from(field.size()), made.size());
            prop_assert_eq!(field.is_signed(), !made.type_text().starts_with('u'));
            let string = made.is_string();
            let kind = match &made.what {
                Type::Integer(..) => Kind::Integer,
                Type::Chars(_, len) => Kind::Chars { len: *len as u32 },
                Type::Struct(..) => Kind::Struct,
                Type::Location(true, _) => Kind::RelLoc { string },
                Type::Location(false, _) => Kind::DataLoc { string },
            };
            prop_assert_eq!(field.kind(), kind);
            offset += made.size();
        }
        prop_assert_eq!(i128::from(fixed_size(&description)), offset - 8);
        prop_assert_eq!(listing(&description), text.as_bytes());
        prop_assert_eq!(print_fmt(&description), model::print_fmt(&fields).into_bytes());
    }

    /// Two events match if and only if their fields are the same.
    #[test]
    fn matching(
        one in any_fields(),
        other in any_fields(),
        at in any::<Index>(),
        what in any_type(),
    ) {
        let mut changed = one.clone();
        if !changed.is_empty() {
            let at = at.index(changed.len());
            changed[at].what = what;
        }
        for other in [&one, &other, &changed] {
            let texts = [model::description("a", &one), model::description("b", other)];
            let [Ok(first), Ok(second)] =
                texts.each_ref().map(|text| Description::parse(text.as_bytes()))
            else {
                // The change can make the text too long.
                prop_assert!(texts.iter().any(|text| text.len() > 511));
                continue;
            };
            prop_assert_eq!(same_fields(&first, &second), one == *other);
        }
    }

    #[test]
    fn never_misread(text in any_text()) {
        claims::never_misread(&text);
    }
}
