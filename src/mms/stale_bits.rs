// SPDX-License-Identifier: GPL-2.0

//! Bits that were unregistered while another task of the address space may have been in a fork.
//!
//! The child of such a fork may have the memory as it was before the bit was cleared, and not the
//! registration: it has to clear the bit before it runs. The child of any other fork must not: the word
//! is the program's own again once unregistering has returned. A fork is one of the first kind if the
//! parent was told of it
//!
//! 1. after the registration had been removed and before the bit was known to be clear: by the number of the
//!    last change of a bit, which rises in between ([`Cleared::number`]); or
//! 2. later, and when the bit was clear its task was found among those that are in a fork, which the kernel
//!    lists ([`process_list::for_each_forking`]). That is noted of the task ([`ForkInProgress`]) until it returns
//!    to user space, whatever becomes of the fork; or
//! 3. later, and the task had been taken off that list already. All that a fork may wait for is over by then,
//!    and the child's start time, which is taken before that, is not behind the time at which the bit was
//!    clear ([`Cleared::time`]).

use crate::mms::enablers::{last_change, next_change, EnableAddr};
use crate::mms::mm::RETRY_AFTER;
use crate::sys::append_vec::AppendVec;
use crate::sys::process_list::{self, for_each_forking};
use crate::sys::task_work::{self, Reservation, TaskWork};
use crate::sys::user_bit::UserBit;
use crate::sys::{clock, fork};
use core::mem;
use kernel::mm::MmWithUser;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation};
use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};
use kernel::sync::{Arc, SpinLock};
use kernel::time::delay::fsleep;

/// So many bits are kept before it is looked whether any fork needs them: that goes through all processes.
const MIN_KEPT: usize = 64;

/// How many bits a child looks at with the lock held.
const MAX_LOOKED_AT: usize = 64;

/// So many tasks can be known to be in a fork.
const MAX_FORKS: u32 = 64;

/// The bits of an address space that its children may have to clear.
#[pin_data]
pub(crate) struct StaleBits {
    #[pin]
    bits: SpinLock<Bits>,
    /// Those who use one are found by going through all. None goes, and one that is over is used again.
    #[pin]
    forks: AppendVec<ForkInProgress, ()>,
}

/// A bit's place, and the number of the change with which it was begun to unregister it.
type Key = (EnableAddr, u64);

struct Bits {
    by_key: RBTree<Key, Entry>,
    count: usize,
    /// How many are still to be cleared.
    pending: usize,
    /// How many are clear, and it was not known which forks were under way then.
    unknown: usize,
    /// When none of these forks was under way any more.
    unknown_over: Option<Cleared>,
    /// The latest of all times at which bits became clear.
    latest: Cleared,
    /// How many there are when it is looked again whether any fork needs them.
    enough: usize,
    /// Children that were forked when there was a bit, and have not looked at all of them yet.
    children: usize,
}

struct Entry {
    bit: UserBit,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// It is still to be cleared.
    Pending,
    /// It is clear, and all forks were known that were under way then.
    Cleared(Cleared),
    /// It is clear, and they were not.
    Unknown,
}

#[derive(Clone, Copy, Default)]
struct Cleared {
    /// Each fork of which the parent is told from here on finds this number or a higher one.
    number: u64,
    /// Nanoseconds since boot, by the clock of start times.
    time: u64,
}

/// A task that was found in a fork.
struct ForkInProgress {
    /// As [`current_task`](task_work::current_task) tells tasks apart; 0: none.
    task: Atomic<usize>,
    /// The number of the last change when it was found.
    since: Atomic<u64>,
}

/// Work of a task that was found in a fork: it is in none when it returns to user space.
struct ForkDone {
    stale_bits: Arc<StaleBits>,
    number: u32,
}

impl Bits {
    /// A bit that is known already.
    fn key_of(&self, site: &EnableAddr) -> Option<Key> {
        let cursor = self.by_key.cursor_lower_bound(&(*site, 0))?;
        let (key, _) = cursor.current();
        (key.0 == *site).then_some(*key)
    }

    fn remove(&mut self, key: &Key) -> Option<RBTreeNode<Key, Entry>> {
        match self.by_key.get(key)?.state {
            State::Pending => self.pending -= 1,
            State::Unknown => self.unknown -= 1,
            State::Cleared(_) => {}
        }
        self.count -= 1;
        self.by_key.remove_node(key)
    }

    /// No fork is in doubt that begins from here on.
    fn now(&mut self) -> Cleared {
        self.latest = Cleared {
            number: next_change(),
            time: clock::now(),
        };
        self.latest
    }
}

impl TaskWork for ForkDone {
    fn run(self, _: Option<&MmWithUser>) {
        if let Some(fork) = self.stale_bits.forks.get(self.number) {
            fork.task.store(0, Release);
        }
    }
}

