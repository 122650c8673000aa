// SPDX-License-Identifier: GPL-2.0

//! The ordinary user, whom the administrator has let use the files.

use crate::kit::abi::{DATA, STATUS};
use crate::kit::child::{self, Child, Line};
use crate::kit::os::{self, UNPRIVILEGED};
use crate::kit::tracefs;
use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};

/// The two files are open to that user, and only these. As it was before, when dropped.
pub struct Access {
    root: Before,
    files: [Before; 2],
}

/// How a file was.
struct Before {
    path: &'static str,
    mode: u32,
    owner: (u32, u32),
}

impl Before {
    fn of(path: &'static str) -> Before {
        let file = fs::metadata(path).unwrap();
        Before {
            path,
            mode: file.mode() & 0o7777,
            owner: (file.uid(), file.gid()),
        }
    }

    fn restore(&self) {
        let (user, group) = self.owner;
        chown(self.path, Some(user), Some(group)).unwrap();
        fs::set_permissions(self.path, Permissions::from_mode(self.mode)).unwrap();
    }
}

impl Access {
    /// Gives it.
    pub fn given() -> Access {
        let access = Access {
            root: Before::of(tracefs::ROOT),
            files: [DATA, STATUS].map(Before::of),
        };
        let mode = access.root.mode | 0o001;
        fs::set_permissions(tracefs::ROOT, Permissions::from_mode(mode)).unwrap();
        chown(DATA, None, Some(UNPRIVILEGED)).unwrap();
        fs::set_permissions(DATA, Permissions::from_mode(0o660)).unwrap();
        chown(STATUS, Some(UNPRIVILEGED), None).unwrap();
        access
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        self.root.restore();
        self.files.iter().for_each(Before::restore);
    }
}

/// A process of the ordinary user.
pub fn fork_unprivileged(run: impl FnOnce(&mut Line)) -> Child {
    child::fork(|line| {
        os::become_unprivileged();
        run(line);
    })
}
