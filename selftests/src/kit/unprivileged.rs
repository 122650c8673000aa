// SPDX-License-Identifier: GPL-2.0

//! An ordinary user, who was given access to the files, and root in a user namespace.

use crate::kit::abi::{DATA, STATUS};
use crate::kit::child::{self, Child, Line};
use crate::kit::group::Group;
use crate::kit::os::{self, UNPRIVILEGED};
use crate::kit::tracefs;
use std::fs::{self, Metadata, Permissions};
use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Access of that user to some files, and only these; revoked when dropped.
pub struct Access {
    /// Each file, and its initial state.
    files: Vec<(PathBuf, Metadata)>,
}

fn state_of(path: impl Into<PathBuf>) -> (PathBuf, Metadata) {
    let path = path.into();
    let state = fs::metadata(&path).unwrap();
    (path, state)
}

impl Access {
    /// Gives access to the first group's data file and status file.
    pub fn given() -> Access {
        let mut access = Access::to(Path::new(DATA));
        access.files.push(state_of(STATUS));
        chown(STATUS, Some(UNPRIVILEGED), None).unwrap();
        access
    }

    /// Gives access to the data file of another group only, and hides the names of events, as the
    /// manual recommends.
    pub fn given_in(group: &Group) -> Access {
        let mut access = Access::to(&group.data());
        let (path, state) = state_of(Path::new(tracefs::ROOT).join("events"));
        fs::set_permissions(&path, Permissions::from_mode(state.mode() & !0o005)).unwrap();
        access.files.push((path, state));
        access
    }

    fn to(data: &Path) -> Access {
        let (root, state) = state_of(tracefs::ROOT);
        let mode = state.mode() | 0o001;
        let access = Access {
            files: vec![(root, state), state_of(data)],
        };
        fs::set_permissions(tracefs::ROOT, Permissions::from_mode(mode)).unwrap();
        chown(data, None, Some(UNPRIVILEGED)).unwrap();
        fs::set_permissions(data, Permissions::from_mode(0o660)).unwrap();
        access
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        for (path, state) in &self.files {
            // The files of a removed group are gone.
            if path.exists() {
                chown(path, Some(state.uid()), Some(state.gid())).unwrap();
                fs::set_permissions(path, state.permissions()).unwrap();
            }
        }
    }
}

pub fn fork_unprivileged(run: impl FnOnce(&mut Line)) -> Child {
    child::fork(|line| {
        os::become_unprivileged();
        run(line);
    })
}

/// Makes this process the root of a new user namespace, with no other user mapped.
pub fn become_root_of_a_namespace() {
    let (user, group) = effective_ids();
    // After a change of the user, a process that is not dumpable cannot write its own files in
    // /proc.
    // SAFETY: Takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    os::unshare(libc::CLONE_NEWUSER);
    for (file, text) in [
        ("setgroups", "deny".to_string()),
        ("uid_map", format!("0 {user} 1")),
        ("gid_map", format!("0 {group} 1")),
    ] {
        let written = fs::write(format!("/proc/self/{file}"), text);
        written.unwrap_or_else(|error| panic!("write {file}: {error}"));
    }
    assert_eq!(effective_ids(), (0, 0), "root of its namespace");
}

fn effective_ids() -> (u32, u32) {
    // SAFETY: Touch no memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}
