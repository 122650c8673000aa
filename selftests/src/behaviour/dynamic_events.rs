// SPDX-License-Identifier: GPL-2.0

//! Lines of `dynamic_events`: making, listing and deleting events by text.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child;
use crate::kit::dynamic;
use crate::kit::errno::Errno;
use crate::kit::event::{stays, Event};
use crate::kit::memory::Mapping;
use crate::kit::os;
use crate::kit::rows::Rows;
use crate::kit::status::Status;
use crate::kit::tracefs::{self, Tracer};
use std::fs::File;
use std::io::Read;

tests!("dynamic_events":
    what_is_made_stays_until_deleted,
    what_is_made_is_shared_with_programs,
    row_white_space_and_comments,
    rows_about_bad_lines,
    better_than_c_3_a_line_without_a_name_is_einval,
    lines_longer_than_511_bytes_are_einval,
    better_than_c_4_the_group_may_be_named,
    better_than_c_4_another_group_is_einval,
    better_than_c_5_the_name_is_enough_to_delete,
    rows_about_deleting,
    the_size_of_a_struct_is_a_number,
    rows_about_deleting_in_vain,
    deletes_an_event_that_is_not_used_any_more,
    lists_what_programs_made,
    better_than_c_14_oldest_first,
    what_is_listed_can_be_written_back,
    a_line_that_makes_an_event_needs_the_capability,
    what_is_referred_to_is_busy_before_it_is_persistent,
);

fn what_is_referred_to_is_busy_before_it_is_persistent() {
    const NAME: &str = "st_dyn_probed";
    dynamic::run("u:st_dyn_probed u32 a").unwrap();
    // Not attached to the event, as it is not enabled, but the event cannot go before it.
    dynamic::run("e:st_kinds/st_dyn_eprobe user_events/st_dyn_probed a=$a:u32").unwrap();
    let is_refused = |want| {
        let child = child::fork(|_| {
            os::keep_capabilities(0);
            assert_eq!(Data::open().delete(NAME), Err(want));
        });
        child.join();
        assert!(tracefs::event_exists(NAME));
    };
    is_refused(Errno::EBUSY);
    dynamic::run("-:st_kinds/st_dyn_eprobe").unwrap();
    is_refused(Errno::EPERM);
    Data::open().delete(NAME).unwrap();
}

/// The event stays: so it takes what an event that a program makes stay takes.
fn a_line_that_makes_an_event_needs_the_capability() {
    let child = child::fork(|_| {
        os::keep_capabilities(0);
        for line in [
            "u:st_dyn_capable u32 a",
            "u:user_events/st_dyn_capable u32 a",
        ] {
            assert_eq!(dynamic::run(line), Err(Errno::EPERM), "{line}");
        }
        // What the line says is looked at first.
        assert_eq!(dynamic::run("u:st_dyn_capable u33 a"), Err(Errno::EINVAL));
    });
    child.join();
    assert!(!tracefs::event_exists("st_dyn_capable"));
    assert_eq!(dynamic::user_lines(), [""; 0]);
}

fn what_is_made_stays_until_deleted() {
    let name = "st_dyn_stays";
    dynamic::run("u:st_dyn_stays u32 a; char[8] b").unwrap();
    stays(name);
    assert_eq!(dynamic::user_lines(), ["u:st_dyn_stays u32 a; char[8] b"]);
    assert_eq!(Status::now().names(), [name]);
    // Making it again changes nothing.
    let id = tracefs::event_id(name);
    dynamic::run("u:st_dyn_stays u32 a; char[8] b").unwrap();
    assert_eq!(tracefs::event_id(name), id);
    assert_eq!(dynamic::user_lines().len(), 1);
    dynamic::run("-:st_dyn_stays").unwrap();
    assert!(!tracefs::event_exists(name));
    assert_eq!(dynamic::user_lines(), [""; 0]);
    assert_eq!(Status::now().active, 0);
}

