// SPDX-License-Identifier: GPL-2.0

//! What is a report in a log, and what is only nearly so.

use super::*;
use crate::{
    check,
    lists::{
        List,
        BOUNDARIES,
        KNOWN_RACES, //
    },
    Extent, //
};

const NOTHING: Allowed = Allowed {
    injected_faults: false,
    c_implementation: false,
};

const FAULTS: Allowed = Allowed {
    injected_faults: true,
    ..NOTHING
};

const OF_C: Allowed = Allowed {
    c_implementation: true,
    ..NOTHING
};

/// A clean log, with all that may be there.
const CLEAN: &str = "[    0.000000] Linux version 7
[    1.000000] user_events: loading out-of-tree module taints kernel.
[    1.100000] user_events: module verification failed: signature and/or required key missing - tainting kernel
[    1.200000] user_events: loaded, version 1.0.0
[    1.250000] user_events: unloading waits for event probes and triggers that refer to its events
[    1.300000] user_events: unloaded
[    1.400000] user_events: cannot load: step 3 failed with -4
[    1.410000] user_events: the kernel has no symbol 'event_mute#'
[    1.420000] user_events: this kernel has another layout of struct dyn_event_operations
[    1.500000] selftests invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[    1.500001] Call Trace:
[    1.500002] Memory cgroup out of memory: Killed process 7 (selftests)
[    1.600000] kmemleak: Kernel memory leak detector initialized (mem pool available: 15000)
[    1.700000] \tRCU CPU stall warnings timeout set to 120 (rcu_cpu_stall_timeout).
";

/// Lines that the trace core says where allocations are made to fail.
const OF_INJECTED_FAULTS: &str = "\
[    2.000000] WARNING: kernel/trace/trace_events.c:1 at event_define_fields+0x1/0x2, CPU#0: selftests/1
[    2.000001] Call Trace:
[    2.100000] selftests: page allocation failure: order:0, mode:0xcc0(GFP_KERNEL)
[    2.100001] Call Trace:
[    2.200000] selftests: vmalloc error: size 4096, failed to allocate pages
[    2.200001] Call Trace:
[    2.200002] Could not create directory for event one
";

/// Lines that a kernel with the C implementation says.
const OF_C_IMPLEMENTATION: &str = "\
[    2.000000] user_events: Fault for mm: 0x(____ptrval____) @ 0x20001034 event: one
[    2.100000] user_events: Fault for mm: 0x0000000057c97904 @ 0x20001034 event: one
[    2.150000] WARNING: kernel/trace/trace_event_perf.c:405 at perf_trace_buf_alloc+0x6e/0x90, CPU#0: selftests/997
[    2.150001] Call Trace:
";

/// What is found in the clean log, followed by these lines.
fn found(more: &str, allowed: Allowed) -> Vec<String> {
    let log = format!("{CLEAN}{more}");
    let findings = check(&log, allowed, Extent::FromStart);
    let texts = findings.iter().map(|finding| finding.text.to_string());
    texts.collect()
}

/// The same, of a line with this text.
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

/// The kinds of kernels and runs.
fn each_allowed() -> impl Iterator<Item = Allowed> {
    let choices = [false, true].into_iter();
    choices.flat_map(|injected_faults| {
        [false, true].map(|c_implementation| Allowed {
            injected_faults,
            c_implementation,
        })
    })
}

#[test]
fn a_clean_log_is_clean() {
    for allowed in each_allowed() {
        assert_eq!(found("", allowed), [""; 0]);
    }
}

