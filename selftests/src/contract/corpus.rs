// SPDX-License-Identifier: GPL-2.0

//! "Event descriptions": registers each entry of the corpus gathered by the schema's fuzzer, on the
//! running kernel. The result and `format` must be those of the model of the schema's tests. The C
//! implementation may differ from it only as [`is_how_c_differs`] allows.

use super::check::{when_idle, Check, Row};
use crate::harness::options;
use crate::kit::abi::{Data, Register, DIAG_IOCSDEL, PERSIST};
use crate::kit::errno::{Errno, Result};
use crate::kit::memory::Mapping;
use crate::kit::model::{self, ModelField, Type};
use crate::kit::{os, tracefs};
use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;

#[path = "../../schema/tests/schema/entries.rs"]
#[allow(dead_code)]
mod entries;

const CORPUS: Row = Row::new(
    "corpus",
    "NAME[ FIELD[;FIELD…]], at most 511 bytes; fields, types and print fmt",
);

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        CORPUS.scenarios(&[("descriptions_are_taken_and_shown_or_refused", || {
            let (taken, refused) = are_taken_or_refused(corpus());
            assert!(
                taken > 100 && refused > 100,
                "{taken} taken, {refused} refused"
            );
        })]),
    ]
}

/// All entries up to their first NUL, with a `char` for each byte, without duplicates.
fn corpus() -> BTreeSet<String> {
    const FILES: [&str; 6] = [
        include_str!("../../schema/fuzz/corpus/descriptions"),
        include_str!("../../schema/fuzz/corpus/descriptions.found"),
        include_str!("../../schema/fuzz/corpus/lines"),
        include_str!("../../schema/fuzz/corpus/lines.found"),
        include_str!("../../schema/fuzz/corpus/records"),
        include_str!("../../schema/fuzz/corpus/records.found"),
    ];
    let lines = FILES.into_iter().flat_map(entries::lines);
    let entries = lines.map(|line| {
        let bytes = entries::read(line).unwrap_or_else(|| panic!("no entry: {line}"));
        let end = bytes.iter().position(|byte| *byte == 0);
        text_of(&bytes[..end.unwrap_or(bytes.len())])
    });
    entries.collect()
}

