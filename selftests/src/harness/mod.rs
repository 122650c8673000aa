// SPDX-License-Identifier: GPL-2.0

//! Runs each test in a process of its own, and reports the result.

mod ktap;
pub mod log;
mod options;

use crate::contract::Check;
use crate::kit::machine::Log;
use crate::kit::random::Random;
use crate::kit::{dynamic, faults, group, machine, module, os, swap, tracefs, wait};
use std::fmt::Debug;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::panic;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{mpsc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

pub use ktap::Ktap;
pub use options::{options, Options, USAGE};

/// A test. It fails by a panic, a signal or a timeout.
#[derive(Clone, Copy)]
pub struct Test {
    pub name: &'static str,
    pub run: fn(),
    /// The test loads and unloads the module itself. The others need user_events, from a module or
    /// built in.
    pub is_of_loading: bool,
    /// A path that exists only where the kernel has the feature under test.
    pub needs_path: Option<&'static str>,
    /// Returns why the machine cannot run the test, if it cannot.
    pub skip_if: fn() -> Option<String>,
    pub limit: Duration,
    /// Runs only on request, as it takes long and a more thorough test covers the same.
    pub is_lengthy: bool,
}

impl Test {
    /// A test of the ABI.
    pub const fn new(name: &'static str, run: fn()) -> Test {
        Test {
            name,
            run,
            is_of_loading: false,
            needs_path: None,
            skip_if: || None,
            limit: Duration::from_secs(120),
            is_lengthy: false,
        }
    }

    /// The same test, which loads and unloads the module itself.
    pub const fn of_loading(mut self) -> Test {
        self.is_of_loading = true;
        self
    }

    /// The same test, for machines that can swap.
    pub const fn swapping(self) -> Test {
        self.skip_if(swap::lacks_swap)
    }

    /// The same test, skipped where this path does not exist, as the kernel lacks a feature.
    pub const fn needs_path(mut self, path: &'static str) -> Test {
        self.needs_path = Some(path);
        self
    }

    /// The same test, skipped where this function returns a reason.
    pub const fn skip_if(mut self, skip_if: fn() -> Option<String>) -> Test {
        self.skip_if = skip_if;
        self
    }

    /// Returns why the test cannot be run.
    pub fn obstacle(&self) -> Option<String> {
        if let Some(path) = self.needs_path.filter(|path| !Path::new(path).exists()) {
            return Some(format!("this kernel has no {path}"));
        }
        (self.skip_if)()
    }

    /// The same test, run only with the lengthy ones or by its whole name.
    pub const fn lengthy(mut self) -> Test {
        self.is_lengthy = true;
        self
    }

    /// The same test with another timeout.
    pub const fn limit(mut self, seconds: u64) -> Test {
        self.limit = Duration::from_secs(seconds);
        self
    }
}

/// Returns the number given by the user, else `long` if there is time, else `short`.
pub fn times(short: usize, long: usize) -> usize {
    let usual = if options().long { long } else { short };
    options().times.unwrap_or(usual)
}

/// Random numbers for one of at most 1000 users.
pub fn random(number: u64) -> Random {
    Random::new(options().seed.wrapping_mul(1000).wrapping_add(number))
}

/// Makes the table of a file's tests: the function's name, after the subject, is the test's name.
/// With `on PATH`, all of them need that path.
macro_rules! tests {
    ($subject:literal on $path:path: $($name:ident $(.$more:ident($($value:expr)?))*),* $(,)?) => {
        $crate::harness::tests!(
            $subject: $($name.needs_path($path) $(.$more($($value)?))*),*
        );
    };
    ($subject:literal: $($name:ident $(.$more:ident($($value:expr)?))*),* $(,)?) => {
        pub const TESTS: &[$crate::harness::Test] = &[$(
            $crate::harness::Test::new(concat!($subject, "::", stringify!($name)), $name)
                $(.$more($($value)?))*
        ),*];
    };
}
pub(crate) use tests;

/// Runs a test. `Ok` has its duration unless short; `Err` has the reason of the failure.
pub fn run(test: &Test, log: &mut Log) -> Result<String, String> {
    let start = Instant::now();
    run_alone(test.name, &test.run, test.is_of_loading, test.limit, log)?;
    Ok(match start.elapsed().as_secs() {
        0 => String::new(),
        seconds => format!("{seconds} s"),
    })
}

/// Runs a check of the contract. `Err` has the reason of the failure.
pub fn run_check(check: &Check, log: &mut Log) -> Result<String, String> {
    // The C implementation releases each event some time after its last user.
    let seconds = match options().against_c {
        true => 600,
        false => 120,
    };
    let limit = Duration::from_secs(seconds);
    run_alone(&check.name, &check.run, false, limit, log).map(|()| String::new())
}

fn run_alone(
    name: &str,
    run: &dyn Fn(),
    is_of_loading: bool,
    limit: Duration,
    log: &mut Log,
) -> Result<(), String> {
    if is_of_loading && module::is_loaded() {
        return Err("the module is already loaded".into());
    }
    log.take();
    log::mark(name);
    stuck_pins();
    let limit = limit * machine::slowness();

    let mut result = run_in_child(name, run, limit);
    if result.is_err() && options().first_failure {
        if module::is_loaded() {
            let _ = panic::catch_unwind(|| {
                tracefs::detach_everything();
                tracefs::delete_everything();
            });
        }
        return result;
    }
    result = result.and(match is_of_loading {
        true => settle_module(),
        false => settle_groups().and(settle_events()),
    });
    if result.is_ok() {
        result = settle_pins().and_then(|()| judge_log(name, is_of_loading, log.take()));
    }
    log::mark("");
    result
}

/// The start of the failure message of a timeout.
pub const TOOK_OVER: &str = "took over";

fn run_in_child(name: &str, run: &dyn Fn(), limit: Duration) -> Result<(), String> {
    let (mut from_test, to_us) = os::pipe().expect("pipe");
    std::io::stdout().flush().expect("flush");
    let pid = os::fork().expect("fork");
    if pid == 0 {
        os::own_group();
        report_panics_to(to_us);
        os::exit_after(run);
    }
    drop(to_us);

    let ended = os::wait_for_end(pid, limit).expect("wait for a test");
    // Whatever blocks killed processes in the kernel could block the run, too.
    let (reaped, ends) = mpsc::channel::<()>();
    let took_over = format!("{name} {TOOK_OVER} {} s", limit.as_secs());
    let watcher = thread::spawn(move || {
        let limit = MAX_REAPING * machine::slowness();
        if ends.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            println!("Bail out! {took_over}, and its processes cannot be killed");
            std::process::exit(1);
        }
    });
    // The test, and all processes of its group.
    let _ = os::kill(-pid, libc::SIGKILL);
    let _ = os::kill(pid, libc::SIGKILL);
    let (_, status) = os::wait(pid, 0).expect("wait for a test");
    // Orphans, the end of which is checked here only.
    let mut crashed = Vec::new();
    while let Ok((orphan, status)) = os::wait(-1, 0) {
        if CRASHES.contains(&(status & 127)) {
            crashed.push(format!("process {orphan} ended by signal {}", status & 127));
        }
    }

    drop(reaped);
    // As the next test is forked.
    watcher.join().expect("join the watcher");

    os::set_nonblocking(&from_test);
    let mut bytes = Vec::new();
    let _ = from_test.read_to_end(&mut bytes);
    let said = String::from_utf8_lossy(&bytes);
    let why: Vec<_> = said.lines().map(str::trim).collect();
    let why = format!("{} {}", why.join(" "), crashed.join(", "));
    let why = why.trim();
    match (ended, status) {
        (true, 0) if why.is_empty() => Ok(()),
        // A failure in a process or thread whose end the test did not check.
        (true, 0) => Err(format!("it passed, but beside it: {why}")),
        (true, _) if !why.is_empty() => Err(why.to_string()),
        (true, _) => Err(format!("ended by signal {}", status & 127)),
        (false, _) => Err(format!("{TOOK_OVER} {} s {why}", limit.as_secs())),
    }
}

