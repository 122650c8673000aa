// SPDX-License-Identifier: GPL-2.0

//! A user with the data file of one group can see, delete, use up and write only what is in that
//! group.

use crate::kit::abi::{
    Data, DIAG_IOCSDEL, DIAG_IOCSREG, MULTI_FORMAT, PROFILE, REGISTRATIONS, STATUS,
};
use crate::kit::child::{Child, Word};
use crate::kit::dynamic;
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::group::{Group, GROUPS};
use crate::kit::memory::Mapping;
use crate::kit::os;
use crate::kit::status::Status;
use crate::kit::traced::Traced;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::unprivileged::{fork_unprivileged, Access};
use crate::kit::wait;
use std::fs::{self, File};
use std::path::Path;

/// Events of others, in the first group and in another one, each traced by an instance.
struct Others {
    group: Group,
    traced: [Traced; 2],
}

impl Others {
    fn new() -> Others {
        let group = Group::new("st_evil_others");
        let traced = [
            Traced::new("st_evil_event u32 a"),
            Traced::new_in(&group, "st_evil_event u32 a"),
        ];
        Others { group, traced }
    }

    /// Checks that the events are unchanged: they can be written, and nothing else is recorded.
    #[track_caller]
    fn are_well(&self) {
        for traced in &self.traced {
            assert!(traced.event.bit());
            assert_eq!(traced.event.write(&[1; 4]), Ok(8));
            let records = traced.tracer.take_all_records();
            assert_eq!(records.len(), 1, "{records:?}");
            assert_eq!(u64::from(records[0].kind), traced.event.id());
            assert_eq!(records[0].payload(4), [1; 4]);
        }
        assert_eq!(Status::now().names(), ["st_evil_event"]);
        assert_eq!(self.group.status().names(), ["st_evil_event"]);
        assert_eq!(self.group.missed("st_evil_event"), (0, 0));
    }

    fn end(self) {
        self.traced.iter().for_each(Traced::detach);
    }
}

/// Lets the user finish.
fn join(mut user: Child) {
    user.line.hear(Word::Done);
    user.line.say(Word::End);
    user.join();
}

