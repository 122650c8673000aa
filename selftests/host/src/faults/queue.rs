// SPDX-License-Identifier: GPL-2.0

//! Settles the results of a machine, and chooses the faults of the next.

use super::{
    make_dir,
    plan,
    plan::Entry,
    write,
    Verdict,
    Word,
    DIR,
    UNCHANGED, //
};
use crate::{
    outcome,
    read,
    Outcome, //
};
use std::{
    collections::BTreeSet,
    fs,
    path::Path, //
};

/// Faults of one machine: their leftovers must not grow without end.
const MAX_FAULTS: usize = 12;

/// Times that a machine may die before it has begun a test.
const MAX_STARTS: usize = 3;

/// Mark behind a name in the queue: the fault timed out once.
const ONCE: &str = "timed-out-once";

/// A fault in the queue.
#[derive(Clone, Debug, PartialEq)]
struct Waiting {
    name: String,
    has_timed_out: bool,
}

/// The state left by a machine.
#[derive(Default)]
struct Left {
    todo: Vec<Waiting>,
    /// Verdicts by name.
    done: Vec<(String, Verdict)>,
    /// The fault under test when the machine ended.
    at: Option<String>,
    /// The line of the console with the cause of death.
    report: Option<String>,
}

/// The conclusions from [`Left`].
#[derive(Default, Debug, PartialEq)]
struct Settled {
    told: Vec<(String, Verdict)>,
    /// In the order of testing.
    again: Vec<Waiting>,
    /// The reason why the run has no valid result.
    unsound: Option<String>,
    /// The machine died before the first test.
    has_not_begun: bool,
}

fn settle(left: Left) -> Settled {
    let mut settled = Settled::default();
    if left.todo.is_empty() {
        return settled;
    }
    let mut first = true;
    let mut rest = Vec::new();
    for mut waiting in left.todo {
        let mut done = left.done.iter();
        let verdict = done.find(|(name, _)| *name == waiting.name);
        let verdict = verdict.map(|(_, verdict)| verdict.clone());
        let is_at = left.at.as_ref() == Some(&waiting.name);
        let verdict = verdict.or_else(|| {
            // Valid only for the first fault of a machine: an earlier one may have caused it.
            (is_at && first).then(|| match &left.report {
                Some(report) => Verdict::new(Word::Killed, &format!("the machine died: {report}")),
                None => Verdict::new(Word::TimedOut, "the machine hung, and nothing was said"),
            })
        });
        first = false;
        match verdict {
            Some(verdict) if verdict.word == Word::TimedOut && !waiting.has_timed_out => {
                waiting.has_timed_out = true;
                settled.again.insert(0, waiting);
            }
            Some(verdict) if verdict.word == Word::TimedOut => {
                let why = format!("twice: {}", verdict.why);
                let verdict = Verdict::new(Word::Killed, &why);
                settled.told.push((waiting.name, verdict));
            }
            Some(verdict) => settled.told.push((waiting.name, verdict)),
            None if is_at => settled.again.insert(0, waiting),
            None => rest.push(waiting),
        }
    }
    settled.again.append(&mut rest);
    settled.has_not_begun = left.at.is_none();
    if left.at.as_deref() == Some(UNCHANGED) {
        let why = left.report.unwrap_or("nothing was said".into());
        settled.unsound = Some(format!(
            "the machine hung or died with the module as it is: {why}"
        ));
    }
    settled
}

/// Returns the number of faults for the next machine: its share, or a single one if that is
/// repeated alone.
fn share(waiting: &[Waiting], machines: usize) -> usize {
    match waiting.first() {
        Some(first) if first.has_timed_out => 1,
        _ => waiting.len().div_ceil(machines.max(1)).min(MAX_FAULTS),
    }
}

