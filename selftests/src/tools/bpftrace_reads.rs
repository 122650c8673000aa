// SPDX-License-Identifier: GPL-2.0

//! How bpftrace reads names, systems and fields in this machine's release (0.23) and in Debian's
//! next one (0.27), where they differ, and what to write then. `consumers.rst` describes the same
//! for users.

use super::bpftrace::{self, is_next};
use crate::harness::tests;
use crate::kit::abi::{Data, MULTI_FORMAT};
use crate::kit::event::Event;
use crate::kit::group::Group;
use crate::kit::memory::Mapping;
use crate::kit::payload::{
    payload,
    Value::{self, Data as DataLoc, Fixed, Rel},
};
use crate::kit::tracefs;

tests!("tools::bpftrace_reads" on bpftrace::TYPES:
    names_and_systems.limit(300),
    names_that_are_refused.limit(300),
    fields_that_are_refused.limit(300),
    fields_that_do_not_lie_well.limit(300),
    several_locations.limit(300),
    structs_of_the_kernel.limit(300),
    full_strings.limit(300),
    records_of_any_size.limit(300),
);

/// Makes 0.27 read the address of the record: the value of a variable to which `args` is assigned.
const RECORD: &str = "$args = args; $record = *(uint64*)&$args; ";

/// Returns the value for the release under test.
fn by_release<T>(own: T, next: T) -> T {
    match is_next() {
        true => next,
        false => own,
    }
}

/// Runs a script whose last event is `event`, writes to it, and waits for this output.
#[track_caller]
fn prints(event: &Event, script: &str, values: &[Value], printed: &str) {
    let tool = bpftrace::start(script);
    let payload = payload(values);
    tool.while_stopped(|| assert_eq!(event.write(&payload), Ok(4 + payload.len())));
    tool.wait_printed(&format!("{printed}\n"));
    bpftrace::stop(tool, event);
}

/// Checks that the release under test refuses a script, unless the reason of that release is empty.
#[track_caller]
fn is_refused(script: &str, own: &str, next: &str) {
    let why = by_release(own, next);
    if !why.is_empty() {
        let output = bpftrace::run(&["-e", script]);
        assert!(!output.status.success(), "{script} runs");
        assert!(output.text.contains(why), "{script}: {}", output.text);
    }
}

/// Registers an event with `MULTI_FORMAT`; its name in tracefs has a dot.
pub fn one_of_many(text: &str) -> (Data, u32) {
    let (data, page) = (Data::open(), Mapping::kept(1));
    let index = data.register_flags(text, page.address(), 0, MULTI_FORMAT);
    (data, index.expect("register one of many formats"))
}

/// The sample's script for 0.27. The script for 0.23 is run with the other samples.
const SAMPLE: &str = include_str!("../../../samples/requests-0.27.bt");

pub fn the_sample() {
    let event = Event::new("requests u64 ns; u32 status; __data_loc char[] path");
    let tool = bpftrace::start(SAMPLE.split_once('\n').unwrap().1);
    let (nanoseconds, status) = (5_000u64.to_ne_bytes(), |status: u32| status.to_ne_bytes());
    tool.while_stopped(|| {
        for (status, path) in [(status(200), b"/about\0"), (status(404), b"/where\0")] {
            let payload = payload(&[Fixed(&nanoseconds), Fixed(&status), DataLoc(path)]);
            assert_eq!(event.write(&payload), Ok(4 + payload.len()));
        }
    });
    tool.wait_printed("failed with 404: /where\n");
    let output = bpftrace::stop(tool, &event);
    assert_eq!(output.after("@requests[/about, 200]: "), ["1"]);
    assert_eq!(output.after("@requests[/where, 404]: "), ["1"]);
    assert_eq!(output.lines_with("failed with").len(), 1);
    assert_eq!(output.after("[4, 8) ").len(), 1);
}

