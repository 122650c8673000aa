// SPDX-License-Identifier: GPL-2.0

//! Model of the C implementation's parser of descriptions, and of its `format`, for descriptions
//! that it accepts although the contract refuses them. The module is not tested here.

use crate::kit::errno::{Errno, Result};

/// A field of an event.
pub struct Field {
    pub kind: String,
    pub name: String,
    pub size: i32,
    offset: u32,
}

/// The size of the common fields.
const COMMON: u32 = 8;

/// White space of the kernel; the last one is a no-break space.
pub const WHITE: [char; 7] = [' ', '\t', '\n', '\x0b', '\x0c', '\r', '\u{a0}'];

/// Parses a description, with a `char` for each byte.
pub fn parse(text: &str) -> Result<(String, Vec<Field>)> {
    let (name, fields) = match text.split_once(' ') {
        Some((name, fields)) => (name, Some(fields)),
        None => (text, None),
    };
    if text.chars().count() > 511 || name.contains(':') {
        return Err(Errno::EINVAL);
    }
    let (mut parsed, mut offset) = (Vec::new(), COMMON);
    for piece in fields.into_iter().flat_map(|fields| fields.split(';')) {
        let piece = piece.trim_start_matches(WHITE);
        if !piece.is_empty() {
            let field = parse_field(piece, offset)?;
            offset = offset.wrapping_add(field.size as u32);
            parsed.push(field);
        }
    }
    Ok((name.into(), parsed))
}

fn parse_field(piece: &str, offset: u32) -> Result<Field> {
    const TWO_WORDS: [&str; 6] = [
        "unsigned ",
        "struct ",
        "__data_loc unsigned ",
        "__data_loc ",
        "__rel_loc unsigned ",
        "__rel_loc ",
    ];
    let start = TWO_WORDS.iter().find(|start| piece.starts_with(**start));
    let end = match start {
        Some(start) => piece[start.len()..].find(' ').map(|at| at + start.len()),
        None => piece.find(' '),
    };
    let end = end.ok_or(Errno::EINVAL)?;
    let (kind, rest) = (&piece[..end], &piece[end + 1..]);
    let words: Vec<&str> = rest.split(' ').collect();
    let (name, size) = match words[..] {
        [name] => (name, size_of(kind)?),
        [name, size] if kind.starts_with("struct ") => (name, number(size, 10)? as i32),
        _ => return Err(Errno::EINVAL),
    };
    match size {
        0 => Err(Errno::EINVAL),
        // The negated number, which is no valid errno.
        ..0 => Err(Errno(size.wrapping_neg())),
        _ => Ok(Field {
            kind: kind.into(),
            name: name.into(),
            size,
            offset,
        }),
    }
}

fn size_of(kind: &str) -> Result<i32> {
    let size = match kind {
        "s64" | "u64" => 8,
        "s32" | "u32" | "int" | "unsigned int" => 4,
        "s16" | "u16" | "short" | "unsigned short" => 2,
        "s8" | "u8" | "char" | "unsigned char" => 1,
        _ if kind.starts_with("char[") || kind.starts_with("unsigned char[") => {
            // The length has at most seven bytes, and ends at the next bracket.
            let (_, behind) = kind.split_once('[').ok_or(Errno::EINVAL)?;
            let (digits, _) = behind.split_once(']').ok_or(Errno::EINVAL)?;
            let length = number(digits, 0)?;
            if behind.chars().count() > 7 || length > 1024 {
                return Err(Errno::EINVAL);
            }
            length as i32
        }
        _ if kind.starts_with("__data_loc ") || kind.starts_with("__rel_loc ") => 4,
        _ => return Err(Errno::EINVAL),
    };
    Ok(size)
}

/// Parses a number as the kernel does, with an optional sign and newline.
fn number(text: &str, base: u32) -> Result<u32> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    let lower = text.to_ascii_lowercase();
    let hexadecimal = lower
        .strip_prefix("0x")
        .filter(|digits| digits.starts_with(|digit: char| digit.is_ascii_hexdigit()));
    let (digits, base) = match (base, hexadecimal) {
        (0, Some(digits)) => (digits, 16),
        (0, None) if lower.starts_with('0') => (&lower[..], 8),
        (0, None) => (&lower[..], 10),
        _ => (&lower[..], base),
    };
    let is_plain = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(base));
    let number = is_plain.then(|| u32::from_str_radix(digits, base).ok());
    number.flatten().ok_or(Errno::EINVAL)
}

/// The print format.
pub fn print_fmt(fields: &[Field]) -> String {
    let formats = fields.iter().map(|field| {
        let conversion = match &field.kind[..] {
            "s64" => "%lld",
            "u64" => "%llu",
            "s32" | "int" | "s16" | "short" | "s8" | "char" => "%d",
            "u32" | "unsigned int" | "u16" | "unsigned short" | "u8" | "unsigned char" => "%u",
            kind if kind.contains("char[") => "%s",
            _ => "%llu",
        };
        format!("{}={conversion}", field.name)
    });
    let arguments = fields.iter().map(|field| {
        let Field { kind, name, .. } = field;
        let is_string = kind.contains("char");
        match () {
            _ if is_string && kind.starts_with("__data_loc ") => format!(", __get_str({name})"),
            _ if is_string && kind.starts_with("__rel_loc ") => format!(", __get_rel_str({name})"),
            _ => format!(", REC->{name}"),
        }
    });
    let formats: Vec<_> = formats.collect();
    let arguments: String = arguments.collect();
    format!("\"{}\"{arguments}", formats.join(" "))
}

/// Stands for an array length with an arbitrary value.
pub const ANY: char = '\u{fffd}';

/// The fields in `format`.
pub fn shown(fields: &[Field]) -> String {
    let lines = fields.iter().map(|field| {
        let Field {
            kind,
            name,
            size,
            offset,
        } = field;
        let signed = u8::from(!kind.starts_with('u'));
        let declaration = match kind.split_once('[') {
            Some((element, _)) if !kind.starts_with("__data_loc") => {
                format!("{element} {name}[{ANY}]")
            }
            _ => format!("{kind} {name}"),
        };
        format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
    });
    lines.collect()
}
