// SPDX-License-Identifier: GPL-2.0

//! All processes that have registered something, and how they come and go.

use crate::known::{Known, Places};
use crate::process::Process;
use crate::registrations::Membership;
use crate::registry::Registry;
use crate::retries::Retries;
use crate::sys::address_space::{self, Listener, Watch};
use crate::sys::fork::{Child, ForkListener};
use crate::sys::leave::LeaveListener;
use crate::sys::work_queue::OwnedQueue;
use kernel::mm::MmWithUser;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, Completion, Mutex, SpinLock};
use kernel::time::{delay::fsleep, Delta};
use kernel::workqueue::{self, Work, WorkItem};
use kernel::{new_mutex, new_spinlock, new_work};

/// How long a child waits before it tries again to get its registrations.
const RETRY_AFTER: Delta = Delta::from_millis(10);

/// All processes that have registered something.
#[pin_data]
pub(crate) struct Processes {
    registry: Arc<Registry>,
    retries: Arc<Retries>,
    /// A spinlock, since a fork that is to be noticed may be under way where sleeping is not
    /// allowed.
    #[pin]
    known: SpinLock<Known>,
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
                retries: Retries::new()?,
                known <- new_spinlock!(Known::new(), "Processes::known"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Where work is done that cannot be done where it is noticed.
    pub(crate) fn queue(&self) -> &OwnedQueue {
        self.registry.queue()
    }

    /// Has a process try after `pause` to repair what it could not. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn retry_after(&self, process: &Arc<Process>, pause: Delta) -> Result {
        self.retries.add(self.queue(), process, pause)
    }

    /// The process of this address space, if it has registered anything. Any context.
    pub(crate) fn find(&self, mm: &MmWithUser) -> Option<Arc<Process>> {
        self.known.lock().get(mm).cloned()
    }

    /// The first process with this number or a higher one, and its number. Processes are numbered as
    /// they get their first registration. Any context.
    pub(crate) fn find_from(&self, number: u64) -> Option<(u64, Arc<Process>)> {
        self.known.lock().get_from(number)
    }

    /// The number that the next process gets. Any context.
    pub(crate) fn next_number(&self) -> u64 {
        self.known.lock().next_number()
    }

    /// The process of the caller's address space. Sleeps for the mmap lock the first time.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn find_or_make(self: &Arc<Self>, mm: &MmWithUser) -> Result<Arc<Process>> {
        match self.find(mm) {
            Some(process) => Ok(process),
            None => self.add(mm, Membership::new()?),
        }
    }

    /// Adds the process of the caller's address space. If another thread was faster, its process
    /// counts.
    fn add(self: &Arc<Self>, mm: &MmWithUser, membership: Membership) -> Result<Arc<Process>> {
        let process = Process::new(mm, self, membership)?;
        let places = Places::new();
        let watch = places.and_then(|places| Ok((places, self.watch(mm, &process)?)));
        let (places, watch) = match watch {
            Ok(both) => both,
            Err(error) => {
                process.withdraw();
                return Err(error);
            }
        };
        process.set_watch(watch);
        let mut known = self.known.lock();
        if let Some(faster) = known.get(mm).cloned() {
            drop(known);
            drop(places);
            process.withdraw();
            return Ok(faster);
        }
        known.insert(places, &process);
        Ok(process)
    }

    /// Waits for the end of the process's address space. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn watch(&self, mm: &MmWithUser, process: &Arc<Process>) -> Result<Watch<Process>> {
        match address_space::watch(mm, process.clone()) {
            // A signal waits for the current task, which cannot take it here: a new child may be
            // stopped by its debugger before anything else. The work queue's tasks get no signals.
            Err(error) if error == EINTR => Subscribing::run_elsewhere(self, mm, process),
            result => result,
        }
    }

    /// Forgets a process.
    pub(crate) fn forget(&self, process: &Process) {
        let removed = self.known.lock().remove(process);
        drop(removed);
    }

    /// Ends all watches and waits until no address space tells of its end any more. For the
    /// module's exit: nobody can register any more, and nothing is registered. May sleep.
    pub(crate) fn close(&self) {
        self.retries.close();
        loop {
            let Some((_, process)) = self.find_from(0) else {
                break;
            };
            self.forget(&process);
            process.withdraw();
        }
        address_space::barrier();
    }
}

impl ForkListener for Processes {
    type Inheritance = Membership;

    fn knows(&self, parent: &MmWithUser) -> bool {
        self.find(parent).is_some()
    }

    fn forked(&self, parent: &MmWithUser) -> Option<Membership> {
        self.find(parent)?.share()
    }

    fn inherit(self: &Arc<Self>, child: Child<'_>, membership: Membership) {
        // The child has not run yet, and it must not run without its registrations.
        while !child.is_dying() {
            if let Ok(process) = self.add(child.mm(), membership.share()) {
                membership.registrations().settle();
                if membership
                    .registrations()
                    .has_changed_since_fork(child.started())
                {
                    process.rewrite_own();
                }
                return;
            }
            fsleep(RETRY_AFTER);
        }
    }
}

impl LeaveListener for Processes {
    fn leaving(&self, mm: &MmWithUser) {
        if let Some(process) = self.find(mm) {
            process.ended();
        }
    }
}

/// A subscription to the end of an address space that the work queue makes.
#[pin_data]
struct Subscribing {
    mm: ARef<MmWithUser>,
    process: Arc<Process>,
    #[pin]
    result: Mutex<Option<Result<Watch<Process>>>>,
    #[pin]
    done: Completion,
    #[pin]
    work: Work<Subscribing>,
}

workqueue::impl_has_work! {
    impl HasWork<Self> for Subscribing { self.work }
}

impl Subscribing {
    /// As [`address_space::watch`], but whatever signals the current task has. Waits for the work
    /// queue, which waits for the mmap lock.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn run_elsewhere(
        processes: &Processes,
        mm: &MmWithUser,
        process: &Arc<Process>,
    ) -> Result<Watch<Process>> {
        let subscribing = Arc::pin_init(
            pin_init!(Self {
                mm: ARef::from(mm),
                process: process.clone(),
                result <- new_mutex!(None, "Subscribing::result"),
                done <- Completion::new(),
                work <- new_work!("Subscribing::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        // It was not queued before.
        let _ = processes.queue().enqueue::<_, 0>(subscribing.clone());
        subscribing.done.wait_for_completion();
        let result = subscribing.result.lock().take();
        result.unwrap_or(Err(ENOMEM))
    }
}

impl WorkItem for Subscribing {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let result = address_space::watch(&this.mm, this.process.clone());
        *this.result.lock() = Some(result);
        this.done.complete_all();
    }
}
