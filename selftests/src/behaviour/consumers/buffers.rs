// SPDX-License-Identifier: GPL-2.0

//! The buffers of ftrace and the files that show them: `trace`, `trace_pipe`, options.

use crate::harness::tests;
use crate::kit::event::{values, write};
use crate::kit::payload::{
    payload,
    Value::{Fixed, Rel},
};
use crate::kit::tool::Tool;
use crate::kit::traced::Traced;
use crate::kit::{os, profile};
use std::fs;

tests!("consumers::buffers":
    trace_pipe_gives_records_as_they_come,
    a_full_buffer_keeps_the_first_or_the_last,
    options_show_the_type_or_the_fields_of_a_record,
);

fn trace_pipe_gives_records_as_they_come() {
    let Traced { event, tracer } = Traced::new("st_bu_pipe u32 a");
    let path = tracer.path("trace_pipe").into_os_string();
    let reader = Tool::start(&["cat", &path.into_string().unwrap()]);
    for a in 1..=3 {
        write(&event, [a]);
        // The waiting reader gets each record before the next is written.
        reader.wait_printed(&format!("st_bu_pipe: a=0x{a} ({a})\n"));
    }
    assert_eq!(reader.printed().matches(" st_bu_pipe: ").count(), 3);
    os::kill(reader.pid(), libc::SIGTERM).unwrap();
    reader.end();
    // Records that were read are consumed.
    assert_eq!(values(&tracer, &event), []);
    tracer.disable(&event.name);
}

fn a_full_buffer_keeps_the_first_or_the_last() {
    /// A number of records that overfills a buffer of the smallest size.
    const MANY: u32 = 1500;
    let Traced { event, tracer } = Traced::new("st_bu_full u32 a");
    let cpu = os::cpus()[0];
    os::run_on(cpu);
    tracer.control("buffer_size_kb", "8");
    for overwrites in [true, false] {
        tracer.control("options/overwrite", if overwrites { "1" } else { "0" });
        tracer.control("trace", "");
        write(&event, 1..=MANY);
        let seen = values(&tracer, &event);
        let kept = seen.len() as u32;
        assert!((1..MANY).contains(&kept), "{seen:?}");
        let (first, overrun, dropped) = match overwrites {
            true => (MANY - kept + 1, MANY - kept, 0),
            false => (1, 0, MANY - kept),
        };
        assert_eq!(seen, (first..first + kept).collect::<Vec<_>>());
        assert_eq!(tracer.stat(cpu, "entries"), kept.into());
        assert_eq!(tracer.stat(cpu, "overrun"), overrun.into());
        // The kernel counts dropped records per buffer, the module per event.
        assert_eq!(tracer.stat(cpu, "dropped events"), dropped.into());
        assert_eq!(profile::missed(&event.name), (dropped.into(), 0));
    }
    // With room, it records again.
    tracer.control("trace", "");
    write(&event, [7]);
    assert_eq!(values(&tracer, &event), [7]);
    tracer.disable(&event.name);
}

fn options_show_the_type_or_the_fields_of_a_record() {
    let text = "st_bu_shown u32 a; s64 b; char[4] c; __rel_loc char[] d";
    let Traced { event, tracer } = Traced::new(text);
    let payload = payload(&[
        Fixed(&7u32.to_ne_bytes()),
        Fixed(&(-7i64).to_ne_bytes()),
        Fixed(b"abc\0"),
        Rel(b"text\0"),
    ]);
    assert_eq!(event.write(&payload), Ok(4 + payload.len()));
    tracer.disable(&event.name);
    // As most events of the kernel, it has no format for these.
    for option in ["raw", "hex", "bin"] {
        tracer.control(&format!("options/{option}"), "1");
        let shown = fs::read(tracer.path("trace")).expect("read the trace");
        tracer.control(&format!("options/{option}"), "0");
        let shown = String::from_utf8_lossy(&shown);
        let shows_type = shown.trim_end().ends_with(&format!("type: {}", event.id()));
        assert!(shows_type, "{shown:?} ends with its type, by {option}");
    }
    // Nothing is lost by looking, and fields are shown alike in any case.
    for option in ["0", "1"] {
        tracer.control("options/fields", option);
        let shown = tracer.lines(&event.name).join("|").replace('\0', "");
        let want = "st_bu_shown: a=0x7 (7) b=0xfffffffffffffff9 (-7) c=abc d=text";
        assert_eq!(shown, want, "with options/fields {option}");
    }
    tracer.control("options/fields", "0");
}
