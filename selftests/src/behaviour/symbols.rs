// SPDX-License-Identifier: GPL-2.0

//! A kernel without a symbol that the module looks for: the module's file is changed to look for a
//! name that no kernel has.

use crate::harness::tests;
use crate::kit::child;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::machine::Log;
use crate::kit::module::nothing_is_left;
use crate::kit::{module, os};
use std::fs::{self, File};
use std::io::Write;

tests!("symbols":
    each_that_is_missing_is_named_and_nothing_is_loaded.of_loading(),
    each_structure_is_looked_at.of_loading(),
    the_members_of_each_structure_are_compared.of_loading().needs_path(TYPES),
    what_is_not_needed_may_miss.of_loading(),
);

/// The types of the kernel (BTF).
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// The symbols that the module calls or changes.
const NEEDED: &[&str] = &[
    "kallsyms_lookup_name",
    "event_mutex",
    "dyn_event_ops_mutex",
    "dyn_event_list",
    "dyn_event_ops_list",
    "ftrace_trace_arrays",
    "trace_event_sem",
    "tracefs_remove",
    "def_chr_fops",
    "cd_forget",
    "print_event_fields",
    "_stext",
    "_etext",
    "find_event_file",
    "tracing_reset_all_online_cpus",
];

/// The last line about a structure that the module does not know.
const CANNOT_USE: &str = "cannot load: cannot use this kernel's structures: error -19";

fn number(bytes: &[u8], at: usize, length: usize) -> usize {
    let number = bytes[at..at + length].iter().rev();
    number.fold(0, |number, &byte| (number << 8) | usize::from(byte))
}

/// Returns the range of a section of a 64-bit ELF file.
fn section(file: &[u8], name: &[u8]) -> std::ops::Range<usize> {
    let (table, size) = (number(file, 0x28, 8), number(file, 0x3a, 2));
    let (count, names) = (number(file, 0x3c, 2), number(file, 0x3e, 2));
    let place = |index: usize| {
        let header = table + size * index;
        let start = number(file, header + 24, 8);
        start..start + number(file, header + 32, 8)
    };
    let names = place(names).start;
    let found = (0..count).find(|index| {
        let at = names + number(file, table + size * index, 4);
        file[at..].starts_with(name) && file[at + name.len()] == 0
    });
    place(found.unwrap_or_else(|| panic!("no section {}", String::from_utf8_lossy(name))))
}

/// The bytes of the module's file.
struct Module(Vec<u8>);

impl Module {
    fn new() -> Module {
        Module(fs::read(module::path()).expect("read the module"))
    }

    /// Returns the file with a text replaced by another one that is not longer.
    fn with(&self, name: &str, other: &str) -> File {
        let mut bytes = self.0.clone();
        let text = [b"\0", name.as_bytes(), b"\0"].concat();
        let data = section(&bytes, b".rodata");
        let found: Vec<usize> = data.filter(|at| bytes[*at..].starts_with(&text)).collect();
        assert_eq!(found.len(), 1, "places with {name}: {found:?}");
        let place = &mut bytes[found[0] + 1..][..name.len()];
        place.fill(0);
        place[..other.len()].copy_from_slice(other.as_bytes());
        let mut changed = os::memory_file(0);
        changed.write_all(&bytes).expect("write the module");
        changed
    }

    /// Returns the file with the last letter of a symbol's name replaced, and the new name.
    fn looking_for_another(&self, name: &str) -> (File, String) {
        let other = format!("{}#", &name[..name.len() - 1]);
        (self.with(name, &other), other)
    }

    /// Asserts that loading without a symbol fails with this error, and logs only these lines. `{}`
    /// is the replaced name.
    #[track_caller]
    fn fails_without(&self, name: &str, errno: Errno, lines: &[&str]) {
        let (file, other) = self.looking_for_another(name);
        let with_name = |line: &&str| line.replace("{}", &other);
        let lines: Vec<String> = lines.iter().map(with_name).collect();
        fails(&file, &format!("without {name}"), errno, &lines);
    }

    /// Asserts that the module finds another layout of a structure when a text is replaced.
    #[track_caller]
    fn knows_not(&self, structure: &str, name: &str, other: &str) {
        let lines = [
            format!("this kernel has another layout of {structure}"),
            CANNOT_USE.into(),
        ];
        let what = format!("{other} instead of {name}");
        fails(&self.with(name, other), &what, Errno::ENODEV, &lines);
    }
}

/// Asserts that loading fails with this error, and that the module logs only these lines.
#[track_caller]
fn fails(file: &File, what: &str, errno: Errno, lines: &[String]) {
    let mut log = Log::from_now();
    assert_eq!(module::load_file(file, ""), Err(errno), "{what}");
    let line = |line: &String| format!("{}: {line}", module::NAME);
    let lines: Vec<String> = lines.iter().map(line).collect();
    assert_eq!(module::said(log.take()), lines, "{what}");
    nothing_is_left();
}

fn each_that_is_missing_is_named_and_nothing_is_loaded() {
    let module = Module::new();
    for name in NEEDED {
        let lines = [
            "the kernel has no symbol '{}'",
            "cannot load: cannot find kernel symbols: error -2",
        ];
        module.fails_without(name, Errno::ENOENT, &lines);
    }
    // By which a structure is known.
    for operation in ["show", "is_busy", "release", "match"] {
        let name = format!("eprobe_dyn_event_{operation}");
        let line = "this kernel has another layout of struct dyn_event_operations";
        module.fails_without(&name, Errno::ENODEV, &[line, CANNOT_USE]);
    }
    // The tracepoint of exits fires too late in 6.12.
    let exit = match os::kernel_version() == (6, 12) {
        true => "exit_mm_release",
        false => "__tracepoint_sched_process_exit",
    };
    let both = "probe sched_process_exit and sched_prepare_exec";
    for (name, what) in [
        (
            "__tracepoint_sched_process_fork",
            "probe sched_process_fork",
        ),
        (exit, both),
        ("__tracepoint_sched_prepare_exec", both),
    ] {
        let line = format!("cannot load: cannot {what}: error -2");
        module.fails_without(name, Errno::ENOENT, &[&line]);
    }
    // The unchanged module loads.
    module::load();
    module::unload_when_idle();
}

/// There is no kernel with other structures to test, so the module looks at another list, or for
/// another event. (Names of fields are part of the module's instructions.)
fn each_structure_is_looked_at() {
    let module = Module::new();
    for (structure, name, other) in [
        ("struct dyn_event", "dyn_event_list", "modules"),
        (
            "struct trace_array, or ftrace_trace_arrays",
            "sched_switch",
            "sched_swatch",
        ),
    ] {
        module.knows_not(structure, name, other);
    }
}

/// The module compares another structure of the kernel, whose name is as long. The second differs
/// only in the names of its members.
fn the_members_of_each_structure_are_compared() {
    let module = Module::new();
    for (name, other) in [
        ("dyn_event_operations", "vm_operations_struct"),
        ("dyn_event", "tp_module"),
    ] {
        module.knows_not(&format!("struct {name}"), name, other);
    }
}

/// Only checks of layouts use these. A kernel may have neither event probes nor BTF.
fn what_is_not_needed_may_miss() {
    let module = Module::new();
    for name in ["eprobe_dyn_event_create", "__start_BTF", "__stop_BTF"] {
        let (file, _) = module.looking_for_another(name);
        assert_eq!(module::load_file(&file, ""), Ok(()), "without {name}");
        let user = child::fork(|_| drop(Event::new("st_symbols u32 a")));
        user.join();
        module::unload_when_idle();
        nothing_is_left();
    }
}
