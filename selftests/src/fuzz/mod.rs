// SPDX-License-Identifier: GPL-2.0

//! Random sequences of operations of users, and a model that predicts the result of each step.
//!
//! A seed determines the sequences. Each worker has events, processes and an instance of its own,
//! so that the results of its steps are predictable; the kernel serves all workers at once.

mod child;
mod gen;
mod large;
mod model;
mod payload;
mod polls;
mod seeds;
mod step;
mod tests;
mod worker;

use crate::harness::{self, Ktap};
use crate::kit::memory::Mapping;
use crate::kit::{abi, group, module, os, random, swap, wait};
pub use child::main as child_main;
use seeds::{listed, new_one};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
pub use tests::TESTS;
use worker::{Emptied, Worker};

/// The option that makes this binary the fuzzer.
pub const OPTION: &str = "--fuzz";
/// The option that makes this binary a process of the fuzzer.
pub const CHILD_OPTION: &str = "--fuzz-process";

const USAGE: &str = "usage: selftests --fuzz [--module FILE | --against-c] [--seed NUMBER]
                 [--operations NUMBER] [--workers NUMBER | --worker NUMBER] [--rush]
                 [--some]

  --seed NUMBER        the seed of the steps; the time of day, if not given
  --operations NUMBER  how many steps each worker takes (20000)
  --workers NUMBER     how many there are at once (2)
  --worker NUMBER      this one alone
  --rush               mostly steps that are quick and make no event, in long rows:
                       many more of them
  --some               the seeds that are kept, and a new one, twice as long
  --against-c          the running kernel has the C implementation, which has no
                       groups: take the other steps, and expect what it is known to do";

/// The parameters of a run.
#[derive(Clone)]
pub struct Options {
    pub seed: u64,
    /// Steps of each worker.
    pub operations: u64,
    pub workers: std::ops::Range<u32>,
    pub against_c: bool,
    /// Mostly quick steps.
    pub rush: bool,
    /// Run the listed seeds and a new one.
    pub some: bool,
}

impl Options {
    /// The usual run with a seed.
    fn new(seed: u64) -> Options {
        Options {
            seed,
            operations: 20_000,
            workers: 0..2,
            against_c: false,
            rush: false,
            some: false,
        }
    }
}

fn options(words: &[String]) -> Result<Options, String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut options = Options::new(now.map_or(1, |now| now.as_nanos() as u64 >> 10));
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().and_then(|value| random::number(value));
            value.ok_or(format!("{word} takes a number"))
        };
        match word.as_str() {
            "--seed" => options.seed = number()?,
            "--operations" => options.operations = number()?,
            "--workers" => options.workers = 0..number()? as u32,
            "--worker" => {
                let worker = number()? as u32;
                options.workers = worker..worker + 1;
            }
            "--module" => {
                let path = words.next().ok_or("--module takes a file")?;
                let mut of_run = harness::Options::default();
                of_run.module = Some(module::without_debug(path.clone()));
                of_run.set();
            }
            "--against-c" => options.against_c = true,
            "--rush" => options.rush = true,
            "--some" => options.some = true,
            _ => return Err(format!("no option {word}")),
        }
    }
    Ok(options)
}

/// Runs the fuzzer; `words` are the arguments behind [`OPTION`].
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
    // Lets pages be swapped out, if the machine supports that.
    let swap = swap::is_possible().then(swap::Swap::new);
    let runs = runs(options);
    let mut ktap = Ktap::begin(runs.len() + usize::from(module::is_given()));
    for options in runs {
        let start = Instant::now();
        let failures = run(&options);
        let steps = options.operations * options.workers.len() as u64;
        let result = match failures.is_empty() {
            true => Ok(format!(
                "{} workers, {steps} steps in {} s",
                options.workers.len(),
                start.elapsed().as_secs()
            )),
            false => Err(failures.join("; ")),
        };
        ktap.result(&format!("seed {:#x}", options.seed), result);
    }
    if let Some(swap) = swap {
        println!("# {} pages were put out", swap::pages_out());
        drop(swap);
    }
    if module::is_given() {
        let result = panic::catch_unwind(module::unload_when_idle);
        let result = result.map(|()| String::new());
        ktap.result(
            "the module unloads",
            result.map_err(|_| "it does not".into()),
        );
    }
    ktap.end()
}

