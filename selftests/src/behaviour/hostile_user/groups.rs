// SPDX-License-Identifier: GPL-2.0

//! A user with the data file of one group can see, delete, use up and write only what is in that
//! group.

use crate::kit::abi::{Data, MULTI_FORMAT, PROFILE, REGISTRATIONS, STATUS};
use crate::kit::child::Word;
use crate::kit::dynamic;
use crate::kit::errno::Errno;
use crate::kit::group::{Group, GROUPS};
use crate::kit::memory::Mapping;
use crate::kit::status::Status;
use crate::kit::traced::Traced;
use crate::kit::tracefs;
use crate::kit::unprivileged::{fork_unprivileged, Access};
use std::fs::File;
use std::path::Path;

pub fn reaches_nothing_of_other_groups() {
    let mine = Group::new("st_evil_mine");
    let other = Group::new("st_evil_others");
    let traced = [
        Traced::new("st_evil_event u32 a"),
        Traced::new_in(&other, "st_evil_event u32 a"),
    ];
    // Persistent events that no process uses.
    let idle = ["st_evil_idle".to_string(), other.event("st_evil_idle")];
    for event in &idle {
        dynamic::run(&format!("u:{event} u64 a")).unwrap();
    }
    let _access = Access::given_in(&mine);
    let user = fork_unprivileged(|_| {
        let data = Data::open_in(&mine);
        // The user can open no file that lists events, not even of its own group.
        let hidden = [STATUS, PROFILE, REGISTRATIONS, GROUPS].map(|path| Path::new(path).into());
        let files = other.files().map(|(path, _)| path);
        let listings = [mine.status_file(), mine.profile()];
        for path in hidden.into_iter().chain(files).chain(listings) {
            let opened = File::open(&path).map(drop).map_err(Errno::from);
            assert_eq!(opened, Err(Errno::EACCES), "{}", path.display());
        }
        assert_eq!(Data::try_open().err(), Some(Errno::EACCES));
        for path in ["dynamic_events", "events", "trace", "available_events"] {
            let opened = File::open(Path::new(tracefs::ROOT).join(path));
            let opened = opened.map(drop).map_err(Errno::from);
            assert_eq!(opened, Err(Errno::EACCES), "{path}");
        }
        // No call reveals events of other groups: the results are the same for names that exist
        // nowhere.
        for name in ["st_evil_event", "st_evil_idle", "st_evil_none"] {
            assert_eq!(data.delete(name), Err(Errno::ENOENT), "{name}");
        }
        let page = Mapping::kept(1);
        for (bit, name) in ["st_evil_event", "st_evil_idle", "st_evil_none"]
            .into_iter()
            .enumerate()
        {
            // With fields that no other event has.
            let text = format!("{name} u8 mine");
            let got = data.register_text(&text, page.address(), bit as u8);
            assert_eq!(got, Ok(bit as u32));
        }
        for index in 0..2000 {
            let want = [Errno::EBADF, Errno::ENOENT][usize::from(index >= 3)];
            assert_eq!(data.write(index, &[0; 8]), Err(want), "{index}");
        }
        // Names as tracefs and `dynamic_events` have them.
        for name in [
            "user_events/st_evil_idle",
            "user_events_st_evil_others/st_evil_idle",
            "st_evil_others/st_evil_idle",
            "../user_events/st_evil_idle",
        ] {
            assert_eq!(data.delete(name), Err(Errno::ENOENT), "{name}");
            let got = data.register_text(name, page.address(), 20);
            assert_eq!(got, Err(Errno::EINVAL), "{name}");
        }
        // The user's own events end with it: it deletes what it can before that.
        for bit in 0..3 {
            assert_eq!(data.unregister_bit(page.address(), bit), Ok(()));
        }
        assert_eq!(data.delete("st_evil_event"), Err(Errno::EBUSY));
        let other = Data::open_in(&mine);
        drop(data);
        let deleted = other.delete("st_evil_event");
        assert!(
            [Ok(()), Err(Errno::ENOENT)].contains(&deleted),
            "{deleted:?}"
        );
    });
    user.join();
    for event in &idle {
        assert!(tracefs::event_format(event).contains("field:u64 a;"));
        assert_eq!(dynamic::run(&format!("-:{event}")), Ok(()));
    }
    // The events of others can be written, and nothing else is recorded.
    for traced in &traced {
        assert!(traced.event.bit());
        assert_eq!(traced.event.write(&[1; 4]), Ok(8));
        let records = traced.tracer.take_all_records();
        assert_eq!(records.len(), 1, "{records:?}");
        assert_eq!(u64::from(records[0].kind), traced.event.id());
        assert_eq!(records[0].payload(4), [1; 4]);
        traced.detach();
    }
    assert_eq!(Status::now().names(), ["st_evil_event"]);
    assert_eq!(other.status().names(), ["st_evil_event"]);
    assert_eq!(other.missed("st_evil_event"), (0, 0));
}