impl StaleBits {
    /// No bits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let bits = Bits {
            by_key: RBTree::new(),
            count: 0,
            pending: 0,
            unknown: 0,
            unknown_over: None,
            latest: Cleared::default(),
            enough: MIN_KEPT,
            children: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                bits <- new_spinlock!(bits, "StaleBits::bits"),
                forks <- AppendVec::new(()),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// A bit is about to be unregistered. Children of which the parent is told from here on clear it. The
    /// caller keeps others from unregistering. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn begin(self: &Arc<Self>, bit: &UserBit) -> Result<PendingClear> {
        let room = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let site = (bit.address(), bit.bit());
        let mut bits = self.bits.lock();
        // Each fork that needs the bit because of an earlier time needs it because of this one, if there is
        // no child that was forked in between.
        let known = match bits.children {
            0 => bits.key_of(&site),
            _ => None,
        };
        let replaced = known.and_then(|key| bits.remove(&key));
        let key = (site, next_change());
        let entry = Entry {
            bit: *bit,
            state: State::Pending,
        };
        bits.by_key.insert(room.into_node(key, entry));
        bits.count += 1;
        bits.pending += 1;
        drop(bits);
        drop(replaced);
        Ok(PendingClear {
            stale_bits: self.clone(),
            key,
            is_finished: false,
        })
    }

    /// Are there so few bits that they can be freed in a short time?
    pub(crate) fn is_short(&self) -> bool {
        self.bits.lock().count <= MIN_KEPT
    }

    /// What a child of the current task, which is in a fork, may have to clear. Does not sleep.
    pub(crate) fn inherit(self: &Arc<Self>) -> Option<InheritedBits> {
        let mut bits = self.bits.lock();
        if bits.by_key.is_empty() {
            return None;
        }
        bits.children += 1;
        drop(bits);
        Some(InheritedBits {
            since: self.fork_of(task_work::current_task()),
            forked: last_change(),
            stale_bits: self.clone(),
        })
    }

    fn forks(&self) -> impl Iterator<Item = (u32, &ForkInProgress)> {
        (0..).map_while(|number| Some((number, self.forks.get(number)?)))
    }

    /// Since when a task is known to be in a fork.
    fn fork_of(&self, task: usize) -> Option<u64> {
        self.forks()
            .find(|(_, fork)| fork.task.load(Acquire) == task)
            .map(|(_, fork)| fork.since.load(Relaxed))
    }

    /// Finds a place in `forks` that is free, from one on.
    ///
    /// # Errors
    ///
    /// `EMFILE` when there are too many; `ENOMEM`.
    fn free_fork(&self, from: u32) -> Result<u32> {
        let free = |(number, fork): &(u32, &ForkInProgress)| {
            *number >= from && fork.task.load(Acquire) == 0
        };
        if let Some((number, _)) = self.forks().find(free) {
            return Ok(number);
        }
        if self.forks.get(MAX_FORKS - 1).is_some() {
            return Err(EMFILE);
        }
        self.forks.lock().push(ForkInProgress {
            task: Atomic::new(0),
            since: Atomic::new(0),
        })
    }

    /// Notes which tasks are in a fork of the current task's address space. `false` if not all of them could
    /// be: they are too many, or there was no memory until the current task was killed. The caller keeps others
    /// from doing so. May sleep.
    fn note_forks(self: &Arc<Self>, mm: &MmWithUser) -> bool {
        let since = last_change();
        let mut spare: KVec<(u32, Reservation<ForkDone>)> = KVec::new();
        loop {
            let mut lack = 0;
            let are_all = for_each_forking(mm, |task| {
                if self.fork_of(task.key()).is_some() {
                    return;
                }
                let Some((number, room)) = spare.pop() else {
                    lack += 1;
                    return;
                };
                let Some(fork) = self.forks.get(number) else {
                    return;
                };
                fork.since.store(since, Relaxed);
                fork.task.store(task.key(), Release);
                let over = ForkDone {
                    stale_bits: self.clone(),
                    number,
                };
                // A task that is in a fork is not exiting, so it takes the work.
                let _ = task.add_work(room, over);
            });
            if lack == 0 {
                return are_all;
            }
            match self.reserve(&mut spare, lack) {
                Err(error) if error == EMFILE || task_work::is_dying() => return false,
                Err(_) => fsleep(RETRY_AFTER),
                Ok(()) => {}
            }
        }
    }

    /// Gets what it takes to note so many forks.
    fn reserve(&self, spare: &mut KVec<(u32, Reservation<ForkDone>)>, count: usize) -> Result<()> {
        spare.reserve(count, GFP_KERNEL_ACCOUNT)?;
        // What is reserved and not used yet looks free.
        let mut from = spare
            .iter()
            .map(|(number, _)| number + 1)
            .max()
            .unwrap_or(0);
        for _ in 0..count {
            let number = self.free_fork(from)?;
            from = number + 1;
            let room = Reservation::new(GFP_KERNEL_ACCOUNT)?;
            spare.push((number, room), GFP_KERNEL_ACCOUNT)?;
        }
        Ok(())
    }

    /// Forgets all bits, if there are many and no child can have to clear one any more. The caller keeps
    /// others from unregistering.
    fn forget_old(&self, mm: &MmWithUser) {
        let bits = self.bits.lock();
        let are_enough = bits.count >= bits.enough;
        drop(bits);
        if !are_enough {
            return;
        }
        // In this order, which is that of a fork.
        let mut is_under_way = false;
        let are_all = for_each_forking(mm, |_| is_under_way = true);
        let is_needed = !are_all || is_under_way || process_list::is_fork_ending(mm);
        let mut forgotten = RBTree::new();
        let mut bits = self.bits.lock();
        if !is_needed && bits.children == 0 {
            mem::swap(&mut forgotten, &mut bits.by_key);
            (bits.count, bits.unknown) = (0, 0);
        }
        // To look costs the same however many there are.
        bits.enough = bits.count + MIN_KEPT;
        drop(bits);
        drop(forgotten);
    }
}

