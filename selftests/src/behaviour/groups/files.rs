// SPDX-License-Identifier: GPL-2.0

//! The files of groups: who may open them, and what open files and path descriptors do after a
//! removal.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::child;
use crate::kit::dynamic;
use crate::kit::errno::{Errno, Result};
use crate::kit::event::Event;
use crate::kit::group::{self, Group, GROUPS};
use crate::kit::machine;
use crate::kit::memory::Mapping;
use crate::kit::os::{self, UNPRIVILEGED};
use crate::kit::status::Status;
use crate::kit::tracefs;
use crate::kit::unprivileged::{fork_unprivileged, Access};
use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{chown, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

tests!("groups::files":
    are_of_root_until_owner_and_mode_are_changed_one_by_one,
    an_ordinary_user_has_what_it_is_given,
    a_file_that_is_known_or_mounted_is_eio_when_its_group_is_removed,
    an_open_listing_ends_when_its_group_is_removed,
    an_open_list_of_groups_goes_on_while_groups_go,
);

/// The mode, owner and group of a file.
fn access(path: &Path) -> (u32, u32, u32) {
    let file = fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (file.mode() & 0o7777, file.uid(), file.gid())
}

fn open(path: &Path) -> Result<()> {
    Ok(File::open(path).map(drop)?)
}

fn are_of_root_until_owner_and_mode_are_changed_one_by_one() {
    assert_eq!(access(Path::new(GROUPS)), (0o600, 0, 0));
    let group = Group::new("st_g_given");
    let other = Group::new("st_g_not_given");
    // A group has no other files.
    let files = tracefs::names_starting_with("user_events_", Path::new(tracefs::ROOT));
    let its = files.iter().filter(|name| name.ends_with(".st_g_given"));
    assert_eq!(its.count(), group.files().len());
    for (at, (path, _)) in group.files().into_iter().enumerate() {
        let user = 1000 + at as u32;
        chown(&path, Some(user), Some(user + 1)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o444 + at as u32)).unwrap();
    }
    let changed = |group: &Group| {
        for (at, (path, _)) in group.files().into_iter().enumerate() {
            let at = at as u32;
            assert_eq!(access(&path), (0o444 + at, 1000 + at, 1001 + at));
        }
    };
    let unchanged = |group: &Group| {
        for (path, mode) in group.files() {
            assert_eq!(access(&path), (mode, 0, 0), "{}", path.display());
        }
    };
    changed(&group);
    unchanged(&other);
    // Neither use nor dropped caches change mode and owner.
    child::fork(|_| Event::new_in(&group, "st_g_event u32 a").end()).join();
    machine::drop_caches();
    changed(&group);
    unchanged(&other);
    // A new group of the same name has files of root.
    group.remove_when_idle();
    unchanged(&Group::new("st_g_given"));
}

/// What it cannot open is in `hostile_user::reaches_nothing_of_other_groups`.
fn an_ordinary_user_has_what_it_is_given() {
    let group = Group::new("st_g_user");
    let other = Group::new("st_g_other");
    let _access = Access::given_in(&group);
    let user = fork_unprivileged(|_| {
        // Only root makes and removes groups, and nothing does so through the file system.
        for line in ["g:st_g_users", "-:st_g_other"] {
            assert_eq!(group::run(line), Err(Errno::EACCES), "{line}");
        }
        for (path, _) in other.files() {
            let removed = fs::remove_file(&path).map_err(Errno::from);
            assert_eq!(removed, Err(Errno::EACCES), "{}", path.display());
        }
        let made = File::create(format!("{}/user_events_data.st_g_users", tracefs::ROOT));
        assert_eq!(made.map(drop).map_err(Errno::from), Err(Errno::EACCES));
    });
    user.join();
    for path in [group.status_file(), group.profile()] {
        chown(&path, Some(UNPRIVILEGED), None).unwrap();
    }
    let user = fork_unprivileged(|_| {
        let event = Event::new_in(&group, "st_g_event u32 a");
        assert_eq!(group.status().names(), ["st_g_event"]);
        assert_eq!(group.missed("st_g_event"), (0, 0));
        for path in [group.status_file(), group.profile()] {
            let written = fs::write(&path, "x").map_err(Errno::from);
            assert_eq!(written, Err(Errno::EACCES), "{}", path.display());
        }
        event.end();
    });
    user.join();
}

fn paths(group: &Group) -> [PathBuf; 3] {
    group.files().map(|(path, _)| path)
}

/// Mounts a file at a place of its own.
fn mounted(path: &Path) -> PathBuf {
    let place = Path::new("/tmp").join(path.file_name().unwrap());
    File::create(&place).unwrap();
    let [from, to] = [path, &place].map(|path| CString::new(path.as_os_str().as_bytes()).unwrap());
    os::mount(&from, &to, libc::MS_BIND);
    place
}

