// SPDX-License-Identifier: GPL-2.0

//! Names of a user in the listings that others read. `contract::names` and `contract::fields` have
//! all that is refused.

use crate::kit::abi::{Data, PROFILE, REGISTRATIONS};
use crate::kit::child::{self, Word};
use crate::kit::memory::Mapping;
use crate::kit::status::Status;
use crate::kit::tracefs::TraceInstance;
use crate::kit::unprivileged::Access;
use crate::kit::{dynamic, os};
use std::fs;

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
        for (bit, name) in ODD.iter().enumerate() {
            let got = data.register_text(&format!("{name} u32 a"), page.address(), bit as u8);
            assert_eq!(got, Ok(bit as u32), "odd name, {name}");
        }
        line.say(Word::Registered);
        line.wait_for_kill();
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
}
