// SPDX-License-Identifier: GPL-2.0

//! `USER_EVENT_REG_MULTI_FORMAT`: several events that share a name.

use crate::harness::Test;
use crate::kit::abi::{Data, MULTI_FORMAT, PERSIST};
use crate::kit::child;
use crate::kit::dynamic;
use crate::kit::errno::{Errno, Result};
use crate::kit::event::wait_gone;
use crate::kit::memory::Mapping;
use crate::kit::module;
use crate::kit::rows::Rows;
use crate::kit::status::Status;
use crate::kit::tracefs::{self, formats_of, Tracer, GROUP, MULTI_GROUP};
use crate::kit::wait;
use std::fs;
use std::sync::atomic::Ordering;

pub const TESTS: &[Test] = &[
    Test::of_loading(
        "multi_format::ids_count_from_0_in_hex",
        ids_count_from_0_in_hex,
    ),
    Test::new(
        "multi_format::ids_are_not_used_again",
        ids_are_not_used_again,
    ),
    Test::new("multi_format::formats_of_one_name", formats_of_one_name),
    Test::new(
        "multi_format::the_same_description_is_shared",
        the_same_description_is_shared,
    ),
    Test::new(
        "multi_format::with_and_without_the_flag_are_strangers",
        with_and_without_the_flag_are_strangers,
    ),
    Test::new("multi_format::listings", listings),
    Test::new(
        "multi_format::their_group_enables_all",
        their_group_enables_all,
    ),
    Test::new(
        "multi_format::each_goes_with_its_last_user",
        each_goes_with_its_last_user,
    ),
    Test::new(
        "multi_format::row_all_formats_of_a_name_are_deleted",
        row_all_formats_of_a_name_are_deleted,
    ),
    Test::new(
        "multi_format::better_than_c_5_the_name_is_enough_for_all_formats",
        the_name_is_enough_for_all_formats,
    ),
    Test::new(
        "multi_format::better_than_c_of_formats_all_or_none_are_deleted",
        all_or_none_are_deleted,
    ),
    Test::new(
        "multi_format::better_than_c_3_the_name_has_255_bytes_with_its_suffix",
        the_name_has_255_bytes_with_its_suffix,
    ),
];

/// A file, and memory for bits.
struct Registrar {
    data: Data,
    page: Mapping,
}

impl Registrar {
    fn new() -> Registrar {
        Registrar {
            data: Data::open(),
            page: Mapping::kept(1),
        }
    }

    /// Registers a format with the first bit of this word.
    fn format(&self, word: usize, text: &str) -> Result<u32> {
        self.flags(word, text, MULTI_FORMAT)
    }

    fn flags(&self, word: usize, text: &str, flags: u16) -> Result<u32> {
        let address = self.page.address() + 4 * word as u64;
        self.data.register_flags(text, address, 0, flags)
    }

    fn bit(&self, word: usize) -> u32 {
        self.page.word(4 * word).load(Ordering::Relaxed)
    }

    fn unregister(&self, word: usize) {
        let address = self.page.address() + 4 * word as u64;
        self.data.unregister_bit(address, 0).unwrap();
    }
}

#[track_caller]
fn wait_for_formats(name: &str, count: usize) {
    wait::until(&format!("{count} formats of {name}"), || {
        formats_of(name).len() == count
    });
}

fn ids_count_from_0_in_hex() {
    module::load();
    let user = child::fork(|_| {
        let registrar = Registrar::new();
        for i in 0..18 {
            // All formats count together, whatever their names are.
            let name = ["st_multi_hex", "st_multi_hex2"][i % 2];
            let got = registrar.format(i, &format!("{name} u32 a{i}"));
            assert_eq!(got, Ok(i as u32));
        }
        // What fails takes no number away.
        let got = registrar.format(18, "st_multi_hex long a");
        assert_eq!(got, Err(Errno::EINVAL));
        assert_eq!(registrar.format(18, "st_multi_hex u32 a18"), Ok(18));
        let ids = |name: &str, ids: &[&str]| {
            let want: Vec<_> = ids
                .iter()
                .map(|id| format!("{MULTI_GROUP}/{name}.{id}"))
                .collect();
            assert_eq!(formats_of(name), want);
        };
        ids(
            "st_multi_hex",
            &["0", "2", "4", "6", "8", "a", "c", "e", "10", "12"],
        );
        ids(
            "st_multi_hex2",
            &["1", "3", "5", "7", "9", "b", "d", "f", "11"],
        );
    });
    user.join();
    module::unload_when_idle();
    assert!(!tracefs::group_dir(MULTI_GROUP).exists());
}

