// SPDX-License-Identifier: GPL-2.0

//! Names that perf and trace-cmd cannot read, the effect of one on a recording, and the ways that
//! work, as `consumers.rst` describes them for users. Names in bpftrace are in `bpftrace_reads`.

use super::bpftrace_reads::one_of_many;
use super::perf::{hide_kernel_symbols, run_on_writer, Session};
use super::trace_cmd;
use crate::harness::tests;
use crate::kit::abi::{Data, MULTI_FORMAT};
use crate::kit::event::{write, Event};
use crate::kit::group::Group;
use crate::kit::memory::Mapping;
use crate::kit::tool::{Output, Scratch, Tool};
use crate::kit::tracefs::TraceInstance;

tests!("tools::names":
    one_name_spoils_a_recording_of_perfs,
    formats_of_many_spoil_it_too,
    a_tenant_spoils_no_recording,
    fields_and_tags_are_not_parsed,
    trace_cmd_shows_an_unknown_event,
    counts_and_the_trace_file_take_any_name,
);

const REFUSED: &str = "incompatible file format";

/// The output and exit status of `perf script` for a recording by a pattern during `writes`.
fn recorded(name: &str, pattern: &str, writes: impl FnOnce()) -> Output {
    hide_kernel_symbols();
    let scratch = Scratch::new(name);
    let session = Session::start(&scratch, "all", &["-a", "-e", pattern]);
    writes();
    let file = session.stop_recording();
    Tool::start(&["perf", "script", "-F", "event,trace", "-i", &file]).end()
}

#[track_caller]
fn is_refused(output: &Output) {
    assert!(output.text.contains(REFUSED), "{}", output.text);
    assert!(!output.text.contains("a=1"), "{}", output.text);
}

#[track_caller]
fn is_read(output: &Output) {
    assert!(output.status.success(), "{}", output.text);
    assert!(!output.text.contains(REFUSED), "{}", output.text);
}

/// A narrower pattern leaves the name out.
fn one_name_spoils_a_recording_of_perfs() {
    let plain = Event::new("st_nm_plain u32 a");
    for odd in ["st_nm_odd.name u32 a", "st_nm_odd-name u32 a"] {
        let odd = Event::new(odd);
        let script = recorded("st_nm_all", "user_events:st_nm_*", || {
            write(&plain, [1]);
            write(&odd, [2]);
        });
        is_refused(&script);
        let script = recorded("st_nm_some", "user_events:st_nm_p*", || {
            write(&plain, [1]);
            assert!(!odd.bit(), "it is not recorded");
        });
        is_read(&script);
        assert_eq!(script.after("user_events:st_nm_plain: "), ["a=1"]);
    }
}

fn formats_of_many_spoil_it_too() {
    let (data, index) = one_of_many("st_nm_many u32 a");
    let script = recorded("st_nm_many", "user_events_multi:st_nm_many.*", || {
        assert_eq!(data.write(index, &[1, 0, 0, 0]), Ok(8));
    });
    is_refused(&script);
}

/// A group refuses all names that spoil a recording. The fields that it accepts can spoil only
/// their own event.
fn a_tenant_spoils_no_recording() {
    let group = Group::new("st_nm_tenant");
    let (data, page) = (Data::open_in(&group), Mapping::kept(1));
    let mut word = page.address();
    let mut made = Vec::new();
    let mut tries = |text: &str, flags| {
        let index = data.register_flags(text, word, 0, flags);
        word += 4;
        made.extend(index);
        index.is_ok()
    };
    tries("st_nm_a.name u32 a", 0);
    tries("st_nm_many u32 a", MULTI_FORMAT);
    let mut taken = 0;
    for byte in (b'!'..=b'~').filter(|byte| !byte.is_ascii_alphanumeric()) {
        let byte = char::from(byte);
        for (kind, fields) in [
            format!("u32 a{byte}b"),
            format!("u32 {byte}"),
            format!("struct {byte} a 4"),
            format!("struct a{byte}b a 4"),
        ]
        .iter()
        .enumerate()
        {
            let name = format!("st_nm_{kind}_{:x}", u32::from(byte));
            taken += usize::from(tries(&format!("{name} {fields}"), 0));
        }
    }
    assert!(taken > 4 * 20, "{taken} were taken");
    tries("0_st_nm u32 a", 0);
    let own = Event::new_in(&group, "st_nm_tenants u32 a");
    let plain = Event::new("st_nm_hosts u32 a");
    let script = recorded("st_nm_tenant", "user_events*:*st_nm*", || {
        for index in &made {
            assert_eq!(data.write(*index, &[2, 0, 0, 0]), Ok(8));
        }
        write(&own, [1]);
        write(&plain, [1]);
    });
    is_read(&script);
    assert_eq!(script.after("user_events:st_nm_hosts: "), ["a=1"]);
    for name in ["st_nm_tenants: a=1", "0_st_nm: a=2"] {
        let line = format!("{}:{name}", group.system());
        assert_eq!(script.lines_with(&line).len(), 1, "{line}: {}", script.text);
    }
}

fn fields_and_tags_are_not_parsed() {
    let plain = Event::new("st_nf_plain u32 a");
    let (field, tag) = (
        Event::new("st_nf_field u32 a.b"),
        Event::new("st_nf_tag struct a.b a 4"),
    );
    let script = recorded("st_nf", "user_events:st_nf_*", || {
        for event in [&plain, &field, &tag] {
            write(event, [1]);
        }
    });
    assert_eq!(script.after("user_events:st_nf_plain: "), ["a=1"]);
    for name in ["field", "tag"] {
        let shown = script.after(&format!("user_events:st_nf_{name}: "));
        assert_eq!(shown, ["[FAILED TO PARSE]"], "{name}: {}", script.text);
    }
}

fn trace_cmd_shows_an_unknown_event() {
    let odd = Event::new("st_nt_odd.name u32 a");
    let scratch = Scratch::new("st_nt");
    let file = scratch.file("trace.dat");
    let record = trace_cmd::record(&file, &["-e", "user_events:st_nt_odd.name"]);
    record.wait_printed("Hit Ctrl^C");
    write(&odd, [1]);
    record.interrupt();
    let report = trace_cmd::report(&file).text;
    assert!(report.contains("[UNKNOWN EVENT]"), "{report}");
    assert!(!report.contains("a=1"), "{report}");
}

fn counts_and_the_trace_file_take_any_name() {
    let odd = Event::new("st_nc_odd.name u32 a");
    let instance = TraceInstance::instance("st_nc");
    instance.enable("st_nc_odd.name");
    let words = [
        "perf",
        "stat",
        "-x,",
        "-e",
        "user_events:st_nc_odd.name",
        "--",
    ];
    let stat = run_on_writer(&words, &odd, &[[1, 0, 0, 0], [2, 0, 0, 0]]);
    let counted = stat.text.contains("2,,user_events:st_nc_odd.name");
    assert!(counted, "{}", stat.text);
    let trace = instance.text("trace");
    assert!(trace.contains(" st_nc_odd.name: a=0x1 (1)"), "{trace}");
    drop(instance);
    odd.wait_clear();
}
