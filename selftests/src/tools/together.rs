// SPDX-License-Identifier: GPL-2.0

//! All consumers on one event.

use super::bpftrace;
use super::perf::{hide_kernel_symbols, Session};
use crate::harness::tests;
use crate::kit::errno::Errno;
use crate::kit::event::{values, Event};
use crate::kit::os;
use crate::kit::status::Status;
use crate::kit::tool::Scratch;
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait;

tests!("tools::together":
    each_sees_every_record_once_and_the_last_clears_the_bit
        .limit(300)
        .needs_path(bpftrace::TYPES),
);

/// The consumers of the event, as the status file lists them.
fn users(name: &str) -> Vec<String> {
    let mut events = Status::now().events.into_iter();
    let line = events.find(|(event, _)| event == name);
    line.expect("the event's line").1
}

fn each_sees_every_record_once_and_the_last_clears_the_bit() {
    const NAME: &str = "st_together";
    hide_kernel_symbols();
    let event = Event::new("st_together u32 a");
    let scratch = Scratch::new(NAME);
    let cpus = os::cpus();
    assert!(users(NAME).is_empty());

    let script = r#"tracepoint:user_events:st_together { printf("saw a=%d\n", args.a); }"#;
    let bpf = bpftrace::start(script);
    assert_eq!(users(NAME), ["perf"]);
    let write = |value: u32| {
        bpf.while_stopped(|| {
            for &cpu in &cpus {
                os::run_on(cpu);
                assert_eq!(event.write(&value.to_ne_bytes()), Ok(8));
            }
        });
    };
    let perf = Session::start(&scratch, NAME, &["-a", "-e", "user_events:st_together"]);
    let top = TraceInstance::top();
    top.control("trace", "");
    top.enable(NAME);
    let instance = TraceInstance::instance("st_together");
    instance.enable(NAME);
    assert_eq!(users(NAME), ["ftrace", "perf"]);

    // All four, and then one fewer each time.
    write(1);
    instance.disable(NAME);
    write(2);
    top.disable(NAME);
    assert_eq!(users(NAME), ["perf"]);
    write(3);
    let perf = perf.stop(&["-F", "trace"]);
    assert!(event.bit(), "bpftrace still listens");
    write(4);
    wait::until("bpftrace to print all", || {
        bpf.printed().matches("saw a=4").count() == cpus.len()
    });
    let bpf = bpf.interrupt();
    event.wait_clear();
    assert!(users(NAME).is_empty());
    assert_eq!(event.write(&[5; 4]), Err(Errno::EBADF));

    // One record per CPU, which tools print in any order.
    let sorted = |mut values: Vec<u32>| {
        values.sort();
        values
    };
    let numbers = |lines: Vec<&str>| {
        let numbers = lines.iter().map(|line| line.parse().expect("a number"));
        sorted(numbers.collect())
    };
    let up_to = |last: u32| -> Vec<u32> {
        let values = 1..=last;
        values.flat_map(|value| vec![value; cpus.len()]).collect()
    };
    assert_eq!(sorted(values(&instance, &event)), up_to(1));
    assert_eq!(sorted(values(&top, &event)), up_to(2));
    assert_eq!(numbers(perf.after("a=")), up_to(3));
    assert_eq!(numbers(bpf.after("saw a=")), up_to(4));
}