/// Settles the results of a machine, and gives it more faults: then the status is 0. The caller
/// holds a lock.
pub fn take(machine: usize, machines: usize) -> Outcome {
    let plan = plan::entries()?;
    let dir = format!("{DIR}/machine-{machine}");
    make_dir(&format!("{dir}/done"))?;
    let settled = settle(left_by(machine, &dir));
    let unsound = format!("{DIR}/unsound");
    // The reason that the machine itself stored is preferred.
    if let Some(why) = (settled.unsound.as_ref()).filter(|_| !Path::new(&unsound).exists()) {
        write(&unsound, why)?;
    }
    for (name, verdict) in &settled.told {
        tell(&plan, name, verdict)?;
    }
    count_starts(&dir, settled.has_not_begun, machine)?;
    if Path::new(&unsound).exists() {
        return outcome(false);
    }

    let mut waiting = settled.again;
    waiting.extend(parse(&read(&format!("{DIR}/queue"))?));
    let mut compiled = Vec::new();
    for fault in waiting {
        let entry = plan.iter().find(|entry| entry.name == fault.name);
        let broken = Verdict::new(Word::Broken, "it does not compile");
        match entry.is_some_and(|entry| Path::new(&entry.module_file()).exists()) {
            true => compiled.push(fault),
            false => tell(&plan, &fault.name, &broken)?,
        }
    }
    let todo: Vec<Waiting> = compiled.drain(..share(&compiled, machines)).collect();
    write(&format!("{DIR}/queue"), &lines(&compiled))?;
    write(&format!("{dir}/waiting"), &lines(&todo))?;
    write(&format!("{dir}/todo"), &todo_lines(&plan, &todo))?;
    let _ = fs::remove_dir_all(format!("{dir}/done"));
    make_dir(&format!("{dir}/done"))?;
    for file in ["at", "alive"] {
        let _ = fs::remove_file(format!("{dir}/{file}"));
    }
    outcome(!todo.is_empty())
}

/// Prints and stores the verdict on a fault.
fn tell(plan: &[Entry], name: &str, verdict: &Verdict) -> Result<(), String> {
    let entry = plan.iter().find(|entry| entry.name == name);
    let entry = entry.ok_or(format!("{name} is not in the plan"))?;
    if verdict.word != Word::Broken {
        verdict.write(&entry.result_file())?;
    }
    let told = read(&format!("{DIR}/told"))? + name + "\n";
    write(&format!("{DIR}/told"), &told)?;
    let open = plan.iter().filter(|entry| entry.is_open).count();
    let why: String = verdict.why.chars().take(150).collect();
    println!(
        "  [{:3} of {open}] {:8} {name} ({}): {why}",
        told.lines().count(),
        verdict.word.text(),
        entry.file
    );
    Ok(())
}

/// Counts failed starts: a machine that does not start is started again, but not forever.
fn count_starts(dir: &str, has_not_begun: bool, machine: usize) -> Result<(), String> {
    let file = format!("{dir}/starts");
    let before = read(&file).ok().and_then(|text| text.parse::<usize>().ok());
    let starts = match has_not_begun {
        true => 1 + before.unwrap_or(0),
        false => 0,
    };
    write(&file, &starts.to_string())?;
    let why = format!("the machine does not start: see {dir}/boot, of machine {machine}");
    match starts {
        MAX_STARTS => write(&format!("{DIR}/unsound"), &why),
        _ => Ok(()),
    }
}

fn left_by(machine: usize, dir: &str) -> Left {
    let text = |name: &str| read(&format!("{dir}/{name}")).unwrap_or_default();
    let todo = parse(&text("waiting"));
    let done = todo.iter().filter_map(|waiting| {
        let verdict = Verdict::read(&format!("{dir}/done/{}", waiting.name))?;
        Some((waiting.name.clone(), verdict))
    });
    let done = done.collect();
    let at = text("at");
    let console = read(&format!("/build/boot/mutants-{machine}.console")).unwrap_or_default();
    Left {
        todo,
        done,
        at: (!at.is_empty()).then_some(at),
        report: report(&console),
    }
}

/// Returns the first line of a console with an error report of the kernel.
fn report(console: &str) -> Option<String> {
    const SIGNS: [&str; 5] = ["Oops: ", "BUG: ", "WARNING: ", "Kernel panic", "INFO: "];
    let found = |line: &str| SIGNS.iter().filter_map(|sign| line.find(sign)).min();
    let line = console.lines().find(|line| found(line).is_some())?;
    Some(line[found(line)?..].trim_end().into())
}

fn parse(text: &str) -> Vec<Waiting> {
    let waiting = |line: &str| Waiting {
        name: line.split(' ').next().unwrap_or(line).into(),
        has_timed_out: line.ends_with(ONCE),
    };
    text.lines().map(waiting).collect()
}

fn lines(waiting: &[Waiting]) -> String {
    let line = |fault: &Waiting| match fault.has_timed_out {
        true => format!("{} {ONCE}\n", fault.name),
        false => format!("{}\n", fault.name),
    };
    waiting.iter().map(line).collect()
}

