// SPDX-License-Identifier: GPL-2.0

//! An ordinary user, who was given access to the files.

use crate::kit::abi::{DATA, STATUS};
use crate::kit::child::{self, Child, Line};
use crate::kit::group::Group;
use crate::kit::os::{self, UNPRIVILEGED};
use crate::kit::tracefs;
use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Access of that user to some files, and only these; revoked when dropped.
pub struct Access {
    files: Vec<Before>,
}

struct Before {
    path: PathBuf,
    mode: u32,
    owner: (u32, u32),
}

impl Before {
    fn of(path: &Path) -> Before {
        let file = fs::metadata(path).unwrap();
        Before {
            path: path.into(),
            mode: file.mode() & 0o7777,
            owner: (file.uid(), file.gid()),
        }
    }

    fn restore(&self) {
        let (user, group) = self.owner;
        // The files of a removed group are gone.
        if self.path.exists() {
            chown(&self.path, Some(user), Some(group)).unwrap();
            fs::set_permissions(&self.path, Permissions::from_mode(self.mode)).unwrap();
        }
    }
}

impl Access {
    /// Gives access to the first group's data file and status file.
    pub fn given() -> Access {
        let mut access = Access::to(Path::new(DATA));
        access.files.push(Before::of(Path::new(STATUS)));
        chown(STATUS, Some(UNPRIVILEGED), None).unwrap();
        access
    }

    /// Gives access to the data file of another group only, and hides the names of events, as the
    /// manual recommends.
    pub fn given_in(group: &Group) -> Access {
        let mut access = Access::to(&group.data());
        let events = Before::of(&Path::new(tracefs::ROOT).join("events"));
        let hidden = Permissions::from_mode(events.mode & !0o005);
        fs::set_permissions(&events.path, hidden).unwrap();
        access.files.push(events);
        access
    }

    fn to(data: &Path) -> Access {
        let root = Before::of(Path::new(tracefs::ROOT));
        let mode = root.mode | 0o001;
        let access = Access {
            files: vec![root, Before::of(data)],
        };
        fs::set_permissions(tracefs::ROOT, Permissions::from_mode(mode)).unwrap();
        chown(data, None, Some(UNPRIVILEGED)).unwrap();
        fs::set_permissions(data, Permissions::from_mode(0o660)).unwrap();
        access
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        self.files.iter().for_each(Before::restore);
    }
}

pub fn fork_unprivileged(run: impl FnOnce(&mut Line)) -> Child {
    child::fork(|line| {
        os::become_unprivileged();
        run(line);
    })
}
