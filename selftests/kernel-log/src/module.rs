// SPDX-License-Identifier: GPL-2.0

//! Messages of the module, and of the kernel in its name.

/// The kernel's prefix of the module's messages.
const BEFORE_MESSAGE: &str = "user_events: ";

/// The kernel's suffix of the module's functions in a stack.
pub(crate) const IN_STACK: &str = "[user_events]";

/// Messages that are always allowed: about loading and unloading, and why they take long or fail.
/// The last is the kernel's own.
const USUAL: [&str; 3] = [
    "unloaded",
    "unloading waits for event probes and triggers that refer to its events",
    "loading out-of-tree module taints kernel.",
];

/// Beginnings of such messages, with a variable end.
const USUAL_BEGIN: [&str; 2] = ["cannot load: ", "module verification failed: "];

/// The message of the C implementation, with the same prefix, about every bit that it cannot write.
const OF_C: &str = "Fault for mm: ";

/// The message about a child that 6.12 kills without memory.
const KILLED: &str = "no memory for the registrations of ";

/// Returns whether the line is a message of the module that comes only if allocations are made to
/// fail.
pub fn is_of_faults(line: &str) -> bool {
    message(line).is_some_and(|message| message.starts_with(KILLED))
}

/// Returns the message, if the line is one of the module's.
pub(crate) fn message(line: &str) -> Option<&str> {
    line.strip_prefix(BEFORE_MESSAGE)
}

/// Returns whether this message is expected. The kernel may have the C implementation.
pub(crate) fn is_usual(message: &str, c_implementation: bool) -> bool {
    USUAL.contains(&message)
        || is_loaded(message)
        || USUAL_BEGIN.iter().any(|start| message.starts_with(start))
        || misses_changed_symbol(message)
        || finds_other_layout(message)
        || (c_implementation && message.starts_with(OF_C))
}

/// Returns whether this is the message of a loaded module, with its version.
fn is_loaded(message: &str) -> bool {
    let version = message.strip_prefix("loaded, version ");
    version.is_some_and(|version| {
        let mut numbers = version.split('.');
        numbers.all(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// Returns whether the missing symbol exists in no kernel. A test changes the names that the module
/// looks for, so that they end in `#`.
fn misses_changed_symbol(message: &str) -> bool {
    let name = message.strip_prefix("the kernel has no symbol '");
    name.and_then(|name| name.strip_suffix("#'"))
        .is_some_and(is_name)
}

/// Caused by a test, too.
fn finds_other_layout(message: &str) -> bool {
    let name = message.strip_prefix("this kernel has another layout of struct ");
    name.is_some_and(|name| is_name(name) || name == "trace_array, or ftrace_trace_arrays")
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [&str; 9] = [
        "loaded, version 1.10.0",
        "unloaded",
        "unloading waits for event probes and triggers that refer to its events",
        "loading out-of-tree module taints kernel.",
        "cannot load: cannot find symbols: error -4",
        "module verification failed: signature and/or required key missing - tainting kernel",
        "the kernel has no symbol 'event_mute#'",
        "this kernel has another layout of struct dyn_event_operations",
        "this kernel has another layout of struct trace_array, or ftrace_trace_arrays",
    ];

    const BAD: [&str; 20] = [
        "",
        "something else",
        "loaded",
        "loaded, version ",
        "loaded, version 1.",
        "loaded, version 1.0 twice",
        "loaded twice",
        "not loaded",
        "unloading waits for event probes and triggers that refer to its events, or not",
        "loading out-of-tree module taints kernel",
        "cannot load",
        "it cannot load: one",
        "module verification failed",
        "the kernel has no symbol 'event_mutex'",
        "the kernel has no symbol '#'",
        "the kernel has no symbol 'event mute#'",
        "the kernel has no symbol 'event_mute#' or another",
        "this kernel has another layout of struct ",
        "this kernel has another layout of struct dyn_event_operations, or of another",
        "this kernel has another layout of union one",
    ];

    #[test]
    fn loading_and_unloading_are_usual_and_nothing_else() {
        for of_c in [false, true] {
            for message in GOOD {
                assert!(is_usual(message, of_c), "{message}");
            }
            for message in BAD {
                assert!(!is_usual(message, of_c), "{message}");
            }
        }
    }

    #[test]
    fn only_the_c_implementation_tells_of_bits_that_it_cannot_write() {
        let said = "Fault for mm: 0x(____ptrval____) @ 0x20001034 event: one";
        assert!(is_usual(said, true));
        assert!(!is_usual(said, false));
        assert!(!is_usual(&format!("no {said}"), true));
    }

    #[test]
    fn a_message_has_the_name_at_its_start() {
        assert_eq!(message("user_events: unloaded"), Some("unloaded"));
        for line in [
            "user_events loaded",
            "user_events:loaded",
            "other: user_events: one",
            "user_events_test: one",
        ] {
            assert_eq!(message(line), None, "{line}");
        }
    }
}