fn what_is_made_is_shared_with_programs() {
    let name = "st_dyn_shared";
    dynamic::run("u:st_dyn_shared u32 a").unwrap();
    let tracer = Tracer::instance(name);
    tracer.enable(name);
    let event = Event::new("st_dyn_shared u32 a");
    assert!(event.bit());
    assert_eq!(event.write(&[7; 4]), Ok(8));
    assert_eq!(tracer.take_payloads(name, 4), [[7; 4]]);
    tracer.disable(name);
    let got = event
        .data
        .register_text("st_dyn_shared u64 a", event.page.address(), 1);
    assert_eq!(got, Err(Errno::EADDRINUSE));
    event.unregister().unwrap();
    drop(event);
    stays(name);
    // A program can delete it as well.
    Data::open().delete(name).unwrap();
    assert!(!tracefs::event_exists(name));
}

fn row_white_space_and_comments() {
    let mut rows = Rows::new();
    let row = "`u:` makes the event";
    for line in [
        "u:st_dyn_white u32 a; u32 b",
        "u:st_dyn_white u32 a;u32 b",
        "u:st_dyn_white  u32 a;  u32 b",
        "u:st_dyn_white u32 a; u32 b;",
        "u: st_dyn_white u32 a; u32 b",
        "# a comment\nu:st_dyn_white u32 a; u32 b",
        "\nu:st_dyn_white u32 a; u32 b\n\n",
        "u:st_dyn_white u32 a; u32 b# a comment",
    ] {
        rows.gives(row, line, dynamic::run(line), Ok(()));
        let want = vec!["u:st_dyn_white u32 a; u32 b".to_string()];
        rows.gives(row, line, dynamic::user_lines(), want);
        let got = dynamic::run("-:st_dyn_white u32 a; u32 b");
        rows.gives("-:", line, got, Ok(()));
    }
    // Several in one write; they are made up to the one that cannot be.
    let text = "u:st_dyn_white1\nu:st_dyn_white2 u32 a\nu:st_dyn_white3 long a\nu:st_dyn_white4";
    let got = dynamic::run(text);
    rows.fails(row, "the third of four is bad", got, Errno::EINVAL);
    let want = ["u:st_dyn_white1", "u:st_dyn_white2 u32 a"].map(String::from);
    let got = dynamic::user_lines();
    rows.gives(row, "the third of four is bad", got, want.to_vec());
    let got = dynamic::run("-:st_dyn_white1\n-:st_dyn_white2 u32 a");
    rows.gives("-:", "two lines", got, Ok(()));
    rows.finish();
}

fn rows_about_bad_lines() {
    let _kept = Event::new("st_dyn_bad u32 a");
    let mut rows = Rows::new();
    for (line, want) in [
        ("u", Errno::EINVAL),
        ("u st_dyn_bad2 u32 a", Errno::EINVAL),
        ("v:st_dyn_bad2 u32 a", Errno::EINVAL),
        ("uu:st_dyn_bad2 u32 a", Errno::EINVAL),
        ("U:st_dyn_bad2 u32 a", Errno::EINVAL),
        ("u:st_dyn_bad2 long a", Errno::EINVAL),
        ("u:st_dyn_bad2 u32", Errno::EINVAL),
        ("u:st_dyn_bad2 u32 a b", Errno::EINVAL),
        ("u:st_dyn_bad2 struct x a", Errno::EINVAL),
        ("u:st_dyn_bad2:1 u32 a", Errno::EINVAL),
        ("u:st_dyn_bad u64 a", Errno::EADDRINUSE),
        ("u:st_dyn_bad", Errno::EADDRINUSE),
    ] {
        rows.fails("bad line", line, dynamic::run(line), want);
    }
    rows.finish();
    assert_eq!(dynamic::user_lines(), ["u:st_dyn_bad u32 a"]);
}

fn better_than_c_3_a_line_without_a_name_is_einval() {
    for line in ["u:", "u: "] {
        assert_eq!(dynamic::run(line), Err(Errno::EINVAL), "{line:?}");
    }
    assert_eq!(Status::now().active, 0);
}

fn lines_longer_than_511_bytes_are_einval() {
    let fields: Vec<_> = (0..41).map(|i| format!("u8 abcdef{i:02}")).collect();
    let text = |name: &str| format!("{name} {}", fields.join(";"));
    let (longest, longer) = ("st_dyn_long_abcdefg", "st_dyn_long_abcdefgh");
    assert_eq!(text(longest).len(), 511);
    assert_eq!(dynamic::run(&format!("u:{}", text(longest))), Ok(()));
    assert_eq!(Data::open().delete(longest), Ok(()));
    let got = dynamic::run(&format!("u:{}", text(longer)));
    assert_eq!(got, Err(Errno::EINVAL));
    assert_eq!(Status::now().active, 0);
}

