// SPDX-License-Identifier: GPL-2.0

//! One address space that has registered something.

use crate::enabler::Enabler;
use crate::event::Use;
use crate::processes::Processes;
use crate::registrations::{Membership, Registrations, Site};
use crate::sys::address_space::{self, Listener, Watch};
use crate::sys::remote_page::{NotWritten, UserBit};
use kernel::mm::{Mm, MmWithUser, MmapReadGuard};
use kernel::prelude::*;
use kernel::rbtree::RBTreeNode;
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, Mutex, SpinLock};
use kernel::time::{delay::fsleep, Delta};
use kernel::workqueue::{self, Work, WorkItem};
use kernel::{new_mutex, new_spinlock, new_work};

/// How often a page is brought in before it is given up: enough for one that is swapped out or
/// copied meanwhile, an end to one that is unmapped in a loop.
const MOST_FAULTS: usize = 10;

/// How often a page is waited for that somebody has locked, and how long each time: ten seconds, an
/// eternity for what is done with a locked page.
const MOST_WAITS: usize = 10_000;
const WAIT: Delta = Delta::from_millis(1);

/// How often a page fault that nobody answers is tried again. The pauses double, so that the last
/// try is a quarter of an hour after the first.
const MOST_RETRIES: u32 = 10;

/// How many bits are repaired one by one; if more are to be, all of the process are gone through.
const MOST_REPAIRS: usize = 16;

/// An address space, and its share in a set of registrations.
#[pin_data]
pub(crate) struct Process {
    mm: ARef<Mm>,
    processes: Arc<Processes>,
    /// Held while the process changes its registrations.
    #[pin]
    changes: Mutex<Option<Watch<Process>>>,
    /// Empty when the address space has ended.
    #[pin]
    membership: SpinLock<Option<Membership>>,
    #[pin]
    repairs: SpinLock<Repairs>,
    #[pin]
    work: Work<Process>,
}

/// What a bit looks like in the memory of a process.
pub(crate) struct Sight {
    /// Is it set? `None` if it cannot be seen now.
    pub(crate) is_set: Option<bool>,
    /// May it not say what it should, and is that being mended?
    pub(crate) is_due: bool,
}

/// Bits that could not be written when they should have been.
struct Repairs {
    /// Each at most once.
    sites: KVec<Site>,
    all: bool,
    /// How often faults have gone unanswered since the last change.
    retries: u32,
    /// Is a retry to come?
    is_postponed: bool,
    /// Is the work queue at them?
    is_under_way: bool,
}

/// Whose page faults are waited for.
#[derive(Clone, Copy)]
enum Faults {
    /// The current task's own, until it is killed.
    Own,
    /// Somebody else's, for a moment.
    Foreign,
}

workqueue::impl_has_work! {
    impl HasWork<Self> for Process { self.work }
}

