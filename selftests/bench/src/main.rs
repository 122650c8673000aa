// SPDX-License-Identifier: GPL-2.0

//! The cost of user_events, in instructions.
//!
//! As the first process of a machine, the program measures, prints the counts, and turns the
//! machine off. On the host:
//!
//! - `bench groups` names the groups that are counted, and `bench groups c` those that C has;
//! - `bench table DIRECTORY KERNEL GROUPS` makes the table from the machines' output;
//! - `bench check NOW [KEPT]` judges a table, and compares it with another;
//! - `bench quote TABLE PAGE` quotes a table in the page, and draws its charts;
//! - `bench preemption CONSOLE`, with that feature, makes the table of times with preemption off,
//!   and `bench check-preemption NOW KEPT` compares it with another;
//! - `bench clock DIRECTORY`, with that feature, makes the table of timed writes.

mod alternatives;
mod attach;
mod chart;
#[cfg(feature = "clock")]
mod clock;
mod count;
mod events;
mod figures;
mod judge;
mod page;
#[cfg(feature = "preemption")]
mod preemption;
mod report;
mod rows;
mod sys;

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

const MODULE: &str = "/user_events.ko";

/// Rounds of measuring a process without and with the module.
const TURNS: usize = 4;

/// Runs `measure` in a process of its own, whose exit removes its registrations.
fn group(measure: fn()) {
    sys::wait_for_success(sys::fork(|| {
        // Only the caller's work is counted; deferred work runs afterwards.
        sys::run_first();
        measure();
    }));
}

fn load_if_there() {
    if let Ok(module) = File::open(MODULE) {
        sys::load_module(&module);
    }
}

fn measure() {
    sys::mount(c"proc", c"/proc");
    sys::mount(c"sysfs", c"/sys");
    sys::mount(c"devtmpfs", c"/dev");
    sys::mount(c"tracefs", c"/sys/kernel/tracing");
    sys::allow_files(20_000);
    // `only=GROUP,GROUP` and `shift=ROUNDS` on the kernel's command line.
    let only = std::env::var("only").expect("groups of rows");
    let is_asked = |group: &str| only.split(',').any(|asked| asked == group);
    if let Ok(shift) = std::env::var("shift") {
        count::shift_by(shift.parse().expect("a number of rounds"));
    }
    for (timed, measure) in rows::TIMED {
        if is_asked(timed) {
            load_if_there();
            return group(*measure);
        }
    }
    #[cfg(feature = "preemption")]
    tell_preempt_count();
    let (alternatives, measure_alternatives) = rows::ALTERNATIVES;
    let are_alternatives = is_asked(alternatives);
    if are_alternatives {
        // Debian's kernel takes longer to start.
        std::thread::sleep(Duration::from_secs(10));
    }
    // With the feature `preemption`, the plugin counts instead.
    if !cfg!(feature = "preemption") {
        if let Some(obstacle) = count::obstacle() {
            panic!("{obstacle}");
        }
    }
    if are_alternatives {
        sys::load_module(&File::open(MODULE).expect("the module"));
        return group(measure_alternatives);
    }
    count::start_idler();

    let is_module_asked = is_asked(rows::table::MODULE);
    match File::open(MODULE) {
        Ok(module) if !is_module_asked => sys::load_module(&module),
        Ok(module) => {
            group(rows::processes::warm_up);
            group(rows::processes::without_user_events);
            module_itself(&module);
            group(rows::processes::beside_user_events);
            // Alternating, as the memory that the kernel caches changes.
            for _ in 1..TURNS {
                sys::unload_module(c"user_events");
                group(rows::processes::without_user_events);
                sys::load_module(&module);
                group(rows::processes::beside_user_events);
            }
        }
        Err(_) if !is_module_asked => {}
        // As many processes as on the other machine: the kernel caches memory of exited ones.
        Err(_) => (0..=2 * TURNS).for_each(|_| group(rows::processes::beside_user_events)),
    }
    if std::env::var_os("where").is_some() {
        tell_symbols();
    }
    let without_c = match Path::new(MODULE).exists() {
        true => rows::WITHOUT_C,
        false => &[],
    };
    for (name, measure) in rows::GROUPS.iter().chain(without_c) {
        if is_asked(name) {
            group(*measure);
            events::wait_until_none();
        }
    }
    #[cfg(feature = "preemption")]
    {
        let (name, measure) = rows::LONG_TO_PERF;
        if is_asked(name) {
            group(measure);
        }
    }
}

/// Measures loading, unloading and the size of the module, and leaves it loaded.
fn module_itself(module: &File) {
    let load = || sys::load_module(module);
    rows::tell("load", count::all_tasks_each(1, load));
    let unload = || sys::unload_module(c"user_events");
    rows::tell("unload", count::all_tasks_each(1, unload));
    load();
    let size = std::fs::read_to_string("/sys/module/user_events/coresize");
    let size = size.ok().and_then(|size| size.trim().parse().ok());
    rows::tell("size", size.expect("the module's size"));
}

fn tell_symbols() {
    let symbols = std::fs::read_to_string("/proc/kallsyms").expect("/proc/kallsyms");
    for line in symbols.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [address, "t" | "T", name, ..] = words[..] {
            println!("sym {address} {name}");
        }
    }
}

/// Gives the plugin the address of the preempt count.
#[cfg(feature = "preemption")]
fn tell_preempt_count() {
    let symbols = std::fs::read_to_string("/proc/kallsyms").expect("/proc/kallsyms");
    let line = symbols
        .lines()
        .find(|line| line.ends_with(" __preempt_count"));
    let address = line.and_then(|line| u64::from_str_radix(line.split(' ').next()?, 16).ok());
    sys::mark_preempt_count(address.expect("the address of the preempt count"));
}

fn exit(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[1..] {
        // Executed by the rows of processes: exits at once.
        ["end"] => sys::exit_now(0),
        ["groups", ..] => {
            let groups = rows::GROUPS.iter().chain(rows::WITHOUT_C);
            let names = groups.map(|(name, _)| *name).chain([rows::table::MODULE]);
            let is_named = |name: &&str| arguments.len() == 2 || rows::has_c(name);
            names.filter(is_named).for_each(|name| println!("{name}"));
            ExitCode::SUCCESS
        }
        ["table", directory, kernel, groups] => exit(report::make(directory, kernel, groups)),
        ["check", now] => exit(judge::check(now, None)),
        ["check", now, kept] => exit(judge::check(now, Some(kept))),
        #[cfg(feature = "preemption")]
        ["preemption", console] => exit(preemption::table(console)),
        #[cfg(feature = "preemption")]
        ["check-preemption", now, kept] => exit(preemption::check(now, kept)),
        #[cfg(feature = "clock")]
        ["clock", directory] => exit(clock::table(directory)),
        ["quote", table, page] => exit(page::quote(table, page)),
        _ if std::process::id() == 1 => {
            println!();
            let result = std::panic::catch_unwind(measure);
            println!("bench {}", if result.is_ok() { "ended" } else { "failed" });
            sys::power_off()
        }
        _ => {
            eprintln!(
                "usage: bench groups [c] | table DIRECTORY KERNEL GROUPS | check NOW [KEPT] | quote TABLE PAGE"
            );
            ExitCode::from(2)
        }
    }
}