pub fn sees_and_deletes_nothing_of_other_groups() {
    let mine = Group::new("st_evil_mine");
    let others = Others::new();
    // Persistent events that no process uses.
    let idle = [
        "st_evil_idle".to_string(),
        others.group.event("st_evil_idle"),
    ];
    for event in &idle {
        dynamic::run(&format!("u:{event} u64 a")).unwrap();
    }
    let _access = Access::given_in(&mine);
    let user = fork_unprivileged(|line| {
        let data = Data::open_in(&mine);
        // The user can open no file that lists events, not even of its own group.
        let hidden = [STATUS, PROFILE, REGISTRATIONS, GROUPS].map(|path| Path::new(path).into());
        let files = others.group.files().map(|(path, _)| path);
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
        for index in 3..40 {
            assert_eq!(data.write(index, &[0; 8]), Err(Errno::ENOENT));
        }
        for index in 0..3 {
            assert_eq!(data.write(index, &[0; 8]), Err(Errno::EBADF));
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
        line.say(Word::Done);
        line.hear(Word::End);
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
    join(user);
    for event in &idle {
        assert!(tracefs::event_format(event).contains("field:u64 a;"));
        assert_eq!(dynamic::run(&format!("-:{event}")), Ok(()));
    }
    others.are_well();
    others.end();
}

pub fn writes_nothing_into_events_of_other_groups() {
    let mine = Group::of_any_names("st_evil_mine");
    let others = Others::new();
    let _access = Access::given_in(&mine);
    // All of the user's records must be in this instance, and in no other.
    let tracer = TraceInstance::instance("st_evil_mine");
    let mut user = fork_unprivileged(|line| {
        let data = Data::open_in(&mine);
        let page = Mapping::kept(1);
        for (bit, flags) in [0, MULTI_FORMAT].into_iter().enumerate() {
            let text = "st_evil_event u32 a";
            let got = data.register_flags(text, page.address(), bit as u8, flags);
            assert_eq!(got, Ok(bit as u32));
        }
        line.say(Word::Registered);
        line.hear(Word::Write);
        for index in (0..2000).chain([1 << 31, u32::MAX]) {
            let got = data.write(index, &[0xee; 4]);
            match index {
                0 | 1 => assert_eq!(got, Ok(8)),
                // No file has an index of this size.
                0x8000_0000.. => assert!(got.is_err(), "{index}"),
                _ => assert_eq!(got, Err(Errno::ENOENT), "{index}"),
            }
        }
        line.say(Word::Done);
        line.hear(Word::End);
    });
    user.line.hear(Word::Registered);
    let mut its = vec![mine.event("st_evil_event")];
    its.extend(mine.formats_of("st_evil_event"));
    assert_eq!(its.len(), 2);
    its.iter().for_each(|event| tracer.enable(event));
    user.line.say(Word::Write);
    user.line.hear(Word::Done);
    let mut kinds: Vec<_> = tracer
        .take_all_records()
        .iter()
        .map(|record| u64::from(record.kind))
        .collect();
    kinds.sort();
    let mut ids: Vec<_> = its.iter().map(|event| tracefs::event_id(event)).collect();
    ids.sort();
    assert_eq!(kinds, ids);
    for event in &its {
        assert_eq!(tracer.get(event, "enable"), "1\n");
        tracer.disable(event);
    }
    user.line.say(Word::End);
    user.join();
    others.are_well();
    others.end();
}

/// The user can use up the events and the bytes of its group, and no more.
pub fn fills_its_group_and_no_other() {
    const MAX_EVENTS: u32 = 50;
    let mine = Group::with(
        "st_evil_mine",
        &format!("events={MAX_EVENTS} bytes_per_second=100 names=any"),
    );
    let others = Others::new();
    let _access = Access::given_in(&mine);
    let mut user = fork_unprivileged(|line| {
        let page = Mapping::kept(1);
        // Several files: the limit is that of the group.
        let files = [Data::open_in(&mine), Data::open_in(&mine)];
        let register = |number: u32| {
            let text = format!("st_evil_{number} u32 a");
            let flags = if number % 3 == 0 { MULTI_FORMAT } else { 0 };
            let address = page.address() + u64::from(4 * number);
            files[number as usize % 2].register_flags(&text, address, 0, flags)
        };
        let made = (0..1000).take_while(|&number| {
            let got = register(number);
            assert!(got.is_ok() || got == Err(Errno::EMFILE), "{got:?}");
            got.is_ok()
        });
        assert_eq!(made.count() as u32, MAX_EVENTS);
        line.say(Word::Full);
        line.hear(Word::Write);
        let mut refused = 0;
        while refused < 500 {
            // The second event is the first of the second file.
            match files[1].write(0, &[0xee; 60]) {
                Ok(length) => assert_eq!(length, 64),
                Err(errno) => {
                    assert_eq!(errno, Errno::EDQUOT);
                    refused += 1;
                }
            }
        }
        line.say(Word::Done);
        line.hear(Word::End);
    });
    user.line.hear(Word::Full);
    assert_eq!(mine.status().active, MAX_EVENTS as usize);
    others.are_well();
    // There is room for others, including root.
    let room = [
        Event::new("st_evil_room u32 a"),
        Event::new_in(&others.group, "st_evil_room u32 a"),
    ];
    room.into_iter().for_each(Event::end);
    for event in ["st_evil_line".into(), others.group.event("st_evil_line")] {
        assert_eq!(dynamic::run(&format!("u:{event} u32 a")), Ok(()));
        assert_eq!(dynamic::run(&format!("-:{event}")), Ok(()));
    }
    wait_gone("st_evil_room");
    wait_gone(&others.group.event("st_evil_room"));
    let tracer = TraceInstance::instance("st_evil_mine");
    let its = mine.event("st_evil_1");
    tracer.enable(&its);
    user.line.say(Word::Write);
    // The limit that refuses the user's records does not affect others.
    wait::until("it to be refused", || mine.refused() >= 100);
    others.are_well();
    user.line.hear(Word::Done);
    tracer.disable(&its);
    user.line.say(Word::End);
    user.join();
    others.are_well();
    others.end();
    mine.remove_when_idle();
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
        line.say(Word::Done);
        line.hear(Word::End);
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
    user.line.say(Word::Register);
    user.line.hear(Word::Done);
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
    // Each line of these listings belongs to one of the events.
    let lines = dynamic::user_lines();
    let (mut of_mine, mut plain) = (0, 0);
    for line in &lines {
        match line.strip_prefix("u:user_events_st_evil_a/") {
            Some(_) => of_mine += 1,
            None if !line.contains('/') => plain += 1,
            None => assert!(line.ends_with("/b_multi u32 a"), "{line}"),
        }
    }
    assert_eq!((of_mine, plain), (20, 2), "{lines:?}");
    let registrations = fs::read_to_string(REGISTRATIONS).unwrap();
    let pid = user.pid.to_string();
    for line in registrations.lines().skip(1) {
        let is_its = line.split(' ').nth(1) == Some(&pid);
        let in_its_group = line.starts_with("user_events_st_evil_a/")
            || line.starts_with("user_events_st_evil_a_multi/");
        assert!(in_its_group || !is_its, "{line}");
    }
    user.line.say(Word::End);
    user.join();
}

/// A user with a group's file makes calls with bad addresses.
pub fn bad_calls_in_a_group_change_nothing() {
    let mine = Group::new("st_evil_mine");
    let others = Others::new();
    let _access = Access::given_in(&mine);
    let user = fork_unprivileged(|line| {
        let data = Data::open_in(&mine);
        for address in [0, 8, 1 << 62, 0xffff_ffff_8100_0000] {
            for command in [DIAG_IOCSREG, DIAG_IOCSDEL] {
                let got = os::ioctl(&data.file, command, address);
                assert_eq!(got, Err(Errno::EFAULT), "{address:#x}");
            }
            let got = data.register_text("st_evil_event u32 a", address, 0);
            assert_eq!(got, Err(Errno::EFAULT), "{address:#x}");
            let got = os::write_from(&data.file, address, 8);
            assert_eq!(got, Err(Errno::EFAULT), "{address:#x}");
        }
        line.say(Word::Done);
        line.hear(Word::End);
    });
    join(user);
    others.are_well();
    others.end();
    mine.remove_when_idle();
}
