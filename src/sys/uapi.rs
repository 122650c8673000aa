// SPDX-License-Identifier: GPL-2.0

//! The arguments and numbers of the ioctls, by bindgen: include/uapi/linux/user_events.h.

pub(crate) use super::bindings::{
    user_reg,
    user_reg_flag_USER_EVENT_REG_MULTI_FORMAT as USER_EVENT_REG_MULTI_FORMAT,
    user_reg_flag_USER_EVENT_REG_PERSIST as USER_EVENT_REG_PERSIST,
    user_unreg,
    USER_EVENTS_IOCSDEL as DIAG_IOCSDEL,
    USER_EVENTS_IOCSREG as DIAG_IOCSREG,
    USER_EVENTS_IOCSUNREG as DIAG_IOCSUNREG, //
};

use core::mem::offset_of;
use kernel::transmute::FromBytes;

const _: () = {
    assert!(size_of::<user_reg>() == 28);
    assert!(offset_of!(user_reg, enable_bit) == 4);
    assert!(offset_of!(user_reg, enable_size) == 5);
    assert!(offset_of!(user_reg, flags) == 6);
    assert!(offset_of!(user_reg, enable_addr) == 8);
    assert!(offset_of!(user_reg, name_args) == 16);
    assert!(offset_of!(user_reg, write_index) == 24);

    assert!(size_of::<user_unreg>() == 16);
    assert!(offset_of!(user_unreg, disable_bit) == 4);
    assert!(offset_of!(user_unreg, __reserved) == 5);
    assert!(offset_of!(user_unreg, __reserved2) == 6);
    assert!(offset_of!(user_unreg, disable_addr) == 8);
};

// SAFETY: The members are integers, of which all values are valid.
unsafe impl FromBytes for user_reg {}
// SAFETY: As above.
unsafe impl FromBytes for user_unreg {}
