// SPDX-License-Identifier: GPL-2.0

//! Error numbers that print as their names.

use std::fmt::{self, Debug};
use std::io;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Errno(pub i32);

pub type Result<T> = std::result::Result<T, Errno>;

macro_rules! errnos {
    ($($name:ident),*) => {
        impl Errno {
            $(pub const $name: Errno = Errno(libc::$name);)*

            fn name(self) -> Option<&'static str> {
                match self {
                    $(Errno::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos!(
    E2BIG, EACCES, EADDRINUSE, EAGAIN, EBADF, EBUSY, ECHILD, EDQUOT, EEXIST, EFAULT, EINTR, EINVAL,
    EIO, EMFILE, ENODEV, ENOENT, ENOMEM, ENOSPC, ENOSYS, ENOTDIR, ENOTTY, ENXIO, EPERM, ESPIPE,
    ESRCH
);

impl Errno {
    /// The error of this thread's last system call.
    pub fn last() -> Errno {
        io::Error::last_os_error().into()
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Errno {
        // Errors of std itself have no number, such as WriteZero.
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error {}", self.0),
        }
    }
}

/// Fails the test unless a call failed with this error. `rule` and `case` go into the message.
#[track_caller]
pub fn fails<T: Debug>(rule: &str, case: &str, got: Result<T>, want: Errno) {
    match got {
        Err(errno) if errno == want => {}
        got => panic!("{rule}, {case}: want {want:?}, got {got:?}"),
    }
}

/// The value of a successful call, or `None` if it failed with one of these errors. Fails the test
/// otherwise.
#[track_caller]
pub fn allow<T>(what: &str, got: Result<T>, allowed: &[Errno]) -> Option<T> {
    match got {
        Ok(value) => Some(value),
        Err(errno) if allowed.contains(&errno) => None,
        Err(errno) => panic!("{what}: {errno:?}"),
    }
}
