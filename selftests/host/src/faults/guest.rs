// SPDX-License-Identifier: GPL-2.0

//! Inside the machine: tests one faulty module after the other, as `make test` tests the module.
//!
//! A fault that harms the kernel ends the machine. The harm counts only for the first fault of a
//! machine, as an earlier fault may have caused it. A later fault gets no verdict, and is the first
//! in the next machine.

use super::{
    make_dir,
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
use kernel_log::{
    check,
    Allowed,
    Extent, //
};
use std::{
    fs,
    fs::File,
    path::Path,
    process::{
        Command,
        ExitCode,
        Stdio, //
    },
    thread::sleep,
    time::{
        Duration,
        Instant, //
    },
};

const SELFTESTS: &str = "/build/target/release/selftests";

/// The leak reports of a debug kernel, if kmemleak is enabled.
const LEAKS: &str = "/sys/kernel/debug/kmemleak";

/// An instance with a rarely hit event enabled, which saves the trace core from rewriting code of
/// the scheduler each time. The script `vm` makes it too, but a failing test may have removed it.
const KEPT: &str = "/sys/kernel/tracing/instances/kept";

/// The tests' output while they run, in the machine's memory: 9p, the driver of the host's files,
/// may report end of file as an error while a file grows.
const OUTPUT: &str = "/root/selftests.output";

/// The harness's words for a test that did not end in time.
const TOOK_OVER: &str = "took over";

pub fn run(name: &str) -> Outcome {
    let machine = Machine(format!("{DIR}/{name}"));
    // An emulator fault restarted the machine, which shows nothing about the module's fault.
    if let Ok(at) = read(&machine.file("at")) {
        let _ = fs::remove_file(machine.file(&format!("done/{at}")));
    }
    // Discards leaks of the kernel's own start.
    if Path::new(LEAKS).exists() {
        lost_memory()?;
    }
    let mut is_first = true;
    for line in read(&machine.file("todo"))?.lines() {
        let (fault, parts) = line
            .split_once('\t')
            .ok_or(format!("not a line of a list: {line}"))?;
        if Path::new(&machine.file(&format!("done/{fault}"))).exists() {
            continue;
        }
        machine.test(fault, parts, is_first)?;
        is_first &= fault == UNCHANGED;
    }
    Ok(ExitCode::SUCCESS)
}

/// The directory of a machine.
struct Machine(String);

impl Machine {
    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.0)
    }

    fn verdict(&self, fault: &str, word: Word, why: &str) -> Result<(), String> {
        if fault == UNCHANGED && word != Word::Survived {
            let why = format!("the module as it is does not pass: {why}");
            write(&format!("{DIR}/unsound"), &why)?;
            end();
        }
        Verdict::new(word, why).write(&self.file(&format!("done/{fault}")))
    }

    fn test(&self, fault: &str, parts: &str, is_first: bool) -> Result<(), String> {
        write(&self.file("at"), fault)?;
        if fs::create_dir(KEPT).is_ok() {
            write(&format!("{KEPT}/buffer_size_kb"), "4")?;
            write(&format!("{KEPT}/events/oom/mark_victim/enable"), "1")?;
        }
        let said_before = log()?.lines().count();
        let ended = self.run_tests(fault, parts)?;
        let output = read(OUTPUT)?;
        make_dir(&format!("{DIR}/output"))?;
        write(&format!("{DIR}/output/{fault}"), &output)?;
        let failure = match ended {
            Some(true) => None,
            Some(false) => Some(failure(&output)),
            None if has_failed(&output) => Some(failure(&output)),
            None => Some((
                Word::TimedOut,
                format!("it hangs after: {}", output.lines().last().unwrap_or("")),
            )),
        };
        // Stored first, as the following steps may hang after the fault's damage to the kernel.
        if let Some((word, why)) = failure.as_ref().filter(|_| is_first) {
            self.verdict(fault, *word, why)?;
        }
        if ended.is_none() {
            end();
        }
        if let Some(finding) = self.judge_log(parts, said_before)? {
            if failure.is_none() && is_first {
                self.verdict(fault, Word::Killed, &format!("the kernel's log: {finding}"))?;
            }
            end();
        }
        // A failed allocation in the module can leave memory behind, and hardly anything else.
        let looks_for_memory =
            failure.is_none() && parts.contains("faults::") && Path::new(LEAKS).exists();
        let lost = match looks_for_memory {
            true => lost_memory()?,
            false => None,
        };
        let last = || output.lines().last().unwrap_or("").to_string();
        let (word, why) = match lost {
            Some(lost) => (Word::Killed, format!("lost memory: {lost}")),
            None => failure.unwrap_or_else(|| (Word::Survived, last())),
        };
        self.verdict(fault, word, &why)?;
        for _ in 0..20 {
            if !is_loaded() {
                return Ok(());
            }
            let rmmod = Command::new("rmmod")
                .arg("user_events")
                .stderr(Stdio::null())
                .status();
            if !rmmod.is_ok_and(|status| status.success()) {
                sleep(Duration::from_millis(200));
            }
        }
        end();
    }

    /// Runs the tests, and returns whether they passed, or `None` if they do not end.
    fn run_tests(&self, fault: &str, parts: &str) -> Result<Option<bool>, String> {
        let module = format!("{DIR}/modules/{fault}.ko");
        let error = |error| format!("{OUTPUT}: {error}");
        let output = File::create(OUTPUT).map_err(error)?;
        let errors = output.try_clone().map_err(error)?;
        let options =
            format!("--module {module} --failing-module {module} --first-failure {parts}");
        let mut tests = Command::new(SELFTESTS);
        tests.args(options.split(' '));
        tests.stdin(Stdio::null()).stdout(output).stderr(errors);
        let error = |error| format!("{SELFTESTS}: {error}");
        let mut child = tests.spawn().map_err(error)?;
        let start = Instant::now();
        let (mut seconds, mut failed_at) = (0, None);
        loop {
            if let Some(status) = child.try_wait().map_err(error)? {
                return Ok(Some(status.success()));
            }
            sleep(Duration::from_millis(200));
            if start.elapsed().as_secs() > seconds {
                seconds = start.elapsed().as_secs();
                // Shows the host that the machine lives.
                write(&self.file("alive"), &seconds.to_string())?;
                if failed_at.is_none() && has_failed(&read(OUTPUT)?) {
                    failed_at = Some(seconds);
                }
            }
            let is_stuck = failed_at.is_some_and(|at| seconds > at + MAX_SECONDS_TO_END);
            if is_stuck || seconds > limit() {
                return Ok(None);
            }
        }
    }

    /// Returns the first finding in the kernel's log since line `said_before`.
    fn judge_log(&self, parts: &str, said_before: usize) -> Result<Option<String>, String> {
        let allowed = Allowed {
            // The trace core warns of allocations that failed.
            injected_faults: parts.contains("faults::"),
            ..Allowed::default()
        };
        let log = log()?;
        let said: Vec<&str> = log.lines().skip(said_before).collect();
        let said = said.join("\n");
        write(&self.file("log"), &said)?;
        let findings = check(&said, allowed, Extent::Part);
        Ok(findings.first().map(ToString::to_string))
    }
}

