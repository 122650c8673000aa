// SPDX-License-Identifier: GPL-2.0

//! What the operations of user_events cost, in instructions.
//!
//! As the first process of a machine it measures and prints what it counted, and turns the machine
//! off. As `bench table C OURS DIRECTORY` it makes the table of what two machines printed.

mod attach;
mod count;
mod events;
mod report;
mod rows;
mod sys;

use std::fs::File;
use std::process::ExitCode;

const MODULE: &str = "/user_events.ko";

/// Runs `measure` in a process of its own, whose end is the end of what it registered.
fn group(measure: fn()) {
    let pid = sys::fork(|| {
        // What is counted is the caller's work alone; what is left to others comes after.
        sys::run_first();
        let result = std::panic::catch_unwind(measure);
        sys::exit_now(i32::from(result.is_err()));
    });
    let status = sys::wait(pid).expect("wait");
    assert_eq!(status, 0, "a group of rows failed");
}

fn measure() {
    sys::mount(c"proc", c"/proc").expect("mount proc");
    sys::mount(c"sysfs", c"/sys").expect("mount sysfs");
    sys::mount(c"devtmpfs", c"/dev").expect("mount devtmpfs");
    sys::mount(c"tracefs", c"/sys/kernel/tracing").expect("mount tracefs");
    sys::allow_files(20_000);
    if let Some(obstacle) = count::obstacle() {
        panic!("{obstacle}");
    }

    match File::open(MODULE) {
        Ok(module) => {
            group(rows::processes::without_user_events);
            sys::load_module(&module).expect("load the module");
            group(rows::processes::beside_user_events);
        }
        Err(_) => group(rows::processes::beside_user_events),
    }
    for measure in rows::GROUPS {
        group(*measure);
        events::wait_until_none();
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[1..] {
        // What a process does that was made to be measured.
        ["end"] => sys::exit_now(0),
        ["table", c, ours, directory] => match report::make(c, ours, directory) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("bench: {why}");
                ExitCode::FAILURE
            }
        },
        _ if std::process::id() == 1 => {
            println!();
            let result = std::panic::catch_unwind(measure);
            println!("bench {}", if result.is_ok() { "ended" } else { "failed" });
            sys::power_off()
        }
        _ => {
            eprintln!("usage: bench table C OURS DIRECTORY");
            ExitCode::from(2)
        }
    }
}
