// SPDX-License-Identifier: GPL-2.0

//! What `__data_loc` and `__rel_loc` fields may point at, as "Writing" in the contract has it.

use crate::abi::location;
use crate::errno::Errno;
use crate::harness::tests;
use crate::rows::Rows;
use crate::traced::Traced;

tests!("locations":
    row_data_past_the_record_is_efault,
    row_char_data_without_a_final_nul_is_efault,
    better_than_c_9_zero_length_is_empty_wherever_it_points_in_bounds,
    better_than_c_9_data_outside_the_payload_is_efault,
    good_locations,
);

/// An event, named after its kind, with one location field after a u32.
///
/// The payload is the u32, the location and 8 bytes of data: the data are at 16 from the record's
/// start, at 0 from the field's end.
fn locations(name: &str, kind: &str, element: &str) -> Traced {
    let name = format!("{name}_{kind}_{element}").replace(' ', "_");
    Traced::new(&format!("{name} u32 a; {kind} {element}[] b"))
}

fn with_location(offset: u32, size: u32, data: &[u8]) -> Vec<u8> {
    [&[0xaa; 4][..], &location(offset, size), data].concat()
}

fn row_data_past_the_record_is_efault() {
    let row = "data reaching past the record → EFAULT, nothing recorded";
    let data = [0; 8];
    let mut rows = Rows::new();
    for (kind, element, start) in [
        ("__data_loc", "char", 16),
        ("__data_loc", "u8", 16),
        ("__rel_loc", "char", 0),
        ("__rel_loc", "u64", 0),
    ] {
        let traced = locations("st_write_past", kind, element);
        for (offset, size) in [
            (start, 9),
            (start + 1, 8),
            (start + 8, 1),
            (start + 9, 1),
            (start, 0xffff),
            (0xffff, 1),
            (0xffff, 0xffff),
            (start + 4, 5),
        ] {
            let payload = with_location(offset, size, &data);
            let case = format!("{kind} {element} {size} bytes at {offset}");
            rows.fails(row, &case, traced.event.write(&payload), Errno::EFAULT);
        }
        traced.only_this_is_recorded(&with_location(start, 8, &data));
    }
    rows.finish();
}

fn row_char_data_without_a_final_nul_is_efault() {
    let row = "a char type whose last byte is not NUL → EFAULT, nothing recorded";
    let mut rows = Rows::new();
    for (kind, start) in [("__data_loc", 16), ("__rel_loc", 0)] {
        for element in ["char", "unsigned char"] {
            let traced = locations("st_write_nul", kind, element);
            for (offset, size) in [(0, 3), (0, 1), (0, 7), (1, 1), (5, 2)] {
                let payload = with_location(start + offset, size, b"abc\0def\0");
                let case = format!("{kind} {element} {size} bytes at {offset}");
                rows.fails(row, &case, traced.event.write(&payload), Errno::EFAULT);
            }
            traced.only_this_is_recorded(&with_location(start, 4, b"abc\0def\0"));
        }
        // What is not text needs no NUL.
        let traced = locations("st_write_nul", kind, "u8");
        traced.only_this_is_recorded(&with_location(start, 3, b"abcdefgh"));
    }
    rows.finish();
}

fn better_than_c_9_zero_length_is_empty_wherever_it_points_in_bounds() {
    let mut rows = Rows::new();
    for (kind, start) in [("__data_loc", 16), ("__rel_loc", 0)] {
        for element in ["char", "u32"] {
            let traced = locations("st_write_zero", kind, element);
            let mut written = 0;
            // The bytes before are not NUL: none of them may be looked at.
            for offset in [start, start + 3, start + 8] {
                let payload = with_location(offset, 0, &[0xff; 8]);
                let got = traced.event.write(&payload);
                let case = format!("{kind} {element} at {offset}");
                rows.gives("zero length is an empty value", &case, got, Ok(20));
                written += 1;
            }
            for offset in [start + 9, 0xffff] {
                let payload = with_location(offset, 0, &[0xff; 8]);
                let case = format!("{kind} {element} at {offset}");
                let got = traced.event.write(&payload);
                rows.fails("checked for bounds", &case, got, Errno::EFAULT);
            }
            let records = traced.recorded(16).len();
            rows.gives("recorded", &format!("{kind} {element}"), records, written);
            traced.tracer.disable(&traced.event.name);
        }
    }
    rows.finish();
}

fn better_than_c_9_data_outside_the_payload_is_efault() {
    let mut rows = Rows::new();
    for element in ["char", "u8"] {
        let traced = locations("st_write_header", "__data_loc", element);
        for (offset, size) in [(0, 1), (0, 8), (4, 4), (7, 1), (7, 2), (1, 12)] {
            let payload = with_location(offset, size, &[0; 8]);
            let case = format!("{element} {size} bytes at {offset}");
            let got = traced.event.write(&payload);
            rows.fails(
                "non-empty data lies wholly inside the payload",
                &case,
                got,
                Errno::EFAULT,
            );
        }
        traced.only_this_is_recorded(&with_location(8, 0, &[0; 8]));
    }
    rows.finish();
}

fn good_locations() {
    let mut rows = Rows::new();
    for (kind, start) in [("__data_loc", 16), ("__rel_loc", 0)] {
        let traced = locations("st_write_good", kind, "char");
        let mut written = Vec::new();
        // The whole, the beginning, the middle, the end.
        for (offset, size) in [(0, 8), (0, 4), (2, 2), (4, 4), (7, 1)] {
            let payload = with_location(start + offset, size, b"abc\0def\0");
            let got = traced.event.write(&payload);
            rows.gives(
                "good data",
                &format!("{kind} {size} at {offset}"),
                got,
                Ok(20),
            );
            written.push(payload);
        }
        rows.gives("recorded", kind, traced.recorded(16), written);
        traced.tracer.disable(&traced.event.name);
    }
    // __data_loc counts from the start of the record, of which 8 is the first byte of the payload:
    // it may point at the fixed part.
    let traced = locations("st_write_good", "__data_loc", "u8");
    traced.only_this_is_recorded(&with_location(8, 16, &[1; 8]));
    rows.finish();
}
