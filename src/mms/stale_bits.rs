// SPDX-License-Identifier: GPL-2.0

//! Bits that were unregistered while another task of the mm may have been in a fork.
//!
//! The child of such a fork may have the memory as it was before the bit was cleared, and not the enabler: it
//! has to clear the bit before it runs. The child of any other fork must not: the word is the program's own
//! again once unregistering has returned. A fork is one of the first kind if the parent was told of it
//!
//! 1. after the enabler had been removed and before the bit was known to be clear: by the number of the last
//!    change of a bit, which rises in between ([`Cleared::number`]); or
//! 2. later, and its task was found in a fork when the bit was clear, which is noted of the task until it returns
//!    to user space ([`forks_in_progress`](super::forks_in_progress)); or
//! 3. later, and the task had been taken off the kernel's list of forks already. All that a fork may wait for is
//!    over by then, and the child's start time, which is taken before that, is not behind the time at which the
//!    bit was clear ([`Cleared::time`]).

use super::enabler::EnableAddr;
use super::forks_in_progress::ForkInProgress;
use super::members::{
    last_change,
    next_change, //
};
use crate::sys::append_vec::AppendVec;
use crate::sys::process_list::{
    self,
    for_each_forking, //
};
use crate::sys::user_bit::UserBit;
use crate::sys::{
    clock,
    fork,
    task_work, //
};
use core::mem;
use kernel::mm::MmWithUser;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::rbtree::{
    RBTree,
    RBTreeNode,
    RBTreeNodeReservation, //
};
use kernel::static_lock_class;
use kernel::sync::{
    Arc,
    SpinLock, //
};

/// So many bits are kept before it is looked whether any fork needs them: that goes through all processes.
const MIN_KEPT: usize = 64;

/// How many bits a child looks at with the lock held.
const MAX_LOOKED_AT: usize = 64;

/// The bits of an mm that its children may have to clear.
#[pin_data]
pub(super) struct StaleBits {
    #[pin]
    bits: SpinLock<Bits>,
    /// The entry of a task is found by going through all. None is removed, and one that is done is used again.
    #[pin]
    pub(super) forks: AppendVec<ForkInProgress, ()>,
}

/// Where a bit is, and the number of the change with which it was begun to unregister it.
type Key = (EnableAddr, u64);

