// SPDX-License-Identifier: GPL-2.0

//! The module works, and can be unloaded, while its own functions are traced or probed.

use crate::harness::tests;
use crate::kit::errno::{Errno, Result};
use crate::kit::event::use_in_child;
use crate::kit::module::nothing_is_left;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::{module, os};
use std::fs;
use std::path::Path;

tests!("traced_functions":
    it_goes_under_the_function_tracer.of_loading().needs_path(FILTERS),
    it_goes_under_the_function_graph_tracer.of_loading().needs_path("/sys/kernel/tracing/set_graph_function"),
    it_goes_with_probes_and_is_probed_again.of_loading().needs_path("/sys/kernel/tracing/kprobe_events"),
);

const FILTERS: &str = "/sys/kernel/tracing/available_filter_functions";

/// A C function that runs only when a consumer attaches or detaches.
const FUNCTION: &str = "user_events_reg";

/// Uses an event, which calls [`FUNCTION`].
fn use_it() {
    use_in_child("st_function");
}

/// The module's functions that can be traced.
fn known_functions() -> Vec<String> {
    let text = fs::read_to_string(FILTERS).expect("functions");
    let ours = |line: &str| Some(line.strip_suffix(" [user_events]")?.to_string());
    text.lines().filter_map(ours).collect()
}

/// Traces, uses and unloads the module. `sign` is in each line of the tracer.
fn goes_under(name: &str, tracer: &str, sign: &str) {
    // On one processor, as no other may run code that is being rewritten.
    os::run_on(os::cpus()[0]);
    let instance = TraceInstance::instance(name);
    for round in 0..2 {
        // First the module is loaded before it is traced, then after.
        let load_first = round == 0;
        if load_first {
            module::load();
        }
        instance.control("set_ftrace_filter", ":mod:user_events");
        match load_first {
            true => instance.control("current_tracer", tracer),
            false => module::load(),
        }
        let known = known_functions();
        assert!(known.iter().any(|name| name == FUNCTION), "{known:?}");
        instance.control("trace", "");
        use_it();
        let seen = |text: &str| instance.text("trace").contains(text);
        assert!(seen(FUNCTION), "round {round}: {FUNCTION} is not traced");
        module::unload_when_idle();
        assert_eq!(known_functions(), [""; 0], "functions of no module");
        nothing_is_left();
        assert!(seen(sign), "what was traced is lost");
    }
    instance.control("current_tracer", "nop");
}

fn it_goes_under_the_function_tracer() {
    goes_under("st_function", "function", " <-");
}

fn it_goes_under_the_function_graph_tracer() {
    goes_under("st_function_graph", "function_graph", " us ");
}

const GROUP: &str = "st_function";

fn probe(line: &str) -> Result<()> {
    tracefs::append_line("kprobe_events", line)
}

/// The name of a Rust function of the module.
fn function_in_rust() -> String {
    let text = fs::read_to_string("/proc/kallsyms").expect("symbols");
    let found = text.lines().find_map(|line| {
        let line = line.strip_suffix("\t[user_events]")?;
        let mut words = line.split(' ').skip(1);
        let (kind, name) = (words.next()?, words.next()?);
        (matches!(kind, "t" | "T") && name.starts_with("_R")).then(|| name.to_string())
    });
    found.expect("a function in Rust")
}

fn it_goes_with_probes_and_is_probed_again() {
    os::run_on(os::cpus()[0]);
    module::load();
    // Rust functions have no ftrace entry, and take no probe without one.
    let rust = function_in_rust();
    assert!(!known_functions().contains(&rust));
    let refused = probe(&format!("p:{GROUP}/st_rust user_events:{rust}"));
    assert_eq!(refused, Err(Errno::EINVAL), "{rust}");
    probe(&format!("p:{GROUP}/st_entry user_events:{FUNCTION}")).expect("probe a function");
    probe(&format!("r:{GROUP}/st_return user_events:{FUNCTION}")).expect("probe its return");
    let events = ["st_entry", "st_return"].map(|name| format!("{GROUP}/{name}"));
    let instance = TraceInstance::instance("st_function_probes");
    for event in &events {
        instance.enable(event);
    }
    for round in 0..2 {
        instance.control("trace", "");
        use_it();
        for event in &events {
            let lines = instance.lines(event);
            assert!(!lines.is_empty(), "round {round}: {event} is not hit");
        }
        module::unload_when_idle();
        nothing_is_left();
        assert!(Path::new(&instance.file(&events[0], "enable")).exists());
        module::load();
    }
    for event in &events {
        instance.disable(event);
        probe(&format!("-:{event}")).expect("remove a probe");
    }
    use_it();
    module::unload_when_idle();
    nothing_is_left();
}
