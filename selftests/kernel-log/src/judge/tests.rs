// SPDX-License-Identifier: GPL-2.0

//! Reports in a log, and lines that look similar.

use super::*;
use crate::{
    check,
    lists::ACCESSORS, //
};

const NOTHING: Allowed = allowed(false, false);
const FAULTS: Allowed = allowed(true, false);
const OF_C: Allowed = allowed(false, true);

/// The kinds of kernels and runs.
const EACH: [Allowed; 4] = [NOTHING, FAULTS, OF_C, allowed(true, true)];

const fn allowed(injected_faults: bool, c_implementation: bool) -> Allowed {
    Allowed {
        injected_faults,
        c_implementation,
    }
}

const CLEAN: &str = "[    0.000000] Linux version 7
[    1.200000] user_events: loaded, version 1.0.0
[    1.500000] selftests invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[    1.500001] Call Trace:
[    1.500002] Memory cgroup out of memory: Killed process 7 (selftests)
";

/// Messages of the trace core when allocations are made to fail.
const OF_INJECTED_FAULTS: &str = "\
[    2.000000] WARNING: kernel/trace/trace_events.c:1 at event_define_fields+0x1/0x2, CPU#0: selftests/1
[    2.000001] Call Trace:
[    2.100000] selftests: page allocation failure: order:0, mode:0xcc0(GFP_KERNEL)
[    2.100001] Call Trace:
[    2.200000] selftests: vmalloc error: size 4096, failed to allocate pages
[    2.200001] Call Trace:
[    2.200002] Could not create directory for event one
[    2.200003] user_events: no memory for the registrations of one[1]: killing it
";

/// Messages of a kernel with the C implementation.
const OF_C_IMPLEMENTATION: &str = "\
[    2.000000] user_events: Fault for mm: 0x(____ptrval____) @ 0x20001034 event: one
[    2.100000] user_events: Fault for mm: 0x0000000057c97904 @ 0x20001034 event: one
[    2.150000] WARNING: kernel/trace/trace_event_perf.c:405 at perf_trace_buf_alloc+0x6e/0x90, CPU#0: selftests/997
[    2.150001] Call Trace:
";

/// Returns the findings in a log, with the numbers of their lines.
fn shown(log: &str, extent: Extent) -> Vec<String> {
    let findings = check(log, NOTHING, extent);
    findings.iter().map(ToString::to_string).collect()
}

/// Returns the findings in the clean log followed by these lines.
fn found(more: &str, allowed: Allowed) -> Vec<String> {
    let log = format!("{CLEAN}{more}");
    let findings = check(&log, allowed, Extent::FromStart);
    let texts = findings.iter().map(|finding| finding.text.to_string());
    texts.collect()
}

/// Returns the findings in the clean log followed by a line with this text.
fn found_of(text: &str, allowed: Allowed) -> Vec<String> {
    found(&format!("[    2.000000] {text}\n"), allowed)
}

#[track_caller]
fn assert_report(text: &str, allowed: Allowed) {
    assert_eq!(found_of(text, allowed), [text]);
}

#[track_caller]
fn assert_clean(text: &str, allowed: Allowed) {
    assert_eq!(found_of(text, allowed), [""; 0], "{text}");
}