/// No two events have the same place in tracefs, whatever the names of groups and events.
pub fn takes_no_place_of_another_group() {
    // The formats of one group could have the names of events of another.
    let groups = ["st_evil_a", "st_evil_a_b", "st_evil_a_multi_"].map(Group::of_any_names);
    let mine = &groups[0];
    // The system of formats of the group `st_evil_a` would be the system of the first of these.
    let refused = ["st_evil_a_multi", "st_evil_multi"];
    for name in refused {
        assert_eq!(Group::made(name, "").err(), Some(Errno::EINVAL));
    }
    let _access = Access::given_in(mine);
    // Forked before there are registrations that it would inherit.
    let mut user = fork_unprivileged(|line| {
        line.hear(Word::Register);
        let data = Data::open_in(mine);
        let page = Mapping::kept(1);
        let names = [
            "b_multi",
            "b_multi.0",
            "multi",
            "b_b_multi",
            "a_b",
            "user_events",
            "_b",
            "_multi",
            "multi.0",
            "user_events_st_evil_a_multi",
        ];
        for (bit, name) in names.into_iter().enumerate() {
            for (more, flags) in [(0, 0), (1, MULTI_FORMAT)] {
                let text = format!("{name} u32 a");
                let bit = (2 * bit + more) as u8;
                let got = data.register_flags(&text, page.address(), bit, flags);
                assert_eq!(got, Ok(bit.into()), "{text}");
            }
        }
        line.say(Word::Register);
        line.wait_for_kill();
    });
    let (data, page) = (Data::open(), Mapping::kept(1));
    let files = groups.each_ref().map(Data::open_in);
    for (at, data) in files.iter().chain([&data]).enumerate() {
        let text = "b_multi u32 a";
        for (bit, flags) in [0, MULTI_FORMAT].into_iter().enumerate() {
            let address = page.address() + 4 * at as u64;
            let got = data.register_flags(text, address, bit as u8, flags);
            assert_eq!(got, Ok(bit as u32));
        }
    }
    user.tell(Word::Register);
    // Each group has two systems with its own events only.
    let events = |system: &str| {
        let mut names = tracefs::names_starting_with("", &tracefs::group_dir(system));
        names.retain(|name| !["enable", "filter"].contains(&name.as_str()));
        names.sort();
        names
    };
    let mut systems: Vec<_> = groups
        .iter()
        .flat_map(|group| [group.system(), group.multi_system()])
        .chain(["user_events", "user_events_multi"].map(String::from))
        .collect();
    systems.sort();
    assert_eq!(tracefs::systems(), systems);
    for system in [
        "user_events",
        "user_events_st_evil_a_b",
        "user_events_st_evil_a_multi_",
    ] {
        assert_eq!(events(system), ["b_multi"], "{system}");
        let formats = events(&format!("{system}_multi"));
        assert_eq!(formats.len(), 1, "{system}: {formats:?}");
        assert!(formats[0].starts_with("b_multi."), "{system}: {formats:?}");
    }
    assert_eq!(events(&mine.system()).len(), 10);
    assert_eq!(events(&mine.multi_system()).len(), 10);
    for group in &groups[1..] {
        let format = events(&group.multi_system()).remove(0);
        assert_eq!(group.status().names(), ["b_multi", &format]);
    }
}