impl Process {
    /// A process that nobody knows yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        mm: &MmWithUser,
        processes: &Arc<Processes>,
        membership: Membership,
    ) -> Result<Arc<Self>> {
        let mm: &Mm = mm;
        let sites = KVec::with_capacity(MOST_REPAIRS, GFP_KERNEL_ACCOUNT)?;
        let process = Arc::pin_init(
            try_pin_init!(Self {
                mm: ARef::from(mm),
                processes: processes.clone(),
                changes <- new_mutex!(None, "Process::changes"),
                membership <- new_spinlock!(None, "Process::membership"),
                repairs <- new_spinlock!(
                    Repairs {
                        sites,
                        all: false,
                        retries: 0,
                        is_postponed: false,
                        is_under_way: false,
                    },
                    "Process::repairs"
                ),
                work <- new_work!("Process::work"),
            }? Error),
            GFP_KERNEL_ACCOUNT,
        )?;
        let node = RBTreeNode::new(process.key(), process.clone(), GFP_KERNEL_ACCOUNT)?;
        membership.registrations().join(node);
        *process.membership.lock() = Some(membership);
        Ok(process)
    }

    /// The address space.
    pub(crate) fn mm(&self) -> &Mm {
        &self.mm
    }

    /// The address space as a key. Unique for as long as the process exists.
    pub(crate) fn key(&self) -> usize {
        key(&self.mm)
    }

    /// Keeps what tells of the address space's end.
    pub(crate) fn set_watch(&self, watch: Watch<Process>) {
        *self.changes.lock() = Some(watch);
    }

    /// Gives up the process's share in its registrations, and stops waiting for its end.
    pub(crate) fn withdraw(&self) {
        let watch = self.changes.lock().take();
        let membership = self.membership.lock().take();
        if let Some(membership) = &membership {
            membership.registrations().leave(self);
        }
        drop((watch, membership));
    }

    /// A share in the process's registrations, for a child. Any context.
    pub(crate) fn share(&self) -> Option<Membership> {
        self.membership.lock().as_ref().map(Membership::share)
    }

    /// The registrations, and whether they are this process's alone.
    fn registrations(&self) -> Option<(Arc<Registrations>, bool)> {
        let membership = self.membership.lock();
        let membership = membership.as_ref()?;
        Some((membership.registrations().clone(), membership.is_alone()))
    }

    /// Are these the process's registrations?
    fn has_set(&self, registrations: &Arc<Registrations>) -> bool {
        let membership = self.membership.lock();
        let membership = membership.as_ref();
        membership.is_some_and(|share| Arc::ptr_eq(share.registrations(), registrations))
    }

    /// Are the registrations this process's alone?
    fn is_alone(&self) -> bool {
        let membership = self.membership.lock();
        membership.as_ref().is_some_and(Membership::is_alone)
    }

    /// Is something registered for this bit?
    pub(crate) fn has(&self, address: usize, bit: u8) -> bool {
        self.registrations()
            .is_some_and(|(registrations, _)| registrations.get(&(address, bit)).is_some())
    }

    /// Registrations that are this process's alone, so that they can be changed. `changes` is held.
    fn own_registrations(self: &Arc<Self>) -> Result<Arc<Registrations>> {
        let (shared, is_alone) = self.registrations().ok_or(ESRCH)?;
        if is_alone {
            return Ok(shared);
        }
        let copy = shared.copy(self)?;
        let own = copy.registrations().clone();
        shared.leave(self);
        let share = self.membership.lock().replace(copy);
        drop(share);
        Ok(own)
    }

    /// Registers `bit` for `event`. On success the bit tells the event's state. `mm` is the
    /// caller's, and this process's, address space. Waits for the page.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` when the bit is registered already, `EFAULT` when it cannot be written,
    /// `ENOMEM`.
    pub(crate) fn register(
        self: &Arc<Self>,
        mm: &MmWithUser,
        bit: UserBit,
        mut event: Use,
    ) -> Result {
        // Held while the page is waited for: that holds up this process alone.
        let _changes = self.changes.lock();
        if self.has(bit.address(), bit.bit()) {
            return Err(EADDRINUSE);
        }
        loop {
            let registrations = self.own_registrations()?;
            let enabler = Enabler::new(&registrations, bit, event)?;
            let is_registered = with_page(mm, &bit, Faults::Own, |locked| {
                registrations.insert_if(&enabler, || {
                    if !self.is_alone() {
                        return Ok(false);
                    }
                    // Another thread may be forking, and the child's memory have been copied before
                    // the bit is written here.
                    if address_space::is_shared(mm) {
                        registrations.note_change();
                    }
                    let event = enabler.event();
                    event.connect(&enabler, |on| bit.store(mm, locked, on))?;
                    Ok(true)
                })
            })?;
            if is_registered {
                return Ok(());
            }
            // Shared with a child by now. It is not to have what it began without.
            event = enabler.event().again();
        }
    }

    /// Ends a registration and clears its bit. `mm` is the caller's, and this process's, address
    /// space. Waits for the page.
    ///
    /// # Errors
    ///
    /// `ENOENT` when nothing is registered there; `EFAULT` when it was, and is not any more, but
    /// the bit could not be cleared; `ENOMEM`, and it still is.
    pub(crate) fn unregister(self: &Arc<Self>, mm: &MmWithUser, address: usize, bit: u8) -> Result {
        // Held until the bit is clear, so that a new registration of it comes after.
        let _changes = self.changes.lock();
        let site = (address, bit);
        let enabler = loop {
            let registrations = match self.registrations().ok_or(ENOENT)? {
                (own, true) => own,
                // A set that is shared is not copied for nothing.
                (shared, false) if shared.get(&site).is_none() => return Err(ENOENT),
                _ => self.own_registrations()?,
            };
            // Another thread may be forking.
            if let Some(removed) = registrations.remove_if(&site, || self.is_alone()) {
                break removed.ok_or(ENOENT)?;
            }
        };
        enabler.event().disconnect(&enabler);
        let bit = enabler.bit();
        if bit.clear_own() {
            return Ok(());
        }
        with_page(mm, bit, Faults::Own, |locked| bit.store(mm, locked, false))
    }

    /// Writes a bit, if that can be done without waiting for the process in any way. Returns
    /// whether there is nothing left to be done: it was written, or the process is gone.
    pub(crate) fn try_write(&self, bit: &UserBit, on: bool) -> bool {
        let Some(mm) = self.mm.mmget_not_zero() else {
            return true;
        };
        // The last reference to an address space is heavy, and `event_mutex` may be held.
        let mm = MmWithUser::into_mmput_async(mm);
        let Some(locked) = mm.mmap_read_trylock() else {
            return false;
        };
        bit.store(&mm, &locked, on).is_ok()
    }

    /// Are bits waiting to be repaired? Any context.
    fn has_repairs(&self) -> bool {
        let repairs = self.repairs.lock();
        repairs.all || repairs.is_under_way || repairs.is_postponed || !repairs.sites.is_empty()
    }

    /// Has the bit at a site written by the work queue. Any context.
    pub(crate) fn repair_later(self: &Arc<Self>, site: Site) {
        let mut repairs = self.repairs.lock();
        repairs.retries = 0;
        let is_listed = repairs.all || repairs.sites.contains(&site);
        if !is_listed && repairs.sites.push_within_capacity(site).is_err() {
            repairs.all = true;
            repairs.sites.clear();
        }
        drop(repairs);
        self.enqueue();
    }

    /// Has all bits written again: it is time for another try. Any context.
    pub(crate) fn retry(self: &Arc<Self>) {
        let mut repairs = self.repairs.lock();
        repairs.is_postponed = false;
        repairs.all = true;
        repairs.sites.clear();
        drop(repairs);
        self.enqueue();
    }

    /// Plans another try, since a fault was not answered in time.
    fn postpone(self: &Arc<Self>) {
        let mut repairs = self.repairs.lock();
        repairs.is_under_way = false;
        if repairs.is_postponed || repairs.retries >= MOST_RETRIES {
            return;
        }
        let pause = 1 << repairs.retries;
        repairs.retries += 1;
        repairs.is_postponed = true;
        drop(repairs);
        let pause = Delta::from_secs(pause);
        if self.processes.retry_after(self, pause).is_err() {
            // Out of memory. Hold this worker up, rather than forget the bit.
            fsleep(WAIT);
            self.retry();
        }
    }

    fn enqueue(self: &Arc<Self>) {
        // Already queued is as good.
        let _ = self.processes.queue().enqueue::<_, 0>(self.clone());
    }

    /// The first registration at or behind a site.
    pub(crate) fn registration_from(&self, site: &Site) -> Option<Arc<Enabler>> {
        let (registrations, _) = self.registrations()?;
        registrations.get_from(site)
    }

    /// Looks at a bit, without waiting for the process in any way. `None` if it is not registered
    /// any more.
    pub(crate) fn look(&self, enabler: &Enabler) -> Option<Sight> {
        let mm = MmWithUser::into_mmput_async(self.mm.mmget_not_zero()?);
        let locked = mm.mmap_read_trylock();
        let mut sight = None;
        // With the event's lock held a bit is what it should be, or due, or was given up.
        let _ = enabler.event().rewrite(enabler, |on| {
            let locked = locked.as_ref();
            let is_set = locked.and_then(|locked| enabler.bit().load(&mm, locked));
            sight = Some(Sight {
                is_set,
                is_due: is_set != Some(on) && self.has_repairs(),
            });
            Ok::<_, Error>(())
        });
        sight
    }

    /// Writes all bits of the process anew: it is the current task's and a child, and an event may
    /// have changed since its memory was copied.
    pub(crate) fn rewrite_own(&self) {
        // Cut short only if the child is killed.
        let _ = self.rewrite_all(Faults::Own);
    }

    /// Writes all bits of the process anew.
    ///
    /// # Errors
    ///
    /// As [`Process::repair`], for any of them.
    fn rewrite_all(&self, faults: Faults) -> Result {
        let mut result = Ok(());
        let mut from = (0, 0);
        while let Some((registrations, _)) = self.registrations() {
            let Some(enabler) = registrations.get_from(&from) else {
                break;
            };
            result = self.repair(&enabler, faults).and(result);
            let (address, bit) = enabler.site();
            from = (address, bit + 1);
        }
        result
    }

    /// Brings in the page of an enabler's bit and writes it. Waits for the mmap lock, which may be
    /// contended for as long as the process likes. What cannot be written as things are is left
    /// alone until the event changes again.
    ///
    /// # Errors
    ///
    /// `EINTR` when nobody brought the page in, so that it is worth another try.
    fn repair(&self, enabler: &Enabler, faults: Faults) -> Result {
        let bit = enabler.bit();
        let Some(mm) = self.mm.mmget_not_zero() else {
            return Ok(());
        };
        // Given back before a pause, so that a process can end: after MOST_FAULTS faults at most.
        let mm = MmWithUser::into_mmput_async(mm);
        let result = with_page(&mm, bit, faults, |locked| {
            enabler.event().rewrite(enabler, |on| {
                // It stays connected for others when this process gets a copy, which it may have
                // unregistered since. Whoever does that waits for the lock held here before it
                // clears the bit.
                if !self.has_set(enabler.registrations()) {
                    return Ok(());
                }
                bit.store(&mm, locked, on)
            })
        });
        match result {
            Err(error) if error == EINTR => Err(EINTR),
            _ => Ok(()),
        }
    }
}

