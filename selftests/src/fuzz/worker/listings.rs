// SPDX-License-Identifier: GPL-2.0

//! What the listings say, compared with what they must.

use super::Worker;
use crate::fuzz::model::TraceInstance as Listener;
use crate::fuzz::step::*;
use crate::kit::abi::STATUS;
use std::fs::File;
use std::io::Read;

const DYNAMIC: &str = "/sys/kernel/tracing/dynamic_events";

impl Worker {
    /// Compares the listings.
    pub(super) fn list(&mut self) {
        self.wait_all_gone();
        let start = name_of(self.number, 0);
        let start = &start[..start.len() - 1];
        let is_ours = |line: &&str| line.starts_with(start);

        let without_id = |line: &str| match line.split_once('.') {
            Some((name, rest)) => {
                let used = rest.split_once(' ').map_or("", |(_, used)| used);
                format!("{name}. {used}").trim_end().to_string()
            }
            None => line.to_string(),
        };
        // In no order there.
        let ordered = |mut lines: Vec<String>| {
            if self.c.is_some() {
                lines.sort();
            }
            lines
        };

        let events = &self.model().events;
        let want: Vec<String> = events
            .iter()
            .map(|event| {
                let name = name_of(self.number, event.key.name);
                let dot = if event.key.multi { "." } else { "" };
                let perf = |listener: &Listener| matches!(listener, Listener::Perf(_));
                let by_perf = event.tracers.iter().any(perf);
                let by_ftrace = event.tracers.iter().any(|listener| !perf(listener));
                let used = match (by_ftrace, by_perf) {
                    (false, false) => "",
                    (true, false) => " # Used by ftrace",
                    (false, true) => " # Used by perf",
                    (true, true) => " # Used by ftrace perf",
                };
                format!("{name}{dot}{used}")
            })
            .collect();
        let want_lines: Vec<String> = events
            .iter()
            .map(|event| {
                description(
                    &name_of(self.number, event.key.name),
                    event.key.fields,
                    false,
                )
            })
            .collect();
        let (want, want_lines) = (ordered(want), ordered(want_lines));

        // Whatever other workers do meanwhile, the events of this one stand still, and each reading must have
        // them: the module goes on behind the last one that it showed, and C shows all at once.
        let (text, _) = read(STATUS);
        let status = text.lines().filter(is_ours).map(without_id).collect();
        self.compare("user_events_status", ordered(status), want);

        // The trace core goes on at a place in its list. What is read in one piece must be right. A reading of
        // several can miss an event while others, of another worker, go; but it cannot have one twice, nor
        // another, nor two in another order.
        for left in (0..100).rev() {
            let (text, is_whole) = read(DYNAMIC);
            let lines = text.lines().filter_map(|line| line.strip_prefix("u:"));
            let got = ordered(lines.filter(is_ours).map(String::from).collect());
            if is_whole || left == 0 || got == want_lines {
                self.compare("dynamic_events", got, want_lines);
                break;
            }
            let mut rest = want_lines.iter();
            let could_be = got.iter().all(|line| rest.any(|one| one == line));
            assert!(could_be, "dynamic_events: {got:?}, of {want_lines:?}");
        }
        self.tell_op(|| "the listings".into());
    }
}

/// Reads a listing. Tells whether it came in one piece, as it was at one moment.
fn read(path: &str) -> (String, bool) {
    let mut file = File::open(path).unwrap_or_else(|error| panic!("open {path}: {error}"));
    let (mut bytes, mut part, mut pieces) = (Vec::new(), vec![0; 1 << 16], 0);
    loop {
        match file.read(&mut part) {
            Ok(0) => break,
            Ok(length) => bytes.extend(&part[..length]),
            Err(error) => panic!("read {path}: {error}"),
        }
        pieces += 1;
    }
    let text = String::from_utf8(bytes).expect("a listing in ASCII");
    (text, pieces <= 1)
}