fn better_than_c_4_the_group_may_be_named() {
    let name = "st_dyn_group";
    for line in [
        "u:user_events/st_dyn_group u32 a",
        "u: user_events/st_dyn_group u32 a",
    ] {
        dynamic::run(line).unwrap();
        assert!(tracefs::event_exists(name));
        assert_eq!(dynamic::user_lines(), ["u:st_dyn_group u32 a"]);
        // It is the same event as without the group.
        let event = Event::new("st_dyn_group u32 a");
        assert_eq!(Status::now().active, 1);
        event.unregister().unwrap();
        drop(event);
        dynamic::run("-:user_events/st_dyn_group").unwrap();
    }
    assert_eq!(tracefs::events_of_tests(), [""; 0]);
}

fn better_than_c_4_another_group_is_einval() {
    let mut rows = Rows::new();
    for line in [
        "u:other/st_dyn_group u32 a",
        "u:user_events_multi/st_dyn_group u32 a",
        "u:user_events/other/st_dyn_group u32 a",
        "u:/st_dyn_group u32 a",
        "u:user_events/ u32 a",
        "u:user_events/",
    ] {
        rows.fails(
            "other group → EINVAL",
            line,
            dynamic::run(line),
            Errno::EINVAL,
        );
    }
    rows.finish();
    assert_eq!(dynamic::user_lines(), [""; 0]);
    assert_eq!(Status::now().active, 0);
}

/// Makes the event, and deletes it by each line.
fn delete_by(rows: &mut Rows, make: &str, lines: &[&str]) {
    for line in lines {
        dynamic::run(make).unwrap();
        rows.gives("delete", line, dynamic::run(line), Ok(()));
        rows.gives("gone", line, dynamic::user_lines(), vec![]);
        let _ = dynamic::run("-:st_dyn_del u32 a; struct tag b 20; char[4] c");
    }
}

fn better_than_c_5_the_name_is_enough_to_delete() {
    let mut rows = Rows::new();
    let make = "u:st_dyn_del u32 a; struct tag b 20; char[4] c";
    delete_by(
        &mut rows,
        make,
        &[
            "-:st_dyn_del",
            "!u:st_dyn_del",
            "-:user_events/st_dyn_del",
            "!u:user_events/st_dyn_del",
        ],
    );
    rows.finish();
}

fn rows_about_deleting() {
    let mut rows = Rows::new();
    let make = "u:st_dyn_del u32 a; struct tag b 20; char[4] c";
    delete_by(
        &mut rows,
        make,
        &[
            "-:st_dyn_del u32 a; struct tag b 20; char[4] c",
            "-:st_dyn_del   u32   a;   struct tag b 20; char[4] c",
            "-:user_events/st_dyn_del u32 a; struct tag b 20; char[4] c",
            "!u:st_dyn_del u32 a; struct tag b 20; char[4] c",
            "!u:user_events/st_dyn_del u32 a; struct tag b 20; char[4] c",
            // The name in the status file, which need not say what kind it is.
            "!:st_dyn_del u32 a; struct tag b 20; char[4] c",
        ],
    );
    delete_by(
        &mut rows,
        "u:st_dyn_del",
        &["-:st_dyn_del", "!u:user_events/st_dyn_del"],
    );
    rows.finish();
}

fn the_size_of_a_struct_is_a_number() {
    // However it was spelled, it is listed in decimal, and deleted as it is listed.
    for size in ["8", "08", "+8"] {
        dynamic::run(&format!("u:st_dyn_size struct t a {size}")).unwrap();
        assert_eq!(dynamic::user_lines(), ["u:st_dyn_size struct t a 8"]);
        for other in ["8", "08", "008"] {
            let data = Data::open();
            let page = Mapping::new(1);
            let text = format!("st_dyn_size struct t a {other}");
            data.register_text(&text, page.address(), 0).unwrap();
            data.unregister_bit(page.address(), 0).unwrap();
        }
        for line in ["-:st_dyn_size struct t a 08", "-:st_dyn_size struct t a 9"] {
            assert_eq!(dynamic::run(line), Err(Errno::ENOENT), "{line}");
        }
        dynamic::run("-:st_dyn_size struct t a 8").unwrap();
    }
    assert_eq!(Status::now().active, 0);
}

