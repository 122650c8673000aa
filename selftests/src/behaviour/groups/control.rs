// SPDX-License-Identifier: GPL-2.0

//! `user_events_groups`: lines that make and remove groups, the listing, and what is refused.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::dynamic;
use crate::kit::errno::{fails, Errno};
use crate::kit::event::Event;
use crate::kit::group::{self, Group, GROUPS, MAX_EVENTS, MAX_GROUPS};
use crate::kit::max_events::Limit;
use crate::kit::tracefs;
use std::fs::{self, File};
use std::io::Read;

tests!("groups::control":
    a_group_is_made_listed_and_removed,
    groups_are_listed_by_name_with_their_limits,
    lines_that_are_einval,
    a_line_has_255_bytes_at_most,
    a_name_that_is_taken_is_eexist_and_one_that_is_not_there_enoent,
    a_write_of_several_lines_ends_before_the_one_that_fails,
    a_saved_listing_is_written_back,
    opening_the_file_as_a_shell_does_removes_no_group,
    there_are_4096_groups_at_most.limit(600),
);

/// The listed line of an unused group.
fn idle_line(name: &str, limits: &str) -> String {
    format!("g:{name} {limits} # 0 events, 0 used, 0 open files")
}

fn a_group_is_made_listed_and_removed() {
    assert_eq!(group::listing(), "");
    let group = Group::new("st_g_one");
    assert_eq!(group::lines(), [idle_line("st_g_one", "events=1024")]);
    for (path, _) in group.files() {
        assert!(path.exists(), "{}", path.display());
    }
    // A system without events has no directory.
    assert!(!tracefs::group_dir(&group.system()).exists());
    assert_eq!(group.status().active, 0);
    assert_eq!(fs::read_to_string(group.profile()).unwrap(), "");
    assert_eq!(group.remove(), Ok(()));
    group.is_gone();
    assert_eq!(group::listing(), "");
}

fn groups_are_listed_by_name_with_their_limits() {
    let cases = [
        ("st_g_z", "", "events=1024"),
        ("st_g_b", "events=1", "events=1"),
        ("st_g_a", "events=32768", "events=32768"),
        ("st_g_a0", "events=2", "events=2"),
        ("st_g_Z", "events=3", "events=3"),
        // The longest name.
        ("st_g_multi_90123456789012345678_", "events=4", "events=4"),
    ];
    let limited = Group::with("st_g_y", "bytes_per_second=4294967295   events=7");
    let limits = "events=7 bytes_per_second=4294967295";
    let mut want = vec![format!("{}, 0 refused", idle_line("st_g_y", limits))];
    let mut groups = vec![limited];
    let _limit = Limit::of_groups(2 * MAX_EVENTS);
    for (name, options, limits) in cases {
        groups.push(Group::with(name, options));
        want.push(idle_line(name, limits));
        // Sorting the lines sorts the names: the space behind a name is less than any character of
        // one.
        want.sort();
        assert_eq!(group::lines(), want);
    }
    // A group in the middle is removed; a new group of its name takes its place.
    assert_eq!(groups[2].remove(), Ok(()));
    let place = want.iter().position(|line| line.starts_with("g:st_g_b "));
    let place = place.expect("its line");
    want.remove(place);
    assert_eq!(group::lines(), want);
    let _again = Group::new("st_g_b");
    want.insert(place, idle_line("st_g_b", "events=1024"));
    assert_eq!(group::lines(), want);
}

/// More names and options are in the tests of the schema.
fn lines_that_are_einval() {
    let group = Group::new("st_g_stays");
    let too_long = "a".repeat(33);
    for line in [
        "g: st_g_a",
        "u:st_g_a",
        "-:st_g_stays events=1024",
        "-:user_events/st_g_stays",
        "g:a_multi",
        "-:a_multi",
        "g:../b",
        "g:st_g\0x",
        &format!("g:{too_long}"),
        &format!("-:{too_long}"),
        "g:st_g_a events=",
        "g:st_g_a bytes_per_second=",
        "g:st_g_a events=0",
        "g:st_g_a events=32769",
        "g:st_g_a events=18446744073709551617",
        "g:st_g_a bytes_per_second=4294967296",
        "g:st_g_a events=1 events=1",
        "g:st_g_a st_g_b",
    ] {
        fails("line", line, group::run(line), Errno::EINVAL);
    }
    assert_eq!(group::lines(), [idle_line(&group.name, "events=1024")]);
}

fn a_line_has_255_bytes_at_most() {
    let line = |length: usize| {
        let start = "g:st_g_long events=3 # ";
        format!("{start}{}", "x".repeat(length - start.len()))
    };
    // Blanks count as well.
    let spaced = |length: usize| format!("{:>length$}", "g:st_g_long events=3");
    for line in [&line, &spaced] as [&dyn Fn(usize) -> String; 2] {
        fails("line", "256 bytes", group::run(&line(256)), Errno::EINVAL);
        fails("line", "5000 bytes", group::run(&line(5000)), Errno::EINVAL);
        assert_eq!(group::listing(), "");
        assert_eq!(group::run(&line(255)), Ok(()));
        assert_eq!(group::lines(), [idle_line("st_g_long", "events=3")]);
        assert_eq!(group::run("-:st_g_long"), Ok(()));
        // A line without a newline.
        assert_eq!(group::write(&line(255)), Ok(255));
        assert_eq!(group::write(&line(256)), Err(Errno::EINVAL));
        assert_eq!(group::run("-:st_g_long"), Ok(()));
    }
}