/// Returns the machine's list: in each line a fault and the parts of its tests' names. First comes
/// the unchanged module, with all of these.
fn todo_lines(plan: &[Entry], todo: &[Waiting]) -> String {
    let entry = |fault: &Waiting| plan.iter().find(|entry| entry.name == fault.name);
    let entries: Vec<&Entry> = todo.iter().filter_map(entry).collect();
    let parts = entries.iter().flat_map(|entry| entry.tests.split(' '));
    let parts: Vec<&str> = parts.collect::<BTreeSet<_>>().into_iter().collect();
    let mut lines = format!("{UNCHANGED}\t{}\n", parts.join(" "));
    for entry in entries {
        lines += &format!("{}\t{}\n", entry.name, entry.tests);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settles what a machine left. With a comma between two, `todo` lists faults as in the queue,
    /// and `done` verdicts as "NAME WORD WHY".
    fn settled(todo: &str, done: &str, at: &str, report: Option<&str>) -> Settled {
        let verdict = |text: &str| {
            let mut parts = text.splitn(3, ' ');
            let [name, word, why] = [(); 3].map(|()| parts.next().unwrap_or_default());
            let (word, _) = Word::ALL.iter().find(|(_, text)| *text == word)?;
            Some((name.to_string(), Verdict::new(*word, why)))
        };
        settle(Left {
            todo: parse(&todo.replace(", ", "\n")),
            done: done.split(", ").filter_map(verdict).collect(),
            at: (!at.is_empty()).then(|| at.into()),
            report: report.map(String::from),
        })
    }

    #[test]
    fn a_verdict_is_told_or_the_fault_is_tested_again() {
        let (once, died) = ("a timed-out-once", Some("Oops"));
        let is_silent = "the machine hung, and nothing was said";
        for (todo, done, at, report, expected) in [
            (
                "a, b",
                "a killed x, b survived y",
                "b",
                None,
                "a killed x, b survived y; ",
            ),
            // A death is believed of the first,
            ("a, b", "", "a", died, "a killed the machine died: Oops; b"),
            // and who dies behind another is the first of the next machine.
            ("a, b", "a killed x", "b", died, "a killed x; b"),
            ("a, b, c", "a killed x", "c", died, "a killed x; c, b"),
            // A time-out counts when it is repeated.
            ("b, a", "a timed-out x", "a", None, "; a timed-out-once, b"),
            ("b", "", "b", None, "; b timed-out-once"),
            (once, "a timed-out x", "a", None, "a killed twice: x; "),
            (
                once,
                "",
                "a",
                None,
                &format!("a killed twice: {is_silent}; "),
            ),
        ] {
            let settled = settled(todo, done, at, report);
            let text = |(name, verdict): &(String, Verdict)| {
                format!("{name} {} {}", verdict.word.text(), verdict.why)
            };
            let told: Vec<String> = settled.told.iter().map(text).collect();
            let again = lines(&settled.again).trim_end().replace('\n', ", ");
            let all = format!("{}; {again}", told.join(", "));
            assert_eq!(all, expected, "{todo}, at {at}");
            assert_eq!(settled.unsound, None);
        }
        assert_eq!(settled("", "", "", None), Settled::default());
        assert_eq!(share(&parse("a timed-out-once\nb"), 1), 1);
    }

    #[test]
    fn nothing_is_said_when_the_module_as_it_is_fails() {
        let fails = settled("a", "", UNCHANGED, None);
        assert_eq!((fails.told.len(), fails.unsound.is_some()), (0, true));
        let silent = settled("a", "", "", None);
        assert_eq!((silent.has_not_begun, silent.again.len()), (true, 1));
    }

    #[test]
    fn a_machine_takes_its_share() {
        let many = parse(&"a\n".repeat(30));
        assert_eq!(share(&many, 2), MAX_FAULTS);
        assert_eq!((share(&many[..3], 2), share(&[], 2)), (2, 0));
    }

    #[test]
    fn reports_are_found() {
        let found = report("[ 1.0] a\r\n[ 2.0] BUG: KASAN: x\r\nOops: y");
        assert_eq!(found.as_deref(), Some("BUG: KASAN: x"));
        assert_eq!(report("[ 1.0] a"), None);
    }
}
