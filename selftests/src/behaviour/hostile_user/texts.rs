// SPDX-License-Identifier: GPL-2.0

//! Names and types of a user in the listings and formats that others read.

use crate::kit::abi::{Data, Register};
use crate::kit::abi::{PROFILE, REGISTRATIONS};
use crate::kit::child::{self, Word};
use crate::kit::errno::{fails, Errno};
use crate::kit::memory::Mapping;
use crate::kit::random::Random;
use crate::kit::status::Status;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::unprivileged::{fork_unprivileged, Access};
use crate::kit::{dynamic, os};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;

/// Names that would be more than one word in a listing.
const FORGED: [&[u8]; 15] = [
    b"st_evil_a\nst_evil_b # Used by perf",
    b"st_evil_a\n\nActive: 0",
    b"st_evil_a # Used by ftrace",
    b"st_evil_a\t7\t7",
    b"st_evil_a\ru:st_evil_b",
    b"st_evil_a\x1b[2K",
    b"st_evil_a\x0b",
    b"st_evil_a\x7f\x7f\x7f",
    b"st_evil_#",
    b"st_evil_a 77 root 0x0 0/32 set\n#",
    b"user_events/st_evil_a",
    b"../../sched/sched_switch",
    b"st_evil_a:mod:x",
    b"\nst_evil_a",
    b"\xa0\nst_evil_a",
];

/// Odd names that are one word in every listing.
const ODD: [&str; 7] = [
    "st_evil_u",
    "st_evil_*",
    "st_evil_-e",
    "st_evil_0x41",
    "st_evil_\\n",
    "st_evil_%s%n",
    "st_evil_\u{442}\u{435}\u{441}\u{442}",
];

pub fn forges_no_line_of_a_listing() {
    let _access = Access::given();
    let mut user = child::fork(|line| {
        fs::write("/proc/self/comm", "x\n77 root set").unwrap();
        os::become_unprivileged();
        let data = Data::open();
        let page = Mapping::kept(1);
        for name in FORGED {
            for fields in [&b""[..], b" u32 a"] {
                let text = CString::new([name, fields].concat()).unwrap();
                let request = Register::new(page.address(), text.as_ptr() as u64);
                let got = data.register(&request);
                fails("forged name", &format!("{text:?}"), got, Errno::EINVAL);
            }
        }
        for field in [
            "a\nu:st_evil_b",
            "a\n\tfield:int b",
            "a\tb",
            "a\"",
            "a\x1b[0m",
        ] {
            let text = format!("st_evil_field u32 {field}");
            let got = data.register_text(&text, page.address(), 0);
            fails("forged field", &text, got, Errno::EINVAL);
            let text = format!("st_evil_field struct {field} x 4");
            let got = data.register_text(&text, page.address(), 0);
            fails("forged struct", &text, got, Errno::EINVAL);
        }
        for (bit, name) in ODD.iter().enumerate() {
            let got = data.register_text(&format!("{name} u32 a"), page.address(), bit as u8);
            assert_eq!(got, Ok(bit as u32), "odd name, {name}");
        }
        line.say(Word::Registered);
        line.hear(Word::End);
    });
    user.line.hear(Word::Registered);
    // Each listing, parsed by its own rules, has exactly these names.
    assert_eq!(Status::now().names(), ODD);
    let lines = |path: &str| -> Vec<Vec<String>> {
        let text = fs::read_to_string(path).unwrap();
        let words = |line: &str| line.split_whitespace().map(String::from).collect();
        text.split_terminator('\n').map(words).collect()
    };
    let profile = lines(PROFILE);
    assert_eq!(profile.len(), ODD.len());
    for (words, name) in profile.iter().zip(ODD) {
        assert_eq!(words, &[name, "0", "0", "0"]);
    }
    let registrations = lines(REGISTRATIONS);
    assert_eq!(registrations.len(), 1 + ODD.len());
    for (words, name) in registrations[1..].iter().zip(ODD) {
        assert_eq!(words.len(), 6, "{words:?}");
        let pid = user.pid.to_string();
        assert_eq!(words[..3], [name, &pid, "x\\01277\\040root\\040set"]);
    }
    let made = ODD.map(|name| format!("u:{name} u32 a"));
    assert_eq!(dynamic::user_lines(), made);
    let top = TraceInstance::top();
    let mut available: Vec<_> = top
        .text("available_events")
        .lines()
        .map(String::from)
        .collect();
    available.retain(|line| line.starts_with("user_events"));
    available.sort();
    let mut want = ODD.map(|name| format!("user_events:{name}"));
    want.sort();
    assert_eq!(available, want);
    user.line.say(Word::End);
    user.join();
}

