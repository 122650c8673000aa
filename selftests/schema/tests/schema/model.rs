// SPDX-License-Identifier: GPL-2.0

//! A second implementation of the ABI to compare with, as plain as `std` allows and with nothing
//! taken from the schema.

use std::collections::BTreeSet;
use std::fmt::Write;

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// One of the integer types; its name, size and conversion.
    Integer(&'static str, i128, &'static str),
    /// An array of characters: its type as written, its length.
    Chars(String, i128),
    /// A struct: its tag, its size.
    Struct(String, i128),
    /// A location: relative or not, and its element, e.g. `unsigned char`.
    Location(bool, String),
}

/// The types of integers, from the table of the ABI.
pub const INTEGERS: [(&str, i128, &str); 14] = [
    ("s8", 1, "%d"),
    ("u8", 1, "%u"),
    ("s16", 2, "%d"),
    ("u16", 2, "%u"),
    ("s32", 4, "%d"),
    ("u32", 4, "%u"),
    ("s64", 8, "%lld"),
    ("u64", 8, "%llu"),
    ("char", 1, "%d"),
    ("unsigned char", 1, "%u"),
    ("short", 2, "%d"),
    ("unsigned short", 2, "%u"),
    ("int", 4, "%d"),
    ("unsigned int", 4, "%u"),
];

/// An event's field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelField {
    pub what: Type,
    pub name: String,
}

impl ModelField {
    /// Returns the text of the type.
    pub fn type_text(&self) -> String {
        match &self.what {
            Type::Integer(name, ..) => name.to_string(),
            Type::Chars(text, _) => text.clone(),
            Type::Struct(tag, _) => format!("struct {tag}"),
            Type::Location(true, element) => format!("__rel_loc {element}[]"),
            Type::Location(false, element) => format!("__data_loc {element}[]"),
        }
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> i128 {
        match &self.what {
            Type::Integer(_, size, _) | Type::Chars(_, size) | Type::Struct(_, size) => *size,
            Type::Location(..) => 4,
        }
    }

    /// Whether it is a location of characters.
    pub fn is_string(&self) -> bool {
        matches!(&self.what, Type::Location(_, element) if element.contains("char"))
    }
}

/// Returns the description of an event with these fields.
pub fn description(name: &str, fields: &[ModelField]) -> String {
    let fields: Vec<_> = fields
        .iter()
        .map(|field| match &field.what {
            Type::Struct(_, size) => format!("{} {} {size}", field.type_text(), field.name),
            _ => format!("{} {}", field.type_text(), field.name),
        })
        .collect();
    match fields.is_empty() {
        true => name.to_string(),
        false => format!("{name} {}", fields.join("; ")),
    }
}

/// Returns the print format of an event with these fields.
pub fn print_fmt(fields: &[ModelField]) -> String {
    let formats: Vec<_> = fields
        .iter()
        .map(|field| {
            let conversion = match &field.what {
                Type::Integer(_, _, conversion) => conversion,
                Type::Chars(..) => "%s",
                Type::Location(..) if field.is_string() => "%s",
                Type::Location(..) | Type::Struct(..) => "%llu",
            };
            format!("{}={conversion}", field.name)
        })
        .collect();
    let mut text = format!("\"{}\"", formats.join(" "));
    for field in fields {
        let name = &field.name;
        match field.what {
            Type::Location(true, _) if field.is_string() => {
                write!(text, ", __get_rel_str({name})").unwrap()
            }
            Type::Location(false, _) if field.is_string() => {
                write!(text, ", __get_str({name})").unwrap()
            }
            _ => write!(text, ", REC->{name}").unwrap(),
        }
    }
    text
}

/// Maximum size of all fields together.
const MAX_FIXED: i128 = 524_256;
/// The errnos of refused descriptions.
pub const INVALID: &str = "EINVAL";
pub const TOO_BIG: &str = "E2BIG";

/// Parses a description: returns its name and fields, or all errnos that are right for it.
pub fn parse(text: &[u8]) -> Result<(String, Vec<ModelField>), BTreeSet<&'static str>> {
    let mut errors = BTreeSet::new();
    let text: String = text.iter().map(|&byte| char::from(byte)).collect();
    let (name, rest) = text.split_once(' ').unwrap_or((&text, ""));

    let forbidden = |c: char| c <= ' ' || c == '\x7f' || "/:#".contains(c);
    let reserved = [".", "..", "enable", "filter"].contains(&name);
    if text.chars().count() > 511
        || !(1..=255).contains(&name.chars().count())
        || name.contains(forbidden)
        || reserved
    {
        errors.insert(INVALID);
    }