fn rows_about_deleting_in_vain() {
    let mut rows = Rows::new();
    dynamic::run("u:st_dyn_vain u32 a; u64 b").unwrap();
    for line in [
        "-:st_dyn_vai",
        "-:st_dyn_vain2",
        "-:other/st_dyn_vain",
        "-:user_event/st_dyn_vain",
        "-:user_events/other/st_dyn_vain",
        "-:other/st_dyn_vain u32 a; u64 b",
        "-:st_dyn_vain u32 a",
        "-:st_dyn_vain u32 a; u64 c",
        "-:st_dyn_vain u32 a; s64 b",
        "-:st_dyn_vain u64 b; u32 a",
        "-:st_dyn_vain u32 a; u64 b; u8 c",
        "-:st_dyn_vain u32 a u64 b",
        "!u:st_dyn_vain u32",
    ] {
        rows.fails("no such event", line, dynamic::run(line), Errno::ENOENT);
    }
    for line in ["-st_dyn_vain", "-:", "-", "!", "!st_dyn_vain"] {
        rows.fails("not a line", line, dynamic::run(line), Errno::EINVAL);
    }
    rows.gives("all are there", "", dynamic::user_lines().len(), 1);
    dynamic::run("-:st_dyn_vain u32 a; u64 b").unwrap();

    let event = Event::new("st_dyn_vain u32 a");
    let mut busy = |by: &str| {
        for line in [
            "-:st_dyn_vain u32 a",
            "!u:st_dyn_vain u32 a",
            "-:user_events/st_dyn_vain u32 a",
        ] {
            let case = format!("{line}, {by}");
            rows.fails("in use", &case, dynamic::run(line), Errno::EBUSY);
        }
        assert!(tracefs::event_exists("st_dyn_vain"));
    };
    busy("registered");
    event.unregister().unwrap();
    busy("a file");
    let top = Tracer::top();
    top.enable("st_dyn_vain");
    drop(event);
    busy("ftrace");
    rows.finish();
    top.disable("st_dyn_vain");
}

fn deletes_an_event_that_is_not_used_any_more() {
    // One that is about to go by itself may be deleted too, and then it is gone at once.
    for _ in 0..50 {
        let event = Event::new("st_dyn_idle u32 a");
        event.unregister().unwrap();
        drop(event);
        let got = dynamic::run("-:st_dyn_idle u32 a");
        assert!(matches!(got, Ok(()) | Err(Errno::ENOENT)), "{got:?}");
        assert!(!tracefs::event_exists("st_dyn_idle"));
    }
}

fn lists_what_programs_made() {
    let data = Data::open();
    let page = Mapping::kept(1);
    let texts = [
        ("st_dyn_list1", "st_dyn_list1"),
        ("st_dyn_list2 u32 a", "st_dyn_list2 u32 a"),
        ("st_dyn_list3 u32 a;u8 b", "st_dyn_list3 u32 a; u8 b"),
        (
            "st_dyn_list4  ;; struct tag a 0100;;",
            "st_dyn_list4 struct tag a 100",
        ),
        (
            "st_dyn_list5 unsigned char[0x10] a;  __rel_loc unsigned char[] b",
            "st_dyn_list5 unsigned char[0x10] a; __rel_loc unsigned char[] b",
        ),
    ];
    for (i, (text, _)) in texts.iter().enumerate() {
        let address = page.address() + 4 * i as u64;
        data.register_text(text, address, 0).unwrap();
    }
    // The order is another row's affair.
    let mut got = dynamic::user_lines();
    got.sort();
    assert_eq!(got, texts.map(|(_, line)| format!("u:{line}")));
}