#[test]
fn reports_are_found() {
    for text in [
        "WARNING: CPU: 0 PID: 1 at kernel/trace/trace.c:1",
        "WARNING: possible circular locking dependency detected",
        "WARNING: suspicious RCU usage",
        "BUG: unable to handle page fault for address: 0000000000000000",
        "BUG: sleeping function called from invalid context at mm/slab.h:1",
        "kernel BUG at mm/slub.c:1!",
        "Oops: 0000 [#1] PREEMPT SMP",
        "Call Trace:",
        "rcu: INFO: rcu_preempt self-detected stall on CPU",
        "INFO: task insmod:1 blocked for more than 120 seconds.",
        "watchdog: BUG: soft lockup - CPU#0 stuck for 22s!",
        "Out of memory: Killed process 7 (selftests)",
        "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
        "BUG: KASAN: slab-use-after-free in kfree",
        "INFO: trying to register non-static key.",
        "user_events: something else",
        "user_events: the kernel has no symbol 'event_mutex'",
        "user_events: loaded twice",
        "user_events: unloading waits for event probes and triggers that refer to its events, or not",
        "user_events: Fault for mm: 0x1 @ 0x2 event: one",
        "rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 1-... } 21 jiffies s: 9 root: 0x2/.",
        "BUG: Bad rss-counter state mm:00000000 type:MM_ANONPAGES val:1",
        "BUG: Bad page state in process selftests  pfn:00000",
        "list_del corruption. next->prev should be 0, but was 1.",
        "WARNING: held lock freed!",
        "ODEBUG: free active (active state 0) object: 0 object type: work_struct",
        "refcount_t: underflow; use-after-free.",
        "UBSAN: array-index-out-of-bounds in kernel/trace/trace.c:1",
        "watchdog: CPU0: Watchdog detected hard LOCKUP on cpu 0",
        "TRACE EVENT ERROR: Bad dereference argument: 'x'",
        "event one has unsafe dereference of argument 2",
        "Could not create directory for event one",
        "Could not create tracefs 'one' directory",
        "Could not initialize trace point events/one",
        "event trace: Could not enable event one",
        "Failed to create system directory user_events",
        "No memory to create event subsystem user_events",
        "Failed to register trigger 'one' on event two",
        "selftests: page allocation failure: order:0, mode:0xcc0(GFP_KERNEL)",
        "selftests: vmalloc error: size 4096, failed to allocate pages",
    ] {
        assert_report(text, NOTHING);
    }
}

#[test]
fn what_is_nearly_a_report_is_clean() {
    for text in [
        "DEBUG: nothing",
        "BUGS: nothing",
        "a_BUG nothing",
        "BUG2 nothing",
        "event trace: Could not enable event st_stress_users",
        "9p: could not create a thing",
        "Kernel command line: kasan_multi_shot BUG WARNING:",
        "oom-killer: nothing",
        "page allocation failure",
        "",
    ] {
        assert_clean(text, NOTHING);
    }
}

/// The text with another character in place of its last letter.
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
        if !REPORTS.matches(&neighbour) {
            assert_clean(&format!("one {neighbour} two"), NOTHING);
        }
    }
}

