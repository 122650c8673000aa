// SPDX-License-Identifier: GPL-2.0

//! Registering and unregistering enablers, by a task of their mm.
//!
//! Both change an exclusive set, and take the locks in this order: [`UserMm::reg_mutex`], the mmap
//! lock, the set, the event. Memory is allocated with none of the last three held.

use super::enabler::Enabler;
use super::enabler_set::{
    ListMemory,
    NoRoom,
    NO_LIST_MEMORY, //
};
use super::fault_in::WriteRetries;
use super::mm::{
    UserMm,
    ALLOC_RETRY, //
};
use crate::events::EventRef;
use crate::sys::kernel_crate::prelude::*;
use crate::sys::user_bit::{
    BitAddr,
    BitWriteError,
    LockedMm,
    UserBit, //
};
use crate::sys::{
    mm_users,
    task, //
};
use core::iter;
use kernel::mm::MmWithUser;
use kernel::sync::Arc;
use kernel::time::delay::fsleep;

/// Why an enabler was not connected. It is in no list.
enum NotConnected<'a> {
    /// The set is shared with a child by now, which is to have what its parent had when it was
    /// forked.
    SetShared,
    /// A list has no room.
    NoRoom(NoRoom<'a>),
    /// The bit could not be written.
    BitNotWritten(BitWriteError),
}

impl UserMm {
    /// Registers `bit` for `event`, and writes the event's state to it. `mm` is the current task's,
    /// and this mm. Waits for the page.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` when the bit is registered already; `EFAULT` when it cannot be written;
    /// `ENOMEM`; `ENOSPC` when the mm has too many; `EINTR` and `ESRCH` to a task that ends.
    pub(crate) fn register(
        self: &Arc<Self>,
        mm: &MmWithUser,
        bit: UserBit,
        mut event: EventRef,
    ) -> Result {
        // Held while the page is waited for, which delays only the tasks of this mm.
        let _registering = self.reg_mutex.lock();
        // The caller checked this without the lock: another task may have registered the bit since.
        if self.has_enabler(bit.addr()) {
            return Err(EADDRINUSE);
        }
        loop {
            let set = self.exclusive_set()?;
            let enabler = Enabler::new(&set, bit, event)?;
            let mut memory = NO_LIST_MEMORY;
            // Bounded anew after each fork, so that forks cannot make this fail.
            let mut retries = WriteRetries::new(mm, &bit);
            loop {
                match self.try_connect(mm, &enabler, &mut memory) {
                    Ok(may_be_lost) => {
                        if may_be_lost {
                            self.repair_later(iter::once(&enabler), true);
                        }
                        return Ok(());
                    }
                    Err(NotConnected::SetShared) => break,
                    Err(NotConnected::NoRoom((memory, shortfall))) => memory.fill(shortfall)?,
                    Err(NotConnected::BitNotWritten(error)) => retries.prepare_retry(error)?,
                }
            }
            event = enabler.event().get();
        }
    }

    /// Adds an enabler to its set and its event, and writes its bit, if the page is there. Returns
    /// whether the write may be lost with the page. `reg_mutex` is held. Sleeps for the locks, and
    /// does not allocate.
    fn try_connect<'a>(
        &self,
        mm: &MmWithUser,
        enabler: &Arc<Enabler>,
        [for_set, for_event]: &'a mut ListMemory,
    ) -> Result<bool, NotConnected<'a>> {
        // Checked before the set: each fork by a thread that has exited by now has its reference to
        // the set. After the write of the bit it would be too late: a thread could take a reference
        // and exit in between, and its child would miss the change.
        let may_be_forking = mm_users::is_shared(mm);
        let locked_mm = LockedMm::lock(mm);
        let mut of_set = enabler.set().lock();
        // A child that is forked from here on waits for the set before it runs.
        if !self.is_exclusive() {
            return Err(NotConnected::SetShared);
        }
        let mut of_event = enabler.event().lock_enablers();
        let value = of_event.value();
        let in_set = (of_set.try_insert(enabler, for_set))
            .map_err(|shortfall| NotConnected::NoRoom((for_set, shortfall)))?;
        let in_event = (of_event.try_insert(enabler, for_event))
            .map_err(|shortfall| NotConnected::NoRoom((for_event, shortfall)))?;
        let written = locked_mm.write_page(enabler.bit().address(), false, |page| {
            page.set(enabler.bit(), value);
        });
        let may_be_lost = written == Err(BitWriteError::Busy);
        if let Some(error) = written.err().filter(|_| !may_be_lost) {
            return Err(NotConnected::BitNotWritten(error));
        }
        in_event.keep();
        in_set.keep();
        drop(of_event);
        // Another thread may be forking, and may have copied the memory for its child before the
        // bit was written.
        if may_be_forking {
            enabler.set().members.begin_write().changed = true;
        }
        Ok(may_be_lost)
    }

    /// Removes an enabler and clears its bit. `mm` is the current task's, and this mm. Waits for
    /// the page, and, if the set is shared, for memory, until the current task is killed.
    ///
    /// # Errors
    ///
    /// `ENOENT` when there is no enabler for the bit; `EFAULT` when the enabler was removed, and
    /// the bit could not be cleared; `EINTR`.
    pub(crate) fn unregister(self: &Arc<Self>, mm: &MmWithUser, addr: BitAddr) -> Result {
        // Held until the bit is clear, so that a new registration of the bit comes after.
        let _registering = self.reg_mutex.lock();
        let enabler = loop {
            let set = match self.set().ok_or(ENOENT)? {
                (own, true) => Ok(own),
                // A shared set is copied only if it has the enabler.
                (shared, false) if shared.get(addr).is_none() => return Err(ENOENT),
                _ => self.exclusive_set(),
            };
            let set = match set {
                Err(error) if error == ENOMEM && !task::fatal_signal_pending() => {
                    fsleep(ALLOC_RETRY);
                    continue;
                }
                set => set?,
            };
            let mut of_set = set.lock();
            // A child that is forked from here on waits for the set before it runs. If it does not
            // have the enabler, its bit is not written either.
            if !self.is_exclusive() {
                continue;
            }
            let enabler = of_set.remove(|enabler| enabler.addr().cmp(&addr));
            let enabler = enabler.ok_or(ENOENT)?;
            enabler.event().lock_enablers().remove(&enabler);
            break enabler;
        };
        // `ENOMEM` would mean that the enabler is still there.
        clear_bit(mm, enabler.bit()).map_err(|error| if error == ENOMEM { EFAULT } else { error })
    }
}

/// Clears a bit of the current task's mm. Sleeps; takes the mmap lock.
///
/// # Errors
///
/// Those of [`WriteRetries::prepare_retry`].
fn clear_bit(mm: &MmWithUser, bit: &UserBit) -> Result {
    if bit.clear_current(mm) {
        return Ok(());
    }
    let mut retries = WriteRetries::new(mm, bit);
    let mut force = false;
    loop {
        let locked = LockedMm::lock(mm);
        let written = locked.write_page(bit.address(), force, |page| {
            page.set(bit, false);
        });
        force |= written == Err(BitWriteError::Busy);
        drop(locked);
        match written {
            Ok(_) => return Ok(()),
            Err(error) => match retries.prepare_retry(error) {
                // A page that cannot be pinned may be there now.
                Err(_) if bit.clear_current(mm) => return Ok(()),
                tried => tried?,
            },
        }
    }
}
