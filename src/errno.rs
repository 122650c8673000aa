// SPDX-License-Identifier: GPL-2.0

//! The schema's errors as those of the kernel crate.

use crate::schema;
use kernel::prelude::*;

impl From<schema::Error> for Error {
    /// C: the errnos of include/uapi/asm-generic/errno-base.h.
    fn from(error: schema::Error) -> Self {
        match error.errno() {
            schema::Errno::Inval => EINVAL,
            schema::Errno::TooBig => E2BIG,
            schema::Errno::Fault => EFAULT,
        }
    }
}
