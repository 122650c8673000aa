// SPDX-License-Identifier: GPL-2.0

//! "Event descriptions": registers each entry of the corpus gathered by the schema's fuzzer, on the
//! running kernel. The result and `format` must be those of the model of the schema's tests, or on
//! the C implementation those of C, whose deviations are named in [`DIFFERENCES`].

use super::as_in_c::{self, Field, ANY};
use super::check::{Check, Row};
use crate::harness::options;
use crate::kit::abi::{
    Register, Unregister, DATA, DIAG_IOCSDEL, DIAG_IOCSREG, DIAG_IOCSUNREG, STATUS,
};
use crate::kit::errno::{Errno, Result};
use crate::kit::memory::Mapping;
use crate::kit::{os, tracefs, wait};
use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;

#[path = "../../schema/tests/schema/entries.rs"]
#[allow(dead_code)]
mod entries;
#[path = "../../schema/tests/schema/model.rs"]
#[allow(dead_code)]
pub mod model;

use model::{ModelField, Type};

const CORPUS: Row = Row::new(
    "corpus",
    "NAME[ FIELD[;FIELD…]], at most 511 bytes; fields, types and print fmt",
);

/// Parts of descriptions in which the C implementation deviates, each with its row of the
/// differences.
const DIFFERENCES: [(&str, &str); 8] = [
    (
        "name",
        "row 3: takes names that are no file's, or not one word of one line",
    ),
    (
        "field name",
        "row 6: takes names of fields that are empty, reserved, given twice, or have marks in them",
    ),
    (
        "array",
        "row 6: takes an array with more behind the length in brackets",
    ),
    (
        "location",
        "row 6: takes a location without [], or of what the kernel takes for another",
    ),
    (
        "struct",
        "row 6: takes tags that are not one word, or that the kernel takes for a location",
    ),
    (
        "size",
        "row 7: takes what no buffer can hold, or has the size for an errno",
    ),
    (
        "white space",
        "passes over byte 0xa0 in front of a field, too",
    ),
    (
        "print",
        "prints a location of what has char in its name as a number",
    ),
];

pub fn checks() -> Vec<Vec<Check>> {
    vec![CORPUS.scenarios(&[
        ("differences_from_c_have_names", differences_have_names),
        (
            "descriptions_are_taken_and_shown_or_refused",
            descriptions_are_taken_or_refused,
        ),
    ])]
}

/// The result of a registration: the fields and the print format in `format`, or an errno.
#[derive(PartialEq, Eq, Debug)]
enum Outcome {
    Taken(String),
    /// Any of these, as several fields can be wrong.
    Refused(Vec<Errno>),
}

use Outcome::{Refused, Taken};

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

