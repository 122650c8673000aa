// SPDX-License-Identifier: GPL-2.0

//! Payloads with dynamic data behind the fields, and the values of their location fields.

use crate::kit::abi::location;

/// Makes `length` bytes that differ by length and mostly by position.
pub fn bytes(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at / 251 * 7 + at + length) as u8)
        .collect()
}

/// The size of the common fields, which the offset of `__data_loc` includes.
const COMMON_FIELDS: usize = 8;

#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// The field itself.
    Fixed(&'a [u8]),
    /// The data of a `__data_loc` field.
    Data(&'a [u8]),
    /// The data of a `__rel_loc` field.
    Rel(&'a [u8]),
}

use Value::{Data, Fixed, Rel};

/// A payload of these fields, with the data behind them in the same order.
pub fn payload(values: &[Value]) -> Vec<u8> {
    let size = |value: &Value| match value {
        Fixed(bytes) => bytes.len(),
        Data(_) | Rel(_) => 4,
    };
    let fixed: usize = values.iter().map(size).sum();
    let (mut fields, mut data) = (Vec::new(), Vec::new());
    for value in values {
        let at = fixed + data.len();
        let field_end = fields.len() + size(value);
        match value {
            Fixed(bytes) => fields.extend(*bytes),
            Data(bytes) => fields.extend(location((COMMON_FIELDS + at) as u32, bytes.len() as u32)),
            Rel(bytes) => fields.extend(location((at - field_end) as u32, bytes.len() as u32)),
        }
        if let Data(bytes) | Rel(bytes) = value {
            data.extend(*bytes);
        }
    }
    [fields, data].concat()
}