fn a_name_that_is_taken_is_eexist_and_one_that_is_not_there_enoent() {
    let group = Group::with("st_g_there", "events=3");
    let before = group::lines();
    for (line, errno) in [
        ("g:st_g_there", Errno::EEXIST),
        // Options are checked before the name is looked up.
        ("g:st_g_there events=0", Errno::EINVAL),
        ("-:st_g_ther", Errno::ENOENT),
        ("-:st_g_there_", Errno::ENOENT),
        ("-:St_g_there", Errno::ENOENT),
        ("-:user_events", Errno::ENOENT),
        ("-:user_events_st_g_there", Errno::ENOENT),
    ] {
        fails("a name", line, group::run(line), errno);
    }
    // Names are case-sensitive.
    assert_eq!(group::run("g:st_g_There"), Ok(()));
    assert_eq!(group::run("-:st_g_There"), Ok(()));
    assert_eq!(group::lines(), before);
    assert_eq!(group.remove(), Ok(()));
    assert_eq!(group.remove(), Err(Errno::ENOENT));
}

fn a_write_of_several_lines_ends_before_the_one_that_fails() {
    let good = "g:st_g_a events=1\n# a comment\n\ng:st_g_b events=2\n-:st_g_a\n";
    let bad = [
        ("g:st_g_b\n", Errno::EEXIST),
        ("-:st_g_a\n", Errno::ENOENT),
        ("g:st_g_d events=0\n", Errno::EINVAL),
    ];
    let rest = "g:st_g_c events=3\n";
    for (line, errno) in bad {
        let text = format!("{good}{line}{rest}");
        assert_eq!(group::write(&text), Ok(good.len()), "{line:?}");
        assert_eq!(group::lines(), [idle_line("st_g_b", "events=2")]);
        // The rest, as a caller of `write` is to continue.
        assert_eq!(group::write(&text[good.len()..]), Err(errno), "{line:?}");
        assert_eq!(group::lines(), [idle_line("st_g_b", "events=2")]);
        assert_eq!(group::write(rest), Ok(rest.len()));
        let left = [
            idle_line("st_g_b", "events=2"),
            idle_line("st_g_c", "events=3"),
        ];
        assert_eq!(group::lines(), left);
        // All lines in one write, the last without a newline.
        let both = "-:st_g_b\n-:st_g_c";
        assert_eq!(group::write(both), Ok(both.len()));
        assert_eq!(group::listing(), "");
    }
}

fn a_saved_listing_is_written_back() {
    let first = Group::with("st_g_z", "bytes_per_second=5000 events=3");
    let others = [
        Group::new("st_g_b"),
        Group::with("st_g_a", "events=20000"),
        Group::with("st_g_x", "bytes_per_second=4294967295"),
    ];
    let idle = group::listing();
    dynamic::run("u:user_events_st_g_z/st_g_saved u32 a").unwrap();
    let data = Data::open_in(&first);
    // The counts behind the limits are a comment.
    let saved = group::listing();
    assert_ne!(saved, idle);
    drop(data);
    [&first].into_iter().chain(&others).for_each(|group| {
        assert_eq!(group.remove(), Ok(()), "{}", group.name);
    });
    assert_eq!(group::listing(), "");
    fs::write(GROUPS, &saved).unwrap();
    assert_eq!(group::listing(), idle);
}

/// Truncating `dynamic_events` deletes all idle events. Here it could remove all groups by mistake.
fn opening_the_file_as_a_shell_does_removes_no_group() {
    let groups = [Group::new("st_g_a"), Group::new("st_g_b")];
    let before = group::listing();
    drop(File::create(GROUPS).unwrap());
    assert_eq!(group::listing(), before);
    fs::write(GROUPS, "g:st_g_c\n").unwrap();
    assert_eq!(group::lines().len(), 3);
    drop(groups);
    assert_eq!(group::lines(), [idle_line("st_g_c", "events=1024")]);
}

/// The file is read in parts of 1000 bytes, as `cat` reads, and written in parts, as a shell
/// writes.
fn there_are_4096_groups_at_most() {
    let names: Vec<String> = (0..MAX_GROUPS)
        .map(|number| format!("st_g_{number}"))
        .collect();
    for part in names.chunks(64) {
        let lines: Vec<_> = part
            .iter()
            .map(|name| format!("g:{name} events=1"))
            .collect();
        assert_eq!(group::run(&lines.join("\n")), Ok(()));
    }
    let too_many = || group::run("g:st_g_more");
    fails("groups", "one more", too_many(), Errno::EMFILE);
    // A bad line still gets its own error, and the listing can be read.
    fails("groups", "a bad line", group::run("g:"), Errno::EINVAL);
    let mut file = File::open(GROUPS).unwrap();
    let (mut text, mut part) = (Vec::new(), [0; 1000]);
    loop {
        match file.read(&mut part).unwrap() {
            0 => break,
            length => text.extend_from_slice(&part[..length]),
        }
    }
    let text = String::from_utf8(text).unwrap();
    let listed: Vec<_> = text.lines().map(group::name_in).collect();
    let mut by_name = names.clone();
    by_name.sort();
    assert_eq!(listed, by_name);
    // A removal makes room for one group, and a refusal takes none.
    for _ in 0..3 {
        fails("groups", "one more", too_many(), Errno::EMFILE);
        assert_eq!(group::run("-:st_g_77"), Ok(()));
        assert_eq!(group::run("g:st_g_77"), Ok(()));
    }
    let last = names.len() - 1;
    for number in [0, last] {
        let group = Group::of_name(&names[number]);
        let event = Event::new_in(&group, "st_g_event u32 a");
        assert_eq!(group.status().names(), ["st_g_event"]);
        event.end();
        group.remove_when_idle();
    }
    for part in names[1..last].chunks(64) {
        let lines: Vec<_> = part.iter().map(|name| format!("-:{name}")).collect();
        assert_eq!(group::run(&lines.join("\n")), Ok(()));
    }
    assert_eq!(group::listing(), "");
}
