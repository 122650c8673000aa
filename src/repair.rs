// SPDX-License-Identifier: GPL-2.0

//! Bits that could not be written at once, and address spaces that may have ended.
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
use crate::process::{key, with_own_page, Process, NEVER};
use crate::registrations::Site;
use crate::sys::address_space;
use crate::sys::clock;
use crate::sys::process_list::{self, ListedThread};
use crate::sys::remote_page::{Bring, LockedMm, NotWritten, Server};
use crate::sys::task_work::{self, Reservation, TaskWork};
use core::num::NonZero;
use core::{array, mem};
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::atomic::{Full, Relaxed};
use kernel::sync::Arc;
use kernel::workqueue::WorkItem;

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

/// A site in eight bytes: there are some in each process.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PackedSite(NonZero<u64>);

/// Bits of a site's bit number.
const BIT_BITS: u32 = 6;

impl PackedSite {
    /// `None` for what is no site: user space ends far below.
    fn new((address, bit): Site) -> Option<Self> {
        let packed = (address as u64).checked_mul(1 << BIT_BITS)? | u64::from(bit);
        NonZero::new(packed.checked_add(1)?).map(Self)
    }

    fn site(self) -> Site {
        let packed = self.0.get() - 1;
        let bit = packed & ((1 << BIT_BITS) - 1);
        ((packed >> BIT_BITS) as usize, bit as u8)
    }
}

/// Which bits are to be written.
struct Sites {
    /// Those that are there come first.
    sites: [Option<PackedSite>; MAX_SITES],
    /// All of the process, whatever is listed.
    all: bool,
}

impl Sites {
    /// None.
    const NONE: Self = Self {
        sites: [None; MAX_SITES],
        all: false,
    };

    fn is_empty(&self) -> bool {
        !self.all && self.listed().next().is_none()
    }