/// A bit that is being unregistered. If that fails, children need not clear it.
pub(crate) struct PendingClear {
    stale_bits: Arc<StaleBits>,
    key: Key,
    is_finished: bool,
}

impl PendingClear {
    /// The bit is clear, or cannot be cleared. `mm` is the current task's. The caller has kept others from
    /// unregistering since this was begun. May sleep.
    pub(crate) fn finish(mut self, mm: &MmWithUser) {
        self.is_finished = true;
        let are_known = self.stale_bits.note_forks(mm);
        let mut bits = self.stale_bits.bits.lock();
        bits.pending -= 1;
        let state = if are_known {
            let now = bits.now();
            // What was not known before does not matter any more, as the forks are known that are under way now.
            bits.unknown_over.get_or_insert(now);
            State::Cleared(now)
        } else {
            bits.unknown_over = None;
            bits.unknown += 1;
            State::Unknown
        };
        if let Some(entry) = bits.by_key.get_mut(&self.key) {
            entry.state = state;
        }
        drop(bits);
        self.stale_bits.forget_old(mm);
    }
}

impl Drop for PendingClear {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        let mut bits = self.stale_bits.bits.lock();
        let unused = bits.remove(&self.key);
        drop(bits);
        drop(unused);
    }
}

/// What a child may have to clear of the bits that were unregistered in its parent's memory.
pub(crate) struct InheritedBits {
    stale_bits: Arc<StaleBits>,
    /// The number of the last change when the parent was told of the fork.
    forked: u64,
    /// The number of the last change when the fork was known to be under way.
    since: Option<u64>,
}

impl InheritedBits {
    /// If it was not known which forks were under way when some bits became clear, and none is any more, that is
    /// known from now on. The current task is the parent, which is in no list of forks any more. Does not sleep.
    pub(crate) fn settle(&self, mm: &MmWithUser) {
        let unknown = |bits: &Bits| bits.unknown_over.is_none().then_some(bits.unknown);
        let before = unknown(&self.stale_bits.bits.lock());
        if before.unwrap_or(0) == 0 {
            return;
        }
        let mut is_under_way = false;
        let are_all = for_each_forking(mm, |_| is_under_way = true);
        let mut bits = self.stale_bits.bits.lock();
        if are_all && !is_under_way && unknown(&bits) == before {
            bits.unknown_over = Some(bits.now());
        }
    }

    /// Calls `clear` with each bit that may be set in the memory of the current task, which is the child and
    /// has not run yet, because it was copied before the bit was cleared. `clear` may sleep.
    pub(crate) fn for_each(&self, mut clear: impl FnMut(&UserBit)) {
        let started = fork::start_time();
        let is_in_doubt_at = |cleared: Cleared| {
            self.forked < cleared.number
                || self.since.is_some_and(|since| since < cleared.number)
                || started <= cleared.time
        };
        let bits = self.stale_bits.bits.lock();
        let is_any = bits.pending != 0
            || bits.unknown != 0 && bits.unknown_over.is_none()
            || is_in_doubt_at(bits.latest);
        drop(bits);
        if !is_any {
            return;
        }
        let mut from = ((0, 0), 0);
        loop {
            let mut found = None;
            let mut bits = self.stale_bits.bits.lock();
            let unknown_over = bits.unknown_over;
            let is_in_doubt = |begun: u64, state: State| {
                let cleared = match state {
                    State::Pending => None,
                    State::Unknown => unknown_over,
                    State::Cleared(cleared) => Some(cleared),
                };
                begun <= self.forked && cleared.is_none_or(is_in_doubt_at)
            };
            let mut cursor = bits.by_key.cursor_lower_bound_mut(&from);
            for _ in 0..MAX_LOOKED_AT {
                let Some(at) = cursor else {
                    break;
                };
                let ((site, begun), entry) = at.current();
                from = (*site, *begun + 1);
                found = is_in_doubt(*begun, entry.state).then_some(entry.bit);
                cursor = at.move_next();
                if found.is_some() {
                    break;
                }
            }
            let is_end = cursor.is_none();
            drop(bits);
            if let Some(bit) = &found {
                clear(bit);
            }
            if is_end {
                return;
            }
        }
    }
}

impl Drop for InheritedBits {
    fn drop(&mut self) {
        self.stale_bits.bits.lock().children -= 1;
    }
}