/// A field as the user means it: its line in `format`, its size and sign, and its part of the print
/// format.
struct Field {
    text: String,
    shown: String,
    size: usize,
    signed: bool,
    print: &'static str,
    argument: String,
}

/// A field of any type, with a name of any characters.
fn any_field(random: &mut Random, number: usize) -> Field {
    let mut name = format!("f{number}");
    for _ in 0..random.below(6) {
        let odd: Vec<char> = "ab_9.,:()-><=+&|!?@/^~$#{}'`".chars().collect();
        name.push(*random.one_of(&odd));
    }
    let rec = format!("REC->{name}");
    let (text, shown, size, signed, print, argument) = match random.below(6) {
        0 => ("u8", None, 1, false, "%u", rec),
        1 => ("s64", None, 8, true, "%lld", rec),
        2 => ("unsigned int", None, 4, false, "%u", rec),
        3 => ("char[24]", Some("char"), 24, true, "%s", rec),
        4 => {
            let string = format!("__get_rel_str({name})");
            ("__rel_loc char[]", None, 4, true, "%s", string)
        }
        _ => ("struct tag", None, 12, true, "%llu", rec),
    };
    let shown = match (shown, text.strip_suffix("[]")) {
        (Some(element), _) => format!("{element} {name}[24]"),
        (None, Some(element)) => format!("{element} {name}[]"),
        (None, None) => format!("{text} {name}"),
    };
    let size_word = if text == "struct tag" { " 12" } else { "" };
    Field {
        text: format!("{text} {name}{size_word}"),
        shown,
        size,
        signed,
        print,
        argument,
    }
}

/// The expected lines of a `format` from the first of the event's own fields on.
fn format_of(fields: &[Field]) -> Vec<String> {
    let mut offset = 8;
    let mut lines = Vec::new();
    for field in fields {
        let (shown, size, signed) = (&field.shown, field.size, u8::from(field.signed));
        lines.push(format!(
            "\tfield:{shown};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
        ));
        offset += size;
    }
    let names = |text: &str| {
        text.rsplit(' ')
            .next()
            .unwrap_or("")
            .replace("[24]", "")
            .replace("[]", "")
    };
    let prints = fields
        .iter()
        .map(|field| format!("{}={}", names(&field.shown), field.print));
    let prints = prints.collect::<Vec<_>>().join(" ");
    let arguments = fields.iter().map(|field| format!(", {}", field.argument));
    lines.push(String::new());
    lines.push(format!(
        "print fmt: \"{prints}\"{}",
        arguments.collect::<String>()
    ));
    lines
}

pub fn has_no_format_misread() {
    const EVENTS: usize = 150;
    let _access = Access::given();
    let mut random = Random::new(6);
    let events: Vec<Vec<Field>> = (0..EVENTS)
        .map(|_| {
            let count = 1 + random.below(4);
            (0..count)
                .map(|number| any_field(&mut random, number))
                .collect()
        })
        .collect();
    let mut user = fork_unprivileged(|line| {
        let data = Data::open();
        let page = Mapping::kept(1);
        let mut refused = Vec::new();
        for (number, fields) in events.iter().enumerate() {
            let texts: Vec<_> = fields.iter().map(|field| field.text.as_str()).collect();
            let text = format!("st_evil_{number} {}", texts.join(";"));
            match data.register_text(&text, page.address() + 4 * number as u64, 0) {
                Ok(_) => {}
                Err(Errno::EINVAL) => refused.push(number.to_string()),
                Err(errno) => panic!("{text}: {errno:?}"),
            }
        }
        line.send(refused.join(" "));
        line.hear(Word::End);
    });
    let said: String = user.line.receive();
    let refused: BTreeSet<usize> = said
        .split_whitespace()
        .map(|n| n.parse().unwrap())
        .collect();
    println!("  # {} of {EVENTS} descriptions refused", refused.len());
    assert!(refused.len() < EVENTS / 2, "most are refused");
    for (number, fields) in events.iter().enumerate() {
        let name = format!("st_evil_{number}");
        assert_eq!(tracefs::event_exists(&name), !refused.contains(&number));
        if refused.contains(&number) {
            continue;
        }
        let text = tracefs::event_format(&name);
        let lines: Vec<_> = text.lines().collect();
        // Three lines of head, the common fields and an empty line come first.
        assert_eq!(lines[0], format!("name: {name}"));
        let own = &lines[8..];
        assert!(
            own.iter().eq(&format_of(fields)),
            "{text}\nwant {:?}",
            format_of(fields)
        );
    }
    user.line.say(Word::End);
    user.join();
}