fn a_file_that_is_known_or_mounted_is_eio_when_its_group_is_removed() {
    let user = child::fork(|_| {
        os::own_mounts();
        let group = Group::new("st_g_known");
        let mut by_path = File::options();
        by_path.read(true).custom_flags(libc::O_PATH);
        let known = paths(&group).map(|path| by_path.open(path).unwrap());
        let mounted = paths(&group).map(|path| mounted(&path));
        for path in &mounted {
            assert_eq!(open(path), Ok(()), "{}", path.display());
        }
        // A file that was opened by another path is an open file.
        let data = Data::at(&mounted[0]).unwrap();
        let page = Mapping::kept(1);
        let registered = data.register_text("st_g_event u32 a", page.address(), 0);
        assert_eq!(registered, Ok(0));
        assert_eq!(Status::of(&mounted[1]).names(), ["st_g_event"]);
        assert_eq!(data.unregister_bit(page.address(), 0), Ok(()));
        assert_eq!(group.remove(), Err(Errno::EBUSY));
        drop(data);
        group.remove_when_idle();
        let are_gone = || {
            for place in &known {
                let path = format!("/proc/self/fd/{}", place.as_raw_fd());
                assert_eq!(open(Path::new(&path)), Err(Errno::EIO));
            }
            for path in &mounted {
                assert_eq!(open(path), Err(Errno::EIO), "{}", path.display());
                assert_eq!(Data::at(path).err(), Some(Errno::EIO), "{}", path.display());
            }
        };
        are_gone();
        // Nor do they open the files of a new group of the same name.
        let again = Group::new("st_g_known");
        are_gone();
        for path in paths(&again) {
            assert_eq!(open(&path), Ok(()), "{}", path.display());
        }
        assert_eq!(again.numbers(), [0, 0, 0]);
    });
    user.join();
    for path in paths(&Group::of_name("st_g_known")) {
        fs::remove_file(Path::new("/tmp").join(path.file_name().unwrap())).unwrap();
    }
}

/// The listings have several thousand bytes and are read in parts.
fn an_open_listing_ends_when_its_group_is_removed() {
    const EVENTS: usize = 300;
    let group = Group::new("st_g_listed");
    let lines: Vec<_> = (0..EVENTS)
        .map(|event| format!("u:{} u32 a", group.event(&format!("st_g_event_{event}"))))
        .collect();
    for part in lines.chunks(10) {
        dynamic::run(&part.join("\n")).unwrap();
    }
    let open = || [group.status_file(), group.profile()].map(|path| File::open(path).unwrap());
    let (unread, in_part) = (open(), open());
    let parts = in_part.each_ref().map(|mut file| {
        let mut part = vec![0; 100];
        file.read_exact(&mut part).unwrap();
        part
    });
    assert_eq!(group.remove(), Ok(()));
    // A new group of the same name is not shown.
    let again = Group::new("st_g_listed");
    dynamic::run(&format!("u:{} u32 a", again.event("st_g_new"))).unwrap();
    let rest = |mut file: File| {
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert!(!text.contains("st_g_new"), "{text}");
        text
    };
    assert_eq!(unread.map(rest), ["\nActive: 0\nBusy: 0\n", ""]);
    for (file, part) in in_part.into_iter().zip(parts) {
        // Text that the kernel has already buffered may still follow.
        let text = String::from_utf8(part).unwrap() + &rest(file);
        let names = text.matches("st_g_event_").count();
        assert!((1..EVENTS).contains(&names), "{names} of {EVENTS}: {text}");
    }
    assert_eq!(again.status().names(), ["st_g_new"]);
}

fn an_open_list_of_groups_goes_on_while_groups_go() {
    const MANY: usize = 200;
    let name = |number: usize| format!("st_g_open_{number}");
    let groups: Vec<_> = (0..MANY)
        .map(|number| Group::with(&name(number), "events=1"))
        .collect();
    let mut file = File::open(GROUPS).unwrap();
    let mut text = vec![0; 100];
    file.read_exact(&mut text).unwrap();
    // Two thirds of the groups are removed, and some are added.
    let (mut kept, mut new) = (Vec::new(), Vec::new());
    for (number, group) in groups.into_iter().enumerate() {
        match number % 3 {
            0 => kept.push(group),
            _ => assert_eq!(group.remove(), Ok(())),
        }
    }
    new.extend((MANY..MANY + 10).map(|number| Group::new(&name(number))));
    file.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let listed: Vec<_> = text.lines().map(group::name_in).collect();
    // The listing has whole lines, each group once, and all groups that stay, sorted by name.
    let mut once = listed.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), listed.len(), "{text}");
    let mut stay: Vec<_> = kept.iter().map(|group| group.name.as_str()).collect();
    stay.sort_unstable();
    let listed_of_these: Vec<_> = listed
        .into_iter()
        .filter(|name| stay.contains(name))
        .collect();
    assert_eq!(listed_of_these, stay);
    drop(new);
}