/// The number in a format's name.
fn id_of(event: &str) -> u64 {
    u64::from_str_radix(event.rsplit('.').next().unwrap(), 16).unwrap()
}

fn ids_are_not_used_again() {
    let kept = Registrar::new();
    kept.format(0, "st_multi_again u32 a").unwrap();
    let mut last = id_of(&formats_of("st_multi_again")[0]);
    for _ in 0..20 {
        let registrar = Registrar::new();
        registrar.format(0, "st_multi_again u64 a").unwrap();
        let id = id_of(&formats_of("st_multi_again")[1]);
        assert_eq!(id, last + 1);
        last = id;
        registrar.unregister(0);
        drop(registrar);
        wait_for_formats("st_multi_again", 1);
    }
}

fn formats_of_one_name() {
    let registrar = Registrar::new();
    let descriptions = [
        ("u32 a", 4),
        ("u64 a", 8),
        ("u32 b", 4),
        ("u32 a; u32 b", 8),
        ("char[3] a", 3),
        ("", 0),
    ];
    for (i, (fields, _)) in descriptions.iter().enumerate() {
        let text = format!("st_multi_one {fields}");
        assert_eq!(registrar.format(i, text.trim_end()), Ok(i as u32));
    }
    let formats = formats_of("st_multi_one");
    assert_eq!(formats.len(), descriptions.len());
    assert!(!tracefs::event_exists("st_multi_one"));

    // Each has a bit, a layout and records of its own.
    let tracer = Tracer::instance("st_multi_one");
    for (i, (event, (fields, size))) in formats.iter().zip(descriptions).enumerate() {
        tracer.enable(event);
        let bits: Vec<_> = (0..formats.len()).map(|i| registrar.bit(i)).collect();
        let want: Vec<_> = (0..formats.len()).map(|j| (i == j).into()).collect();
        assert_eq!(bits, want, "bits with {event} enabled");

        let text = tracefs::event_format(event);
        let name = event.split('/').nth(1).unwrap();
        assert!(text.starts_with(&format!("name: {name}\n")), "{text}");
        for field in fields.split("; ").filter(|field| !field.is_empty()) {
            let (kind, name) = field.split_once(' ').unwrap();
            let line = match kind.split_once('[') {
                Some((element, length)) => format!("field:{element} {name}[{length};"),
                None => format!("field:{kind} {name};"),
            };
            assert!(text.contains(&line), "{line:?} in {text}");
        }

        let payload = vec![i as u8; size];
        assert_eq!(registrar.data.write(i as u32, &payload), Ok(4 + size));
        if size > 0 {
            let short = registrar.data.write(i as u32, &payload[1..]);
            assert_eq!(short, Err(Errno::EINVAL));
        }
        assert_eq!(tracer.take_payloads(event, size), [payload]);
        tracer.disable(event);
    }
}

fn the_same_description_is_shared() {
    let registrar = Registrar::new();
    registrar.format(0, "st_multi_same u32 a; u8 b").unwrap();
    // On the same file, written a little differently; on another; in another process.
    let got = registrar.format(1, "st_multi_same u32 a;u8 b;");
    assert_eq!(got, Ok(0));
    let other = Registrar::new();
    other.format(0, "st_multi_same u32 z").unwrap();
    let got = other.format(1, "st_multi_same u32 a; u8 b");
    assert_eq!(got, Ok(1), "the second event of that file");
    let mut child = child::fork(|line| {
        let mine = Registrar::new();
        mine.format(0, "st_multi_same u32 a; u8 b").unwrap();
        line.say("registered");
        line.hear("enabled");
        wait::until("the bit to be set", || mine.bit(0) == 1);
    });
    child.line.hear("registered");
    let formats = formats_of("st_multi_same");
    assert_eq!(formats.len(), 2);
    let top = Tracer::top();
    top.enable(&formats[0]);
    // The page is shared with the child until it is written, which takes a moment.
    wait::until("the bits to be set", || {
        [registrar.bit(0), registrar.bit(1), other.bit(1)] == [1, 1, 1]
    });
    assert_eq!(other.bit(0), 0);
    child.line.say("enabled");
    child.join();
    top.disable(&formats[0]);
    wait::until("the bits to be cleared", || {
        [registrar.bit(0), registrar.bit(1), other.bit(1)] == [0, 0, 0]
    });
}