/// The entries fit what the kernel prints.
#[test]
fn reports_are_found() {
    for text in [
        "WARNING: CPU: 0 PID: 1 at kernel/trace/trace.c:1",
        "kernel BUG at mm/slub.c:1!",
        "Oops: 0000 [#1] PREEMPT SMP",
        "rcu: INFO: rcu_preempt self-detected stall on CPU",
        "INFO: task insmod:1 blocked for more than 120 seconds.",
        "Out of memory: Killed process 7 (selftests)",
        "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
        "KCSAN: one",
        "INFO: trying to register non-static key.",
        "user_events: something else",
        "user_events: Fault for mm: 0x1 @ 0x2 event: one",
        "rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 1-... } 21 jiffies s: 9 root: 0x2/.",
        "list_del corruption. next->prev should be 0, but was 1.",
        "ODEBUG: free active (active state 0) object: 0 object type: work_struct",
        "refcount_t: underflow; use-after-free.",
        "UBSAN: array-index-out-of-bounds in kernel/trace/trace.c:1",
        "watchdog: CPU0: Watchdog detected hard LOCKUP on cpu 0",
        "TRACE EVENT ERROR: Bad dereference argument: 'x'",
        "event one has unsafe dereference of argument 2",
        "Could not initialize trace point events/one",
        "event trace: Could not enable event one",
        "Failed to create system directory user_events",
        "No memory to create event subsystem user_events",
        "Failed to register trigger 'one' on event two",
    ] {
        assert_report(text, NOTHING);
    }
}

fn changed(text: &str) -> String {
    let at = text.rfind(|c: char| c.is_ascii_alphabetic()).unwrap();
    let (before, from) = text.split_at(at);
    format!("{before}~{}", &from[1..])
}

#[test]
fn each_entry_of_reports_is_found_and_its_neighbour_is_not() {
    for entry in REPORTS.entries() {
        assert_report(&format!("one {entry} two"), NOTHING);
        assert_report(&format!("one {entry}"), OF_C);
        let neighbour = changed(entry);
        if !REPORTS.entries().any(|other| neighbour.contains(other)) {
            assert_clean(&format!("one {neighbour} two"), NOTHING);
        }
    }
}

#[test]
fn each_entry_of_expected_allows_a_line_and_its_neighbour_does_not() {
    for entry in EXPECTED.entries() {
        for allowed in [NOTHING, OF_C] {
            assert_clean(&format!("{entry} BUG two"), allowed);
            assert_report(&format!("{} BUG two", changed(entry)), allowed);
            assert_report(&format!("BUG: KASAN: {entry}one"), allowed);
        }
    }
}

#[test]
fn each_entry_of_faults_is_allowed_with_faults_only() {
    for entry in OF_FAULTS.entries() {
        let text = format!("one {entry} two");
        assert_report(&text, NOTHING);
        assert_report(&text, OF_C);
        assert_clean(&text, FAULTS);
    }
    for entry in REPORTS.entries() {
        if !OF_FAULTS.entries().any(|of| of == entry) {
            assert_report(entry, FAULTS);
        }
    }
}

#[test]
fn the_word_bug_is_a_report() {
    for text in [
        "BUG",
        "BUG:",
        "one BUG",
        "(BUG)",
        "DEBUG BUG",
        "éBUG",
        "BUGé",
        "BUG-2",
    ] {
        assert_report(text, NOTHING);
    }
}

#[test]
fn a_finding_has_the_number_of_its_line() {
    let log = format!("{CLEAN}[    2.000000] Oops\n\n[    2.000000] user_events: other\n");
    let expected = ["6:Oops", "8:user_events: other"];
    assert_eq!(shown(&log, Extent::FromStart), expected);
}

#[test]
fn a_log_of_which_the_beginning_is_lost_is_only_a_part() {
    const LOST: &str = "1:the log does not begin where the kernel did: lines are lost";
    let (_, rest) = CLEAN.split_once('\n').unwrap();
    assert_eq!(shown(rest, Extent::FromStart), [LOST]);
    assert_eq!(shown(rest, Extent::Part), [""; 0]);
    assert_eq!(shown(CLEAN, Extent::Part), [""; 0]);
    // Reports are found in a part, too.
    assert_eq!(shown(&format!("{rest}Oops\n"), Extent::Part), ["5:Oops"]);
}

#[test]
fn the_kernel_begins_in_the_first_five_lines() {
    for (before, count) in [(4, 0), (5, 1)] {
        let log = format!("{}{CLEAN}", "early\n".repeat(before));
        assert_eq!(shown(&log, Extent::FromStart).len(), count);
    }
    let log = CLEAN.replace("Linux version", "This is Linux version");
    assert_eq!(shown(&log, Extent::FromStart).len(), 1);
}

