// SPDX-License-Identifier: GPL-2.0

//! A user with the data file of one group can see, delete and write only what is in that group.

use crate::kit::abi::{Data, PROFILE, REGISTRATIONS, STATUS};
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
        let page = Mapping::kept(1);
        let names = ["st_evil_event", "st_evil_idle", "st_evil_none"];
        for (bit, name) in names.into_iter().enumerate() {
            assert_eq!(data.delete(name), Err(Errno::ENOENT), "{name}");
            // With fields that no other event has.
            let text = format!("{name} u8 mine");
            let got = data.register_text(&text, page.address(), bit as u8);
            assert_eq!(got, Ok(bit as u32));
        }
        for index in 0..2000 {
            let want = [Errno::EBADF, Errno::ENOENT][usize::from(index >= 3)];
            assert_eq!(data.write(index, &[0; 8]), Err(want), "{index}");
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
