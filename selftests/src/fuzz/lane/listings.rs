// SPDX-License-Identifier: GPL-2.0

//! What the listings and buffers say, compared with what they must.

use super::Lane;
use crate::dynamic;
use crate::fuzz::model::Tracer as Listener;
use crate::fuzz::step::*;
use std::fs;

impl Lane {
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
        let read = || {
            let text = fs::read_to_string(crate::abi::STATUS).expect("read the status file");
            let mut status: Vec<String> = text.lines().filter(is_ours).map(without_id).collect();
            let lines = dynamic::user_lines();
            let lines = lines.iter().map(|line| &line[2..]);
            let mut lines: Vec<String> = lines.filter(is_ours).map(String::from).collect();
            if self.c.is_some() {
                // In no order there.
                status.sort();
                lines.sort();
            }
            (status, lines)
        };

        let events = &self.model().events;
        let mut want: Vec<String> = events
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
        let mut want_lines: Vec<String> = events
            .iter()
            .map(|event| {
                description(
                    &name_of(self.number, event.key.name),
                    event.key.fields,
                    false,
                )
            })
            .collect();
        if self.c.is_some() {
            want.sort();
            want_lines.sort();
        }
        let want = (want, want_lines);
        // A reader of several pages can miss an event while others, of another lane, go.
        let mut got = read();
        for _ in 0..100 {
            if got != want {
                got = read();
            }
        }
        self.compare("user_events_status", got.0, want.0);
        self.compare("dynamic_events", got.1, want.1);
        self.tell_deed(|| "the listings".into());
    }

    /// Compares how many records the instance took.
    pub(super) fn count(&mut self) {
        let Some(instance) = &self.instance else {
            return;
        };
        let got = instance.total("entries") + instance.total("overrun");
        instance.control("trace", "");
        let want = self.foretell(|model| std::mem::take(&mut model.recorded));
        self.tell_deed(|| format!("{got} records in the instance"));
        if self.model().may_be_emptied {
            assert!(got <= want, "{got} records in the instance, of {want}");
        } else {
            self.compare("records in the instance", got, want);
        }
    }
}