#[test]
fn an_empty_log_is_not_clean() {
    for extent in [Extent::FromStart, Extent::Part] {
        assert_eq!(shown("", extent), ["1:the log is empty"]);
    }
}

#[test]
fn lost_lines_are_a_report() {
    for allowed in EACH {
        assert_eq!(
            unexpected(&["one", LOST, "two"], allowed, "", Extent::Part),
            [1]
        );
    }
    // In a report of a race, too.
    let report = ["BUG: KCSAN: data-race in one / other", LOST, "=========="];
    assert_eq!(unexpected(&report, NOTHING, "", Extent::Part), [1]);
}

const LIMIT_IS_REACHED: &str = "[    2.000000] one invoked oom-killer: two\n";
const STACK: &str = "[    2.000001] Call Trace:\n";

#[test]
fn a_stack_is_explained_once() {
    let oops = "[    2.000000] Oops\n";
    for (lines, expected) in [
        (&[STACK][..], &["Call Trace:"][..]),
        (&[LIMIT_IS_REACHED, STACK], &[]),
        (&[LIMIT_IS_REACHED, STACK, STACK], &["Call Trace:"]),
        // Lines between the two are judged, and explain the stack.
        (&[LIMIT_IS_REACHED, oops, STACK], &["Oops", "Call Trace:"]),
    ] {
        assert_eq!(found(&lines.concat(), NOTHING), expected, "{lines:?}");
    }
}

/// Only a few lines lie between an allowed line and its stack. A dump of registers takes more.
#[test]
fn a_stack_is_explained_near_by() {
    for (line, allowed, near, far) in [
        (LIMIT_IS_REACHED, NOTHING, 5, BEFORE_STACK),
        (LIMIT_IS_REACHED, NOTHING, 5, 64 * BEFORE_STACK),
        (
            "WARNING: kernel/trace/trace_events.c:1 at event_define_fields+0x1/0x2\n",
            FAULTS,
            20,
            REGISTERS,
        ),
        // 6.12
        (
            "WARNING: CPU: 0 PID: 1 at kernel/trace/trace_events.c:1 event_define_fields+0x1/0x2\n",
            FAULTS,
            20,
            REGISTERS,
        ),
    ] {
        let log = |count: usize| format!("{line}{}{STACK}", "one\n".repeat(count));
        assert_eq!(found(&log(near), allowed), [""; 0], "{line}");
        assert_eq!(found(&log(far), allowed), ["Call Trace:"], "{line}");
    }
}

#[test]
fn what_a_test_brings_about_is_allowed_while_it_runs() {
    let text = "event trace: Could not enable event st_stress_users";
    let run = |name: &str| format!("[    2.000000] {TEST}{name}\n[    2.100000] {text}\n");
    let its = run("unloading::beside_users");
    assert_eq!(found(&its, NOTHING), [""; 0]);
    assert_eq!(found(text, NOTHING), [text]);
    for other in ["soak::one", ""] {
        assert_eq!(found(&run(other), NOTHING), [text], "{other}");
        assert_eq!(found(&(its.clone() + &run(other)), NOTHING), [text]);
    }
    // For a part of a log, the caller gives the running test.
    for (test, expected) in [("unloading::one", &[][..]), ("soak::one", &[0])] {
        assert_eq!(unexpected(&[text], NOTHING, test, Extent::Part), expected);
    }
}

