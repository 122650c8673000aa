// SPDX-License-Identifier: GPL-2.0

//! A few addresses of bits, or all of an mm.

use super::enabler::EnableAddr;
use core::mem;
use core::num::NonZero;

/// How many bits are listed one by one; if there are more, all of the mm are gone through.
const MAX_LISTED: usize = 4;

/// An address in eight bytes: each mm has some.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PackedAddr(NonZero<u64>);

/// Bits of a bit's number.
const BIT_BITS: u32 = 6;

impl PackedAddr {
    /// `None` for what is no address of user space, which ends far below.
    fn new(addr: EnableAddr) -> Option<Self> {
        let packed = (addr.addr as u64).checked_mul(1 << BIT_BITS)? | u64::from(addr.bit);
        NonZero::new(packed.checked_add(1)?).map(Self)
    }

    fn unpack(self) -> EnableAddr {
        let packed = self.0.get() - 1;
        let bit = packed & ((1 << BIT_BITS) - 1);
        EnableAddr {
            addr: (packed >> BIT_BITS) as usize,
            bit: bit as u8,
        }
    }
}

/// Which bits of an mm are to be written.
pub(super) struct EnableAddrs {
    /// Those that are there come first.
    listed: [Option<PackedAddr>; MAX_LISTED],
    /// All of the mm, whatever is listed.
    pub(super) all: bool,
}

impl EnableAddrs {
    /// None.
    pub(super) const NONE: Self = Self {
        listed: [None; MAX_LISTED],
        all: false,
    };

    /// Are there none?
    pub(super) fn is_empty(&self) -> bool {
        !self.all && self.listed().next().is_none()
    }

    /// Those that are listed one by one.
    pub(super) fn listed(&self) -> impl Iterator<Item = EnableAddr> + '_ {
        self.listed
            .iter()
            .map_while(|addr| addr.map(PackedAddr::unpack))
    }

    /// Adds one.
    pub(super) fn add(&mut self, addr: EnableAddr) {
        let packed = PackedAddr::new(addr);
        let free_or_same = |place: &&mut Option<PackedAddr>| place.is_none() || **place == packed;
        match self.listed.iter_mut().find(free_or_same) {
            Some(place) if packed.is_some() && !self.all => *place = packed,
            _ => self.add_all(),
        }
    }

    fn add_all(&mut self) {
        *self = Self {
            all: true,
            ..Self::NONE
        };
    }

    /// Adds those of `others`.
    pub(super) fn add_these(&mut self, others: &Self) {
        if others.all {
            self.add_all();
        }
        for addr in others.listed() {
            self.add(addr);
        }
    }

    /// Takes all out.
    pub(super) fn take(&mut self) -> Self {
        mem::replace(self, Self::NONE)
    }
}