/// The time that the killed processes of a test may take to end, unless the kernel is slow.
const MAX_REAPING: Duration = Duration::from_secs(60);

/// Signals of a crash.
const CRASHES: [i32; 6] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
];

/// The case of a table that the test is at.
static CASE: Mutex<String> = Mutex::new(String::new());

/// Begins a case of a table: the message of a panic names it.
pub fn begin_case(case: impl Debug) {
    *CASE.lock().expect("the name of a case") = format!("{case:?}: ");
}

/// Sends the first panic of this process, and of its later children, to the pipe.
fn report_panics_to(pipe: File) {
    os::set_nonblocking(&pipe);
    assert!(pipe.as_raw_fd() > 2);
    let pipe = Mutex::new(Some(pipe));
    panic::set_hook(Box::new(move |info| {
        let Some(mut pipe) = pipe.lock().ok().and_then(|mut pipe| pipe.take()) else {
            return;
        };
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(|text| text.as_str()));
        let place = info
            .location()
            .map(|at| format!("{}:{}", at.file(), at.line()));
        let place = place.unwrap_or_default();
        let case = CASE.lock().map(|case| case.clone()).unwrap_or_default();
        let text = format!("{place}: {case}{}\n", text.unwrap_or("panic"));
        let _ = pipe.write_all(text.as_bytes());
    }));
}

