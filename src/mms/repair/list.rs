// SPDX-License-Identifier: GPL-2.0

//! The bits of an mm that could not be written at once, in a list for each [`Writer`].

use crate::sys::user_bit::{
    Backing,
    BitAddr, //
};
use core::mem;
use kernel::rbtree::{
    RBTree,
    RBTreeNode, //
};

/// A thread that has been notified.
type Thread = RBTreeNode<usize, ()>;

/// The context that writes a bit, see [`repair`](super).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    Queue,
    Faults,
    Handlers,
    Tasks,
}

impl Writer {
    /// The writer that can bring in a page with this backing.
    pub(super) fn of(backing: Backing) -> Self {
        match backing {
            Backing::Memory => Self::Faults,
            Backing::Userfaultfd => Self::Handlers,
            Backing::FileSystem => Self::Tasks,
        }
    }

    /// Whether it may fault in a page with this backing, without waiting for the page.
    pub(super) fn may_fault_in(self, backing: Backing) -> bool {
        self == Self::of(backing) && self != Self::Handlers
    }
}

/// The most bits that are listed one by one. If there are more, all bits of the mm are checked.
const MAX_ADDRS: usize = 4;

/// The bits of an mm that one writer is to write.
pub(super) struct RepairList {
    /// The places in use come first.
    addrs: [Option<BitAddr>; MAX_ADDRS],
    /// All bits of the mm, whatever is in `addrs`.
    pub(super) overflowed: bool,
    /// Bits that are right are to be written, too: the page may be lost with an earlier write.
    pub(super) force: bool,
}

impl RepairList {
    const EMPTY: Self = Self {
        addrs: [None; MAX_ADDRS],
        overflowed: false,
        force: false,
    };

    fn is_empty(&self) -> bool {
        !self.overflowed && self.addrs[0].is_none()
    }

    /// The bits that are listed one by one, in their order.
    pub(super) fn addrs(&self) -> impl Iterator<Item = BitAddr> {
        let mut addrs = self.addrs;
        addrs.sort_unstable();
        addrs.into_iter().flatten()
    }

    fn add(&mut self, addr: BitAddr) {
        let free_or_same = |place: &&mut Option<BitAddr>| place.is_none_or(|other| other == addr);
        match self.addrs.iter_mut().find(free_or_same) {
            Some(place) if !self.overflowed => *place = Some(addr),
            _ => self.overflowed = true,
        }
    }
}

/// The work of one writer.
struct Due {
    list: RepairList,
    /// How many turns are trying bits, which are in no list meanwhile.
    in_progress: usize,
    /// How many tries there were since the last change of an event's state.
    tries: u32,
}

impl Due {
    const NONE: Self = Self {
        list: RepairList::EMPTY,
        in_progress: 0,
        tries: 0,
    };
}

/// The bits of an mm that could not be written at once.
pub(crate) struct Repairs {
    queue: Due,
    faults: Due,
    handlers: Due,
    tasks: Due,
    /// Set when the mm has ended: nothing is tried again.
    has_ended: bool,
    /// The address of the page that was last requested from a handler; 0 for none.
    last_asked: usize,
    /// The threads that have been notified, and have not run their task work yet.
    notified: RBTree<usize, ()>,
}

impl Repairs {
    pub(crate) fn new() -> Self {
        Self {
            queue: Due::NONE,
            faults: Due::NONE,
            handlers: Due::NONE,
            tasks: Due::NONE,
            has_ended: false,
            last_asked: 0,
            notified: RBTree::new(),
        }
    }

    fn all(&mut self) -> [&mut Due; 4] {
        let (queue, faults) = (&mut self.queue, &mut self.faults);
        [queue, faults, &mut self.handlers, &mut self.tasks]
    }

    fn due(&mut self, writer: Writer) -> &mut Due {
        match writer {
            Writer::Queue => &mut self.queue,
            Writer::Faults => &mut self.faults,
            Writer::Handlers => &mut self.handlers,
            Writer::Tasks => &mut self.tasks,
        }
    }

    /// Whether a bit is listed, or being tried.
    pub(super) fn are_pending(&mut self) -> bool {
        let mut all = self.all().into_iter();
        all.any(|due| due.in_progress != 0 || !due.list.is_empty())
    }

    /// Lists bits for a writer, which with `force` also writes those that are right.
    pub(super) fn add(
        &mut self,
        writer: Writer,
        addrs: impl Iterator<Item = BitAddr>,
        force: bool,
    ) {
        let list = &mut self.due(writer).list;
        list.force |= force;
        addrs.for_each(|addr| list.add(addr));
    }

    /// Lets the pauses between tries be short again, after a change of an event's state.
    pub(super) fn reset_tries(&mut self) {
        for due in self.all() {
            due.tries = 0;
        }
    }

    /// Begins a writer's turn, if bits are listed: takes the list, with the number of the try.
    pub(super) fn begin_turn(&mut self, writer: Writer) -> Option<(RepairList, u32)> {
        let due = self.due(writer);
        let list = mem::replace(&mut due.list, RepairList::EMPTY);
        if list.is_empty() {
            return None;
        }
        due.in_progress += 1;
        due.tries = due.tries.saturating_add(1);
        Some((list, due.tries))
    }

    pub(super) fn end_turn(&mut self, writer: Writer) {
        self.due(writer).in_progress -= 1;
    }

    /// The mm has ended: nothing is tried again.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }

    pub(super) fn have_ended(&self) -> bool {
        self.has_ended
    }

    /// The page that was last requested from a handler, and how many tries there were.
    pub(super) fn asked(&self) -> (usize, u32) {
        (self.last_asked, self.handlers.tries)
    }

    /// Notes the page that was requested from a handler; 0 for none.
    pub(super) fn set_asked(&mut self, page: usize) {
        self.last_asked = page;
    }

    /// Whether bits are listed for the tasks of the mm.
    pub(crate) fn need_task(&self) -> bool {
        !self.tasks.list.is_empty()
    }

    /// Whether a thread has been notified, and has not run its task work yet.
    pub(super) fn is_notified(&self, thread: usize) -> bool {
        self.notified.get(&thread).is_some()
    }

    /// Notes that a thread is notified. The caller drops the result without the lock.
    pub(super) fn note_notified(&mut self, thread: Thread) -> Option<Thread> {
        self.notified.insert(thread)
    }

    /// Notes that a thread runs its task work. The caller drops the result without the lock.
    pub(super) fn forget_notified(&mut self, thread: usize) -> Option<Thread> {
        self.notified.remove_node(&thread)
    }
}