fn is_loaded() -> bool {
    Path::new("/sys/module/user_events").exists()
}

/// Seconds that all tests of a fault may take.
fn limit() -> u64 {
    let of_checkers = ["/proc/lockdep_stats", "/sys/module/kcsan"];
    match of_checkers.iter().any(|file| Path::new(file).exists()) {
        true => 12000,
        // Emulating another processor than the host's takes longer.
        false if cfg!(target_arch = "aarch64") => 5000,
        false => 1500,
    }
}

fn log() -> Result<String, String> {
    let output = Command::new("dmesg")
        .output()
        .map_err(|error| format!("dmesg: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Seconds until the tests end after a failure: the module is unloaded then.
const MAX_SECONDS_TO_END: u64 = 120;

fn has_failed(output: &str) -> bool {
    output.lines().any(|line| line.starts_with("not ok "))
}

/// Returns the failed test and the reason. A test that did not end in time may have another cause.
fn failure(output: &str) -> (Word, String) {
    let line = output.lines().find_map(|line| line.strip_prefix("not ok "));
    let why = line.or(output.lines().last()).unwrap_or("nothing was said");
    match why.contains(TOOK_OVER) {
        true => (Word::TimedOut, why.into()),
        false => (Word::Killed, why.into()),
    }
}

/// Returns the first leak that kmemleak reports, which it clears. Two scans must find a leak, and
/// objects younger than five seconds are left out.
fn lost_memory() -> Result<Option<String>, String> {
    sleep(Duration::from_secs(6));
    write(LEAKS, "scan")?;
    sleep(Duration::from_secs(1));
    write(LEAKS, "scan")?;
    let lost = read(LEAKS)?;
    write(LEAKS, "clear")?;
    Ok(lost.lines().next().map(String::from))
}

/// Powers the machine off, even if tasks of it hang.
fn end() -> ! {
    let _ = Command::new("sync").status();
    let _ = fs::write("/proc/sysrq-trigger", "o");
    sleep(Duration::from_secs(60));
    std::process::exit(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_is_no_failure() {
        for (output, word, why) in [
            (
                "ok 1 a\nnot ok 2 b # c\nnot ok 3 d",
                Word::Killed,
                "2 b # c",
            ),
            ("not ok 2 took over 9 s", Word::TimedOut, "2 took over 9 s"),
            ("ok 1 a\npanicked", Word::Killed, "panicked"),
            ("", Word::Killed, "nothing was said"),
        ] {
            assert_eq!(failure(output), (word, why.to_string()));
        }
    }
}