struct Bits {
    by_key: RBTree<Key, Entry>,
    count: usize,
    /// How many are still to be cleared.
    pending: usize,
    /// How many are clear, and it was not known which forks were in progress then.
    unknown: usize,
    /// When none of these forks was in progress any more.
    unknown_over: Option<Cleared>,
    /// The latest of all times at which bits became clear.
    latest: Cleared,
    /// How many there are when it is looked again whether any fork needs them.
    check_at: usize,
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
    /// It is clear, and all forks were known that were in progress then.
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

impl Bits {
    /// A bit that is known already.
    fn key_of(&self, addr: &EnableAddr) -> Option<Key> {
        let cursor = self.by_key.cursor_lower_bound(&(*addr, 0))?;
        let (key, _) = cursor.current();
        (key.0 == *addr).then_some(*key)
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

impl StaleBits {
    /// No bits. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let bits = Bits {
            by_key: RBTree::new(),
            count: 0,
            pending: 0,
            unknown: 0,
            unknown_over: None,
            latest: Cleared::default(),
            check_at: MIN_KEPT,
            children: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                bits <- new_spinlock!(bits, "StaleBits::bits"),
                forks <- AppendVec::new((), c"StaleBits::forks", static_lock_class!()),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// A bit is about to be unregistered. Children of which the parent is told from here on clear it. The
    /// caller keeps other tasks from unregistering. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn begin(self: &Arc<Self>, bit: &UserBit) -> Result<PendingClear> {
        let reservation = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let addr = EnableAddr::of(bit);
        let mut bits = self.bits.lock();
        // Each fork that needs the bit because of an earlier time needs it because of this one, if there is
        // no child that was forked in between.
        let known = match bits.children {
            0 => bits.key_of(&addr),
            _ => None,
        };
        let replaced = known.and_then(|key| bits.remove(&key));
        let key = (addr, next_change());
        let entry = Entry {
            bit: *bit,
            state: State::Pending,
        };
        bits.by_key.insert(reservation.into_node(key, entry));
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

    /// Are there so few bits that they can be freed in a short time? Any context.
    pub(super) fn is_cheap_to_drop(&self) -> bool {
        self.bits.lock().count <= MIN_KEPT
    }

    /// What a child of the current task, which is in a fork, may have to clear. Does not sleep.
    pub(super) fn inherit(self: &Arc<Self>) -> Option<InheritedBits> {
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

    /// Forgets all bits, if there are many and no child can have to clear one any more. The caller keeps
    /// other tasks from unregistering. May sleep.
    fn forget_old(&self, mm: &MmWithUser) {
        let bits = self.bits.lock();
        let are_enough = bits.count >= bits.check_at;
        drop(bits);
        if !are_enough {
            return;
        }
        // In this order, which is that of a fork.
        let mut is_in_progress = false;
        let are_all = for_each_forking(mm, |_| is_in_progress = true);
        let is_needed = !are_all || is_in_progress || process_list::is_fork_ending(mm);
        let mut forgotten = RBTree::new();
        let mut bits = self.bits.lock();
        if !is_needed && bits.children == 0 {
            mem::swap(&mut forgotten, &mut bits.by_key);
            (bits.count, bits.unknown) = (0, 0);
        }
        // To look costs the same however many there are.
        bits.check_at = bits.count + MIN_KEPT;
        drop(bits);
        drop(forgotten);
    }
}

/// A bit that is being unregistered. If that fails, children need not clear it.
pub(super) struct PendingClear {
    stale_bits: Arc<StaleBits>,
    key: Key,
    is_finished: bool,
}

impl PendingClear {
    /// The bit is clear, or cannot be cleared. `mm` is the current task's. The caller has kept other tasks from
    /// unregistering since this was begun. May sleep.
    pub(super) fn finish(mut self, mm: &MmWithUser) {
        self.is_finished = true;
        let are_known = self.stale_bits.note_forks(mm);
        let mut bits = self.stale_bits.bits.lock();
        bits.pending -= 1;
        let state = if are_known {
            let now = bits.now();
            // What was not known before does not matter any more, as the forks are known that are in progress now.
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
pub(super) struct InheritedBits {
    stale_bits: Arc<StaleBits>,
    /// The number of the last change when the parent was told of the fork.
    forked: u64,
    /// The number of the last change when the fork was known to be in progress.
    since: Option<u64>,
}

impl InheritedBits {
    /// If it was not known which forks were in progress when some bits became clear, and none is any more, that is
    /// known from now on. The current task is the parent, which is in no list of forks any more. Does not sleep.
    pub(super) fn note_unknown_over(&self, mm: &MmWithUser) {
        let unknown = |bits: &Bits| bits.unknown_over.is_none().then_some(bits.unknown);
        let before = unknown(&self.stale_bits.bits.lock());
        if before.unwrap_or(0) == 0 {
            return;
        }
        let mut is_in_progress = false;
        let are_all = for_each_forking(mm, |_| is_in_progress = true);
        let mut bits = self.stale_bits.bits.lock();
        if are_all && !is_in_progress && unknown(&bits) == before {
            bits.unknown_over = Some(bits.now());
        }
    }

    /// Calls `clear` with each bit that may be set in the memory of the current task, which is the child and
    /// has not run yet, because it was copied before the bit was cleared. `clear` may sleep.
    pub(super) fn for_each(&self, mut clear: impl FnMut(&UserBit)) {
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
        let mut from = (EnableAddr::FIRST, 0);
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
                let ((addr, begun), entry) = at.current();
                from = (*addr, *begun + 1);
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
