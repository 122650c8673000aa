// SPDX-License-Identifier: GPL-2.0

//! The bytes of a step's record.

use super::large;
use super::step::*;

/// The arbitrary bytes of a write; from four bytes on they are unique.
fn filling(step: &Step) -> impl Iterator<Item = u8> + use<> {
    let serial = step.serial.to_ne_bytes();
    (0..).map(move |at| serial[at % 4] ^ (at / 4) as u8)
}

pub fn payload(step: &Step) -> Vec<u8> {
    use super::step::write::*;
    let fields = &FIELDS[usize::from(step.fields)];
    let mut payload: Vec<u8> = filling(step).take(fields.fixed).collect();
    if let Some(location) = fields.location {
        let letters = filling(step).map(|byte| b'a' + byte % 16);
        let mut data: Vec<u8> = letters.take(usize::from(step.bit) / 4 + 1).collect();
        if step.defect != NO_NUL {
            *data.last_mut().expect("one byte at least") = 0;
        }
        let end = location.at + 4;
        // The counts below start at the first byte behind the fields; these offsets convert to the
        // ABI's.
        let mut offset = match location.relative {
            true => fields.fixed - end,
            false => 8 + fields.fixed,
        };
        let mut size = data.len();
        match step.defect {
            OUTSIDE => size += 1,
            EMPTY => size = 0,
            IN_FRONT => (offset, size) = (0, 4),
            _ => {}
        }
        payload[location.at..end]
            .copy_from_slice(&crate::kit::abi::location(offset as u32, size as u32));
        payload.extend(data);
    }
    match step.defect {
        MORE => payload.extend(filling(step).take(100)),
        LARGE => {
            let more = large::length(step).saturating_sub(payload.len());
            payload.extend(filling(step).take(more));
        }
        TOO_MUCH => payload.resize(70_000, 7),
        ONE_BYTE_LESS => payload.truncate(fields.fixed.saturating_sub(1)),
        _ => {}
    }
    payload
}
