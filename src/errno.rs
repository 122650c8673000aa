// SPDX-License-Identifier: GPL-2.0

//! The schema's errors as the kernel's.

use crate::schema;
use kernel::prelude::*;

impl From<schema::Error> for Error {
    fn from(error: schema::Error) -> Self {
        match error.errno() {
            schema::Errno::Inval => EINVAL,
            schema::Errno::TooBig => E2BIG,
            schema::Errno::Fault => EFAULT,
        }
    }
}