#[test]
fn lines_of_some_kernels_are_reports_of_others() {
    for (log, count, its, others) in [
        (OF_INJECTED_FAULTS, 8, FAULTS, [NOTHING, OF_C]),
        (OF_C_IMPLEMENTATION, 4, OF_C, [NOTHING, FAULTS]),
    ] {
        assert_eq!(found(log, its), [""; 0]);
        for other in others {
            assert_eq!(found(log, other).len(), count);
        }
        assert_eq!(found(&format!("{log}{STACK}"), its), ["Call Trace:"]);
    }
    // A line with more text is a report.
    let define = "WARNING: kernel/trace/trace_events.c:1 at event_define_fields";
    let get_room = "WARNING: kernel/trace/trace_event_perf.c:405 at perf_trace_buf_alloc";
    assert_report("BUG: KASAN: Could not create directory", FAULTS);
    assert_report(&format!("{define}_too+0x1/0x2"), FAULTS);
    assert_report(&format!("{get_room}+0x6e/0x90"), FAULTS);
    assert_report(&format!("{get_room}_too+0x6e/0x90"), OF_C);
    assert_report(&format!("{define}+0x1/0x2"), OF_C);
    let text = " at perf_trace_buf_alloc+0x6e/0x90 WARNING: one";
    assert_report(text, OF_C);
}

const TITLE: &str = "BUG: KCSAN: data-race in one / other";

/// Returns the lines of a report of a race, with the frames of its two stacks.
fn lines_of_race(first: &[&str], second: &[&str]) -> Vec<String> {
    let line = "=".repeat(66);
    let frames = |frames: &[&str]| -> String {
        let frames = frames.iter().map(|frame| format!(" {frame}\n"));
        frames.collect()
    };
    let text = format!(
        "{line}
{TITLE}

write to 0xffff888100000000 of 8 bytes by task 7 on cpu 1:
{}
read (marked) to 0xffff888100000000 of 8 bytes by interrupt on cpu 0:
{}
value changed: 0x0000000000000000 -> 0x0000000000000001

Reported by Kernel Concurrency Sanitizer on:
CPU: 0 UID: 0 PID: 8 Comm: BUG Tainted: G           O        7.3.4 #1
Tainted: [O]=OOT_MODULE
Hardware name: QEMU
{line}
",
        frames(first),
        frames(second)
    );
    text.lines().map(String::from).collect()
}

fn race(first: &[&str], second: &[&str]) -> String {
    log_of(&lines_of_race(first, second))
}

fn log_of(lines: &[String]) -> String {
    let lines = lines.iter().map(|line| format!("[    2.000000] {line}\n"));
    lines.collect()
}

const OURS: &str = "two+0x1/0x2 [user_events]";
const OTHER: &str = "other+0x1/0x2";

#[test]
fn a_race_of_the_module_is_a_report() {
    for (first, second) in [
        (&[OURS, OTHER][..], &[OTHER, OTHER][..]),
        (&[OTHER, OTHER], &[OURS, OTHER]),
        (&[OURS], &[OURS]),
        (&[OURS], &[]),
        (&["memcpy+0x1/0x2", OURS], &[OTHER]),
        (&[OTHER], &["_RNvCs_6kernel+0x1/0x2", OURS]),
    ] {
        for allowed in EACH {
            assert_eq!(found(&race(first, second), allowed), [TITLE], "{first:?}");
        }
    }
    // Each accessor is one on behalf of its caller, if it is the first frame.
    for entry in ACCESSORS.entries() {
        let frame = format!("{}+0x1/0x2", entry.trim_start());
        let found_in = |stack: &[&str]| found(&race(stack, &[OTHER]), NOTHING);
        assert_eq!(found_in(&[&frame, OURS]), [TITLE], "{entry}");
        assert_eq!(found_in(&[&frame, OTHER, OURS]), [""; 0], "{entry}");
        assert_eq!(found_in(&[OTHER, &frame, OURS]), [""; 0], "{entry}");
        assert_eq!(found_in(&[&frame]), [""; 0], "{entry}");
    }
}