    let mut fields = Vec::new();
    for piece in rest.split(';') {
        let piece = piece.trim_start_matches(WHITE);
        if piece.is_empty() {
            continue;
        }
        match parse_field(piece) {
            Ok(field) => fields.push(field),
            Err(any) => errors.extend(any),
        }
    }

    let names: BTreeSet<_> = fields.iter().map(|field| &field.name).collect();
    if names.len() < fields.len() {
        errors.insert(INVALID);
    }
    if fields.iter().map(ModelField::size).sum::<i128>() > MAX_FIXED {
        errors.insert(TOO_BIG);
    }
    match errors.is_empty() {
        true => Ok((name.to_string(), fields)),
        false => Err(errors),
    }
}

/// The name and the fields of an event.
type ModelEvent = (String, Vec<ModelField>);

/// Returns the group of a system's name; the first group is the empty string.
fn group_of(system: &str) -> Option<String> {
    let name = system.strip_prefix("user_events")?;
    if name.is_empty() {
        return Some(String::new());
    }
    let name = name.strip_prefix('_')?;
    let is_right = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = (1..=32).contains(&name.len()) && name.chars().all(is_right);
    let is_multi = name == "multi" || name.ends_with("_multi");
    (is_name && !is_multi).then(|| name.to_string())
}

/// Parses the rest of a line of `dynamic_events` after `u:`: optionally the system of a group and a
/// `/`, then a description, whose length counts without white space before fields and without empty
/// fields. Returns the group, too.
pub fn parse_line(line: &str) -> Result<(Option<String>, ModelEvent), BTreeSet<&'static str>> {
    let mut group = None;
    let line = line.trim_start_matches(WHITE);
    let (mut name, rest) = line.split_once(' ').unwrap_or((line, ""));
    if let Some((system, event)) = name.split_once('/') {
        let its_group = group_of(system).ok_or(BTreeSet::from([INVALID]))?;
        group = (!its_group.is_empty()).then_some(its_group);
        name = event;
    }
    let pieces: Vec<_> = rest
        .split(';')
        .map(|piece| piece.trim_start_matches(WHITE))
        .filter(|piece| !piece.is_empty())
        .collect();
    let text = match pieces.is_empty() {
        true => name.to_string(),
        false => format!("{name} {}", pieces.join(";")),
    };
    let event = parse(&text.chars().map(|c| c as u8).collect::<Vec<_>>())?;
    Ok((group, event))
}

/// Returns whether `given`, the fields in a line that deletes, are those of an event with this
/// listing.
pub fn fields_are(given: &str, listed: &str) -> bool {
    let words: Vec<_> = given.split(WHITE).filter(|word| !word.is_empty()).collect();
    let given = words.join(" ");
    let pieces: Vec<_> = given
        .split(';')
        .map(|piece| piece.trim_matches(' '))
        .filter(|piece| !piece.is_empty())
        .collect();
    pieces.is_empty() || pieces.join("; ") == listed
}

/// White space in C.
const WHITE: [char; 6] = [' ', '\t', '\n', '\x0b', '\x0c', '\r'];

/// Parses a field: returns it, or all errnos that are right for it.
fn parse_field(piece: &str) -> Result<ModelField, &'static [&'static str]> {
    const WRONG: &[&str] = &[INVALID];

    let words: Vec<_> = piece.split(' ').collect();
    let garbles = |word: &str| {
        word.is_empty()
            || word.contains(|c| c <= ' ' || c == '\x7f' || c == '#')
            || word.contains(['"', '%', '\\', '[', ']', '*'])
    };
    let free = |word: &str| {
        let marks = ["__data_loc", "__rel_loc", "cpumask_t"];
        !garbles(word) && !marks.iter().any(|mark| word.contains(mark))
    };
    let plain = |name: &str| -> Result<Type, &[&str]> {
        let integer = INTEGERS.into_iter().find(|integer| integer.0 == name);
        if let Some((name, size, conversion)) = integer {
            return Ok(Type::Integer(name, size, conversion));
        }
        let inside = name.strip_prefix("unsigned ").unwrap_or(name);
        let inside = inside.strip_prefix("char[").ok_or(WRONG)?;
        let number = inside.strip_suffix("]").ok_or(WRONG)?;
        let len = array_length(number).ok_or(WRONG)?;
        Ok(Type::Chars(name.to_string(), len))
    };
    let location = |prefix: &str, element: &str| -> Result<Type, &[&str]> {
        let element = element.strip_suffix("[]").ok_or(WRONG)?;
        let last = element.strip_prefix("unsigned ").unwrap_or(element);
        match free(last) {
            true => Ok(Type::Location(prefix == "__rel_loc", element.to_string())),
            false => Err(WRONG),
        }
    };

    let (what, name) = match words[..] {
        ["struct", tag, name, size] => {
            let digits = size.strip_prefix('+').unwrap_or(size);
            let digits = digits.strip_suffix('\n').unwrap_or(digits);
            if !free(tag) || digits.is_empty() || digits.contains(|c: char| !c.is_ascii_digit()) {
                return Err(WRONG);
            }
            // A number beyond u64 counts as u64::MAX, which is too large as well, and of which many
            // can be added.
            let size = match digits.trim_start_matches('0') {
                "" => 0,
                digits => i128::from(digits.parse().unwrap_or(u64::MAX)),
            };
            if size == 0 {
                return Err(WRONG);
            }
            (Type::Struct(tag.to_string(), size), name)
        }
        ["struct", ..] => return Err(WRONG),
        [prefix @ ("__rel_loc" | "__data_loc"), "unsigned", element, name] => {
            (location(prefix, &format!("unsigned {element}"))?, name)
        }
        [prefix @ ("__rel_loc" | "__data_loc"), element, name] => {
            (location(prefix, element)?, name)
        }
        ["unsigned", word, name] => (plain(&format!("unsigned {word}"))?, name),
        [word, name] => (plain(word)?, name),
        _ => return Err(WRONG),
    };

    let meaning = [
        "type",
        "flags",
        "preempt_count",
        "pid",
        "cpu",
        "comm",
        "timestamp",
        "stacktrace",
    ];
    let reserved = meaning.iter().any(|it| name == format!("common_{it}"));
    if garbles(name) || reserved {
        return Err(match what {
            Type::Struct(_, size) if size > MAX_FIXED => &[INVALID, TOO_BIG],
            _ => WRONG,
        });
    }
    let name = name.to_string();
    Ok(ModelField { what, name })
}

