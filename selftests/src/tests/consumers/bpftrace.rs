// SPDX-License-Identifier: GPL-2.0

//! bpftrace: what it lists, counts and prints.

use crate::event::Event;
use crate::harness::tests;
use crate::tool::{self, Output, Tool};
use crate::wait;

tests!("consumers::bpftrace":
    list_shows_the_events.where_there_is(TYPES),
    list_shows_the_fields.where_there_is(TYPES),
    histograms_of_a_field.where_there_is(TYPES),
    several_events_and_scripts.where_there_is(TYPES),
);

/// The kernel's types, without which bpftrace does little.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// What bpftrace prints when all is attached, if the environment asks for it.
const ATTACHED: &str = "__BPFTRACE_NOTIFY_PROBES_ATTACHED";

/// A script that runs, with all its probes attached.
fn start(script: &str) -> Tool {
    let environment = format!("{ATTACHED}=1");
    let tool = Tool::start(&["env", &environment, "bpftrace", "-e", script]);
    // The first script of a machine has a compiler loaded from the host.
    let attached = || tool.printed().contains(ATTACHED);
    assert!(
        wait::comes(attached) || wait::comes(attached),
        "bpftrace does not attach"
    );
    tool
}

/// Ends a script, after which nobody listens to the event. What the script prints itself must have
/// been waited for: bpftrace ends without a look at what the kernel still holds for it.
fn stop(tool: Tool, event: &Event) -> Output {
    let output = tool.interrupt();
    assert!(output.status.success(), "{}", output.text);
    event.wait_clear();
    output
}

fn list_shows_the_events() {
    let _events = ["st_bt_list_one u32 a", "st_bt_list_two u32 a"].map(Event::new);
    let list = tool::run(&["bpftrace", "-l", "tracepoint:user_events:st_bt_*"]);
    let mut lines: Vec<_> = list.text.lines().collect();
    lines.sort();
    let want = ["one", "two"].map(|end| format!("tracepoint:user_events:st_bt_list_{end}"));
    assert_eq!(lines, want);
}

fn list_shows_the_fields() {
    let _event = Event::new("st_bt_fields u32 a; s64 b; char[8] c; __data_loc char[] d");
    let list = tool::run(&["bpftrace", "-lv", "tracepoint:user_events:st_bt_fields"]);
    let lines: Vec<_> = list.text.lines().map(str::trim).collect();
    let want = [
        "tracepoint:user_events:st_bt_fields",
        "u32 a",
        "s64 b",
        "char c[8]",
        "__data_loc char[] d",
    ];
    assert_eq!(lines, want);
}

fn histograms_of_a_field() {
    let event = Event::new("st_bt_hist u64 a");
    let script = "tracepoint:user_events:st_bt_hist {
        @log = hist(args.a); @linear = lhist(args.a, 0, 40, 10);
    }";
    let tool = start(script);
    for a in [1u64, 5, 12, 13, 14, 35, 1000] {
        assert_eq!(event.write(&a.to_ne_bytes()), Ok(12));
    }
    let output = stop(tool, &event);
    let bars: Vec<String> = output
        .text
        .lines()
        .filter(|line| line.contains('|'))
        .map(|line| line.split('|').next().unwrap().split_whitespace().collect())
        .collect();
    // The range and how many; ranges in the middle that nothing fell into are there, too.
    let log = [
        "[1]1", "[2,4)0", "[4,8)1", "[8,16)3", "[16,32)0", "[32,64)1",
    ];
    let log = log
        .into_iter()
        .chain(["[64,128)0", "[128,256)0", "[256,512)0", "[512,1K)1"]);
    let linear = ["[0,10)2", "[10,20)3", "[20,30)0", "[30,40)1", "[40,...)1"];
    let mut want: Vec<_> = linear.into_iter().chain(log).collect();
    let mut seen: Vec<_> = bars.iter().map(String::as_str).collect();
    want.sort();
    seen.sort();
    assert_eq!(seen, want);
}

fn several_events_and_scripts() {
    let events = ["st_bm_one u32 a", "st_bm_two u32 a", "st_bn u32 a"].map(Event::new);
    let [one, two, other] = &events;
    let all = start("tracepoint:user_events:st_bm_* { @all[probe] = count(); }");
    assert!(one.bit() && two.bit());
    let single = start("tracepoint:user_events:st_bm_two { @single = sum(args.a); }");
    assert!(!other.bit());
    one.write(&[1, 0, 0, 0]).unwrap();
    let output = stop(all, one);
    assert_eq!(
        output.after("@all[tracepoint:user_events:st_bm_one]: "),
        ["1"]
    );
    assert!(two.bit(), "the other script still listens");
    two.write(&[5, 0, 0, 0]).unwrap();
    let output = stop(single, two);
    assert_eq!(output.after("@single: "), ["5"]);
}
