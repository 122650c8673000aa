// SPDX-License-Identifier: GPL-2.0

//! The bits of an mm that could not be written at once, by who is to write them: see
//! [`repair`](super::repair).

use super::addrs::BitAddrs;
use crate::sys::user_bit::Backing;
use kernel::rbtree::{
    RBTree,
    RBTreeNode, //
};

/// A thread that is notified.
type Thread = RBTreeNode<usize, ()>;

/// Who writes a bit that could not be written at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    Queue,
    Faults,
    Handlers,
    Tasks,
}

impl Writer {
    /// The one that can have a page with this backing brought in.
    pub(super) fn of(backing: Backing) -> Self {
        match backing {
            Backing::Memory => Self::Faults,
            Backing::Userfaultfd => Self::Handlers,
            Backing::FileSystem => Self::Tasks,
        }
    }

    /// May it fault in a page with this backing, and go on without it?
    pub(super) fn may_fault_in(self, backing: Backing) -> bool {
        self == Self::of(backing) && self != Self::Handlers
    }
}

/// The bits that one writer is to write.
pub(super) struct Due {
    pub(super) addrs: BitAddrs,
    /// How many contexts are trying some that are in no list meanwhile.
    pub(super) in_progress: usize,
    /// How often has been tried since the last change.
    pub(super) tries: u32,
}

impl Due {
    const NONE: Self = Self {
        addrs: BitAddrs::NONE,
        in_progress: 0,
        tries: 0,
    };
}

/// The bits of an mm that could not be written when they should have been.
pub(super) struct Repairs {
    queue: Due,
    faults: Due,
    pub(super) handlers: Due,
    tasks: Due,
    /// Has the mm ended? Then nothing is tried again.
    pub(super) has_ended: bool,
    /// The address of the page that a handler was asked for last.
    pub(super) last_asked: usize,
    /// The threads that have been notified of bits for tasks, and have not looked yet.
    notified: RBTree<usize, ()>,
}

impl Repairs {
    /// Nothing is to be done.
    pub(super) fn new() -> Self {
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

    pub(super) fn all(&mut self) -> [&mut Due; 4] {
        let (queue, faults) = (&mut self.queue, &mut self.faults);
        [queue, faults, &mut self.handlers, &mut self.tasks]
    }

    pub(super) fn due(&mut self, writer: Writer) -> &mut Due {
        match writer {
            Writer::Queue => &mut self.queue,
            Writer::Faults => &mut self.faults,
            Writer::Handlers => &mut self.handlers,
            Writer::Tasks => &mut self.tasks,
        }
    }

    /// Are there bits that the tasks of the mm are to write?
    pub(super) fn needs_task(&self) -> bool {
        !self.tasks.addrs.is_empty()
    }

    /// Has a thread been notified of them, and not looked yet?
    pub(super) fn is_notified(&self, thread: usize) -> bool {
        self.notified.get(&thread).is_some()
    }

    /// Notes that a thread is notified. The result is to be dropped without the lock.
    pub(super) fn note_notified(&mut self, thread: Thread) -> Option<Thread> {
        self.notified.insert(thread)
    }

    /// Notes that a thread looks. The result is to be dropped without the lock.
    pub(super) fn forget_notified(&mut self, thread: usize) -> Option<Thread> {
        self.notified.remove_node(&thread)
    }
}