/// Calls `write` with the mmap lock held, and again each time the page of `bit` was not there and
/// has been brought in. Waits for both. Returns what it returns.
///
/// # Errors
///
/// `ENOMEM`; `EFAULT` when the page cannot be brought in, or does not stay; `EINTR` when nobody
/// brings it in, or the current task is killed.
fn with_page<T>(
    mm: &MmWithUser,
    bit: &UserBit,
    faults: Faults,
    mut write: impl FnMut(&MmapReadGuard<'_>) -> Result<T, NotWritten>,
) -> Result<T> {
    let mut faults_left = MOST_FAULTS;
    let mut waits_left = MOST_WAITS;
    while faults_left != 0 && waits_left != 0 {
        let locked = mm.mmap_read_lock();
        let written = write(&locked);
        drop(locked);
        match written {
            Ok(result) => return Ok(result),
            Err(NotWritten::NotPresent) => {
                faults_left -= 1;
                let present = match faults {
                    Faults::Own => bit.fault_in(mm),
                    Faults::Foreign => bit.fault_in_briefly(mm),
                };
                present.map_err(|error| if error == EINTR { error } else { EFAULT })?;
            }
            Err(NotWritten::NoMemory) => return Err(ENOMEM),
            Err(NotWritten::Busy) => {
                waits_left -= 1;
                fsleep(WAIT);
            }
        }
    }
    Err(EFAULT)
}

impl WorkItem for Process {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut result = Ok(());
        loop {
            // Out of the list before it is written: whoever changes the event from here on either
            // is seen by the repair, or lists the site again.
            let mut repairs = this.repairs.lock();
            let all = core::mem::take(&mut repairs.all);
            let site = repairs.sites.pop();
            // Until it is known whether there is to be a retry, too.
            repairs.is_under_way = all || site.is_some() || result.is_err();
            drop(repairs);
            if all {
                result = this.rewrite_all(Faults::Foreign).and(result);
                continue;
            }
            let Some(site) = site else {
                break;
            };
            let enabler = this
                .registrations()
                .and_then(|(registrations, _)| registrations.get(&site));
            if let Some(enabler) = enabler {
                result = this.repair(&enabler, Faults::Foreign).and(result);
            }
        }
        if result.is_err() {
            this.postpone();
        }
    }
}

impl Listener for Process {
    fn ended(&self) {
        self.processes.forget(self);
        self.withdraw();
    }
}

/// An address space as a key.
pub(crate) fn key(mm: &Mm) -> usize {
    mm.as_raw() as usize
}
