// SPDX-License-Identifier: GPL-2.0

//! What a process has registered, shared by the processes that were forked with it.
//!
//! A child has its parent's registrations, at the same addresses, in memory of its own. Both share
//! one set until one of them changes something: then that one gets a copy. So forking costs the
//! same however much is registered.

use crate::enabler::{BySite, Enabler};
use crate::ordered::Ordered;
use crate::process::Process;
use crate::sys::clock;
use crate::sys::remote_page::UserBit;
use core::mem;
use kernel::alloc::AllocError;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::{Arc, Mutex};

/// How long before a child gets its start time its memory may have been copied, in nanoseconds.
/// In between the kernel only fills in the rest of the new task.
const LONGEST_FORK: u64 = 60_000_000_000;

/// No time at which anything happened.
const NEVER: u64 = 0;

/// Where a registration is: the address of its word, and the bit in it.
pub(crate) type Site = (usize, u8);

/// A set of registrations, and the processes in whose memory they are.
///
/// While more than one process is in it, no registration is added or removed, but for the one that a
/// thread was at when another one forked: a child waits for that before it runs.
#[pin_data]
pub(crate) struct Registrations {
    /// Memberships, those of processes that are just being forked included.
    users: Atomic<usize>,
    /// When a bit was last written that a child may have an older copy of, in nanoseconds since
    /// boot, or [`NEVER`].
    last_change: Atomic<u64>,
    #[pin]
    by_site: Mutex<Ordered<Enabler, BySite>>,
    /// By address space.
    #[pin]
    members: Mutex<RBTree<usize, Arc<Process>>>,
}

impl Registrations {
    /// The registration at a site.
    pub(crate) fn get(&self, site: &Site) -> Option<Arc<Enabler>> {
        self.by_site
            .lock()
            .get(|enabler| enabler.site().cmp(site))
            .cloned()
    }

    /// The first registration at or behind a site.
    pub(crate) fn get_from(&self, site: &Site) -> Option<Arc<Enabler>> {
        self.by_site
            .lock()
            .get_from(|enabler| enabler.site().cmp(site))
            .cloned()
    }

    /// Adds a registration, if `connect` says so, and returns what it says. Whoever is forked
    /// meanwhile does not run before that is done.
    ///
    /// # Errors
    ///
    /// What `connect` fails with, and what a lack of memory is to it.
    pub(crate) fn insert_if<E: From<AllocError>>(
        &self,
        enabler: &Arc<Enabler>,
        connect: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut by_site = self.by_site.lock();
        by_site.insert(enabler)?;
        let connected = connect();
        if !matches!(connected, Ok(true)) {
            // The caller has it, too.
            let _ = by_site.remove(|other| other.site().cmp(&enabler.site()));
        }
        connected
    }

    /// Removes the registration at a site, if there is one and `is_alone` says so: `None` if it does
    /// not.
    pub(crate) fn remove_if(
        &self,
        site: &Site,
        is_alone: impl FnOnce() -> bool,
    ) -> Option<Option<Arc<Enabler>>> {
        let mut by_site = self.by_site.lock();
        is_alone().then(|| by_site.remove(|enabler| enabler.site().cmp(site)))
    }

    /// Waits until whoever was at a registration when the current process was forked has done it.
    pub(crate) fn settle(&self) {
        drop(self.by_site.lock());
    }

    /// Lets the bits be written in the memory of a process, too.
    pub(crate) fn join(&self, node: RBTreeNode<usize, Arc<Process>>) {
        let replaced = self.members.lock().insert(node);
        drop(replaced);
    }

    /// Stops writing bits in the memory of a process. None is being written once this returns.
    pub(crate) fn leave(&self, process: &Process) {
        let node = self.members.lock().remove_node(&process.key());
        drop(node);
    }

    /// Writes a bit in the memory of all processes. Those that cannot be written now are repaired
    /// later. The caller holds the lock of the event.
    pub(crate) fn write(&self, bit: &UserBit, on: bool) {
        self.note_change();
        for process in self.members.lock().values() {
            if !process.try_write(bit, on) {
                process.repair_later((bit.address(), bit.bit()));
            }
        }
    }

    /// Has the bits written anew in the memory of a child that is being forked.
    pub(crate) fn note_change(&self) {
        self.last_change.store(clock::now(), Relaxed);
    }

    /// Can a bit have changed between the copying of a process's memory and now, if the process got
    /// its start time at `started`?
    pub(crate) fn has_changed_since_fork(&self, started: u64) -> bool {
        let last_change = self.last_change.load(Relaxed);
        last_change != NEVER && last_change.saturating_add(LONGEST_FORK) >= started
    }

    /// A set of its own for one of several members, which is in both after this. The caller leaves
    /// this one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` when the module is being unloaded.
    pub(crate) fn copy(&self, process: &Arc<Process>) -> Result<Membership> {
        // Of any length: there may be no contiguous memory for it.
        let mut enablers = KVVec::new();
        for enabler in self.by_site.lock().values() {
            enablers.push(enabler.clone(), GFP_KERNEL_ACCOUNT)?;
        }
        let copy = Membership::new()?;
        let member = RBTreeNode::new(process.key(), process.clone(), GFP_KERNEL_ACCOUNT)?;
        copy.0.join(member);
        for original in enablers {
            let enabler = Enabler::new(&copy.0, *original.bit(), original.event().again())?;
            copy.0.insert_if(&enabler, || {
                // It may have changed since the original was written, and changes from here on.
                original.event().connect(&enabler, |on| {
                    enabler.write(on);
                    Ok::<_, Error>(())
                })?;
                Ok::<_, Error>(true)
            })?;
        }
        Ok(copy)
    }

    /// Forgets everything.
    fn clear(&self) {
        let by_site = mem::replace(&mut *self.by_site.lock(), Ordered::new());
        for enabler in by_site.values() {
            enabler.event().disconnect(enabler);
        }
    }
}

/// A share in a set of registrations. When the last is dropped, the set is cleared.
pub(crate) struct Membership(Arc<Registrations>);

impl Membership {
    /// The first share in a new, empty set.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let registrations = Arc::pin_init(
            pin_init!(Registrations {
                users: Atomic::new(1),
                last_change: Atomic::new(NEVER),
                by_site <- new_mutex!(Ordered::new(), "Registrations::by_site"),
                members <- new_mutex!(RBTree::new(), "Registrations::members"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        Ok(Self(registrations))
    }

    /// Another share, for a process that is being forked. Any context.
    pub(crate) fn share(&self) -> Self {
        self.0.users.fetch_add(1, Relaxed);
        Self(self.0.clone())
    }

    /// Is this the only share?
    pub(crate) fn is_alone(&self) -> bool {
        self.0.users.load(Relaxed) == 1
    }

    /// The set.
    pub(crate) fn registrations(&self) -> &Arc<Registrations> {
        &self.0
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.0.users.fetch_sub(1, Full) == 1 {
            self.0.clear();
        }
    }
}