fn with_and_without_the_flag_are_strangers() {
    let registrar = Registrar::new();
    for (i, flags) in [MULTI_FORMAT, 0].into_iter().enumerate() {
        let got = registrar.flags(i, "st_multi_strange u32 a", flags);
        assert_eq!(got, Ok(i as u32));
    }
    let formats = formats_of("st_multi_strange");
    assert_eq!(formats.len(), 1);
    let (format, name) = (&formats[0], "st_multi_strange");
    assert_ne!(tracefs::event_id(name), tracefs::event_id(format));
    // Without the flag other fields are refused, whatever formats there are.
    registrar.format(2, "st_multi_strange u64 a").unwrap();
    let got = registrar.flags(3, "st_multi_strange u64 a", 0);
    assert_eq!(got, Err(Errno::EADDRINUSE));
    let top = Tracer::top();
    top.enable(name);
    assert_eq!([0, 1, 2].map(|i| registrar.bit(i)), [0, 1, 0]);
    top.disable(name);
}

fn listings() {
    let registrar = Registrar::new();
    let texts =
        ["u32 a", "struct tag a 7; u8 b", ""].map(|fields| format!("st_multi_list {fields}"));
    for (i, text) in texts.iter().enumerate() {
        registrar.format(i, text.trim_end()).unwrap();
    }
    registrar.flags(3, "st_multi_list u32 a", 0).unwrap();
    let formats = formats_of("st_multi_list");
    let top = Tracer::top();
    top.enable(&formats[1]);

    let mut want: Vec<_> = formats
        .iter()
        .map(|event| (event.split('/').nth(1).unwrap().to_string(), vec![]))
        .collect();
    want[1].1.push("ftrace".to_string());
    want.push(("st_multi_list".into(), vec![]));
    let mut status = Status::now();
    // The order is another row's affair.
    status.events.sort();
    want.sort();
    assert_eq!(status.events, want);

    let mut want: Vec<_> = texts
        .iter()
        .map(|text| format!("u:{}", text.trim_end()))
        .collect();
    want.push("u:st_multi_list u32 a".into());
    want.sort();
    let mut lines = dynamic::user_lines();
    lines.sort();
    assert_eq!(lines, want);
    top.disable(&formats[1]);
}

fn their_group_enables_all() {
    let registrar = Registrar::new();
    registrar.format(0, "st_multi_group u32 a").unwrap();
    registrar.format(1, "st_multi_group u64 a").unwrap();
    registrar.flags(2, "st_multi_group u32 a", 0).unwrap();
    for (group, want) in [(MULTI_GROUP, [1, 1, 0]), (GROUP, [0, 0, 1])] {
        let enable = tracefs::group_dir(group).join("enable");
        fs::write(&enable, "1").unwrap();
        assert_eq!([0, 1, 2].map(|i| registrar.bit(i)), want, "{group}");
        fs::write(&enable, "0").unwrap();
        assert_eq!([0, 1, 2].map(|i| registrar.bit(i)), [0, 0, 0], "{group}");
    }
}

fn each_goes_with_its_last_user() {
    let name = "st_multi_life";
    let one = Registrar::new();
    let two = Registrar::new();
    one.format(0, "st_multi_life u32 a").unwrap();
    two.format(0, "st_multi_life u64 a").unwrap();
    let formats = formats_of(name);
    assert_eq!(formats.len(), 2);

    // The file of the first.
    one.unregister(0);
    drop(one.data);
    wait_for_formats(name, 1);
    assert_eq!(formats_of(name), formats[1..]);
    // The bit of the second keeps it, and then a tracer.
    let Registrar { data, page } = two;
    drop(data);
    let top = Tracer::top();
    top.enable(&formats[1]);
    assert_eq!(page.word(0).load(Ordering::Relaxed), 1);
    Data::open().unregister_bit(page.address(), 0).unwrap();
    assert_eq!(formats_of(name), formats[1..]);
    top.disable(&formats[1]);
    wait_for_formats(name, 0);
}

