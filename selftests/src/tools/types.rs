// SPDX-License-Identifier: GPL-2.0

//! One record of every type of field in each tool.

use super::{bpftrace, perf, trace_cmd};
use crate::harness::tests;
use crate::kit::event::Event;
use crate::kit::os;
use crate::kit::payload::{
    payload,
    Value::{self, Data, Fixed, Rel},
};
use crate::kit::tool::{Scratch, Tool};
use crate::kit::tracefs::TraceInstance;

tests!("tools::types":
    a_record_of_each_type_in_four_tools
        .limit(300)
        .needs_path("/sys/kernel/btf/vmlinux"),
);

/// A field, a value of it, and its output in each tool: in the trace file, where numbers have two
/// forms, `0x10 (16)`; in `trace-cmd report` and `perf script`, which decode records alike; and a
/// format and arguments for bpftrace, with what it prints.
struct Case(
    &'static str,
    Value<'static>,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

const NUMBER: &str = r#""%d", args.v"#;
const UNSIGNED: &str = r#""%u", args.v"#;
const LONG: &str = r#""%lld", args.v"#;
const TEXT: &str = r#""%s", args.v"#;
const BYTES: &str = r#""%r", buf(args.v, 8)"#;
const PAIR: &str = r#""%d %d", args.v.a, args.v.b"#;
const TRIPLE: &str = r#""%d %d %d", args.v.a, args.v.b, args.v.c"#;

/// Declarations for bpftrace 0.23. It computes a wrong address for a `__data_loc`, also of kernel
/// events: it adds four times the offset to the record's address. So three times the offset, which
/// is 12 here, is subtracted. It does not support `__rel_loc`: the line declares one that is the
/// last field as an address. Its offset counts from the field's end and is 0, so the end, at 12, is
/// added.
const DECLARATIONS: &str = r#"
#define __rel_loc __attribute__((annotate("tp_data_loc"))) int v_at;
struct pair { int a; int b; };
struct triple { int a; int b; int c; };
"#;

const DATA_TEXT: &str = r#""%s", str(kptr(args.v - 36))"#;
const DATA_NUMBERS: &str = r#""%d %d", *(uint32*)kptr(args.v - 36), *(uint32*)kptr(args.v - 32)"#;
const REL_TEXT: &str = r#""%s", str(kptr(args.v_at + 12))"#;
const REL_NUMBERS: &str =
    r#""%d %d", *(uint32*)kptr(args.v_at + 12), *(uint32*)kptr(args.v_at + 16)"#;

/// Declarations for bpftrace 0.27. It reads a `__data_loc`, supports neither `__rel_loc` nor a
/// declared `struct`, and gives the record's address, from which all of these can be read.
const NEXT_DECLARATIONS: &str = r#"
struct pair { int a; int b; };
struct triple { int a; int b; int c; };
"#;
const RECORD: &str = "$args = args; $record = *(uint64*)&$args; ";

/// The script for 0.27 where it differs from that for 0.23.
fn next_script(script: &'static str) -> &'static str {
    match script {
        PAIR => {
            r#""%d %d", ((struct pair*)kptr($record + 8))->a, ((struct pair*)kptr($record + 8))->b"#
        }
        TRIPLE => {
            r#""%d %d %d", ((struct triple*)kptr($record + 8))->a, *(int32*)kptr($record + 12), *(int32*)kptr($record + 16)"#
        }
        DATA_TEXT => r#""%s", str(args.v)"#,
        DATA_NUMBERS => r#""%d %d", *(uint32*)args.v, *(uint32*)(args.v + 4)"#,
        REL_TEXT => r#""%s", str(kptr($record + 12 + (*(uint32*)kptr($record + 8) & 0xffff)))"#,
        REL_NUMBERS => {
            r#""%d %d", *(uint32*)kptr($record + 12 + (*(uint32*)kptr($record + 8) & 0xffff)), *(uint32*)kptr($record + 16)"#
        }
        script => script,
    }
}

const HELLO: &[u8] = b"hello\0";
const ONE_TWO: &[u8] = &[1, 0, 0, 0, 2, 0, 0, 0];
const ONE_TWO_THREE: &[u8] = &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
const MINUS_TWO: &[u8] = &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
const FOUR_BILLIONS: &[u8] = &[0, 0x28, 0x6b, 0xee];

const fn minus_two(size: usize) -> Value<'static> {
    Fixed(MINUS_TWO.split_at(size).0)
}

// Differences between tools apply to kernel events as well: the trace
// file shows fields of one and two bytes as unsigned and larger ones as signed; reports show those
// of one and two bytes as unsigned.
#[rustfmt::skip]
const CASES: &[Case] = &[
    Case("u8 v", Fixed(&[128]), "(128)", "128", NUMBER, "128"),
    Case("s8 v", Fixed(&[5]), "(5)", "5", NUMBER, "5"),
    Case("s8 v", Fixed(&[128]), "(128)", "128", NUMBER, "-128"),
    Case("u16 v", Fixed(&[0x40, 0x9c]), "0x9c40 (40000)", "40000", NUMBER, "40000"),
    Case("s16 v", Fixed(&[5, 0]), "0x5 (5)", "5", NUMBER, "5"),
    Case("s16 v", minus_two(2), "0xfffe (65534)", "65534", NUMBER, "-2"),
    Case("u32 v", Fixed(&[5, 0, 0, 0]), "0x5 (5)", "5", NUMBER, "5"),
    Case("u32 v", Fixed(FOUR_BILLIONS), "0xee6b2800 (-294967296)", "4000000000", UNSIGNED, "4000000000"),
    Case("s32 v", minus_two(4), "0xfffffffe (-2)", "-2", NUMBER, "-2"),
    Case("u64 v", Fixed(&[0, 0, 0, 0, 1, 0, 0, 0]), "0x100000000 (4294967296)", "4294967296", LONG, "4294967296"),
    Case("s64 v", minus_two(8), "0xfffffffffffffffe (-2)", "-2", LONG, "-2"),
    Case("char v", Fixed(b"A"), "'A'(65)", "65", NUMBER, "65"),
    Case("unsigned char v", Fixed(&[128]), "(128)", "128", NUMBER, "128"),
    Case("short v", minus_two(2), "0xfffe (65534)", "65534", NUMBER, "-2"),
    Case("unsigned short v", Fixed(&[0x40, 0x9c]), "0x9c40 (40000)", "40000", NUMBER, "40000"),
    Case("int v", minus_two(4), "0xfffffffe (-2)", "-2", NUMBER, "-2"),
    Case("unsigned int v", Fixed(&[5, 0, 0, 0]), "0x5 (5)", "5", UNSIGNED, "5"),
    Case("char[8] v", Fixed(b"apples\0\0"), "apples", "apples", TEXT, "apples"),
    Case("unsigned char[8] v", Fixed(b"pears\0\0\0"), "pears", "pears", BYTES, r"pears\x00\x00\x00"),
    Case("struct pair v 8", Fixed(ONE_TWO), "0x200000001 (8589934593)", "8589934593", PAIR, "1 2"),
    // Only a tool to which the structure is declared can show a field of this size.
    Case("struct triple v 12", Fixed(ONE_TWO_THREE), "<INVALID-SIZE>", "0", TRIPLE, "1 2 3"),
    Case("__data_loc char[] v", Data(HELLO), "hello", "hello", DATA_TEXT, "hello"),
    Case("__rel_loc char[] v", Rel(HELLO), "hello", "hello", REL_TEXT, "hello"),
    Case("__data_loc unsigned char[] v", Data(HELLO), "hello", "hello", DATA_TEXT, "hello"),
    Case("__rel_loc unsigned char[] v", Rel(HELLO), "hello", "hello", REL_TEXT, "hello"),
    // Reports show the location itself: size and offset.
    Case("__data_loc u32[] v", Data(ONE_TWO), "01,00,00,00,02,00,00,00", "524300", DATA_NUMBERS, "1 2"),
    Case("__rel_loc u32[] v", Rel(ONE_TWO), "01,00,00,00,02,00,00,00", "524288", REL_NUMBERS, "1 2"),
];

/// The name of the event of a case.
fn name(number: usize) -> String {
    format!("st_ty_{number:02}")
}

/// Registers the events of all cases.
fn events() -> Vec<Event> {
    let cases = CASES.iter().enumerate();
    cases
        .map(|(number, Case(field, ..))| Event::new(&format!("{} {field}", name(number))))
        .collect()
}

fn script(declarations: &str, first: &str, print: fn(&'static str) -> &'static str) -> String {
    let mut script = declarations.to_string();
    for (number, Case(.., of_case, _)) in CASES.iter().enumerate() {
        let (name, print) = (name(number), &print(of_case)[1..]);
        script += &format!("tracepoint:user_events:{name} {{ {first}printf(\"{name}: {print}); ");
        script += "printf(\"\\n\"); }\n";
    }
    script
}

/// Writes one record of each case on one CPU, so that all tools see them in this order.
fn write_each(events: &[Event]) {
    os::run_on(os::cpus()[0]);
    for (event, Case(_, value, ..)) in events.iter().zip(CASES) {
        let payload = payload(&[*value]);
        assert_eq!(event.write(&payload), Ok(4 + payload.len()));
    }
}

/// The same records in the bpftrace of Debian's next release.
pub fn a_record_of_each_type() {
    let events = events();
    let tool = bpftrace::start(&script(NEXT_DECLARATIONS, RECORD, next_script));
    tool.while_stopped(|| write_each(&events));
    wait_for_last(&tool);
    let output = bpftrace::stop(tool, &events[CASES.len() - 1]);
    let cases = CASES.iter().enumerate();
    let wrong: Vec<_> = cases
        .map(|(number, case)| (case, output.after(&format!("{}: ", name(number)))))
        .filter(|(Case(.., printed), seen)| *seen != [*printed])
        .map(|(Case(field, .., printed), seen)| format!("{field}: want {printed}, got {seen:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("; "));
}

fn wait_for_last(tool: &Tool) {
    let last = CASES.len() - 1;
    let Case(.., printed) = CASES[last];
    tool.wait_printed(&format!("{}: {printed}\n", name(last)));
}

fn a_record_of_each_type_in_four_tools() {
    perf::hide_kernel_symbols();
    let events = events();
    let scratch = Scratch::new("st_types");
    let bpftrace = bpftrace::start(&script(DECLARATIONS, "", |script| script));
    let perf = perf::Session::start(&scratch, "perf", &["-a", "-e", "user_events:st_ty_*"]);
    let data = scratch.file("trace.dat");
    let trace_cmd = trace_cmd::record(&data, &["-e", "user_events"]);
    let tracer = TraceInstance::instance("st_types");
    tracer.control("events/user_events/enable", "1");
    bpftrace.while_stopped(|| write_each(&events));
    wait_for_last(&bpftrace);
    let script = perf.stop(&["-F", "event,trace"]);
    trace_cmd.interrupt();
    tracer.control("events/user_events/enable", "0");
    let bpftrace = bpftrace::stop(bpftrace, &events[CASES.len() - 1]);
    let report = trace_cmd::report(&data);

    let owned = |lines: Vec<&str>| lines.into_iter().map(String::from).collect::<Vec<_>>();
    let mut wrong = Vec::new();
    let mut compare = |tool: &str, field: &str, seen: Vec<String>, want: Vec<String>| {
        if seen != want {
            wrong.push(format!("{tool} of {field}: want {want:?}, got {seen:?}"));
        }
    };
    for (number, Case(field, _, trace, report_of_it, _, printed)) in CASES.iter().enumerate() {
        let name = name(number);
        let want = vec![format!("{name}: v={trace}")];
        let lines = tracer.lines(&name).into_iter();
        let seen = lines.map(|line| line.replace('\0', "")).collect();
        compare("trace", field, seen, want);
        let want = vec![format!("v={report_of_it}")];
        let seen = owned(report.after(&format!(" {name}: ")));
        compare("trace-cmd report", field, seen, want.clone());
        let seen = owned(script.after(&format!(":{name}: ")));
        compare("perf script", field, seen, want);
        let seen = owned(bpftrace.after(&format!("{name}: ")));
        compare("bpftrace", field, seen, vec![printed.to_string()]);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("; "));
}