fn text_of(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn bytes_of(text: &str) -> Vec<u8> {
    let bytes = text.chars().map(u8::try_from);
    bytes.collect::<std::result::Result<_, _>>().expect("bytes")
}

/// The event's own fields and its print format, as in `format`; or the errnos that fit, as several
/// fields can be wrong.
fn predicted(text: &str) -> std::result::Result<[String; 2], Vec<Errno>> {
    let errno = |name: &&str| match *name {
        model::INVALID => Errno::EINVAL,
        model::TOO_BIG => Errno::E2BIG,
        other => panic!("no errno {other}"),
    };
    match model::parse(&bytes_of(text)) {
        Ok((_, fields)) => Ok([shown(&fields), model::print_fmt(&fields)]),
        Err(errors) => Err(errors.iter().map(errno).collect()),
    }
}

/// The fields in `format`. The trace core puts the lengths of arrays behind the name.
fn shown(fields: &[ModelField]) -> String {
    let (mut text, mut offset) = (String::new(), 8);
    for field in fields {
        let (kind, name, size) = (field.type_text(), &field.name, field.size());
        let element = kind.split('[').next().unwrap_or(&kind);
        let declaration = match &field.what {
            Type::Chars(_, length) => format!("{element} {name}[{length}]"),
            Type::Location(true, _) => format!("{element} {name}[]"),
            _ => format!("{kind} {name}"),
        };
        let signed = u8::from(!kind.starts_with('u'));
        text +=
            &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
        offset += size;
    }
    text
}

/// Registers a description of a persistent event, reads the event's own fields and its print format
/// from `format`, and deletes the event. `format` is read only if the name is valid for a file.
fn tried(text: &str, page: &Mapping) -> Result<Option<[String; 2]>> {
    let name = text.split(' ').next().unwrap_or_default();
    let is_file = model::parse(&bytes_of(name)).is_ok();
    let (text, name) = (bytes_of(text), bytes_of(name));
    let text = CString::new(text).expect("no NUL");
    let data = Data::open();
    data.register(&Register {
        flags: PERSIST,
        ..Register::new(page.address(), text.as_ptr() as u64)
    })?;
    let format = is_file.then(|| format_of(&name));
    let unregistered = data.unregister_bit(page.address(), 0);
    unregistered.expect("unregister");
    drop(data);
    delete(&name);
    Ok(format)
}

fn format_of(name: &[u8]) -> [String; 2] {
    let dir = tracefs::group_dir(tracefs::GROUP).join(OsStr::from_bytes(name));
    let format = fs::read(dir.join("format")).expect("read format");
    let format = text_of(&format);
    // An empty line ends the common fields, and another one the event's own.
    let (head, own) = format.split_once("\n\n").expect("an empty line");
    let start = format!("name: {}\nID: ", text_of(name));
    assert!(head.starts_with(&start), "{format}");
    let (fields, print) = own.split_once("\nprint fmt: ").expect("a print format");
    let print = print.strip_suffix('\n').expect("the end of a line");
    [fields.into(), print.into()]
}

fn delete(name: &[u8]) {
    let data = Data::open();
    let name = CString::new(name).expect("no NUL");
    let delete = || os::ioctl(&data.file, DIAG_IOCSDEL, name.as_ptr() as u64);
    let result = when_idle(|| delete().map(drop));
    assert_eq!(result, Ok(()), "delete {name:?}");
}

/// Registers each description, and compares the result with that of the model. Returns how many
/// should be taken and refused.
pub fn are_taken_or_refused(texts: impl IntoIterator<Item = String>) -> (usize, usize) {
    let page = Mapping::kept(1);
    let (mut wrong, mut taken, mut refused) = (Vec::new(), 0, 0);
    for text in texts {
        let should = predicted(&text);
        match should {
            Ok(_) => taken += 1,
            Err(_) => refused += 1,
        }
        let got = tried(&text, &page);
        let is_right = match (&got, &should) {
            (Ok(format), Ok(should)) => format.as_ref().is_none_or(|format| format == should),
            (Err(errno), Err(errors)) => errors.contains(errno),
            _ => false,
        };
        let is_of_c = options().against_c && is_how_c_differs(&text, &got, &should);
        if !is_right && !is_of_c {
            wrong.push(format!("{text:?}: want {should:?}, got {got:?}"));
        }
    }
    let count = wrong.len();
    wrong.truncate(5);
    assert!(wrong.is_empty(), "{count} wrong: {}", wrong.join("; "));
    assert_eq!(tracefs::count_of_events(), 0);
    (taken, refused)
}

/// Returns whether C differs from the model in this way: it takes what the contract refuses (rows 3
/// and 6 of the differences), takes what is too large or refuses it with another errno (row 7), or
/// shows any lengths of arrays (row 8). It also prints a location of a type with `char` in its name
/// as a number.
fn is_how_c_differs(
    text: &str,
    got: &Result<Option<[String; 2]>>,
    should: &std::result::Result<[String; 2], Vec<Errno>>,
) -> bool {
    match (got, should) {
        (Ok(_), Err(_)) => true,
        (Err(_), Err(errors)) => errors.contains(&Errno::E2BIG),
        (Ok(Some([fields, print])), Ok([want_fields, want_print])) => {
            let odd = |element: &str| element.contains("char") && !element.starts_with("char[");
            let mut locations = text.split("_loc ").skip(1);
            without_lengths(fields) == without_lengths(want_fields)
                && (print == want_print || locations.any(odd))
        }
        _ => false,
    }
}

/// Fields without the numbers in brackets.
fn without_lengths(fields: &str) -> String {
    let mut pieces = fields.split('[');
    let first = pieces.next().unwrap_or_default();
    let is_of_number = |c: char| c == '-' || c.is_ascii_digit();
    let others = pieces.map(|piece| piece.trim_start_matches(is_of_number));
    std::iter::once(first).chain(others).collect()
}