// 0.23 reads fields only if the event's name is a C identifier; both releases count events of other
// names. A pattern selects all formats of a name, and the events of all groups.
pub fn names_and_systems() {
    let group = Group::new("st_br");
    let dot = Event::new("st_br.dot u32 v");
    let dash = Event::new("st_br-dash u32 v");
    let (many, index) = one_of_many("st_br_many u32 v");
    let other = Event::new_in(&group, "st_br_group u32 v");
    let print = by_release("", r#"printf("%s has %d\n", probe, args.v); "#);
    let script = format!(
        r#"tracepoint:user_events:st_br.dot,tracepoint:user_events:st_br-dash,
        tracepoint:user_events_multi:st_br_many.* {{ {print}@[probe] = count(); }}
        tracepoint:user_events_st*:st_br_group {{ printf("%s has %d\n", probe, args.v); @[probe] = count(); }}"#
    );
    let tool = bpftrace::start(&script);
    tool.while_stopped(|| {
        for event in [&dot, &dash] {
            assert_eq!(event.write(&[1, 0, 0, 0]), Ok(8));
        }
        assert_eq!(many.write(index, &[2, 0, 0, 0]), Ok(8));
        assert_eq!(other.write(&[3, 0, 0, 0]), Ok(8));
    });
    let of_group = format!("tracepoint:{}:st_br_group", group.system());
    tool.wait_printed(&format!("{of_group} has 3\n"));
    let output = bpftrace::stop(tool, &other);
    let probes = [&dot.name, &dash.name].map(|name| format!("user_events:{name}"));
    let format = tracefs::formats_of("st_br_many")
        .remove(0)
        .replace('/', ":");
    let probes = [&probes[..], &[format]].concat();
    for (probe, value) in probes.iter().zip([1, 1, 2]) {
        assert_eq!(output.after(&format!("@[tracepoint:{probe}]: ")), ["1"]);
        let read = output.after(&format!("tracepoint:{probe} has "));
        assert_eq!(read, by_release(vec![], vec![value.to_string().as_str()]));
    }
    assert_eq!(output.after(&format!("@[{of_group}]: ")), ["1"]);
    let list = bpftrace::run(&["-l", "tracepoint:user_events*:st_br*"]);
    for probe in &probes {
        assert_eq!(list.lines_with(probe), [format!("tracepoint:{probe}")]);
    }
    assert_eq!(list.lines_with(&of_group), [of_group.as_str()]);
}

pub fn names_that_are_refused() {
    // All are listed.
    let names = ["st_bn$a", "st_bn@a", "st_bn,a", "st_bn.a"];
    let _events = names.map(|name| Event::new(&format!("{name} u32 v")));
    let list = bpftrace::run(&["-l", "tracepoint:user_events:st_bn*"]);
    assert_eq!(list.lines_with("tracepoint:").len(), names.len());
    let kind = "Invalid probe type: a";
    for (name, own, next) in [
        (names[0], "unexpected variable", "positional param"),
        (names[1], "unexpected map", "requires 2 arguments"),
        (names[2], kind, kind),
    ] {
        let script = format!("tracepoint:user_events:{name} {{ @ = count(); }}");
        is_refused(&script, own, next);
    }
    // A script that reads a field is refused; one that only counts is not.
    let script = r#"tracepoint:user_events:st_bn.a { printf("%d", args.v); }"#;
    is_refused(script, "expected identifier", "");
}

pub fn fields_that_are_refused() {
    let _rel = Event::new("st_bf_rel __rel_loc char[] v; u32 w");
    let _pair = Event::new("st_bf_pair struct st_pair v 8");
    let _bytes = Event::new("st_bf_bytes unsigned char[8] v");
    let declared = "struct st_pair { int a; int b; };";
    let (unknown, provided) = ("unknown type name '__rel_loc'", "uint8[8] provided");
    for (before, event, print, own, next) in [
        // The field that is read does not matter.
        ("", "rel", r#""%d", args.w"#, unknown, ""),
        ("", "rel", r#""%s", str(args.v)"#, "", "none[0] provided"),
        ("", "pair", r#""%d", args.v.a"#, "incomplete type", ""),
        (declared, "pair", r#""%d", args.v.a"#, "", "none type"),
        ("", "bytes", r#""%s", args.v"#, "array supplied", ""),
        ("", "bytes", r#""%s", str(args.v)"#, provided, provided),
    ] {
        let probe = format!("tracepoint:user_events:st_bf_{event}");
        let script = format!("{before}\n{probe} {{ printf({print}); }}");
        is_refused(&script, own, next);
    }
}

// A number that is not aligned to its size: 0.23 reads it from where a C compiler would have put
// it; the kernel refuses the program of 0.27, which can read the number by its address.
pub fn fields_that_do_not_lie_well() {
    let event = Event::new("st_bu u8 a; u32 b; char[3] c");
    let values = [Fixed(&[1]), Fixed(&[2, 0, 0, 0]), Fixed(&[3, 3, 3])];
    let probe = "tracepoint:user_events:st_bu";
    let plain = format!("{probe} {{ printf(\"b=%x\\n\", args.b); }}");
    is_refused(&plain, "", "Permission denied");
    match is_next() {
        true => {
            let script =
                format!("{probe} {{ {RECORD}printf(\"b=%x\\n\", *(uint32*)kptr($record + 9)); }}");
            prints(&event, &script, &values, "b=2");
        }
        false => prints(&event, &plain, &values, "b=3030300"),
    }
}

// Several locations, and fields behind them.
pub fn several_locations() {
    let event =
        Event::new("st_bl __data_loc char[] a; __rel_loc char[] b; u32 c; __data_loc u8[] d");
    let next = format!(
        r#"tracepoint:user_events:st_bl {{ {RECORD}
        $b = *(uint32*)kptr($record + 12);
        printf("%s %s %d %r\n", str(args.a), str(kptr($record + 16 + ($b & 0xffff)), ($b >> 16)), args.c, buf(args.d, 2)); }}"#
    );
    let values = [
        DataLoc(b"one\0"),
        Rel(b"two\0"),
        Fixed(&[7, 0, 0, 0]),
        DataLoc(&[1, 2]),
    ];
    if is_next() {
        prints(&event, &next, &values, r"one two 7 \x01\x02");
        return;
    }
    // 0.23 can read one `__rel_loc`, as the last field: it is declared as both the location and an
    // address, from which three times the offset is subtracted. So the data is found although other
    // data precedes it.
    let event = Event::new("st_bm __data_loc char[] a; u32 c; __rel_loc char[] b");
    let script = r#"
        #define __rel_loc union { int b_loc; int __attribute__((annotate("tp_data_loc"))) b_at; };
        tracepoint:user_events:st_bm {
            $b = args.b_loc & 0xffff;
            printf("%s %d %s\n", str(kptr(args.a - 3 * 20)), args.c, str(kptr(args.b_at - 3 * $b + 20)));
        }"#;
    let values = [DataLoc(b"one\0"), Fixed(&[7, 0, 0, 0]), Rel(b"two\0")];
    prints(&event, script, &values, "one 7 two");
}

// Both releases support a type that the kernel has.
pub fn structs_of_the_kernel() {
    let event = Event::new("st_bk struct timespec64 v 16");
    let script =
        r#"tracepoint:user_events:st_bk { printf("v=%d %d\n", args.v.tv_sec, args.v.tv_nsec); }"#;
    let (seconds, nanoseconds) = (1u64.to_ne_bytes(), 2u64.to_ne_bytes());
    prints(
        &event,
        script,
        &[Fixed(&seconds), Fixed(&nanoseconds)],
        "v=1 2",
    );
}

// Characters up to the end of the field: 0.27 takes them for a truncated string.
pub fn full_strings() {
    let event = Event::new("st_bs char[8] v");
    let script = r#"tracepoint:user_events:st_bs { printf("v=%s\n", args.v); }"#;
    prints(
        &event,
        script,
        &[Fixed(b"abcdefgh")],
        by_release("v=abcdefgh", "v=abcdefgh.."),
    );
}

/// The lengths of the data in the records of [`records_of_any_size`]. No script below reads more
/// than a part.
const SIZES: &[u32] = &[1000, 8000, 9000, 30_000, 65_000];

// Each record arrives, with its length and its first and last bytes. Strings are cut to
// `BPFTRACE_MAX_STRLEN` bytes, 1024 by default.
pub fn records_of_any_size() {
    let event = Event::new("st_bz u32 size; __data_loc char[] v");
    // The data is at 16, behind the common fields, the size and the location.
    let record = by_release("$record = args.v - 4 * 16; ", RECORD);
    let text = by_release("kptr($record + 16)", "args.v");
    let script = format!(
        r#"tracepoint:user_events:st_bz {{ {record}
            @records = count(); @bytes = sum(args.size);
            $last = $record + 12 + args.size;
            printf("%d of %d: ", *(uint32*)kptr($record + 12) >> 16, args.size);
            printf("%s, last %r\n", str({text}, 20), buf(kptr($last), 4));
            printf("wrong or right: %s\n", str(args.v, 5));
        }}"#
    );
    let tool = bpftrace::start(&script);
    for &size in SIZES {
        let mut data: Vec<u8> = (b'A'..=b'Z').cycle().take(size as usize).collect();
        *data.last_mut().unwrap() = 0;
        let payload = payload(&[Fixed(&size.to_ne_bytes()), DataLoc(&data)]);
        tool.while_stopped(|| assert_eq!(event.write(&payload), Ok(4 + payload.len())));
        let end: String = data[data.len() - 4..data.len() - 1]
            .iter()
            .map(|&byte| byte as char)
            .collect();
        tool.wait_printed(&format!(
            "{size} of {size}: ABCDEFGHIJKLMNOPQRS, last {end}\\x00\n"
        ));
    }
    let output = bpftrace::stop(tool, &event);
    assert_eq!(output.after("@records: "), [SIZES.len().to_string()]);
    assert_eq!(
        output.after("@bytes: "),
        [SIZES.iter().sum::<u32>().to_string()]
    );
    // 0.23 looks for the data at four times the offset.
    let begins = by_release("WXYZ", "ABCD");
    assert_eq!(output.after("wrong or right: "), vec![begins; SIZES.len()]);
}
