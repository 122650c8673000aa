// SPDX-License-Identifier: GPL-2.0

//! The ordinary user, whom the administrator has let use the files.

use crate::abi::{DATA, STATUS};
use crate::child::{self, Child, Line};
use crate::os::{self, NOBODY};
use crate::tracefs;
use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};

/// The two files are open to nobody, and only these. As it was before, when dropped.
pub struct Access;

impl Access {
    /// Gives it.
    pub fn given() -> Access {
        let access = Access;
        let mode = fs::metadata(tracefs::ROOT).unwrap().mode() & 0o7777;
        fs::set_permissions(tracefs::ROOT, Permissions::from_mode(mode | 0o001)).unwrap();
        chown(DATA, None, Some(NOBODY)).unwrap();
        fs::set_permissions(DATA, Permissions::from_mode(0o660)).unwrap();
        chown(STATUS, Some(NOBODY), None).unwrap();
        access
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        let mode = fs::metadata(tracefs::ROOT).unwrap().mode() & 0o7776;
        fs::set_permissions(tracefs::ROOT, Permissions::from_mode(mode)).unwrap();
        for (path, mode) in [(DATA, 0o640), (STATUS, 0o440)] {
            chown(path, Some(0), Some(0)).unwrap();
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
    }
}

/// A process of the ordinary user.
pub fn as_nobody(run: impl FnOnce(&mut Line)) -> Child {
    child::fork(|line| {
        os::become_nobody();
        run(line);
    })
}