#[test]
fn each_entry_of_expected_allows_a_line_and_its_neighbour_does_not() {
    for entry in EXPECTED.entries() {
        for allowed in [NOTHING, OF_C] {
            assert_clean(&format!("one {entry} BUG two"), allowed);
            assert_report(&format!("one {} BUG two", changed(entry)), allowed);
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
        if !OF_FAULTS.matches(entry) {
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
fn time_and_task_before_a_line_do_not_matter() {
    assert_eq!(
        found(
            "[    2.000000] [   T12] user_events: loaded, version 1.0.0\r\n",
            NOTHING
        ),
        [""; 0]
    );
    assert_eq!(
        found("[    2.000000] [   T12] user_events: other\r\n", NOTHING),
        ["user_events: other"]
    );
}

#[test]
fn a_finding_has_the_number_of_its_line() {
    let log = format!("{CLEAN}[    2.000000] Oops\n\n[    2.000000] user_events: other\n");
    let findings = check(&log, NOTHING, Extent::FromStart);
    let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["15:Oops", "17:user_events: other"]);
}

#[test]
fn a_log_of_which_the_beginning_is_lost_is_only_a_part() {
    let (_, rest) = CLEAN.split_once('\n').unwrap();
    let findings = check(rest, NOTHING, Extent::FromStart);
    let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        ["1:the log does not begin where the kernel did: lines are lost"]
    );
    assert_eq!(check(rest, NOTHING, Extent::Part), []);
    assert_eq!(check(CLEAN, NOTHING, Extent::Part), []);
    // A part is judged all the same.
    let rest = format!("{rest}Oops\n");
    assert_eq!(check(&rest, NOTHING, Extent::Part).len(), 1);
}

#[test]
fn the_kernel_begins_in_the_first_five_lines() {
    for (before, count) in [(4, 0), (5, 1)] {
        let log = format!("{}{CLEAN}", "early\n".repeat(before));
        assert_eq!(check(&log, NOTHING, Extent::FromStart).len(), count);
    }
    let log = CLEAN.replace("Linux version", "This is Linux version");
    assert_eq!(check(&log, NOTHING, Extent::FromStart).len(), 1);
}

#[test]
fn an_empty_log_is_not_clean() {
    for extent in [Extent::FromStart, Extent::Part] {
        assert_eq!(check("", NOTHING, extent).len(), 1);
    }
}

#[test]
fn lost_lines_are_a_report() {
    for allowed in each_allowed() {
        assert_eq!(unexpected(&["one", LOST, "two"], allowed), [1]);
    }
    // In a report, too.
    let report = ["BUG: KCSAN: data-race in one / other", LOST, "=========="];
    assert_eq!(unexpected(&report, NOTHING), [1]);
}

#[test]
fn a_stack_is_explained_once() {
    let limit = "[    2.000000] one invoked oom-killer: two\n";
    let stack = "[    2.000001] Call Trace:\n";
    assert_eq!(found(stack, NOTHING), ["Call Trace:"]);
    assert_eq!(found(&format!("{limit}{stack}"), NOTHING), [""; 0]);
    assert_eq!(
        found(&format!("{limit}{stack}{stack}"), NOTHING),
        ["Call Trace:"]
    );
    // What is between the two is judged.
    assert_eq!(
        found(&format!("{limit}[    2.000000] Oops\n{stack}"), NOTHING),
        ["Oops"]
    );
}

#[test]
fn what_only_faults_bring_about_is_allowed_with_faults_only() {
    assert_eq!(found(OF_INJECTED_FAULTS, FAULTS), [""; 0]);
    for allowed in [NOTHING, OF_C] {
        assert_eq!(found(OF_INJECTED_FAULTS, allowed).len(), 7);
    }
    let more = format!("{OF_INJECTED_FAULTS}[    2.200000] Call Trace:\n");
    assert_eq!(found(&more, FAULTS), ["Call Trace:"]);
    for text in [
        "WARNING: kernel/trace/trace_events.c:1 at event_define_fields_too+0x1/0x2",
        "WARNING: kernel/trace/trace_event_perf.c:405 at perf_trace_buf_alloc+0x6e/0x90",
    ] {
        assert_report(text, FAULTS);
    }
}

#[test]
fn what_only_the_c_implementation_says_is_allowed_with_it_only() {
    assert_eq!(found(OF_C_IMPLEMENTATION, OF_C), [""; 0]);
    for allowed in [NOTHING, FAULTS] {
        assert_eq!(found(OF_C_IMPLEMENTATION, allowed).len(), 4);
    }
    let more = format!("{OF_C_IMPLEMENTATION}[    2.200000] user_events: something else\n");
    assert_eq!(found(&more, OF_C), ["user_events: something else"]);
    for text in [
        "WARNING: kernel/trace/trace_event_perf.c:405 at perf_trace_buf_alloc_too+0x6e/0x90",
        "WARNING: kernel/trace/trace_events.c:1 at event_define_fields+0x1/0x2",
        " at perf_trace_buf_alloc+0x6e/0x90 WARNING: one",
    ] {
        assert_report(text, OF_C);
    }
}

const TITLE: &str = "BUG: KCSAN: data-race in one / other";

/// A report of a race, with this title, and lines of the two stacks besides.
fn race(title: &str, first: &[&str], second: &[&str]) -> String {
    let line = "=".repeat(66);
    let stack = |lines: &[&str]| -> String {
        let lines = lines.iter().map(|line| format!("[    2.000003]  {line}\n"));
        lines.collect()
    };
    format!(
        "[    2.000000] {line}
[    2.000001] {title}
[    2.000002] write to 0xffff888100000000 of 8 bytes by task 7 on cpu 1:
[    2.000003]  one+0x1/0x2
{}[    2.000004] read to 0xffff888100000000 of 8 bytes by interrupt on cpu 0:
[    2.000005]  other+0x1/0x2
{}[    2.000006] Reported by Kernel Concurrency Sanitizer on:
[    2.000007] {line}
",
        stack(first),
        stack(second)
    )
}

const OURS: &str = "two+0x1/0x2 [user_events]";

#[test]
fn a_race_of_the_module_is_a_report() {
    for (first, second) in [(&[OURS][..], &[][..]), (&[], &[OURS]), (&[OURS], &[OURS])] {
        assert_eq!(found(&race(TITLE, first, second), NOTHING), [TITLE]);
    }
}

#[test]
fn a_race_of_the_kernels_own_is_not() {
    let others = [
        "two+0x1/0x2 [other]",
        "user_events+0x1/0x2",
        "[user_events2]",
    ];
    let report = race(TITLE, &others, &others);
    assert_eq!(found(&report, NOTHING), [""; 0]);
    // The module after it has no part in it.
    let report = format!("{report}[    3.000000] {OURS}\n");
    assert_eq!(found(&report, NOTHING), [""; 0]);
}

/// Lines in a report are judged by it alone: they name functions and their arguments.
#[test]
fn the_lines_of_a_report_are_no_reports() {
    let report = race(TITLE, &["BUG", "Call Trace:"], &["refcount_t"]);
    assert_eq!(found(&report, NOTHING), [""; 0]);
    // After it they are.
    let report = race(TITLE, &[], &[]) + "[    3.000000] BUG\n";
    assert_eq!(found(&report, NOTHING), ["BUG"]);
}

#[test]
fn a_report_of_kcsan_that_is_of_no_race_is_a_report() {
    assert_report("KCSAN: one", NOTHING);
}

/// A title with this in place of what it says of the race.
fn title(race: &str) -> String {
    format!("BUG: KCSAN: data-race in {race}")
}

#[test]
fn known_races_are_allowed() {
    for known in [
        "__hrtimer_run_queues / hrtimer_active",
        "osq_lock / osq_unlock",
        "__perf_event_overflow+0xc8/0x6d0",
        "__memcg_slab_free_hook+0x138/0x2c0",
    ] {
        let report = race(&title(known), &[], &[OURS]);
        assert_eq!(found(&report, NOTHING), [""; 0], "{known}");
    }
    for entry in KNOWN_RACES.entries() {
        let offset = if entry.ends_with('+') { "0x1/0x2" } else { "" };
        let known = format!("BUG: KCSAN: {entry}{offset}");
        let report = race(&known, &[OURS], &[OURS]);
        assert_eq!(found(&report, NOTHING), [""; 0], "{known}");
    }
}

#[test]
fn races_that_are_called_nearly_so_are_not() {
    for unknown in [
        "__hrtimer_run_queues / hrtimer_active_too",
        "hrtimer_active / __hrtimer_run_queues",
        "osq_lock / one",
        "one_osq_lock / osq_unlock",
        "__perf_event_overflow / one",
        "__perf_event_overflow+0xc8/0x6d0 / one",
        "__memcg_slab_free_hook / one",
        "hrtimer_active+0x1/0x2",
    ] {
        let unknown = title(unknown);
        let report = race(&unknown, &[], &[OURS]);
        assert_eq!(found(&report, NOTHING), [unknown]);
    }
}

#[test]
fn what_follows_a_known_race_is_judged() {
    let known = race(&title("osq_lock / osq_unlock"), &[OURS], &[]);
    let own = race(TITLE, &[], &[]);
    let report = race(TITLE, &[], &[OURS]);
    assert_eq!(found(&format!("{known}{report}"), NOTHING), [TITLE]);
    assert_eq!(found(&format!("{own}{report}"), NOTHING), [TITLE]);
    assert_eq!(
        found(&format!("{report}{known}{report}{own}"), NOTHING).len(),
        2
    );
}

/// The entries of interrupts and of page faults, by a function of each.
const ENTRIES: [&str; 3] = [
    "asm_sysvec_apic_timer_interrupt+0x1/0x2",
    "asm_common_interrupt+0x1/0x2",
    "handle_mm_fault+0x1/0x2",
];

#[test]
fn each_boundary_has_a_function_in_these_tests() {
    for boundary in BOUNDARIES.entries() {
        let has = |entry: &&str| format!(" {entry}").contains(boundary);
        assert!(ENTRIES.iter().any(has), "{boundary}");
    }
}

#[test]
fn what_interrupts_the_module_is_not_the_modules() {
    for entry in ENTRIES {
        // The innermost function comes first.
        let interrupted = [entry, OURS];
        for report in [
            race(TITLE, &[], &interrupted),
            race(TITLE, &interrupted, &[]),
            race(TITLE, &interrupted, &interrupted),
            race(TITLE, &["three+0x1/0x2", entry, "three+0x1/0x2", OURS], &[]),
        ] {
            assert_eq!(found(&report, NOTHING), [""; 0], "{report}");
        }
    }
}

#[test]
fn the_module_in_an_interrupt_is_the_modules() {
    for entry in ENTRIES {
        for report in [
            race(TITLE, &[], &[OURS, entry]),
            race(TITLE, &[], &[OURS, entry, OURS]),
            // The other stack is whole.
            race(TITLE, &[entry], &[OURS]),
            race(TITLE, &[entry, OURS], &[OURS]),
            race(TITLE, &[OURS], &[entry, OURS]),
        ] {
            assert_eq!(found(&report, NOTHING), [TITLE], "{report}");
        }
    }
}

#[test]
fn what_is_called_nearly_as_a_boundary_is_none() {
    for entry in [
        "asm_common_interrupt_too+0x1/0x2",
        "__handle_mm_fault+0x1/0x2",
        "handle_mm_fault_too+0x1/0x2",
        "my_asm_sysvec_one+0x1/0x2",
    ] {
        let report = race(TITLE, &[], &[entry, OURS]);
        assert_eq!(found(&report, NOTHING), [TITLE], "{entry}");
    }
}

/// The log of a test may end before the report does.
#[test]
fn a_report_may_end_with_the_log() {
    let report = race(TITLE, &[OURS], &[]);
    let (part, _) = report.split_once("[    2.000004]").unwrap();
    assert_eq!(found(part, NOTHING), [TITLE]);
    let report = race(TITLE, &[], &[OURS]);
    let (part, _) = report.split_once("[    2.000004]").unwrap();
    assert_eq!(found(part, NOTHING), [""; 0]);
}

/// What is allowed of one kernel is not of races.
#[test]
fn races_are_judged_alike_everywhere() {
    for allowed in each_allowed() {
        assert_eq!(found(&race(TITLE, &[OURS], &[]), allowed), [TITLE]);
        assert_eq!(found(&race(TITLE, &[], &[]), allowed), [""; 0]);
    }
}

#[test]
fn no_entry_of_reports_is_hidden_by_another() {
    let hides = |list: List, entry: &str| {
        let others = list.entries().filter(|other| *other != entry);
        others.into_iter().any(|other| entry.contains(other))
    };
    for entry in REPORTS.entries() {
        assert!(!hides(REPORTS, entry), "{entry}");
    }
}
