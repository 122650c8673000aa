// SPDX-License-Identifier: GPL-2.0

//! Random sequences of what users can do, and a model that foretells what comes of each step.
//!
//! A seed makes the same sequences each time. Each lane has events, processes and an instance of its
//! own, so that what comes of its steps can be told in advance; the kernel has all lanes at once.

mod actor;
mod draw;
mod lane;
mod model;
mod seeds;
mod step;
mod tests;

use crate::kit::memory::Mapping;
use crate::kit::{module, os, random, swap, wait};
use lane::{Emptied, Lane};
use model::Whose;
use seeds::{listed, new_one};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
pub use tests::TESTS;

/// The option that makes this program the fuzzer.
pub const OPTION: &str = "--fuzz";
/// The option that makes this program a process of the fuzzer.
pub const ACTOR_OPTION: &str = "--fuzz-process";

const USAGE: &str = "usage: selftests --fuzz [--module FILE | --against-c] [--seed NUMBER]
                 [--operations NUMBER] [--lanes NUMBER | --lane NUMBER] [--rush]
                 [--some]

  --seed NUMBER        what is drawn; the time of day, if not given
  --operations NUMBER  how many steps each lane takes (20000)
  --lanes NUMBER       how many there are at once (2)
  --lane NUMBER        this one alone
  --rush               mostly steps that are quick and make no event, in long rows:
                       many more of them
  --some               the seeds that are kept, and a new one, four times as long
  --against-c          the running kernel has the C implementation: take the same
                       steps, expect what it is known to do, and count the
                       differences";

/// What to run.
#[derive(Clone)]
pub struct Options {
    pub seed: u64,
    /// Steps of each lane.
    pub operations: u64,
    pub lanes: std::ops::Range<u32>,
    pub against_c: bool,
    /// Mostly what is quick.
    pub rush: bool,
    /// The seeds that are kept, and a new one.
    pub some: bool,
    /// Say how it goes.
    pub loud: bool,
}

fn options(words: &[String]) -> Result<Options, String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut options = Options {
        seed: now.map_or(1, |now| now.as_nanos() as u64 >> 10),
        operations: 20_000,
        lanes: 0..2,
        against_c: false,
        rush: false,
        some: false,
        loud: true,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().and_then(|value| random::number(value));
            value.ok_or(format!("{word} takes a number"))
        };
        match word.as_str() {
            "--seed" => options.seed = number()?,
            "--operations" => options.operations = number()?,
            "--lanes" => options.lanes = 0..number()? as u32,
            "--lane" => {
                let lane = number()? as u32;
                options.lanes = lane..lane + 1;
            }
            "--module" => {
                let path = words.next().ok_or("--module takes a file")?;
                module::set_path(path.clone());
            }
            "--against-c" => options.against_c = true,
            "--rush" => options.rush = true,
            "--some" => options.some = true,
            _ => return Err(format!("no option {word}")),
        }
    }
    Ok(options)
}

/// Is a process of the fuzzer: `words` are what follows [`ACTOR_OPTION`].
pub fn actor_main(words: &[String]) -> ! {
    actor::main(words)
}