    fn listed(&self) -> impl Iterator<Item = Site> + '_ {
        self.sites
            .iter()
            .map_while(|site| site.map(PackedSite::site))
    }

    fn add(&mut self, site: Site) {
        let packed = PackedSite::new(site);
        let free_or_same = |place: &&mut Option<PackedSite>| place.is_none() || **place == packed;
        match self.sites.iter_mut().find(free_or_same) {
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

    fn add_these(&mut self, others: &Self) {
        if others.all {
            self.add_all();
        }
        for site in others.listed() {
            self.add(site);
        }
    }

    fn take(&mut self) -> Self {
        mem::replace(self, Self::NONE)
    }
}

/// Bits that could not be written when they should have been, by who is to write them; and whether the
/// address space may have ended.
pub(crate) struct Repairs {
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
    /// The page that a handler was asked for last, by its address.
    asked: usize,
    /// Is it to be found out whether the address space has ended?
    is_in_doubt: bool,
    /// Has it ended, as far as the process is concerned?
    is_over: bool,
    /// The threads that have been told to look at `own`, and have not yet.
    told: RBTree<usize, ()>,
}

impl Repairs {
    /// Nothing is to be done.
    pub(crate) fn new() -> Self {
        Self {
            due: Sites::NONE,
            asking: Sites::NONE,
            own: Sites::NONE,
            under_way: 0,
            tries: 0,
            asked: 0,
            is_in_doubt: false,
            is_over: false,
            told: RBTree::new(),
        }
    }
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

impl Process {
    /// Writes the bits of enablers, all of one page, if that can be done without waiting for the process in any
    /// way. Else has them written later. The caller holds the lock of the event.
    pub(crate) fn write(self: &Arc<Self>, enablers: &[Arc<Enabler>], on: bool) {
        let Some(first) = enablers.first() else {
            return;
        };
        let written = self.with_mm(|mm| {
            let locked = LockedMm::try_lock(mm).ok_or(NotWritten::NotYet)?;
            locked.write_page(first.bit().address(), Bring::Nothing, |page| {
                for enabler in enablers {
                    page.store(enabler.bit(), on);
                }
            })
        });
        if written.is_some_and(|written| written.is_err()) {
            let mut repairs = self.repairs.lock();
            repairs.tries = 0;
            for enabler in enablers {
                repairs.due.add(enabler.site());
            }
            drop(repairs);
            self.enqueue();
        }
    }

    /// Has the bit of an enabler written again, which may have been lost. Any context.
    pub(crate) fn repair_later(self: &Arc<Self>, enabler: &Enabler) {
        let mut repairs = self.repairs.lock();
        repairs.tries = 0;
        repairs.due.add(enabler.site());
        drop(repairs);
        self.enqueue();
    }

    /// Are bits waiting to be repaired? Any context.
    pub(crate) fn has_repairs(&self) -> bool {
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

    /// When the process is to be looked at again, in nanoseconds since boot; [`NEVER`] if it is not.
    pub(crate) fn due_at(&self) -> u64 {
        self.due_at.load(Relaxed)
    }

    /// It is time for another look. Any context.
    ///
    /// Resets the time, also one that is set by [`Self::pause`] just now. What that was for is seen here, and by
    /// the work that is queued here: it was noted with `repairs` locked before the time was set. Had that been
    /// locked here before it was noted there, the time would have been reset before it was set.
    pub(crate) fn look_again(self: &Arc<Self>) {
        self.due_at.store(NEVER, Relaxed);
        let is_asking = !self.repairs.lock().asking.is_empty();
        if is_asking {
            let _ = self.processes.asking().enqueue::<_, 1>(self.clone());
        }
        self.enqueue();
    }

    /// Has the process looked at again after a pause, which grows with the number of tries. What is to be looked at
    /// has been noted in `repairs`. Any context.
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

    /// The last user of the address space leaves it. Gives up the registrations at once if these are few and
    /// the current context may sleep; else has the work queue do that, since a reader of the tracepoint
    /// holds up those who wait for all of them.
    pub(crate) fn is_left_for_good(self: &Arc<Self>) {
        self.repairs.lock().is_over = true;
        if self.is_short() && task_work::may_sleep() {
            self.withdraw();
        } else {
            self.enqueue();
        }
    }

    /// Ends the process if its address space has ended, which is looked into as long as there is doubt.
    /// Returns whether it has. May sleep.
    fn settle_doubt(self: &Arc<Self>) -> bool {
        if self.repairs.lock().is_over || address_space::has_ended(&self.mm) {
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

    /// Looks at all bits of the process, and writes those that are wrong: it is the current task's and a
    /// child, and an event may have changed since its memory was copied.
    pub(crate) fn check_own(self: &Arc<Self>, mm: &MmWithUser) {
        self.for_every_page(|enablers| {
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
                each(&[registrations.get(&site)]);
            }
        }
        if sites.all {
            self.for_every_page(each);
        }
    }

    /// Calls `each` with all enablers of the process, those of one page at once.
    fn for_every_page(&self, mut each: impl FnMut(&[Option<Arc<Enabler>>])) {
        let mut from = (0, 0);
        while let Some((registrations, _)) = self.registrations() {
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

    /// Writes bits of one page, with the mmap lock held. Returns whether they are still the process's: it
    /// may have got a set of its own meanwhile, and what is due is to be looked for in that.
    fn write_page(
        &self,
        locked: &LockedMm<'_>,
        enablers: &[Option<Arc<Enabler>>],
        bring: Bring,
    ) -> Result<bool, NotWritten> {
        let mut are_its_own = true;
        let Some(first) = enablers.iter().flatten().next() else {
            return Ok(are_its_own);
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
                        } else {
                            are_its_own = false;
                        }
                    });
                    Ok::<_, Error>(())
                });
            }
        })?;
        Ok(are_its_own)
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
            let server = locked.server_of(address);
            let bring = match server {
                Some(Server::Kernel) => Bring::AtHand,
                Some(_) => Bring::Nothing,
                None => return Outcome::Done,
            };
            match (self.write_page(&locked, enablers, bring), server) {
                (Err(NotWritten::NotPresent), Some(other)) if other != Server::Kernel => {
                    Outcome::Other(other)
                }
                (Ok(true) | Err(NotWritten::NotPresent), _) => Outcome::Done,
                (Ok(false) | Err(_), _) => Outcome::Later,
            }
        });
        outcome.unwrap_or(Outcome::Done)
    }

    /// Writes bits of one page of the current task's address space. Waits for what that takes.
    fn write_own(self: &Arc<Self>, mm: &MmWithUser, enablers: &[Option<Arc<Enabler>>]) {
        let Some(first) = enablers.iter().flatten().next() else {
            return;
        };
        let written = with_own_page(mm, first.bit(), |locked| {
            self.write_page(locked, enablers, Bring::Nothing)
        });
        let is_to_pause = match written {
            // The process has a set of its own by now, which is to be looked into.
            Ok(false) => false,
            // The current task is killed, and others may share its memory; or there may be more memory later. The
            // work queue tells all threads again that there are then.
            Err(error) if error == EINTR || error == ENOMEM => true,
            // Written; or it cannot be as things are, and is left alone until the event changes again.
            Ok(true) | Err(_) => return,
        };
        let mut repairs = self.repairs.lock();
        for enabler in enablers.iter().flatten() {
            repairs.due.add(enabler.site());
        }
        let tries = repairs.tries;
        drop(repairs);
        if is_to_pause {
            self.pause(tries, MAX_DOUBLINGS);
        } else {
            self.enqueue();
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
        let (tries, asked) = (repairs.tries, repairs.asked);
        repairs.tries = tries.saturating_add(1);
        repairs.under_way += 1;
        drop(repairs);
        let wait = FIRST_ASKING << tries.min(MAX_DOUBLINGS_OF_ASKING);
        let (mut again, mut due) = (Sites::NONE, Sites::NONE);
        // One page a turn, and another one the next time: no process keeps a task of the queue for longer
        // than that, and no page keeps others from being asked for.
        let mut now_asked = None;
        self.for_each_page(&sites, |enablers| {
            let Some(first) = enablers.iter().flatten().next() else {
                return;
            };
            let page = first.bit().page();
            let mut outcome = self.write_foreign(enablers);
            if matches!(outcome, Outcome::Other(Server::Handler))
                && now_asked.is_none()
                && page > asked
            {
                now_asked = Some(page);
                self.with_mm(|mm| {
                    if let Some(locked) = LockedMm::try_lock(mm) {
                        locked.ask_handler(page, wait);
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
        // If the last of them was asked for before, the next turn begins with the first one, soon.
        let pause = if now_asked.is_some() { tries } else { 0 };
        let mut repairs = self.repairs.lock();
        repairs.under_way -= 1;
        repairs.asked = now_asked.unwrap_or(0);
        repairs.due.add_these(&due);
        repairs.asking.add_these(&again);
        drop(repairs);
        if !due.is_empty() {
            self.enqueue();
        }
        if !again.is_empty() {
            self.pause(pause, MAX_DOUBLINGS_ASKING);
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
        // The process's own control group pays, and may go beyond its limit for that.
        let account = GFP_KERNEL_ACCOUNT & !GFP_KERNEL;
        let flags = GFP_ATOMIC | account | __GFP_NOWARN;
        let (room, node) = address_space::charged_to(&self.mm, || {
            Ok::<_, Error>((
                Reservation::new(flags)?,
                RBTreeNode::new(thread.key(), (), flags)?,
            ))
        })?;
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
    fn repair_own(self: &Arc<Self>, mm: &MmWithUser) {
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

    /// A thread that was told of bits that only the process itself can write leaves the process without having
    /// looked. There may be other tasks with this memory, and some that began after all were told: the work
    /// queue tells those that there are after a pause. So a task that ends costs no more than one such turn, and
    /// all of them together one each pause, until nothing is due or the address space has ended.
    fn pass_on_own(self: &Arc<Self>) {
        let mut repairs = self.repairs.lock();
        let own = repairs.own.take();
        if own.is_empty() {
            return;
        }
        repairs.due.add_these(&own);
        let tries = repairs.tries;
        drop(repairs);
        self.pause(tries, MAX_DOUBLINGS);
    }
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
        match own.filter(|_| !task_work::is_dying()) {
            Some(mm) => process.repair_own(mm),
            None => process.pass_on_own(),
        }
    }
}
