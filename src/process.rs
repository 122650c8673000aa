// SPDX-License-Identifier: GPL-2.0

//! The registrations of one address space.

use crate::enabler::Enabler;
use crate::event::Use;
use crate::registry::Registry;
use crate::sys::address_space::{self, Listener, Watch};
use crate::sys::remote_page::{NotPresent, UserBit};
use core::mem;
use kernel::list::{List, ListArc};
use kernel::mm::{Mm, MmWithUser};
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, Mutex, SpinLock};
use kernel::workqueue::{self, Work, WorkItem};
use kernel::{new_mutex, new_spinlock, new_work};

/// How often a page is brought in before it is given up: enough for one that is swapped out or
/// copied meanwhile, an end to one that is unmapped in a loop.
const MOST_FAULTS: usize = 10;

/// An address space that has registered something, and what it has registered.
#[pin_data]
pub(crate) struct Process {
    mm: ARef<Mm>,
    processes: Arc<Processes>,
    #[pin]
    registrations: Mutex<Registrations>,
    /// Enablers whose bit could not be written when it should have been.
    #[pin]
    repairs: SpinLock<List<Enabler>>,
    #[pin]
    work: Work<Process>,
}

/// By address and number of the bit.
struct Registrations {
    by_bit: RBTree<(usize, u8), Arc<Enabler>>,
    watch: Option<Watch<Process>>,
}

workqueue::impl_has_work! {
    impl HasWork<Self> for Process { self.work }
}

