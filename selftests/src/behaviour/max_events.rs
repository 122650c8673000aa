// SPDX-License-Identifier: GPL-2.0

//! `kernel.user_events_max`: how many events there may be.

use crate::contract::delete_unused;
use crate::harness::tests;
use crate::kit::abi::{Data, MULTI_FORMAT, PERSIST};
use crate::kit::child;
use crate::kit::dynamic;
use crate::kit::errno::{Errno, Result};
use crate::kit::memory::Mapping;
use crate::kit::os;
use crate::kit::rows::Rows;
use crate::kit::status::Status;
use crate::kit::tracefs;
use std::fs;
use std::os::unix::fs::MetadataExt;

tests!("max_events":
    is_32768_at_first_and_0644_of_root,
    only_root_may_change_it,
    row_bad_values_are_einval,
    row_the_event_past_it_is_emfile,
    lowering_it_deletes_nothing,
    what_goes_makes_room,
);

const PATH: &str = "/proc/sys/kernel/user_events_max";
const DEFAULT: u32 = 32768;

fn get() -> u32 {
    let text = fs::read_to_string(PATH).expect("read user_events_max");
    text.trim().parse().expect("a number")
}

fn set(value: &str) -> Result<()> {
    Ok(fs::write(PATH, value)?)
}

/// A limit that is gone when this is dropped.
pub struct Limit;

impl Limit {
    pub fn new(most: u32) -> Limit {
        let limit = Limit;
        limit.set(most);
        limit
    }

    pub fn set(&self, most: u32) {
        set(&format!("{most}\n")).unwrap();
        assert_eq!(get(), most);
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = set(&DEFAULT.to_string());
    }
}

/// Events of one file, each with a word of a page.
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

    fn address(&self, i: u32) -> u64 {
        self.page.address() + 4 * u64::from(i)
    }

    /// Registers the event with this number.
    fn register(&self, i: u32) -> Result<u32> {
        self.register_flags(i, 0)
    }

    fn register_flags(&self, i: u32, flags: u16) -> Result<u32> {
        let text = format!("st_max_{i} u32 a");
        self.data.register_flags(&text, self.address(i), 0, flags)
    }

    fn unregister(&self, i: u32) {
        self.data.unregister_bit(self.address(i), 0).unwrap();
    }
}

fn is_32768_at_first_and_0644_of_root() {
    assert_eq!(get(), DEFAULT);
    let file = fs::metadata(PATH).unwrap();
    assert_eq!(format!("{:o}", file.mode() & 0o7777), "644");
    assert_eq!((file.uid(), file.gid()), (0, 0));
}

fn only_root_may_change_it() {
    let child = child::fork(|_| {
        os::become_unprivileged();
        assert_eq!(get(), DEFAULT, "all may read it");
        assert_eq!(set("1"), Err(Errno::EACCES));
    });
    child.join();
    assert_eq!(get(), DEFAULT);
}

fn row_bad_values_are_einval() {
    let mut rows = Rows::new();
    let limit = Limit::new(1000);
    for value in [
        "-1",
        "-0x1",
        "junk",
        "12junk",
        "4294967296",
        "18446744073709551616",
        "99999999999999999999999999",
        "1.5",
    ] {
        let row = "negative, junk or > u32 → EINVAL";
        rows.fails(row, value, set(value), Errno::EINVAL);
        rows.gives(row, value, get(), 1000);
    }
    for value in [0, 1, DEFAULT, u32::MAX] {
        limit.set(value);
    }
    rows.finish();
}

fn row_the_event_past_it_is_emfile() {
    let mut rows = Rows::new();
    let row = "the event past it → EMFILE";
    let limit = Limit::new(20);
    let registrar = Registrar::new();
    // All kinds count.
    for i in 0..19 {
        let flags = if i % 2 == 0 { 0 } else { MULTI_FORMAT };
        assert_eq!(registrar.register_flags(i, flags), Ok(i));
    }
    dynamic::run("u:st_max_19 u32 a").unwrap();
    for flags in [0, MULTI_FORMAT, PERSIST, PERSIST | MULTI_FORMAT] {
        let case = format!("flags {flags}");
        let got = registrar.register_flags(20, flags);
        rows.fails(row, &case, got, Errno::EMFILE);
    }
    let got = dynamic::run("u:st_max_20 u32 a");
    rows.fails(row, "u:", got, Errno::EMFILE);
    rows.gives(row, "all others", Status::now().active, 20);
    assert!(!tracefs::event_exists("st_max_20"));

    // The limit is on events, not on their users.
    let other = Registrar::new();
    rows.gives("shared", "the first", other.register(0), Ok(0));
    rows.gives("shared", "of dynamic_events", other.register(19), Ok(1));
    rows.gives(
        "made already",
        "u:",
        dynamic::run("u:st_max_19 u32 a"),
        Ok(()),
    );
    let text = "st_max_1 u64 a";
    let got = other
        .data
        .register_flags(text, other.address(1), 0, MULTI_FORMAT);
    rows.fails("another format is another event", text, got, Errno::EMFILE);
    rows.fails(
        "bad descriptions come first",
        "u:",
        dynamic::run("u:st_max_20 long a"),
        Errno::EINVAL,
    );

    // What failed left the file's indices alone.
    limit.set(21);
    rows.gives("room for one", "", registrar.register(20), Ok(19));
    rows.fails(row, "21", registrar.register(21), Errno::EMFILE);
    limit.set(0);
    rows.fails(row, "limit 0", registrar.register(21), Errno::EMFILE);
    rows.finish();
    drop(limit);
    assert_eq!(registrar.register(21), Ok(20));

    other.unregister(19);
    drop(other);
    delete_unused(|| dynamic::run("-:st_max_19 u32 a")).unwrap();
}

fn lowering_it_deletes_nothing() {
    let registrar = Registrar::new();
    for i in 0..30 {
        registrar.register(i).unwrap();
    }
    let limit = Limit::new(10);
    assert_eq!(Status::now().active, 30);
    assert_eq!(registrar.register(30), Err(Errno::EMFILE));
    for i in 0..30 {
        registrar.unregister(i);
        assert_eq!(registrar.register(i), Ok(i), "they can be used as before");
    }
    // A limit above what there is lets more in.
    limit.set(31);
    assert_eq!(registrar.register(30), Ok(30));
    assert_eq!(registrar.register(31), Err(Errno::EMFILE));
}

fn what_goes_makes_room() {
    let _limit = Limit::new(5);
    let kept = Registrar::new();
    for i in 0..4 {
        kept.register(i).unwrap();
    }
    for i in 10..30 {
        let registrar = Registrar::new();
        let mut last = Ok(0);
        // The one before has gone shortly after its last use ended.
        crate::kit::wait::until("room for one more event", || {
            last = registrar.register(i);
            last != Err(Errno::EMFILE)
        });
        assert_eq!(last, Ok(0));
        assert_eq!(kept.register(40), Err(Errno::EMFILE));
        registrar.unregister(i);
    }
    // Deleted, it has gone at once.
    for _ in 0..20 {
        crate::kit::wait::until("room for one more event", || {
            dynamic::run("u:st_max_dynamic u32 a") != Err(Errno::EMFILE)
        });
        assert_eq!(kept.register(40), Err(Errno::EMFILE));
        dynamic::run("-:st_max_dynamic u32 a").unwrap();
    }
}
