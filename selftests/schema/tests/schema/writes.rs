// SPDX-License-Identifier: GPL-2.0

//! Random payloads: the schema agrees with the model, and accepts no location of data outside of
//! the record.

use crate::claims;
use crate::model::{
    self,
    ModelField,
    Type, //
};
use crate::payloads::location;
use crate::properties::{
    any_fields,
    config, //
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// The value of a location: often right, and often wrong by one.
#[derive(Clone, Debug)]
enum Target {
    /// This size, and an end this far before the end of the record.
    Ends(i64, i64),
    /// This offset, and this size.
    Starts(i64, i64),
    /// Any value.
    Raw(u32),
}

fn any_target() -> impl Strategy<Value = Target> {
    prop_oneof![
        4 => (0..30i64, -2..10i64).prop_map(|(len, end)| Target::Ends(len, end)),
        2 => (0..30i64, 0..3i64).prop_map(|(start, len)| Target::Starts(start, len)),
        1 => Just(Target::Ends(0, 0)),
        1 => any::<u32>().prop_map(Target::Raw),
        1 => select(vec![0, 1, 0xffff, 0x10000, 0xffff_0000, u32::MAX, 8, 0x1_0007, 0x1_0008])
            .prop_map(Target::Raw),
    ]
}

/// Makes a payload of these fields with these locations, `tail` bytes longer than the fixed part.
fn payload(fields: &[ModelField], targets: &[Target], filling: &[u8], tail: i64) -> Vec<u8> {
    let fixed: i128 = fields.iter().map(ModelField::size).sum();
    let len = (fixed as i64 + tail).max(0);
    let mut payload: Vec<u8> = (filling.iter().cycle().copied())
        .take(fixed.max(len.into()) as usize)
        .collect();

    let mut targets = targets.iter().cycle();
    let mut at = 0;
    for field in fields {
        let end = at + field.size() as usize;
        if let Type::Location(relative, _) = field.what {
            let base = if relative { 8 + end as i64 } else { 0 };
            let value = match *targets.next().unwrap() {
                Target::Raw(value) => value,
                Target::Ends(size, before) => {
                    let start = (8 + len - before - size - base).clamp(0, 0xffff);
                    location(size as u32, start as u32)
                }
                Target::Starts(start, size) => location(size as u32, start as u32),
            };
            payload[at..end].copy_from_slice(&value.to_ne_bytes());
        }
        at = end;
    }
    payload.truncate(len as usize);
    payload
}

/// Fields, with more locations among them than [`any_fields`] makes.
fn fields_with_locations() -> impl Strategy<Value = Vec<ModelField>> {
    let element = select(vec!["char", "unsigned char", "u8"]);
    let location = ("[a-z]{3}", any::<bool>(), element).prop_map(|(name, relative, element)| {
        let what = Type::Location(relative, element.to_string());
        ModelField { what, name }
    });
    (any_fields(), location, any::<bool>()).prop_map(|(mut fields, location, small)| {
        if small {
            fields.truncate(1);
        }
        if fields.iter().all(|field| field.name != location.name) {
            fields.push(location);
        }
        while model::description("event", &fields).len() > 511 {
            fields.remove(0);
        }
        fields
    })
}

proptest! {
    #![proptest_config(config(12))]

    #[test]
    fn payloads(
        fields in fields_with_locations(),
        targets in vec(any_target(), 8),
        filling in vec(select(vec![0, 0, 1, b'x', 0xff]), 1..40),
        tail in -3..40i64,
    ) {
        let payload = payload(&fields, &targets, &filling, tail);
        let text = model::description("event", &fields);
        claims::payload(text.as_bytes(), &fields, &payload);
    }
}