fn better_than_c_14_oldest_first() {
    let data = Data::open();
    let page = Mapping::kept(1);
    // Made by both ways, in an order that no sorting gives; one in between goes again.
    let mut names: Vec<_> = (0..40)
        .map(|i| format!("st_dyn_order{}", i * 17 % 40))
        .collect();
    for (i, name) in names.iter().enumerate() {
        if i % 3 == 0 {
            dynamic::run(&format!("u:{name}")).unwrap();
        } else {
            let address = page.address() + 4 * i as u64;
            data.register_text(name, address, 0).unwrap();
        }
    }
    for at in [30, 21, 0] {
        dynamic::run(&format!("-:{}", names.remove(at))).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(Status::now().names(), names);
        let lines = dynamic::user_lines();
        assert_eq!(
            lines,
            names
                .iter()
                .map(|name| format!("u:{name}"))
                .collect::<Vec<_>>()
        );
    }
    // One that is deleted and made again is the youngest.
    let again = names.remove(2);
    dynamic::run(&format!("-:{again}")).unwrap();
    dynamic::run(&format!("u:{again}")).unwrap();
    names.push(again);
    assert_eq!(Status::now().names(), names);
    for line in dynamic::user_lines() {
        let _ = dynamic::run(&line.replace("u:", "-:"));
    }
}

/// Every type there is, and what is listed differently from how it was written.
const EVERYTHING: [&str; 9] = [
    "st_dyn_back1",
    "st_dyn_back2 s8 a;u8 b;s16 c;u16 d;s32 e;u32 f;s64 g;u64 h",
    "st_dyn_back3 char a; unsigned char b; short c; unsigned short d; int e; unsigned int f",
    "st_dyn_back4 char[1] a; unsigned char[1024] b; char[010] c; char[0x10] d",
    "st_dyn_back5 struct tag a 1;;struct other b 4000; ",
    "st_dyn_back6 __data_loc char[] a; __rel_loc char[] b; __data_loc u64[] c; __rel_loc u8[] d",
    "st_dyn_back7 __data_loc unsigned char[] a; __rel_loc unsigned int[] b",
    "st_dyn_back8 u32 a-b.c(d); u8 äöü; u8 {}<>",
    "st_dyn_back9!$&=~+,;<> u32 a",
];

/// The format of each event, without its number.
fn formats(names: &[String]) -> Vec<String> {
    let format = |name: &String| {
        let text = tracefs::event_format(name);
        let lines = text.lines().filter(|line| !line.starts_with("ID: "));
        lines.collect::<Vec<_>>().join("\n")
    };
    names.iter().map(format).collect()
}

fn what_is_listed_can_be_written_back() {
    // Half of them made by lines, half by a program.
    let data = Data::open();
    let page = Mapping::kept(1);
    for (i, text) in EVERYTHING.iter().enumerate() {
        if i % 2 == 0 {
            dynamic::run(&format!("u:{text}")).unwrap_or_else(|errno| panic!("{text}: {errno:?}"));
        } else {
            let address = page.address() + 4 * i as u64;
            data.register_text(text, address, 0)
                .unwrap_or_else(|errno| panic!("{text}: {errno:?}"));
        }
    }
    let listing = listing();
    let status = Status::now();
    let names: Vec<String> = status.names().into_iter().map(String::from).collect();
    assert_eq!(names.len(), EVERYTHING.len());
    let before = formats(&names);

    for i in (1..EVERYTHING.len()).step_by(2) {
        let address = page.address() + 4 * i as u64;
        data.unregister_bit(address, 0).unwrap();
    }
    drop(data);
    dynamic::truncate().unwrap();
    assert_eq!(tracefs::events_of_tests(), [""; 0]);

    // As a whole, as a shell would do it.
    dynamic::run(listing.trim_end()).unwrap();
    assert_eq!(self::listing(), listing);
    assert_eq!(Status::now(), status);
    assert_eq!(formats(&names), before);
    // And the descriptions that programs have still fit.
    let data = Data::open();
    for (i, text) in EVERYTHING.iter().enumerate() {
        let address = page.address() + 4 * i as u64;
        assert_eq!(data.register_text(text, address, 0), Ok(i as u32), "{text}");
        data.unregister_bit(address, 0).unwrap();
    }
    drop(data);
    dynamic::truncate().unwrap();
    assert_eq!(self::listing(), "");
}

/// The whole text of the file.
fn listing() -> String {
    let mut text = String::new();
    let mut file = File::open(format!("{}/dynamic_events", tracefs::ROOT)).unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}
