// SPDX-License-Identifier: GPL-2.0

//! Whether a machine died of its emulator's fault.
//!
//! The kernel rewrites its code while it runs, with a breakpoint as the first byte. Rarely QEMU
//! makes the other CPU run into the breakpoint after the rewriting, when no handler expects it.
//! This happens without the module as well.
//!
//! More rarely a CPU's timer stops two seconds after the start, and the kernel waits for it
//! forever. No module is loaded at that time. Or QEMU finds a fault of its own and ends: one CPU
//! used an address of a device while another one, in the start, moved the device.
//!
//! On a busy host the kernel may measure the processors' clock wrongly: its time then runs forty
//! times too fast.

/// Beginnings of the kernel's reports.
const REPORTS: [&str; 8] = [
    "Oops: ",
    "BUG: ",
    "WARNING: ",
    "general protection fault: ",
    "KASAN: ",
    "KCSAN: ",
    "Kernel panic",
    "Call Trace:",
];

/// The report that may be the emulator's fault.
const BREAKPOINT: &str = "Oops: int3: 0000";

const STALLS: [&str; 2] = ["detected stalls on CPUs", "self-detected stall on CPU"];

/// Printed to the kernel's log by `selftests/machine/vm` before the module is loaded.
const STARTED: &str = "vm: the machine has started";

/// Printed by the kernel where two ways of measuring the clock differ by more than a tenth.
const WRONG_CLOCK: &str = "tsc: PIT calibration deviates from ";

/// Returns the emulator's fault if the kernel of this console died of it.
pub fn emulator_fault(console: &str) -> Option<&'static str> {
    if is_stalled_at_the_start(console) {
        Some("did not let the kernel start (a stall of RCU)")
    } else if !console.contains(STARTED) && console.contains(WRONG_CLOCK) {
        Some("let the kernel measure its clock wrongly")
    } else if is_of_replaced_code(console) {
        Some("ran code that the kernel had replaced (Oops: int3)")
    } else if console.lines().any(is_own_assertion) {
        Some("ended with an assertion of its own")
    } else {
        None
    }
}

/// Returns whether QEMU printed this line at the end. A line of the kernel begins with its time.
fn is_own_assertion(line: &str) -> bool {
    line.starts_with("qemu-system-")
        && line.contains(": Assertion `")
        && line.ends_with("' failed.")
}

/// Returns whether RCU stalled and the machine never started.
fn is_stalled_at_the_start(console: &str) -> bool {
    !console.contains(STARTED) && STALLS.iter().any(|text| console.contains(text))
}

/// Returns whether the kernel ran code that it had replaced.
///
/// The first report must be of a breakpoint at a symbol of the kernel's own text: freed text of a
/// module is filled with breakpoints, too, but has no symbol. The report may contain no function of
/// a module.
fn is_of_replaced_code(console: &str) -> bool {
    let lines = console.split('\n');
    let lines = lines.map(|line| line.strip_suffix('\r').unwrap_or(line));
    let mut report = lines
        .skip_while(|line| !REPORTS.iter().any(|text| line.contains(text)))
        .peekable();
    if !report.peek().is_some_and(|line| line.contains(BREAKPOINT)) {
        return false;
    }
    let mut is_in_kernel_text = false;
    for line in report {
        // Registers of the interrupted code may follow the first ones.
        if let Some((_, place)) = line.split_once("RIP: 0010:") {
            is_in_kernel_text |= is_symbol_of_kernel(place);
            if !is_in_kernel_text {
                return false;
            }
        }
        if has_function_of_module(line) {
            return false;
        }
        if line.contains("end trace") {
            break;
        }
    }
    is_in_kernel_text
}

/// Returns whether a place is `symbol+0x10/0x900`, with no module after it.
fn is_symbol_of_kernel(place: &str) -> bool {
    let end = place.find('+').unwrap_or(place.len());
    let (symbol, offset) = place.split_at(end);
    let begins = symbol.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let goes_on = symbol
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
    begins && goes_on && after_offset(offset) == Some("")
}

/// Returns whether a line contains `+0x10/0x900 [`.
fn has_function_of_module(line: &str) -> bool {
    let mut offsets = line.match_indices("+0x").map(|(at, _)| line.split_at(at).1);
    offsets.any(|offset| after_offset(offset).is_some_and(|rest| rest.starts_with(" [")))
}

/// Returns the text after an offset and a size such as `+0x10/0x900`.
fn after_offset(text: &str) -> Option<&str> {
    after_number(after_number(text.strip_prefix('+')?)?.strip_prefix('/')?)
}

