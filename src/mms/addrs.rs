// SPDX-License-Identifier: GPL-2.0

//! A few addresses of bits, or all of an mm.

use crate::sys::user_bit::BitAddr;

/// How many bits are listed one by one; if there are more, all of the mm are gone through.
const MAX_LISTED: usize = 4;

/// Which bits of an mm are to be written.
pub(super) struct BitAddrs {
    /// Those that are there come first.
    listed: [Option<BitAddr>; MAX_LISTED],
    /// All of the mm, whatever is listed.
    pub(super) all: bool,
    /// Are they to be written also if they are right, as what was written may get lost?
    pub(super) force: bool,
}

impl BitAddrs {
    /// None.
    pub(super) const NONE: Self = Self {
        listed: [None; MAX_LISTED],
        all: false,
        force: false,
    };

    /// Are there none?
    pub(super) fn is_empty(&self) -> bool {
        !self.all && self.listed().next().is_none()
    }

    /// Those that are listed one by one, in their order.
    pub(super) fn listed(&self) -> impl Iterator<Item = BitAddr> {
        let mut listed = self.listed;
        listed.sort_unstable();
        listed.into_iter().flatten()
    }

    /// Adds one.
    pub(super) fn add(&mut self, addr: BitAddr) {
        let free_or_same = |place: &&mut Option<BitAddr>| place.is_none_or(|other| other == addr);
        match self.listed.iter_mut().find(free_or_same) {
            Some(place) if !self.all => *place = Some(addr),
            _ => self.all = true,
        }
    }
}