/// Makes formats that stay, as many as there are descriptions, in a process that ends.
fn make_persistent(texts: &[&str], flags: u16) {
    let maker = child::fork(|_| {
        let registrar = Registrar::new();
        for (i, text) in texts.iter().enumerate() {
            let got = registrar.flags(i, text, flags | PERSIST);
            assert_eq!(got, Ok(i as u32));
        }
    });
    maker.join();
}

#[track_caller]
fn delete_when_idle(name: &str, want: Result<()>) {
    let mut last = Ok(());
    wait::until("the formats to be unused", || {
        last = Data::open().delete(name);
        last != Err(Errno::EBUSY)
    });
    assert_eq!(last, want);
}

const THREE: [&str; 3] = [
    "st_multi_delete u32 a",
    "st_multi_delete u64 a",
    "st_multi_delete u8 a; u8 b",
];

fn row_all_formats_of_a_name_are_deleted() {
    let name = "st_multi_delete";
    // Beside them: one without the flag, which goes too, and names that look alike.
    let others = ["st_multi_delete2 u32 a", "st_multi_delet u32 a"];
    make_persistent(&others, MULTI_FORMAT);
    make_persistent(&THREE, MULTI_FORMAT);
    make_persistent(&THREE[..1], 0);
    assert_eq!(formats_of(name).len(), 3);
    // A format alone has no name to be deleted by.
    let full = formats_of(name)[0].split('/').nth(1).unwrap().to_string();
    assert_eq!(Data::open().delete(&full), Err(Errno::ENOENT));

    delete_when_idle(name, Ok(()));
    assert_eq!(formats_of(name), [""; 0]);
    assert!(!tracefs::event_exists(name));
    assert_eq!(Data::open().delete(name), Err(Errno::ENOENT));
    for other in ["st_multi_delete2", "st_multi_delet"] {
        assert_eq!(formats_of(other).len(), 1);
        delete_when_idle(other, Ok(()));
    }

    by_lines(&[
        ("-:st_multi_delete u64 a", 2),
        ("-:user_events_multi/st_multi_delete u8 a; u8 b", 2),
    ]);
}

fn the_name_is_enough_for_all_formats() {
    by_lines(&[
        ("-:st_multi_delete", 0),
        ("!u:st_multi_delete", 0),
        ("-:user_events_multi/st_multi_delete", 0),
    ]);
}

/// Deletes formats through `dynamic_events`: all, those with these fields, those of this group.
fn by_lines(cases: &[(&str, usize)]) {
    let name = "st_multi_delete";
    let mut rows = Rows::new();
    for &(line, left) in cases {
        make_persistent(&THREE, MULTI_FORMAT);
        wait::until("the formats to be unused", || {
            let got = dynamic::run(line);
            got != Err(Errno::EBUSY)
        });
        rows.gives("all formats go", line, formats_of(name).len(), left);
        if left > 0 {
            delete_when_idle(name, Ok(()));
        }
    }
    rows.finish();
}

fn all_or_none_are_deleted() {
    let name = "st_multi_delete";
    make_persistent(&THREE, MULTI_FORMAT);
    let formats = formats_of(name);
    let top = Tracer::top();
    for busy in &formats {
        top.enable(busy);
        assert_eq!(Data::open().delete(name), Err(Errno::EBUSY));
        assert_eq!(formats_of(name), formats, "with {busy} in use");
        top.disable(busy);
    }
    delete_when_idle(name, Ok(()));
    wait_gone(&formats[0]);
}

fn the_name_has_255_bytes_with_its_suffix() {
    let mut rows = Rows::new();
    let row = "1 to 255 bytes (multi-format: with its suffix)";
    let registrar = Registrar::new();
    let name = |length: usize| format!("st_multi_{}", "x".repeat(length - 9));
    // What the next suffix is, and how long, tell the ones before.
    for length in [255, 254, 300] {
        let got = registrar.format(0, &name(length));
        rows.fails(row, &format!("{length} bytes"), got, Errno::EINVAL);
    }
    registrar.format(0, "st_multi_next").unwrap();
    let next = id_of(&formats_of("st_multi_next")[0]) + 1;
    let suffix = format!(".{next:x}").len();
    let got = registrar.format(1, &name(256 - suffix));
    rows.fails(row, "256 with the suffix", got, Errno::EINVAL);
    let got = registrar.format(1, &name(255 - suffix));
    rows.gives(row, "255 with the suffix", got, Ok(1));
    rows.gives(row, "listed", formats_of(&name(255 - suffix)).len(), 1);
    rows.finish();
}
