// SPDX-License-Identifier: GPL-2.0

//! One address space that has registered something.
//!
//! A bit is changed in one of four ways, the first that works:
//!
//! 1. at once, by the task that changes the event's state: the page is there, and its locks are free;
//! 2. by the work queue, where the page can be brought in with no waiting, or a lock has to be tried again:
//!    anonymous memory and files in memory;
//! 3. by a second work queue, where a handler of userfaultfd has to be asked for the page: for a short time,
//!    and again after a longer one;
//! 4. by the process's own threads, before they return to user space, where a file system has to be asked:
//!    so what that takes, and whether it ever comes, is the process's own matter.

use crate::enabler::Enabler;
use crate::event::Use;
use crate::processes::Processes;
use crate::registrations::{self, Membership, Registrations, Site};
use crate::sys::address_space;
use crate::sys::clock;
use crate::sys::process_list::{self, ListedThread};
use crate::sys::remote_page::{Bring, LockedMm, NotWritten, Server, UserBit};
use crate::sys::task_work::{self, Reservation, TaskWork};
use core::array;
use kernel::list::{impl_list_arc_safe, impl_list_item, AtomicTracker, ListLinks, TryNewListArc};
use kernel::mm::{Mm, MmWithUser};
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::{Arc, Mutex, SpinLock};
use kernel::time::{delay::fsleep, Delta};
use kernel::workqueue::{self, Work, WorkItem};
use kernel::{new_mutex, new_spinlock, new_work};

/// How often a process brings a page of its own in before it is given up: enough for one that is swapped
/// out or copied meanwhile, an end to one that is unmapped in a loop.
const MAX_FAULTS: usize = 10;

/// How often a process waits for a page of its own that is locked, and how long each time: ten seconds, an
/// eternity for what is done with a locked page.
const MAX_WAITS: usize = 10_000;
const WAIT: Delta = Delta::from_millis(1);

/// The first pause before something is tried again, in nanoseconds. Each is twice as long as the one
/// before.
const FIRST_PAUSE: u64 = 10_000_000;

/// The longest pause is so many doublings longer: 1.28 s; where a handler of userfaultfd is asked, 10.24 s.
const MAX_DOUBLINGS: u32 = 7;
const MAX_DOUBLINGS_ASKING: u32 = 10;

/// How long a handler of userfaultfd is waited for at first, in milliseconds, and how many doublings longer
/// at most: 80 ms.
const FIRST_ASKING: u32 = 10;
const MAX_DOUBLINGS_OF_ASKING: u32 = 3;

/// How many bits are repaired one by one; if more are to be, all of the process are gone through.
const MAX_SITES: usize = 4;

/// How many bits are repaired with one pin of their page, at most.
const MAX_BITS_AT_ONCE: usize = 32;

/// An address space, and its share in a set of registrations.
#[pin_data]
pub(crate) struct Process {
    mm: ARef<Mm>,
    processes: Arc<Processes>,
    /// Held while the process changes its registrations.
    #[pin]
    changes: Mutex<()>,
    #[pin]
    membership: SpinLock<Joined>,
    #[pin]
    repairs: SpinLock<Repairs>,
    /// When it is to be looked at again, in nanoseconds since boot.
    due_at: Atomic<u64>,
    #[pin]
    work: Work<Process>,
    #[pin]
    asking: Work<Process, 1>,
    /// For [`Retries`](crate::retries::Retries).
    #[pin]
    is_listed: AtomicTracker,
    #[pin]
    links: ListLinks,
}

/// What a process has of a set of registrations.
struct Joined {
    /// Empty when the address space has ended.
    membership: Option<Membership>,
    /// Memory for the work that ends the process, for the task that leaves it last.
    ending: Option<Reservation<Ending>>,
    /// The task that forked last, and the number of the last change then.
    last_fork: (usize, u64),
}

/// What a child gets of its parent.
pub(crate) struct Inheritance {
    pub(crate) membership: Membership,
    /// The number of a change that was made before the child's memory was copied; `None` if the copy may
    /// be wrong in any case.
    known: Option<u64>,
}

