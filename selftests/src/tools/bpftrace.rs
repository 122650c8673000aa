// SPDX-License-Identifier: GPL-2.0

//! bpftrace: running it, its list of fields, and stacks.

use crate::harness::tests;
use crate::kit::child;
use crate::kit::event::Event;
use crate::kit::tool::{Output, Tool};
use crate::kit::wait;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

tests!("tools::bpftrace" on TYPES:
    list_shows_the_fields,
    stacks_of_the_writer,
);

/// The kernel's types, without which bpftrace can do little.
pub const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// With this variable set, bpftrace prints its name when all probes are attached.
const ATTACHED: &str = "__BPFTRACE_NOTIFY_PROBES_ATTACHED";

/// The root of the bpftrace of Debian's next release, with its libraries (see
/// `selftests/machine/bpftrace.sh`).
const NEXT_ROOT: &str = "/opt";

/// Returns an obstacle if the next release is not there.
pub fn next_is_missing() -> Option<String> {
    let is_there = Path::new(NEXT_ROOT).join("usr/bin/bpftrace").exists();
    (!is_there).then(|| "there is no bpftrace of the next release of Debian".into())
}

static NEXT: AtomicBool = AtomicBool::new(false);

/// Makes this process, which runs one test, use the bpftrace of Debian's next release.
pub fn use_next() {
    NEXT.store(true, Ordering::Relaxed);
}

/// Returns whether [`use_next`] was called.
pub fn is_next() -> bool {
    NEXT.load(Ordering::Relaxed)
}

/// Runs the next release in its own root, with this machine's devices and kernel, in a private
/// mount namespace. The library of `LD_PRELOAD` does not exist there.
const IN_NEXT: &str = r#"
    for dir in dev proc sys; do mount --rbind /$dir /opt/$dir || exit; done
    unset LD_PRELOAD
    exec chroot /opt bpftrace "$@""#;

/// The command line that runs bpftrace with these arguments, with its output buffered by line.
fn words<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let tool: &[&str] = match is_next() {
        true => &["unshare", "-m", "sh", "-c", IN_NEXT, "sh"],
        false => &["bpftrace"],
    };
    [tool, &["-B", "line"], arguments].concat()
}

/// Runs bpftrace to its end, whatever its exit status.
pub fn run(arguments: &[&str]) -> Output {
    Tool::start(&words(arguments)).end()
}

/// Starts a script, and waits until all its probes are attached.
pub fn start(script: &str) -> Tool {
    let environment = format!("{ATTACHED}=1");
    let tool = Tool::start(&[&["env", &environment], &words(&["-e", script])[..]].concat());
    // The first script of a boot loads a compiler from the host, which may be busy.
    let attached = || tool.printed().contains(ATTACHED);
    assert!(
        (0..4).any(|_| wait::eventually(attached)),
        "bpftrace does not attach: {}",
        tool.printed().replace('\n', " | ")
    );
    tool
}

/// Ends a script, after which the event has no consumer. The output of the script must have been
/// waited for: bpftrace ends without reading what is left in its buffers.
pub fn stop(tool: Tool, event: &Event) -> Output {
    let output = tool.interrupt();
    assert!(output.status.success(), "{}", output.text);
    event.wait_clear();
    output
}

pub fn list_shows_the_fields() {
    let _event =
        Event::new("st_bt_fields u32 a; s64 b; char[8] c; __data_loc char[] d; __rel_loc u32[] e");
    let list = run(&["-lv", "tracepoint:user_events:st_bt_fields"]);
    let lines: Vec<_> = list.text.lines().map(str::trim).collect();
    let want = [
        "tracepoint:user_events:st_bt_fields",
        "u32 a",
        "s64 b",
        "char c[8]",
        "__data_loc char[] d",
        "__rel_loc u32 e[]",
    ];
    assert_eq!(lines, want);
}

/// The address ranges at which this process has mapped code of the file.
fn code_of(file: &str) -> Vec<(u64, u64)> {
    let maps = fs::read_to_string("/proc/self/maps").expect("read a process's mappings");
    let lines = maps
        .lines()
        .filter(|line| line.contains(file) && line.contains("r-xp"));
    let number = |text| u64::from_str_radix(text, 16).expect("an address");
    lines
        .filter_map(|line| line.split_once(' ')?.0.split_once('-'))
        .map(|(from, to)| (number(from), number(to)))
        .collect()
}

/// A kernel function through which each system call passes.
const OF_EACH_CALL: &str = if cfg!(target_arch = "aarch64") {
    "el0t_64_sync_handler"
} else {
    "do_syscall_64"
};

pub fn stacks_of_the_writer() {
    let event = Event::new("st_bt_stack u32 a");
    // The C library is built without frame pointers, so only the innermost frame is certain. It may
    // have no name, so its address is compared.
    let script = r#"tracepoint:user_events:st_bt_stack {
        printf("by %s %d\n", comm, pid); printf("in %s\n", ustack(raw, 1)); print(kstack(30));
    }"#;
    let tool = start(script);
    let pid = tool.while_stopped(|| {
        let child = child::fork(|_| {
            let mine = Event::new("st_bt_stack u32 a");
            assert_eq!(mine.write(&[0; 4]), Ok(8));
        });
        let pid = child.pid;
        child.join();
        pid
    });
    tool.wait_printed(OF_EACH_CALL);
    let output = stop(tool, &event);
    assert_eq!(output.after("by "), [format!("selftests {pid}")]);
    let words = output.text.split_whitespace();
    let numbers = words.filter_map(|word| u64::from_str_radix(word, 16).ok());
    // The child is a fork of this process, so its library has the same address.
    let library = code_of("/libc.so");
    let mut in_library = numbers.flat_map(|at| {
        library
            .iter()
            .filter(move |&&(from, to)| (from..to).contains(&at))
    });
    assert!(in_library.next().is_some(), "{}", output.text);
    for function in ["ksys_write", OF_EACH_CALL].map(|name| format!("{name}+")) {
        let mut lines = output.text.lines().map(str::trim);
        assert!(
            lines.any(|line| line.starts_with(&function)),
            "{function} in {}",
            output.text
        );
    }
}