/// Waits until no more than the `stuck` ones of a kind are left behind. The test fails otherwise;
/// if some persist even now, later tests do not fail for these.
fn settle(
    stuck: &AtomicUsize,
    what: &str,
    count: fn() -> usize,
    lines: fn() -> Vec<String>,
) -> Result<(), String> {
    let settles = || wait::eventually(|| count() <= stuck.load(Ordering::Relaxed));
    if settles() {
        return Ok(());
    }
    let lines = lines();
    tracefs::detach_everything();
    tracefs::delete_everything();
    if !settles() {
        stuck.store(count(), Ordering::Relaxed);
    }
    Err(format!("{what}: {}", lines.join(", ")))
}

/// Removes the groups of a test.
fn settle_groups() -> Result<(), String> {
    static STUCK: AtomicUsize = AtomicUsize::new(0);
    let count = || group::remove_all().len();
    let what = "groups that cannot be removed";
    settle(&STUCK, what, count, group::remove_all)
}

/// Checks that the test's events are gone, as all their users ended with its process.
fn settle_events() -> Result<(), String> {
    static STUCK: AtomicUsize = AtomicUsize::new(0);
    let (count, lines) = (tracefs::count_of_events, dynamic::user_lines);
    settle(&STUCK, "left behind", count, lines)
}

/// The number of pages that stay pinned without a failure: those before the first test, and those
/// that another test has failed for.
fn stuck_pins() -> &'static AtomicI64 {
    static STUCK: OnceLock<AtomicI64> = OnceLock::new();
    STUCK.get_or_init(|| {
        // Pages can be pinned for a moment by reads from a device.
        let counts = (0..20).map(|_| {
            thread::sleep(Duration::from_millis(5));
            machine::pinned_pages()
        });
        AtomicI64::new(counts.min().unwrap_or(0))
    })
}

/// Checks that no page of user memory stays pinned.
fn settle_pins() -> Result<(), String> {
    let stuck = stuck_pins().load(Ordering::Relaxed);
    if wait::eventually(|| machine::pinned_pages() <= stuck) {
        return Ok(());
    }
    let pinned = machine::pinned_pages();
    stuck_pins().store(pinned, Ordering::Relaxed);
    Err(format!("{} pages stay pinned", pinned - stuck))
}

fn settle_module() -> Result<(), String> {
    if !module::is_loaded() {
        return Ok(());
    }
    tracefs::detach_everything();
    let why = match wait::eventually(|| module::unload().is_ok() || !module::is_loaded()) {
        true => "left the module loaded",
        false => "the module cannot be unloaded",
    };
    Err(why.into())
}

/// Checks that the kernel logged nothing but loading and unloading. An address space that ends with
/// wrong page counters would log "BUG: Bad rss-counter state".
fn judge_log(name: &str, is_of_loading: bool, lines: Vec<String>) -> Result<(), String> {
    if let Some(line) = log::first(name, &lines) {
        return Err(format!("the kernel said: {line}"));
    }
    if module::is_given() && !options().against_c && !is_of_loading {
        let said = module::said(lines);
        let allowed = [module::says_loaded(), module::says_unloaded()];
        let is_of_faults = |line: &str| faults::are_known() && kernel_log::is_of_faults(line);
        let mut others = (said.iter()).filter(|line| !allowed.contains(line));
        if let Some(line) = others.find(|line| !is_of_faults(line)) {
            return Err(format!("the module said: {line}"));
        }
    }
    Ok(())
}