impl Inheritance {
    /// May a bit be wrong in the child's memory? Asked by the child, as a member.
    pub(crate) fn may_be_stale(&self) -> bool {
        let registrations = self.membership.registrations();
        self.known
            .is_none_or(|known| registrations.has_changed_since(known))
    }
}

/// What a bit looks like in the memory of a process.
pub(crate) struct Sight {
    /// Is it set? `None` if it cannot be seen now.
    pub(crate) is_set: Option<bool>,
    /// May it not say what it should, and is that being mended?
    pub(crate) is_due: bool,
}

/// Which bits are to be written.
struct Sites {
    sites: [Site; MAX_SITES],
    count: usize,
    /// All of the process, whatever is listed.
    all: bool,
}

impl Sites {
    /// None.
    const NONE: Self = Self {
        sites: [(0, 0); MAX_SITES],
        count: 0,
        all: false,
    };

    fn is_empty(&self) -> bool {
        self.count == 0 && !self.all
    }

    fn listed(&self) -> &[Site] {
        self.sites.get(..self.count).unwrap_or_default()
    }

    fn add(&mut self, site: Site) {
        if self.all || self.listed().contains(&site) {
            return;
        }
        match self.sites.get_mut(self.count) {
            Some(place) => {
                *place = site;
                self.count += 1;
            }
            None => self.add_all(),
        }
    }

    fn add_all(&mut self) {
        self.all = true;
        self.count = 0;
    }

    fn add_these(&mut self, others: &Self) {
        if others.all {
            self.add_all();
        }
        for site in others.listed() {
            self.add(*site);
        }
    }

    fn take(&mut self) -> Self {
        core::mem::replace(self, Self::NONE)
    }
}

/// Bits that could not be written when they should have been, by who is to write them.
struct Repairs {
    /// The work queue.
    due: Sites,
    /// The work queue, with a handler of userfaultfd.
    asking: Sites,
    /// The process's own threads.
    own: Sites,
    /// How many tasks are at some that are in no list meanwhile.
    under_way: usize,
    /// How often the work queue has tried since the last change.
    tries: u32,
    /// Is it to be found out whether the address space has ended?
    is_in_doubt: bool,
    /// The threads that have been told to look at `own`, and have not yet.
    told: RBTree<usize, ()>,
}

/// What became of bits that the work queue was to write.
enum Outcome {
    /// There is nothing left to be done: written, given up, or the process is gone.
    Done,
    /// To be tried again.
    Later,
    /// To be done by another one.
    Other(Server),
}

workqueue::impl_has_work! {
    impl HasWork<Self> for Process { self.work }
    impl HasWork<Self, 1> for Process { self.asking }
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Process {
        tracked_by is_listed: AtomicTracker;
    }
}

impl_list_item! {
    impl ListItem<0> for Process {
        using ListLinks { self.links };
    }
}

