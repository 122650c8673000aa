// SPDX-License-Identifier: GPL-2.0

//! "Writing": valid targets of `__data_loc` and `__rel_loc`.
//!
//! The payload is a u32, the location and 8 bytes of data. The data are at 16 from the record's
//! start, to which `__data_loc` is relative, and at 0 from the end of the field, to which
//! `__rel_loc` is relative.

use super::check::{expect, Check, Row, NAME};
use crate::harness::options;
use crate::kit::abi::location;
use crate::kit::errno::Errno;
use crate::kit::model::{self, Verdict};
use crate::kit::traced::Traced;

const TARGET: Row = Row::new(
    "locations",
    "Trailing bytes are what __data_loc/__rel_loc point into: the value is size << 16 | offset, offset \
     from the start of the record for __data_loc, from the end of the field itself for __rel_loc. Data \
     reaching past the record, or a char type whose last byte is not NUL → EFAULT, nothing recorded",
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

/// The kind of location and the type; offset and size.
type Case = (&'static str, u32, u32);

const DATA: &[u8; 8] = b"abc\0def\0";

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        TARGET.each(
            "each_place_in_and_near_the_record",
            each_place,
            (),
            &[
                "__data_loc char",
                "__data_loc unsigned char",
                "__data_loc u32",
                "__rel_loc char",
                "__rel_loc unsigned char",
                "__rel_loc u64",
            ],
        ),
        EMPTY.all(
            write,
            Ok(()),
            &[
                ("data_loc_of_no_string_is_empty", ("__data_loc char", 19, 0)),
                ("rel_loc_of_no_string_is_empty", ("__rel_loc char", 3, 0)),
            ],
        ),
        HEADER.all(
            write,
            Err(Errno::EFAULT),
            &[
                ("data_loc_of_the_header_is_efault", ("__data_loc u8", 0, 8)),
                ("data_loc_half_in_it_is_efault", ("__data_loc u8", 7, 2)),
            ],
        ),
    ]
}

fn payload(offset: u32, size: u32) -> Vec<u8> {
    [&[0xaa; 4][..], &location(offset, size), DATA].concat()
}

/// Compares the results with those of the model of the schema's tests, for locations of any size at
/// any offset. On C those of row 9 are left out.
fn each_place(kind: &str, (): ()) {
    let text = format!("{NAME} u32 a; {kind}[] b");
    let (_, fields) = model::parse(text.as_bytes()).expect("a description");
    let traced = Traced::new(&text);
    let differs_in_c = |offset, size| match size {
        0 => kind.ends_with("char"),
        _ => kind.starts_with("__data_loc") && offset < 8,
    };
    let mut good = Vec::new();
    for offset in (0..=26).chain([0xffff]) {
        for size in (0..=17).chain([0xffff]) {
            if options().against_c && differs_in_c(offset, size) {
                continue;
            }
            let payload = payload(offset, size);
            let want = match model::check(&fields, &payload) {
                (Verdict::Valid, _) => Ok(20),
                _ => Err(Errno::EFAULT),
            };
            let got = traced.event.write(&payload);
            assert!(
                got == want,
                "{size} at {offset}: want {want:?}, got {got:?}"
            );
            good.extend(got.is_ok().then_some(payload));
        }
    }
    let records = traced.tracer.take_records(traced.event.id());
    expect(records.len(), good.len());
    for (record, payload) in records.iter().zip(&good) {
        expect(&record.bytes[8..24], &payload[..]);
    }
}

fn write((kind, offset, size): Case, want: Result<(), Errno>) {
    let traced = Traced::new(&format!("{NAME} u32 a; {kind}[] b"));
    let payload = payload(offset, size);
    expect(traced.event.write(&payload).map(drop), want);
    let records = traced.tracer.take_records(traced.event.id());
    expect(records.len(), usize::from(want.is_ok()));
}
