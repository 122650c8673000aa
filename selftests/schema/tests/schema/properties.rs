// SPDX-License-Identifier: GPL-2.0

//! Random descriptions: nothing panics, and the schema agrees with the model.

use crate::claims;
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

/// Fragments of descriptions, with a bar between two. Those that stand here more than once are
/// taken more often.
const FRAGMENTS: &[u8] = b"\
    ;|;|; | | | | |u32|u8|s64|int|unsigned|unsigned int|struct|struct tag|__data_loc|\
    __rel_loc|char[]|u16[]|char|char[|]|[]|[|16|0x1f|017|08|1024|1025|0|+3|524256|\
    524250|4294967295|a|b|c|name|common_pid|common_comm|\t|\n|\0|\"|%|\\|*|/|:|.|\x7f|\
    \x80|\xa0|cpumask_t|e u32 a|u32 a|u32 b;|u32 b;|u32 a;| c|struct t d 4|\
    __rel_loc char[] e|__data_loc unsigned u8[] f|char[4] g|struct x__data_loc_char h 8|\
    struct __rel_loc i 4|struct char[ j 4|__data_loc cpumask_t[] k|\
    __rel_loc __data_loc_char[] l|__data_loc u8[][] m|enable|filter";

/// Fragments of valid and invalid descriptions in any order.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let fragments: Vec<&[u8]> = FRAGMENTS.split(|byte| *byte == b'|').collect();
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

    /// The second description has the fields that it was made of.
    #[test]
    fn descriptions(text in any_text(), fields in any_fields()) {
        claims::description(&text);
        let text = model::description("event", &fields);
        claims::description(text.as_bytes());
        prop_assert_eq!(model::parse(text.as_bytes()), Ok(("event".to_string(), fields)));
    }
}