impl Process {
    fn new(mm: &MmWithUser, processes: &Arc<Processes>) -> Result<Arc<Self>> {
        let mm: &Mm = mm;
        Arc::pin_init(
            try_pin_init!(Self {
                mm: ARef::from(mm),
                processes: processes.clone(),
                registrations <- new_mutex!(
                    Registrations { by_bit: RBTree::new(), watch: None },
                    "Process::registrations"
                ),
                repairs <- new_spinlock!(List::new(), "Process::repairs"),
                work <- new_work!("Process::work"),
            }? Error),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The address space.
    pub(crate) fn mm(&self) -> &Mm {
        &self.mm
    }

    /// Is something registered for this bit?
    pub(crate) fn has(&self, address: usize, bit: u8) -> bool {
        self.registrations
            .lock()
            .by_bit
            .get(&(address, bit))
            .is_some()
    }

    /// Registers `bit` for `event`. On success the bit tells the event's state. `mm` is the
    /// caller's, and this process's, address space. Waits for the page.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` when the bit is registered already, `EFAULT` when it cannot be written,
    /// `ENOMEM`.
    pub(crate) fn register(self: &Arc<Self>, mm: &MmWithUser, bit: UserBit, event: Use) -> Result {
        let site = (bit.address(), bit.bit());
        let enabler = Enabler::new(self, bit, event)?;
        let by_bit = RBTreeNode::new(site, enabler.clone(), GFP_KERNEL_ACCOUNT)?;
        let mut by_id = RBTreeNode::new(enabler.id(), enabler.clone(), GFP_KERNEL_ACCOUNT)?;

        // Held while the page is waited for: that holds up this process alone.
        let mut registrations = self.registrations.lock();
        if registrations.by_bit.get(&site).is_some() {
            return Err(EADDRINUSE);
        }
        for _ in 0..MOST_FAULTS {
            let locked = mm.mmap_read_lock();
            let connected = enabler
                .event()
                .connect(by_id, |on| bit.store(mm, &locked, on));
            drop(locked);
            match connected {
                Ok(()) => {
                    registrations.by_bit.insert(by_bit);
                    return Ok(());
                }
                Err((NotPresent, node)) => by_id = node,
            }
            bit.fault_in(mm).map_err(|_| EFAULT)?;
        }
        Err(EFAULT)
    }

    /// Ends a registration and clears its bit. `mm` is the caller's, and this process's, address
    /// space. Waits for the page.
    ///
    /// # Errors
    ///
    /// `ENOENT` when nothing is registered there; `EFAULT` when it was, and is not any more, but
    /// the bit could not be cleared.
    pub(crate) fn unregister(&self, mm: &MmWithUser, address: usize, bit: u8) -> Result {
        // Held until the bit is clear, so that a new registration of it comes after.
        let mut registrations = self.registrations.lock();
        let enabler = registrations.by_bit.remove(&(address, bit)).ok_or(ENOENT)?;
        enabler.event().disconnect(&enabler);
        for _ in 0..MOST_FAULTS {
            let locked = mm.mmap_read_lock();
            let cleared = enabler.bit().store(mm, &locked, false);
            drop(locked);
            if cleared.is_ok() {
                return Ok(());
            }
            enabler.bit().fault_in(mm).map_err(|_| EFAULT)?;
        }
        Err(EFAULT)
    }

    /// Has the enabler's bit written by the work queue. Any context.
    pub(crate) fn repair_later(self: &Arc<Self>, enabler: ListArc<Enabler>) {
        self.repairs.lock().push_back(enabler);
        // Already queued is as good.
        let _ = self
            .processes
            .registry
            .queue()
            .enqueue::<_, 0>(self.clone());
    }

    /// Brings in the page of an enabler's bit and has it written.
    fn repair(&self, enabler: &Enabler) {
        for _ in 0..MOST_FAULTS {
            let Some(mm) = self.mm.mmget_not_zero() else {
                return;
            };
            let mm = MmWithUser::into_mmput_async(mm);
            // What cannot be written now is left alone until the event changes again.
            if enabler.bit().fault_in(&mm).is_err() || enabler.event().retry(enabler) {
                return;
            }
        }
    }
}

impl WorkItem for Process {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        loop {
            let Some(enabler) = this.repairs.lock().pop_front() else {
                return;
            };
            // Out of the list before it is written: whoever changes the event from here on either
            // is seen by the repair, or finds that it can be listed again.
            this.repair(&enabler.into_arc());
        }
    }
}

impl Listener for Process {
    fn ended(&self) {
        self.processes.forget(self);
        let mut registrations = self.registrations.lock();
        let by_bit = mem::replace(&mut registrations.by_bit, RBTree::new());
        let watch = registrations.watch.take();
        drop(registrations);
        for enabler in by_bit.values() {
            enabler.event().disconnect(enabler);
        }
        drop((by_bit, watch));
    }
}

/// All processes that have registered something, by address space.
#[pin_data]
pub(crate) struct Processes {
    registry: Arc<Registry>,
    #[pin]
    by_mm: Mutex<RBTree<usize, Arc<Process>>>,
}

/// An address space as a key. It stays unique for as long as a [`Process`] keeps the structure.
fn key(mm: &Mm) -> usize {
    mm.as_raw() as usize
}

impl Processes {
    /// None yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(registry: &Arc<Registry>) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                registry: registry.clone(),
                by_mm <- new_mutex!(RBTree::new(), "Processes::by_mm"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// The process of this address space, if it has registered anything.
    pub(crate) fn find(&self, mm: &MmWithUser) -> Option<Arc<Process>> {
        self.by_mm.lock().get(&key(mm)).cloned()
    }

    /// The process of the caller's address space. Sleeps for the mmap lock the first time.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINTR`.
    pub(crate) fn find_or_make(self: &Arc<Self>, mm: &MmWithUser) -> Result<Arc<Process>> {
        if let Some(process) = self.find(mm) {
            return Ok(process);
        }
        let process = Process::new(mm, self)?;
        let node = RBTreeNode::new(key(mm), process.clone(), GFP_KERNEL_ACCOUNT)?;
        let watch = address_space::watch(mm, process.clone())?;
        // Another thread may have been faster. Its process counts, and our watch ends.
        let mut by_mm = self.by_mm.lock();
        if let Some(process) = by_mm.get(&key(mm)).cloned() {
            drop(by_mm);
            drop((node, watch));
            return Ok(process);
        }
        process.registrations.lock().watch = Some(watch);
        by_mm.insert(node);
        Ok(process)
    }

    /// Forgets a process whose address space has ended.
    fn forget(&self, process: &Process) {
        let node = self.by_mm.lock().remove_node(&key(&process.mm));
        drop(node);
    }

    /// Ends all watches and waits until no address space tells of its end any more. For the
    /// module's exit: nobody can register any more, and nothing is registered. May sleep.
    pub(crate) fn close(&self) {
        loop {
            let by_mm = self.by_mm.lock();
            let Some(process) = by_mm.values().next().cloned() else {
                break;
            };
            drop(by_mm);
            self.forget(&process);
            let watch = process.registrations.lock().watch.take();
            drop(watch);
        }
        address_space::barrier();
    }
}