/// Returns the text after a number such as `0x10`.
fn after_number(text: &str) -> Option<&str> {
    let digits = text.strip_prefix("0x")?;
    let rest = digits.trim_start_matches(|c: char| matches!(c, '0'..='9' | 'a'..='f'));
    (rest.len() < digits.len()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_emulator_fault(console: &str) -> bool {
        emulator_fault(console).is_some()
    }

    const BREAKPOINT_TITLE: &str = "Oops: int3: 0000 [#1] SMP NOPTI";
    const IN_KERNEL: &str = "__schedule+0x10/0x900";
    const IN_FREED_TEXT: &str = "0xffffffffc0201234";

    fn report(title: &str, place: &str, frame: &str) -> String {
        format!(
            "[    1.000000] user_events: loaded, version 1.0.0
[    9.000000] {title}
[    9.000001] CPU: 1 UID: 0 PID: 7 Comm: selftests Tainted: G           O        7.3.4 #1
[    9.000002] RIP: 0010:{place}
[    9.000003] Call Trace:
[    9.000004]  {frame}
[    9.000005] Modules linked in: user_events(O)
[    9.000006] ---[ end trace 0000000000000000 ]---
"
        )
    }

    fn breakpoint(place: &str) -> String {
        report(BREAKPOINT_TITLE, place, "try_to_wake_up+0x1/0x2")
    }

    #[test]
    fn a_breakpoint_in_the_kernels_own_text_is() {
        let console = breakpoint(IN_KERNEL);
        let again = "RIP: 0010:0xffffffffc0201234\n";
        let panic = "Kernel panic - not syncing: Fatal exception\n";
        let other = report("BUG: one", "one+0x1/0x2 [user_events]", "two");
        for console in [
            console.replace('\n', "\r\n"),
            console.trim_end().to_string(),
            breakpoint("_raw_spin_lock.constprop.0+0x1/0x2"),
            // Registers of the interrupted code and the messages of the shutdown may follow.
            [&console, again, panic, &other].concat(),
            report(BREAKPOINT_TITLE, IN_KERNEL, &format!("one\n{again}")),
            report(BREAKPOINT_TITLE, IN_KERNEL, "one+0x1 [user_events]"),
        ] {
            assert!(is_emulator_fault(&console), "{console}");
        }
    }

    #[test]
    fn another_report_is_not() {
        let places = [
            IN_FREED_TEXT,
            // Registers of the interrupted code follow.
            &format!("{IN_FREED_TEXT}\nRIP: 0010:{IN_KERNEL}"),
            "register+0x10/0x900 [user_events]",
            "register+0x10/0x900 [other]",
            "__schedule",
            "__schedule+0x10",
            "__schedule+0x10/",
            "__schedule+0x/0x900",
            "__schedule+0x10/0x900 ",
            "+0x10/0x900",
            "0schedule+0x10/0x900",
            "a b+0x10/0x900",
            "",
        ];
        let modules = [
            " write_one+0x1/0x2 [user_events]",
            "? write_one+0xab/0xcd [other]",
            "one+0x1/0x2 two+0x1/0x2 [user_events]",
        ];
        let titles = [
            "Oops: 0000 [#1] SMP NOPTI",
            "Oops: int3: 0001 [#1] SMP NOPTI",
            "general protection fault: 0000 [#1] SMP NOPTI",
            "BUG: unable to handle page fault for address: 0000000000000000",
            "WARNING: CPU: 0 PID: 1 at kernel/trace/trace.c:1",
            "int3: 0000",
        ];
        // A breakpoint may follow another report.
        let first = [
            "BUG: KASAN: slab-use-after-free in one",
            "KASAN: null-ptr-deref in range",
            "BUG: KCSAN: data-race in one / other",
            "WARNING: possible circular locking dependency detected",
            "Call Trace:",
            "Kernel panic - not syncing: one",
            &breakpoint(IN_FREED_TEXT),
        ];
        let lacking = [
            "",
            "[    9.000000] Kernel panic - not syncing: Oops: int3\n",
            "[    9.000000] Oops: int3: 0000 [#1]\n",
        ];
        let in_module = |frame| report(BREAKPOINT_TITLE, IN_KERNEL, frame);
        let then_breakpoint = |first| format!("{first}\n{}", breakpoint(IN_KERNEL));
        let consoles = [
            places.map(breakpoint).to_vec(),
            modules.map(in_module).to_vec(),
            titles.map(|title| report(title, IN_KERNEL, "one")).to_vec(),
            first.map(then_breakpoint).to_vec(),
            lacking.map(String::from).to_vec(),
        ];
        for console in consoles.concat() {
            assert!(!is_emulator_fault(&console), "{console}");
        }
    }

    #[test]
    fn a_stall_before_the_start_is() {
        let started = format!("[    8.000000] {STARTED}\n");
        for stall in [
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "rcu: INFO: rcu_preempt self-detected stall on CPU",
        ] {
            let stall = format!("[   23.000000] {stall}\nCall Trace:\n");
            assert!(is_emulator_fault(&stall));
            // A kernel that has started did not die of the stall.
            assert!(!is_emulator_fault(&(stall.clone() + &started)));
            assert!(!is_emulator_fault(&(started.clone() + &stall)));
        }
        assert!(!is_emulator_fault(&started));
    }

    #[test]
    fn an_assertion_of_qemu_is() {
        let assertion = "qemu-system-x86_64: a/b.c:26: find: Assertion `at < size' failed.";
        let before = "[    1.441557] pci 0000:00:08.0: [1af4:1003] type 00\n";
        assert!(is_emulator_fault(&format!("{before}{assertion}\r\n")));
        for other in [
            &format!("[    1.5] {assertion}"),
            "qemu-system-x86_64: warning: Assertion `at < size' failed. Ignored.",
            "qemu-system-x86_64: terminating on signal 15",
        ] {
            assert!(!is_emulator_fault(&format!("{before}{other}\n")), "{other}");
        }
    }

    #[test]
    fn a_clock_measured_wrongly_before_the_start_is() {
        let clock = format!("[    0.124000] {WRONG_CLOCK}PMTIMER: 59472 2596569\n");
        assert!(is_emulator_fault(&clock));
        assert!(!is_emulator_fault(&format!("{clock}[    8.0] {STARTED}\n")));
        let none = "[    0.024000] tsc: Unable to calibrate against PIT\n";
        assert!(!is_emulator_fault(none));
    }
}