#[test]
fn a_race_of_the_kernels_own_is_not() {
    for stack in [
        &["two+0x1/0x2 [other]"][..],
        &["user_events+0x1/0x2"],
        &["two+0x1/0x2 [user_events2]"],
        // Functions that the module calls.
        &["osq_lock+0x1/0x2", OURS],
        &["queue_work_on+0x1/0x2", OURS],
        // Interrupts of the module.
        &[OTHER, "asm_sysvec_apic_timer_interrupt+0x1/0x2", OURS],
    ] {
        for allowed in EACH {
            assert_eq!(found(&race(stack, stack), allowed), [""; 0], "{stack:?}");
        }
    }
    let (own, report) = (race(&[OTHER], &[OTHER]), race(&[OTHER], &[OURS]));
    // A frame after the report does not count.
    let frame = format!("[    3.000000]  {OURS}\n");
    assert_eq!(found(&(own.clone() + &frame), NOTHING), [""; 0]);
    // What follows is judged.
    let log = [own.as_str(), &report, &own, &report].concat();
    assert_eq!(found(&log, NOTHING), [TITLE, TITLE]);
}

/// A function may have the name of a report: a frame is no report.
#[test]
fn the_lines_of_a_report_are_no_reports() {
    let stack = [
        "BUG+0x1/0x2",
        "refcount_t+0x1/0x2 [other]",
        "Oops+0x1/0x2",
        "0xffffffffc0201234",
    ];
    assert_eq!(found(&race(&stack, &stack), NOTHING), [""; 0]);
    // After the report's end, such a text is a report.
    let report = race(&[OTHER], &[OTHER]) + "[    3.000000] BUG\n";
    assert_eq!(found(&report, NOTHING), ["BUG"]);
}

/// Other messages may come between two lines of a report.
#[test]
fn what_is_said_amid_a_report_is_judged() {
    let lines = lines_of_race(&[OTHER, OTHER], &[OTHER]);
    for text in [
        "Oops: 0000 [#1] SMP",
        "refcount_t: underflow; use-after-free.",
        "kmemleak: 3 new suspected memory leaks",
        "Kernel panic - not syncing: one",
        "user_events: other",
        "BUG: KASAN: slab-use-after-free in one",
        " WARNING: one",
        "Call Trace:",
    ] {
        for at in 1..=lines.len() {
            let mut lines = lines.clone();
            lines.insert(at, text.to_string());
            assert_eq!(found(&log_of(&lines), NOTHING), [text], "at {at}");
        }
    }
}

/// A frame counts only within a stack.
#[test]
fn a_stack_ends_where_the_report_says_what_changed() {
    let mut lines = lines_of_race(&[OTHER], &[OTHER]);
    let reported = |line: &String| line.starts_with("Reported");
    let at = 1 + lines.iter().position(reported).unwrap();
    lines.insert(at, " Oops+0x1/0x2".to_string());
    assert_eq!(found(&log_of(&lines), NOTHING), [" Oops+0x1/0x2"]);
    lines[at] = "read to 0x1 of 8 bytes by task 7 on cpu 1:".to_string();
    lines.insert(at + 1, format!(" {OURS}"));
    assert_eq!(found(&log_of(&lines), NOTHING), [""; 0]);
}

#[test]
fn a_report_that_is_cut_short_is_a_report() {
    let lines = lines_of_race(&[OTHER], &[OTHER]);
    for count in 2..lines.len() {
        let cut = log_of(&lines[..count]);
        assert_eq!(found(&cut, NOTHING), [TITLE], "{count}");
        // The next report does not hide the first.
        assert_eq!(
            found(&format!("{cut}[    3.000000] {TITLE}\n"), NOTHING),
            [TITLE, TITLE]
        );
    }
}

/// The log of a test may end before the report ends.
#[test]
fn a_report_may_end_behind_a_part() {
    let part = |lines: Vec<String>| {
        let lines: Vec<_> = lines.into_iter().take(6).collect();
        unexpected(&lines, NOTHING, "", Extent::Part)
    };
    assert_eq!(part(lines_of_race(&[OURS], &[])), [1]);
    assert_eq!(part(lines_of_race(&[OTHER], &[OURS])), [0; 0]);
}

#[test]
fn no_entry_of_reports_is_hidden_by_another() {
    for entry in REPORTS.entries() {
        let mut others = REPORTS.entries().filter(|other| *other != entry);
        assert!(!others.any(|other| entry.contains(other)), "{entry}");
    }
}