fn array_length(number: &str) -> Option<i128> {
    if number.chars().count() > 6 {
        return None;
    }
    let number = number.strip_prefix('+').unwrap_or(number).to_lowercase();
    let (digits, radix) = match number.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if number.starts_with('0') => (&number[..], 8),
        None => (&number[..], 10),
    };
    if !digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let len = i128::from_str_radix(digits, radix).ok()?;
    (1..=1024).contains(&len).then_some(len)
}

/// The kind that the rest of the kernel derives from the text of a field's type.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    Mask,
    String,
    RelativeString,
    Array,
    Pointer,
    Bytes,
    RelativeBytes,
    Value,
}

/// Returns the kind that filters derive, or else the trace file.
pub fn seen_as(type_text: &[u8], size: u32) -> Seen {
    let text: String = type_text.iter().map(|&byte| char::from(byte)).collect();
    let has = |part| text.contains(part);
    match () {
        _ if has("__data_loc") && has("char") => Seen::String,
        _ if has("__data_loc") && has("cpumask_t") => Seen::Mask,
        _ if has("__rel_loc") && has("char") => Seen::RelativeString,
        _ if has("[") && has("char") => Seen::Array,
        _ if text == "char *" || text == "const char *" => Seen::Pointer,
        _ if size == 4 && has("__data_loc") => Seen::Bytes,
        _ if size == 4 && has("__rel_loc") => Seen::RelativeBytes,
        _ => Seen::Value,
    }
}

/// The ABI's verdict on a payload.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Valid,
    Short,
    Outside,
    NoNul,
}

/// Checks a payload by the ABI.
///
/// With the verdict, returns the offsets in the record of empty strings.
pub fn check(fields: &[ModelField], payload: &[u8]) -> (Verdict, Vec<i128>) {
    let mut empty_strings = Vec::new();
    if (payload.len() as i128) < fields.iter().map(ModelField::size).sum() {
        return (Verdict::Short, empty_strings);
    }

    // The record, with common fields that hold no NUL.
    let mut record = vec![0xaa; 8];
    record.extend_from_slice(payload);
    let end_of_record = record.len() as i128;

    let mut at: i128 = 8;
    for field in fields {
        let field_end = at + field.size();
        if let Type::Location(relative, _) = field.what {
            let bytes: [u8; 4] = record[at as usize..field_end as usize].try_into().unwrap();
            let value = i128::from(u32::from_ne_bytes(bytes));
            let (size, offset) = (value / 65536, value % 65536);
            let start = offset + if relative { field_end } else { 0 };
            let range = start..start + size;

            if range.is_empty() {
                if start > end_of_record {
                    return (Verdict::Outside, empty_strings);
                }
                if field.is_string() {
                    empty_strings.push(start);
                }
            } else {
                let inside = 8..end_of_record;
                if range.clone().any(|place| !inside.contains(&place)) {
                    return (Verdict::Outside, empty_strings);
                }
                if field.is_string() && range.map(|place| record[place as usize]).last() != Some(0)
                {
                    return (Verdict::NoNul, empty_strings);
                }
            }
        }
        at = field_end;
    }
    (Verdict::Valid, empty_strings)
}