/// The result by the model.
fn in_contract(text: &str) -> Outcome {
    let errno = |name: &&str| match *name {
        model::INVALID => Errno::EINVAL,
        model::TOO_BIG => Errno::E2BIG,
        other => panic!("no errno {other}"),
    };
    match model::parse(&bytes_of(text)) {
        Ok((_, fields)) => {
            let print = model::print_fmt(&fields);
            Taken(format!("{}\nprint fmt: {print}\n", shown(&fields)))
        }
        Err(errors) => Refused(errors.iter().map(errno).collect()),
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

/// The result on the C implementation.
fn in_c(text: &str) -> Outcome {
    match as_in_c::parse(text) {
        Ok((_, fields)) => {
            let (shown, print) = (as_in_c::shown(&fields), as_in_c::print_fmt(&fields));
            Taken(format!("{shown}\nprint fmt: {print}\n"))
        }
        Err(errno) => Refused(vec![errno]),
    }
}

/// Returns whether the text is as it should be, with any or no number in place of [`ANY`].
fn fits(mut text: &str, should: &str) -> bool {
    let mut parts = should.split(ANY);
    let first = parts.next().unwrap_or_default();
    let Some(rest) = text.strip_prefix(first) else {
        return false;
    };
    text = rest;
    for part in parts {
        let rest = text.trim_start_matches(|c: char| c == '-' || c.is_ascii_digit());
        match rest.strip_prefix(part) {
            Some(rest) => text = rest,
            None => return false,
        }
    }
    text.is_empty()
}

/// Returns whether C follows the manual, regardless of the lengths of arrays (row 8).
fn agree(c: &Outcome, contract: &Outcome) -> bool {
    match (c, contract) {
        (Taken(shown), Taken(should)) => fits(should, shown),
        (Refused(errno), Refused(errors)) => errors.contains(&errno[0]),
        _ => false,
    }
}

/// The differences that show in a description.
fn differences(text: &str) -> BTreeSet<&'static str> {
    const MAX_FIXED: i64 = 524_256;
    let mut found = BTreeSet::new();
    let name = text.split(' ').next().unwrap_or_default();
    let odd = |c: char| c <= ' ' || c == '\x7f' || c == '#';
    let is_file = (1..256).contains(&name.chars().count())
        && ![".", "..", "enable", "filter"].contains(&name)
        && !name.contains(|c| odd(c) || c == '/');
    if !is_file {
        found.insert("name");
    }

    let marks = ['"', '%', '\\', '[', ']', '*'];
    let is_word = |word: &str| !word.is_empty() && !word.contains(odd) && !word.contains(marks);
    let misleads = |word: &str| {
        let others = ["__data_loc", "__rel_loc", "cpumask_t"];
        others.iter().any(|other| word.contains(other))
    };
    let fields = match as_in_c::parse(text) {
        Ok((_, fields)) => fields,
        Err(errno) => {
            // A number that is no errno of the contract.
            if errno != Errno::EINVAL || has_long_size(text) {
                found.insert("size");
            }
            return found;
        }
    };
    let mut names = BTreeSet::new();
    let (_, pieces) = text.split_once(' ').unwrap_or_default();
    let white = [' ', '\t', '\n', '\x0b', '\x0c', '\r'];
    let mut pieces = pieces
        .split(';')
        .map(|piece| piece.trim_start_matches(white));
    if pieces.any(|piece| piece.starts_with('\u{a0}')) {
        found.insert("white space");
    }
    for Field {
        kind, name, size, ..
    } in &fields
    {
        let reserved = [
            "type",
            "flags",
            "preempt_count",
            "pid",
            "cpu",
            "comm",
            "timestamp",
            "stacktrace",
        ];
        let meaning = name.strip_prefix("common_").unwrap_or_default();
        if !is_word(name) || reserved.contains(&meaning) || !names.insert(name) {
            found.insert("field name");
        }
        if let Some(tag) = kind.strip_prefix("struct ") {
            if !is_word(tag) || misleads(tag) {
                found.insert("struct");
            }
        } else if let Some((_, element)) = kind.split_once("_loc ") {
            let element = element.strip_prefix("unsigned ").unwrap_or(element);
            let inside = element.strip_suffix("[]");
            if !inside.is_some_and(|inside| is_word(inside) && !misleads(inside)) {
                found.insert("location");
            }
            if kind.contains("char") && !kind.contains("char[") {
                found.insert("print");
            }
        } else if kind.contains('[') && (!kind.ends_with(']') || kind.matches(']').count() > 1)
            || kind.contains('\n')
        {
            found.insert("array");
        }
        if i64::from(*size) > MAX_FIXED {
            found.insert("size");
        }
    }
    if fields
        .iter()
        .map(|field| i64::from(field.size))
        .sum::<i64>()
        > MAX_FIXED
    {
        found.insert("size");
    }
    found
}

/// Returns whether the size of a struct exceeds 32 bits.
fn has_long_size(text: &str) -> bool {
    let mut words = text.split([' ', ';', '\n']);
    words.any(|word| {
        word.trim_start_matches('+')
            .parse::<f64>()
            .is_ok_and(|size| size > 4e9)
    })
}

/// Returns whether C deviates as the differences found allow: it accepts what the contract refuses,
/// refuses sizes with another errno, or accepts the same with another print format.
fn is_how_c_differs(c: &Outcome, contract: &Outcome, found: &BTreeSet<&'static str>) -> bool {
    let fields = |shown: &str| shown.split("\n\nprint fmt").next().map(String::from);
    match (c, contract) {
        (Taken(shown), Taken(should)) => {
            let (shown, should) = (fields(shown), fields(should));
            let fit = shown
                .zip(should)
                .is_some_and(|(shown, should)| fits(&should, &shown));
            found.contains("print") && fit
        }
        (Taken(_), Refused(_)) => found.iter().any(|name| *name != "print"),
        (Refused(_), Refused(_)) => found.contains("size"),
        (Refused(_), Taken(_)) => false,
    }
}

/// The same with a plain space for each 0xa0 in front of a field.
fn with_plain_spaces(text: &str) -> String {
    let Some((name, fields)) = text.split_once(' ') else {
        return text.into();
    };
    let plain = |field: &str| {
        let rest = field.trim_start_matches(as_in_c::WHITE);
        let white = field.chars().count() - rest.chars().count();
        format!("{}{rest}", " ".repeat(white))
    };
    let fields: Vec<String> = fields.split(';').map(plain).collect();
    format!("{name} {}", fields.join(";"))
}

/// A description, the same with a plain name, and each of its fields alone: a difference in one
/// part must not hide those in others.
fn with_parts(text: &str) -> Vec<String> {
    let (_, fields) = text.split_once(' ').unwrap_or_default();
    let mut parts = vec![text.to_string(), format!("plain {fields}")];
    parts.extend(fields.split(';').map(|field| format!("plain {field}")));
    parts
}

/// The model and C must differ by named differences only, and by each of them. Needs no kernel.
fn differences_have_names() {
    let (mut nameless, mut seen) = (Vec::new(), BTreeSet::new());
    for text in corpus().iter().flat_map(|text| with_parts(text)) {
        let (c, contract) = (in_c(&text), in_contract(&text));
        let found = differences(&text);
        if agree(&c, &contract) {
            continue;
        }
        // Treats 0xa0 as C does: any other difference must have a name of its own.
        let text = with_plain_spaces(&text);
        let (contract, others) = (in_contract(&text), differences(&text));
        if !agree(&c, &contract) && !is_how_c_differs(&c, &contract, &others) {
            nameless.push((text, c, contract, others));
        }
        seen.extend(found);
    }
    let count = nameless.len();
    nameless.truncate(5);
    assert!(nameless.is_empty(), "{count}: {nameless:#?}");
    for (name, about) in DIFFERENCES {
        assert!(seen.remove(name), "none differs by {name}: {about}");
    }
    assert!(seen.is_empty(), "no word about {seen:?}");
}

/// Registers a description of a persistent event, reads the event's own fields from `format`, and
/// deletes the event. `format` is read only if the name is valid for a file.
fn tried(text: &str, page: &Mapping) -> Result<Option<String>> {
    let name = text.split(' ').next().unwrap_or_default();
    let is_file = !differences(text).contains("name");
    let (text, name) = (bytes_of(text), bytes_of(name));
    let text = CString::new(text).expect("no NUL");
    let file = OpenOptions::new().read(true).write(true).open(DATA)?;
    let request = Register {
        flags: 1,
        ..Register::new(page.address(), text.as_ptr() as u64)
    };
    let mut bytes = request.bytes();
    os::ioctl(&file, DIAG_IOCSREG, bytes.as_mut_ptr() as u64)?;

    let format = is_file.then(|| format_of(&name));
    let request = Unregister::new(page.address(), 0).bytes();
    os::ioctl(&file, DIAG_IOCSUNREG, request.as_ptr() as u64).expect("unregister");
    drop(file);
    delete(&name);
    Ok(format)
}

fn format_of(name: &[u8]) -> String {
    let dir = tracefs::group_dir(tracefs::GROUP).join(OsStr::from_bytes(name));
    let format = fs::read(dir.join("format")).expect("read format");
    let format = text_of(&format);
    // An empty line ends the common fields.
    let (head, own) = format.split_once("\n\n").expect("an empty line");
    let start = format!("name: {}\nID: ", text_of(name));
    assert!(head.starts_with(&start), "{format}");
    own.into()
}

fn delete(name: &[u8]) {
    let data = File::open(DATA).expect(DATA);
    let name = CString::new(name).expect("no NUL");
    let mut result = Ok(0);
    wait::eventually(|| {
        result = os::ioctl(&data, DIAG_IOCSDEL, name.as_ptr() as u64);
        result != Err(Errno::EBUSY)
    });
    assert_eq!(result, Ok(0), "delete {name:?}");
}

fn descriptions_are_taken_or_refused() {
    let (taken, refused) = are_as_predicted(corpus());
    assert!(
        taken > 100 && refused > 100,
        "{taken} taken, {refused} refused"
    );
}

/// Registers each description, and compares the result with that of the model, or on the C
/// implementation with that of C. Returns how many are taken and refused.
pub fn are_as_predicted(texts: impl IntoIterator<Item = String>) -> (usize, usize) {
    let page = Mapping::kept(1);
    let (mut wrong, mut taken, mut refused) = (Vec::new(), 0, 0);
    for text in texts {
        let should = match options().against_c {
            true => in_c(&text),
            false => in_contract(&text),
        };
        let got = tried(&text, &page);
        let is_right = match (&got, &should) {
            (Ok(format), Taken(should)) => {
                taken += 1;
                format.as_ref().is_none_or(|format| fits(format, should))
            }
            (Err(errno), Refused(errors)) => {
                refused += 1;
                errors.contains(errno)
            }
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{text:?}: want {should:?}, got {got:?}"));
        }
    }
    let count = wrong.len();
    wrong.truncate(5);
    assert!(wrong.is_empty(), "{count} wrong: {}", wrong.join("; "));
    let status = fs::read_to_string(STATUS).expect(STATUS);
    assert!(status.contains("Active: 0\n"), "{status}");
    (taken, refused)
}