/// A single run, or one for each seed.
fn runs(options: Options) -> Vec<Options> {
    if !options.some {
        return vec![options];
    }
    let new = Options {
        seed: new_one(),
        operations: 2 * options.operations,
        ..options.clone()
    };
    let kept = listed().into_iter().map(|seed| Options {
        seed,
        ..options.clone()
    });
    kept.chain([new]).collect()
}

/// A worker, as seen by the process that started it.
struct Running {
    number: u32,
    pid: i32,
    /// The last number of steps that was new, and the time.
    seen: (u64, Instant),
}

/// Runs workers at once, each directed by a process of its own. Returns the failures.
pub fn run(options: &Options) -> Vec<String> {
    println!("seed {:#x}", options.seed);
    if !os::HAS_CALLS_OF_32_BITS {
        println!("  # left out: calls of 32-bit programs, which a 64-bit one cannot make here");
    }
    let emptied = Rc::new(Emptied::new());
    // The compared records, those whose presence was unsure, and the steps of each worker.
    let progress = Mapping::shared(1);
    let [compared, unsure] = [0, 8].map(|at| progress.long(at));
    let steps = |number: u32| progress.long(16 + 8 * (number - options.workers.start) as usize);
    let start = |number| match os::fork().expect("fork") {
        0 => {
            os::own_group();
            let direct = AssertUnwindSafe(|| {
                let mut worker = Worker::new(options, number, emptied.clone());
                let good = direct(&mut worker, options.operations, steps(number));
                compared.fetch_add(worker.compared, Ordering::Relaxed);
                unsure.fetch_add(worker.unsure, Ordering::Relaxed);
                worker.end();
                good
            });
            let good = panic::catch_unwind(direct).unwrap_or(false);
            os::exit_now((!good).into());
        }
        pid => Running {
            number,
            pid,
            seen: (0, Instant::now()),
        },
    };
    let mut running: Vec<Running> = options.workers.clone().map(start).collect();

    let mut failures = Vec::new();
    while !running.is_empty() {
        std::thread::sleep(Duration::from_millis(20));
        running.retain_mut(|worker| {
            let done = steps(worker.number).load(Ordering::Relaxed);
            let failure = match os::wait(worker.pid, libc::WNOHANG).expect("wait for a worker") {
                (0, _) if worker.seen.0 != done => {
                    worker.seen = (done, Instant::now());
                    return true;
                }
                (0, _) if worker.seen.1.elapsed() <= 3 * wait::limit() => return true,
                (0, _) => {
                    let _ = os::kill(-worker.pid, libc::SIGKILL);
                    format!("stuck after {done} steps")
                }
                (_, 0) => return false,
                (_, status) => format!("status {status:#x}"),
            };
            failures.push(format!(
                "worker {number}: {failure}, --seed {:#x} --worker {number}",
                options.seed,
                number = worker.number,
            ));
            false
        });
    }
    let [compared, unsure] = [compared, unsure].map(|sum| sum.load(Ordering::Relaxed));
    println!("  {compared} records compared, {unsure} of which the kernel may have thrown away");
    // With more workers a buffer is nearly always being emptied, and a short run has no average.
    let steps = options.operations * options.workers.len() as u64;
    let is_usual = steps >= 10_000 && options.workers.len() <= 2 && !options.rush;
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

/// Directs a worker, and stores the number of its steps. Returns whether all results were as
/// predicted.
fn direct(worker: &mut Worker, operations: u64, steps: &AtomicU64) -> bool {
    let tell = |done| steps.store(done, Ordering::Relaxed);
    let result = panic::catch_unwind(AssertUnwindSafe(|| worker.run(operations, tell)));
    if result.is_err() {
        println!(
            "worker {}, after {} steps; the last of them:",
            worker.number, worker.done
        );
        print!("{}", worker.past());
        for listing in [abi::STATUS, group::GROUPS] {
            print!("{}", std::fs::read_to_string(listing).unwrap_or_default());
        }
    }
    result.is_ok()
}