impl Process {
    /// A process that is in no table yet.
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
        let joined = Joined {
            membership: None,
            ending: Some(Reservation::new(GFP_KERNEL_ACCOUNT)?),
            last_fork: (0, 0),
        };
        let repairs = Repairs {
            due: Sites::NONE,
            asking: Sites::NONE,
            own: Sites::NONE,
            under_way: 0,
            tries: 0,
            is_in_doubt: false,
            told: RBTree::new(),
        };
        let process = Arc::pin_init(
            pin_init!(Self {
                mm: ARef::from(mm),
                processes: processes.clone(),
                changes <- new_mutex!((), "Process::changes"),
                membership <- new_spinlock!(joined, "Process::membership"),
                repairs <- new_spinlock!(repairs, "Process::repairs"),
                due_at: Atomic::new(u64::MAX),
                work <- new_work!("Process::work"),
                asking <- new_work!("Process::asking"),
                is_listed <- AtomicTracker::new(),
                links <- ListLinks::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let node = RBTreeNode::new(process.key(), process.clone(), GFP_KERNEL_ACCOUNT)?;
        membership.registrations().join(node);
        process.membership.lock().membership = Some(membership);
        Ok(process)
    }

    /// The address space as a key. Unique for as long as the process exists.
    pub(crate) fn key(&self) -> usize {
        key(&self.mm)
    }

    /// Gives up the process's share in its registrations. May sleep.
    pub(crate) fn withdraw(&self) {
        let membership = self.membership.lock().membership.take();
        if let Some(membership) = &membership {
            membership.registrations().leave(self);
        }
        drop(membership);
    }

    /// A share in the process's registrations, for a child of the current task. Does not sleep.
    pub(crate) fn share(&self) -> Option<Inheritance> {
        let is_due = self.has_repairs();
        let task = task_work::current_task();
        let mut joined = self.membership.lock();
        let membership = joined.membership.as_ref()?.share();
        // What had changed when this task forked the last time is in the memory that it has just copied.
        let known = match joined.last_fork {
            (last, change) if last == task => change,
            _ => 0,
        };
        joined.last_fork = (task, registrations::last_change());
        Some(Inheritance {
            membership,
            known: (!is_due).then_some(known),
        })
    }

    /// The registrations, and whether they are this process's alone.
    fn registrations(&self) -> Option<(Arc<Registrations>, bool)> {
        let joined = self.membership.lock();
        let membership = joined.membership.as_ref()?;
        Some((membership.registrations().clone(), membership.is_alone()))
    }

    /// Are these the process's registrations?
    fn has_set(&self, registrations: &Arc<Registrations>) -> bool {
        let joined = self.membership.lock();
        let membership = joined.membership.as_ref();
        membership.is_some_and(|share| Arc::ptr_eq(share.registrations(), registrations))
    }

    /// Are the registrations this process's alone?
    fn is_alone(&self) -> bool {
        let joined = self.membership.lock();
        joined.membership.as_ref().is_some_and(Membership::is_alone)
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
        let share = self.membership.lock().membership.replace(copy);
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
            let is_registered = with_own_page(mm, &bit, |locked| {
                registrations.insert_if(&enabler, || {
                    if !self.is_alone() {
                        return Ok(false);
                    }
                    enabler
                        .event()
                        .connect(&enabler, |on| write_one(locked, &bit, on))?;
                    // Another thread may be forking, and the child's memory have been copied before
                    // the bit was written here.
                    if address_space::is_shared(mm) {
                        registrations.note_change();
                    }
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
        let bit = enabler.bit();
        if bit.clear_own() {
            return Ok(());
        }
        with_own_page(mm, bit, |locked| write_one(locked, bit, false))
    }

    /// Writes bits of one page, if that can be done without waiting for the process in any way. Else has
    /// them written later. The caller holds the lock of the event.
    pub(crate) fn write(self: &Arc<Self>, bits: &[UserBit], on: bool) {
        let Some(first) = bits.first() else {
            return;
        };
        let written = self.with_mm(|mm| {
            let locked = LockedMm::try_lock(mm).ok_or(NotWritten::NotYet)?;
            locked.write_page(first.address(), Bring::Nothing, |page| {
                for bit in bits {
                    page.store(bit, on);
                }
            })
        });
        if written.is_some_and(|written| written.is_err()) {
            let mut repairs = self.repairs.lock();
            repairs.tries = 0;
            for bit in bits {
                repairs.due.add((bit.address(), bit.bit()));
            }
            drop(repairs);
            self.enqueue();
        }
    }

    /// Calls `with` with the address space, unless that has ended.
    fn with_mm<T>(&self, with: impl FnOnce(&MmWithUser) -> T) -> Option<T> {
        // The last reference to an address space is heavy, and `event_mutex` may be held.
        let mm = MmWithUser::into_mmput_async(self.mm.mmget_not_zero()?);
        Some(with(&mm))
    }

    /// Are bits waiting to be repaired? Any context.
    fn has_repairs(&self) -> bool {
        let repairs = self.repairs.lock();
        repairs.under_way != 0
            || !repairs.due.is_empty()
            || !repairs.asking.is_empty()
            || !repairs.own.is_empty()
    }

    fn enqueue(self: &Arc<Self>) {
        // Already queued is as good.
        let _ = self.processes.queue().enqueue::<_, 0>(self.clone());
    }

    /// When the process is to be looked at again, in nanoseconds since boot.
    pub(crate) fn due_at(&self) -> u64 {
        self.due_at.load(Relaxed)
    }

    /// It is time for another look. Any context.
    pub(crate) fn look_again(self: &Arc<Self>) {
        self.due_at.store(u64::MAX, Relaxed);
        let is_asking = !self.repairs.lock().asking.is_empty();
        if is_asking {
            let _ = self.processes.asking().enqueue::<_, 1>(self.clone());
        }
        self.enqueue();
    }

    /// Has the process looked at again after a pause, which grows with the number of tries. Any context.
    fn pause(self: &Arc<Self>, tries: u32, max_doublings: u32) {
        let pause = FIRST_PAUSE << tries.min(max_doublings);
        let due = clock::now().saturating_add(pause);
        // The earliest counts.
        let mut before = self.due_at.load(Relaxed);
        while due < before {
            match self.due_at.cmpxchg(before, due, Full) {
                Ok(_) => break,
                Err(other) => before = other,
            }
        }
        self.processes.look_later(self);
    }

    /// A task has left the address space that is perhaps the last. Does not sleep.
    pub(crate) fn is_left(self: &Arc<Self>) {
        let mut repairs = self.repairs.lock();
        repairs.is_in_doubt = true;
        repairs.tries = 0;
        drop(repairs);
        self.pause(0, MAX_DOUBLINGS);
    }

    /// The current task is the last user of the address space, and leaves it. Does not sleep.
    pub(crate) fn is_left_for_good(self: &Arc<Self>) {
        let Some(room) = self.membership.lock().ending.take() else {
            return;
        };
        // The task does the rest when it is no reader of the tracepoint any more. It fails if the module
        // is being unloaded: then nothing is registered.
        if room.add_to_current(Ending(self.clone())).is_err() {
            self.is_left();
        }
    }

    /// Ends the process if its address space has ended, which is looked into as long as there is doubt.
    /// Returns whether it has. May sleep.
    fn settle_doubt(self: &Arc<Self>) -> bool {
        if address_space::has_ended(&self.mm) {
            self.processes.forget(self);
            self.withdraw();
            return true;
        }
        let mut repairs = self.repairs.lock();
        let (is_in_doubt, tries) = (repairs.is_in_doubt, repairs.tries);
        if !is_in_doubt {
            return false;
        }
        // Before it is looked: a task that leaves from here on raises it again.
        let is_last_try = tries >= MAX_DOUBLINGS;
        repairs.is_in_doubt = !is_last_try;
        repairs.tries = tries.saturating_add(1);
        drop(repairs);
        if is_last_try && !process_list::is_to_be_left(&self.mm) {
            self.repairs.lock().is_in_doubt = true;
        } else if is_last_try {
            return false;
        }
        self.pause(tries, MAX_DOUBLINGS);
        false
    }

    /// The first registration at or behind a site.
    pub(crate) fn registration_from(&self, site: &Site) -> Option<Arc<Enabler>> {
        let (registrations, _) = self.registrations()?;
        registrations.get_from(site)
    }

    /// Looks at a bit, without waiting for the process in any way. `None` if it is not registered
    /// any more.
    pub(crate) fn look(&self, enabler: &Enabler) -> Option<Sight> {
        self.with_mm(|mm| {
            let locked = LockedMm::try_lock(mm);
            let bit = enabler.bit();
            let is_deferred = enabler.event().is_due(enabler, self.key());
            let mut sight = None;
            // With the event's lock held a bit is what it should be, or due, or was given up.
            let _ = enabler.event().rewrite(enabler, |on| {
                let locked = locked.as_ref();
                let is_set = locked.and_then(|locked| {
                    locked
                        .read_page(bit.address(), |page| page.load(bit))
                        .flatten()
                });
                sight = Some(Sight {
                    is_set,
                    is_due: is_set != Some(on) && (is_deferred || self.has_repairs()),
                });
                Ok::<_, Error>(())
            });
            sight
        })?
    }

    /// Looks at all bits of the process, and writes those that are wrong: it is the current task's and a
    /// child, and an event may have changed since its memory was copied.
    pub(crate) fn check_own(&self, mm: &MmWithUser) {
        let mut all = Sites::NONE;
        all.add_all();
        self.for_each_page(&all, |enablers| {
            if !self.is_right(mm, enablers) {
                self.write_own(mm, enablers);
            }
        });
    }

    /// Do these bits, of one page, say what they should? `false` as well if they cannot be seen.
    fn is_right(&self, mm: &MmWithUser, enablers: &[Option<Arc<Enabler>>]) -> bool {
        let Some(first) = enablers.iter().flatten().next() else {
            return true;
        };
        let locked = LockedMm::lock(mm);
        let is_right = locked.read_page(first.bit().address(), |page| {
            enablers.iter().flatten().all(|enabler| {
                let bit = enabler.bit();
                enabler
                    .event()
                    .rewrite(enabler, |on| {
                        (page.load(bit) == Some(on)).then_some(()).ok_or(())
                    })
                    .is_ok()
            })
        });
        is_right.unwrap_or(false)
    }

    /// Calls `each` with the enablers of these sites, those of one page at once.
    fn for_each_page(&self, sites: &Sites, mut each: impl FnMut(&[Option<Arc<Enabler>>])) {
        for site in sites.listed() {
            if let Some((registrations, _)) = self.registrations() {
                each(&[registrations.get(site)]);
            }
        }
        let mut from = (0, 0);
        while sites.all {
            let Some((registrations, _)) = self.registrations() else {
                break;
            };
            let mut room: [_; MAX_BITS_AT_ONCE] = array::from_fn(|_| None);
            let count = registrations.get_page(&from, &mut room);
            let enablers = room.get(..count).unwrap_or_default();
            let Some(last) = enablers.iter().flatten().last() else {
                break;
            };
            let (address, bit) = last.site();
            from = (address, bit + 1);
            each(enablers);
        }
    }

    /// Writes bits of one page, with the mmap lock held.
    fn write_page(
        &self,
        locked: &LockedMm<'_>,
        enablers: &[Option<Arc<Enabler>>],
        bring: Bring,
    ) -> Result<(), NotWritten> {
        let Some(first) = enablers.iter().flatten().next() else {
            return Ok(());
        };
        locked.write_page(first.bit().address(), bring, |page| {
            for enabler in enablers.iter().flatten() {
                let _ = enabler.event().rewrite(enabler, |on| {
                    enabler.registrations().change_one(|| {
                        // It stays connected for others when this process gets a copy, which it may have
                        // unregistered since. Who does that waits for the lock held here before it
                        // clears the bit.
                        if self.has_set(enabler.registrations()) {
                            page.store(enabler.bit(), on);
                        }
                    });
                    Ok::<_, Error>(())
                });
            }
        })
    }

    /// Writes bits of one page, as the work queue may: without waiting for the process or for what
    /// serves its memory.
    fn write_foreign(&self, enablers: &[Option<Arc<Enabler>>]) -> Outcome {
        let Some(first) = enablers.iter().flatten().next() else {
            return Outcome::Done;
        };
        let address = first.bit().address();
        let outcome = self.with_mm(|mm| {
            let Some(locked) = LockedMm::try_lock(mm) else {
                return Outcome::Later;
            };
            match self.write_page(&locked, enablers, Bring::Nothing) {
                Ok(()) => return Outcome::Done,
                Err(NotWritten::NotPresent) => {}
                Err(_) => return Outcome::Later,
            }
            match locked.server_of(address) {
                Some(Server::Kernel) => {}
                Some(other) => return Outcome::Other(other),
                None => return Outcome::Done,
            }
            match self.write_page(&locked, enablers, Bring::AtHand) {
                Ok(()) | Err(NotWritten::NotPresent) => Outcome::Done,
                Err(_) => Outcome::Later,
            }
        });
        outcome.unwrap_or(Outcome::Done)
    }

    /// Writes bits of one page of the current task's address space. Waits for what that takes.
    fn write_own(&self, mm: &MmWithUser, enablers: &[Option<Arc<Enabler>>]) {
        if let Some(first) = enablers.iter().flatten().next() {
            // What cannot be written as things are is left alone until the event changes again, and a
            // task that is killed has no use for it.
            let _ = with_own_page(mm, first.bit(), |locked| {
                self.write_page(locked, enablers, Bring::Nothing)
            });
        }
    }

    /// What the work queue does for the process.
    fn repair(self: &Arc<Self>) {
        let mut repairs = self.repairs.lock();
        // Out of the list before they are written: who changes the event from here on either is seen by
        // the repair, or lists the site again.
        let due = repairs.due.take();
        if due.is_empty() {
            return;
        }
        repairs.under_way += 1;
        drop(repairs);
        let (mut later, mut asking, mut own) = (Sites::NONE, Sites::NONE, Sites::NONE);
        self.for_each_page(&due, |enablers| {
            let left = match self.write_foreign(enablers) {
                Outcome::Done => return,
                Outcome::Later | Outcome::Other(Server::Kernel) => &mut later,
                Outcome::Other(Server::Handler) => &mut asking,
                Outcome::Other(Server::FileSystem) => &mut own,
            };
            for enabler in enablers.iter().flatten() {
                left.add(enabler.site());
            }
        });
        let mut repairs = self.repairs.lock();
        repairs.under_way -= 1;
        repairs.due.add_these(&later);
        repairs.asking.add_these(&asking);
        repairs.own.add_these(&own);
        let tries = repairs.tries;
        repairs.tries = tries.saturating_add(1);
        drop(repairs);
        if !own.is_empty() {
            self.processes.tell_owners();
        }
        if !asking.is_empty() {
            let _ = self.processes.asking().enqueue::<_, 1>(self.clone());
        }
        if !later.is_empty() {
            self.pause(tries, MAX_DOUBLINGS);
        }
    }

    /// Asks the handlers of userfaultfd for pages. Each is waited for for a short time.
    fn ask(self: &Arc<Self>) {
        let mut repairs = self.repairs.lock();
        let sites = repairs.asking.take();
        if sites.is_empty() {
            return;
        }
        let tries = repairs.tries;
        repairs.tries = tries.saturating_add(1);
        repairs.under_way += 1;
        drop(repairs);
        let wait = FIRST_ASKING << tries.min(MAX_DOUBLINGS_OF_ASKING);
        let (mut again, mut due) = (Sites::NONE, Sites::NONE);
        // One page a turn: no process keeps a task of the queue for longer than that.
        let mut has_asked = false;
        self.for_each_page(&sites, |enablers| {
            let Some(first) = enablers.iter().flatten().next() else {
                return;
            };
            let mut outcome = self.write_foreign(enablers);
            if matches!(outcome, Outcome::Other(Server::Handler)) && !has_asked {
                has_asked = true;
                self.with_mm(|mm| {
                    if let Some(locked) = LockedMm::try_lock(mm) {
                        locked.ask_handler(first.bit().address(), wait);
                    }
                });
                outcome = self.write_foreign(enablers);
            }
            let left = match outcome {
                Outcome::Done => return,
                Outcome::Other(Server::Handler) => &mut again,
                _ => &mut due,
            };
            for enabler in enablers.iter().flatten() {
                left.add(enabler.site());
            }
        });
        let mut repairs = self.repairs.lock();
        repairs.under_way -= 1;
        repairs.due.add_these(&due);
        repairs.asking.add_these(&again);
        drop(repairs);
        if !due.is_empty() {
            self.enqueue();
        }
        if !again.is_empty() {
            self.pause(tries, MAX_DOUBLINGS_ASKING);
        }
    }

    /// Does a thread of the process have to be told of bits that only it can write? Does not sleep.
    pub(crate) fn is_to_tell(&self) -> bool {
        !self.repairs.lock().own.is_empty()
    }

    /// Tells a thread of the process that it has bits to write, unless it was told. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn tell(self: &Arc<Self>, thread: &ListedThread<'_>) -> Result {
        let flags = GFP_NOWAIT | kernel::alloc::flags::__GFP_NOWARN;
        let room = Reservation::new(flags)?;
        let node = RBTreeNode::new(thread.key(), (), flags)?;
        let mut repairs = self.repairs.lock();
        if repairs.told.get(&thread.key()).is_some() {
            return Ok(());
        }
        let replaced = repairs.told.insert(node);
        drop(repairs);
        drop(replaced);
        if let Err(work) = thread.add_work(room, OwnRepair(self.clone())) {
            // It is about to exit, or the process has nothing registered.
            work.forget(thread.key());
        }
        Ok(())
    }

    /// Writes the bits that only the process itself can write. The current task is one of its threads, and
    /// returns to user space after this.
    fn repair_own(&self, mm: &MmWithUser) {
        let mut repairs = self.repairs.lock();
        let own = repairs.own.take();
        if own.is_empty() {
            return;
        }
        repairs.under_way += 1;
        drop(repairs);
        self.for_each_page(&own, |enablers| self.write_own(mm, enablers));
        self.repairs.lock().under_way -= 1;
    }
}

/// Writes one bit, with the mmap lock held.
fn write_one(locked: &LockedMm<'_>, bit: &UserBit, on: bool) -> Result<(), NotWritten> {
    locked.write_page(bit.address(), Bring::Nothing, |page| page.store(bit, on))
}

/// Calls `write` with the mmap lock held, and again each time the page of `bit` was not there and
/// has been brought in. Waits for both: `mm` is the current task's. Returns what it returns.
///
/// # Errors
///
/// `ENOMEM`; `EFAULT` when the page cannot be brought in, or does not stay; `EINTR` when the current task
/// is killed.
fn with_own_page<T>(
    mm: &MmWithUser,
    bit: &UserBit,
    mut write: impl FnMut(&LockedMm<'_>) -> Result<T, NotWritten>,
) -> Result<T> {
    let mut faults_left = MAX_FAULTS;
    let mut waits_left = MAX_WAITS;
    while faults_left != 0 && waits_left != 0 {
        let locked = LockedMm::lock(mm);
        let written = write(&locked);
        drop(locked);
        match written {
            Ok(result) => return Ok(result),
            Err(NotWritten::NotPresent) => {
                faults_left -= 1;
                bit.fault_in(mm)
                    .map_err(|error| if error == EINTR { error } else { EFAULT })?;
            }
            Err(NotWritten::NoMemory) => return Err(ENOMEM),
            Err(NotWritten::Busy | NotWritten::NotYet) => {
                if task_work::is_dying() {
                    return Err(EINTR);
                }
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
        if !this.settle_doubt() {
            this.repair();
        }
    }
}

impl WorkItem<1> for Process {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.ask();
    }
}

/// What the last task of a process does for it.
struct Ending(Arc<Process>);

impl TaskWork for Ending {
    fn run(self, _mm: Option<&MmWithUser>) {
        self.0.withdraw();
    }
}

/// What a thread does of the repairs of its process.
struct OwnRepair(Arc<Process>);

impl OwnRepair {
    /// The thread can be told again.
    fn forget(&self, thread: usize) {
        let node = self.0.repairs.lock().told.remove_node(&thread);
        drop(node);
    }
}

impl TaskWork for OwnRepair {
    fn run(self, mm: Option<&MmWithUser>) {
        // Before it looks: who lists something from here on tells it again.
        self.forget(task_work::current_task());
        let process = &self.0;
        let own = mm.filter(|mm| key(mm) == process.key());
        if let Some(mm) = own.filter(|_| !task_work::is_dying()) {
            process.repair_own(mm);
        }
    }
}

/// An address space as a key.
pub(crate) fn key(mm: &Mm) -> usize {
    mm.as_raw() as usize
}