/// Is the fuzzer: `words` are what follows [`OPTION`].
pub fn main(words: &[String]) -> ExitCode {
    let options = match options(words) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if module::is_given() {
        module::load();
    }
    os::adopt_orphans();
    // Pages can be elsewhere, where the machine has such a place.
    let swap = swap::is_possible().then(swap::Swap::new);
    let (mut lanes, mut failed) = (0, 0);
    for options in runs(options) {
        let start = Instant::now();
        let failures = run(&options);
        for why in &failures {
            println!("not ok {why}");
        }
        let steps = options.operations * options.lanes.len() as u64;
        println!(
            "seed {:#x}: {} lanes, {steps} steps in {} s",
            options.seed,
            options.lanes.len(),
            start.elapsed().as_secs()
        );
        lanes += options.lanes.len();
        failed += failures.len();
    }
    if let Some(swap) = swap {
        println!("  {} pages were put out", swap::pages_out());
        drop(swap);
    }
    if module::is_given() && panic::catch_unwind(module::unload_when_idle).is_err() {
        println!("not ok the module does not unload");
        failed += 1;
    }
    println!("{} passed, {failed} failed", lanes.saturating_sub(failed));
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// One run, or one for each seed.
fn runs(options: Options) -> Vec<Options> {
    if !options.some {
        return vec![options];
    }
    let new = Options {
        seed: new_one(),
        operations: 4 * options.operations,
        ..options.clone()
    };
    let kept = listed().into_iter().map(|seed| Options {
        seed,
        ..options.clone()
    });
    kept.chain([new]).collect()
}

/// Words of memory in which a lane says how it goes.
const WORDS: usize = 4;

/// Runs lanes at once, each directed by a process of its own. Returns what went wrong.
pub fn run(options: &Options) -> Vec<String> {
    let whose = match options.against_c {
        true => Whose::C,
        false => Whose::Ours,
    };
    if options.loud {
        println!("seed {:#x}", options.seed);
    }
    // What each has done so far, how often ours and C differ, and how many records were compared, and of these
    // were not sure to be there.
    let emptied = Rc::new(Emptied::new());
    let progress = Mapping::shared(1);
    let mut running = Vec::new();
    for number in options.lanes.clone() {
        let at = (number - options.lanes.start) as usize * WORDS * 8;
        match os::fork().expect("fork") {
            0 => {
                let tell = |lane: &Lane| {
                    let words = [lane.done, lane.differences, lane.compared, lane.unsure];
                    for (i, word) in words.into_iter().enumerate() {
                        progress.long(at + 8 * i).store(word, Ordering::Relaxed);
                    }
                };
                let direct =
                    AssertUnwindSafe(|| direct(options, number, whose, emptied.clone(), tell));
                let good = panic::catch_unwind(direct).unwrap_or(false);
                os::exit_now(if good { 0 } else { 1 });
            }
            pid => running.push((number, pid, at)),
        }
    }

    let mut failures = Vec::new();
    let mut seen: Vec<(u64, Instant)> = running.iter().map(|_| (0, Instant::now())).collect();
    let mut told = Instant::now();
    let lanes = running.clone();
    while !running.is_empty() {
        std::thread::sleep(Duration::from_millis(20));
        running.retain(|&(number, pid, at)| {
            let again = format!("--seed {:#x} --lane {number}", options.seed);
            match os::wait(pid, libc::WNOHANG).expect("wait for a lane") {
                (0, _) => {}
                (_, 0) => return false,
                (_, status) => {
                    failures.push(format!("lane {number}: status {status:#x}, {again}"));
                    return false;
                }
            }
            let done = progress.long(at).load(Ordering::Relaxed);
            let index = (at / (WORDS * 8)).min(seen.len() - 1);
            if seen[index].0 != done {
                seen[index] = (done, Instant::now());
            } else if seen[index].1.elapsed() > 3 * wait::limit() {
                failures.push(format!("lane {number}: stuck after {done} steps, {again}"));
                let _ = os::kill(-pid, libc::SIGKILL);
                return false;
            }
            true
        });
        if options.loud && told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            let done: u64 = seen.iter().map(|(done, _)| done).sum();
            println!("  {done} steps so far");
        }
    }
    let sum = |word: usize| -> u64 {
        let of = |at: usize| progress.long(at + 8 * word).load(Ordering::Relaxed);
        lanes.iter().map(|(_, _, at)| of(*at)).sum()
    };
    if options.against_c && options.loud {
        println!("  {} steps differ from ours, each as foretold", sum(1));
    }
    let (compared, unsure) = (sum(2), sum(3));
    let steps = options.operations * lanes.len() as u64;
    if options.loud {
        println!(
            "  {compared} records compared, {unsure} of which the kernel may have thrown away"
        );
    }
    // With more lanes there is hardly a moment in which none empties buffers, and a short run has no average.
    let is_usual = steps >= 5000 && lanes.len() <= 2 && !options.rush;
    if failures.is_empty() && is_usual && (compared < steps / 100 || unsure > compared / 2) {
        failures.push(format!(
            "{compared} records compared, {unsure} of them unsure"
        ));
    }
    if !failures.is_empty() {
        seeds::keep(options, &failures);
    }
    failures
}

/// Is the director of a lane. Returns whether all was as foretold.
fn direct(
    options: &Options,
    number: u32,
    whose: Whose,
    emptied: Rc<Emptied>,
    each: impl FnMut(&Lane),
) -> bool {
    os::own_group();
    let mut lane = Lane::new(options.seed, number, whose, emptied);
    lane.rush = options.rush;
    let result = panic::catch_unwind(AssertUnwindSafe(|| lane.run(options.operations, each)));
    if result.is_err() {
        println!(
            "lane {number}, after {} steps; the last of them:",
            lane.done
        );
        print!("{}", lane.past());
        print!(
            "{}",
            std::fs::read_to_string(crate::kit::abi::STATUS).unwrap_or_default()
        );
    }
    lane.end();
    result.is_ok()
}
