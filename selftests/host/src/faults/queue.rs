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
    read,
    Outcome, //
};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::ExitCode, //
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
        let verdict = left
            .done
            .iter()
            .find(|(name, _)| *name == waiting.name)
            .map(|(_, verdict)| verdict.clone());
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
                settled
                    .told
                    .push((waiting.name, Verdict::new(Word::Killed, &why)));
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
        return Ok(ExitCode::FAILURE);
    }

    let mut waiting = settled.again;
    waiting.extend(parse(&read(&format!("{DIR}/queue"))?));
    let mut compiled = Vec::new();
    for fault in waiting {
        let entry = plan.iter().find(|entry| entry.name == fault.name);
        match entry.is_some_and(|entry| Path::new(&entry.module_file()).exists()) {
            true => compiled.push(fault),
            false => tell(
                &plan,
                &fault.name,
                &Verdict::new(Word::Broken, "it does not compile"),
            )?,
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
    Ok(match todo.is_empty() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
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
    let starts = match has_not_begun {
        true => {
            1 + read(&file)
                .ok()
                .and_then(|text| text.parse().ok())
                .unwrap_or(0)
        }
        false => 0,
    };
    write(&file, &starts.to_string())?;
    if starts == MAX_STARTS {
        write(
            &format!("{DIR}/unsound"),
            &format!("the machine does not start: see {dir}/boot, of machine {machine}"),
        )?;
    }
    Ok(())
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
    let lines = text.lines().map(|line| Waiting {
        name: line.split(' ').next().unwrap_or(line).into(),
        has_timed_out: line.ends_with(ONCE),
    });
    lines.collect()
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
    let parts: BTreeSet<&str> = entries
        .iter()
        .flat_map(|entry| entry.tests.split(' '))
        .collect();
    let parts: Vec<&str> = parts.into_iter().collect();
    let mut lines = format!("{UNCHANGED}\t{}\n", parts.join(" "));
    for entry in entries {
        lines += &format!("{}\t{}\n", entry.name, entry.tests);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(name: &str, has_timed_out: bool) -> Waiting {
        let name = name.into();
        Waiting {
            name,
            has_timed_out,
        }
    }

    fn killed(why: &str) -> Verdict {
        Verdict::new(Word::Killed, why)
    }

    fn left(todo: &[Waiting], done: &[(&str, Verdict)], at: &str, report: Option<&str>) -> Left {
        Left {
            todo: todo.to_vec(),
            done: done
                .iter()
                .map(|(name, verdict)| (name.to_string(), verdict.clone()))
                .collect(),
            at: (!at.is_empty()).then(|| at.into()),
            report: report.map(String::from),
        }
    }

    #[test]
    fn what_is_done_is_told() {
        let (a, b) = (waiting("a", false), waiting("b", false));
        let settled = settle(left(
            &[a, b],
            &[("a", killed("x")), ("b", Verdict::new(Word::Survived, ""))],
            "b",
            None,
        ));
        assert_eq!(
            settled.told,
            [
                ("a".into(), killed("x")),
                ("b".into(), Verdict::new(Word::Survived, ""))
            ]
        );
        assert_eq!(settled.again, []);
        assert_eq!(settle(Left::default()), Settled::default());
    }

    #[test]
    fn a_death_is_believed_of_the_first() {
        let (a, b) = (waiting("a", false), waiting("b", false));
        let settled = settle(left(&[a.clone(), b.clone()], &[], "a", Some("Oops: 1")));
        assert_eq!(
            settled.told,
            [("a".into(), killed("the machine died: Oops: 1"))]
        );
        assert_eq!(settled.again, [b.clone()]);

        let settled = settle(left(
            &[a.clone(), b.clone()],
            &[("a", killed("x"))],
            "b",
            Some("Oops: 1"),
        ));
        assert_eq!(settled.told, [("a".into(), killed("x"))]);
        assert_eq!(settled.again, [b]);
    }

    #[test]
    fn a_time_out_counts_when_it_is_repeated() {
        let (a, b) = (waiting("a", false), waiting("b", false));
        let timed_out = Verdict::new(Word::TimedOut, "took over 120 s");
        let settled = settle(left(
            &[b.clone(), a],
            &[("a", timed_out.clone())],
            "a",
            None,
        ));
        assert_eq!(settled.told, []);
        assert_eq!(settled.again, [waiting("a", true), b.clone()]);
        assert_eq!(share(&settled.again, 1), 1);

        let settled = settle(left(&[waiting("a", true)], &[("a", timed_out)], "a", None));
        assert_eq!(
            settled.told,
            [("a".into(), killed("twice: took over 120 s"))]
        );

        let settled = settle(left(&[waiting("a", true)], &[], "a", None));
        assert_eq!(settled.told.len(), 1);
        let settled = settle(left(&[b], &[], "b", None));
        assert_eq!(settled.again, [waiting("b", true)]);
    }

    #[test]
    fn one_that_dies_behind_another_is_the_first_in_the_next_machine() {
        let todo = [
            waiting("a", false),
            waiting("b", false),
            waiting("c", false),
        ];
        let settled = settle(left(&todo, &[("a", killed("x"))], "c", Some("BUG: 1")));
        assert_eq!(settled.again, [waiting("c", false), waiting("b", false)]);
    }

    #[test]
    fn nothing_is_said_when_the_module_as_it_is_fails() {
        let a = [waiting("a", false)];
        let settled = settle(left(&a, &[], UNCHANGED, None));
        assert_eq!((settled.told.len(), settled.unsound.is_some()), (0, true));
        let settled = settle(left(&a, &[], "", None));
        assert_eq!((settled.has_not_begun, settled.again.len()), (true, 1));
    }

    #[test]
    fn a_machine_takes_its_share() {
        let many: Vec<Waiting> = (0..30)
            .map(|number| waiting(&number.to_string(), false))
            .collect();
        assert_eq!(
            (share(&many, 2), share(&many[..3], 2), share(&[], 2)),
            (MAX_FAULTS, 2, 0)
        );
    }

    #[test]
    fn the_queue_is_read_as_written() {
        let queue = [waiting("a", true), waiting("b", false)];
        assert_eq!(parse(&lines(&queue)), queue);
    }

    #[test]
    fn reports_are_found() {
        assert_eq!(
            report("[ 1.0] a\r\n[ 2.0] BUG: KASAN: x\r\nOops: y"),
            Some("BUG: KASAN: x".into())
        );
        assert_eq!(report("[ 1.0] a"), None);
    }
}
