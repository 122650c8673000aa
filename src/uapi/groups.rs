// SPDX-License-Identifier: GPL-2.0

//! The groups: making, changing and removing them, and the files of each.

use super::data::{
    DataFile, //
    FileContext,
};
use super::profile::ProfileFile;
use super::status::StatusFile;
use crate::events::{
    Group,
    IdleEvents,
    OpenGroup,
    MAX_RECHECK_DELAY,
    RECHECK_DELAY, //
};
use crate::schema::{
    GroupLimits,
    GroupName,
    GroupOptions,
    When, //
};
use crate::sorted_arcs::{
    Order,
    SortedArcs, //
};
use crate::sys::loading::LoadComplete;
use crate::sys::symbols::CheckedSymbols;
use crate::sys::sysctl::SysctlU32;
use crate::sys::tracefs::{
    Control,
    SeqListing,
    TracefsFile, //
};
use crate::sys::work_queue::Delayed;
use core::cmp::Ordering;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    Mutex,
    SetOnce, //
};
use kernel::time::Delta;
use kernel::workqueue::{
    self,
    DelayedWork,
    WorkItem, //
};

/// The most groups, the first not counted.
const MAX_GROUPS: usize = 4096;

/// How many events all of them may have together, unless the administrator sets another number.
/// The kernel has some 63,000 numbers for events: with the first group's 32,768 and those that are
/// kept, some thousands are left to the host's probes.
const DEFAULT_GROUPS_MAX_EVENTS: u32 = 24576;

/// All groups.
#[pin_data]
pub(crate) struct Groups {
    symbols: CheckedSymbols,
    idle: Arc<IdleEvents>,
    /// The first group, which has no name, and the mms of all.
    first: Arc<FileContext>,
    max_events: SysctlU32,
    /// Outside of `event_mutex`.
    #[pin]
    pub(super) named: Mutex<NamedGroups>,
    #[pin]
    removal_work: DelayedWork<Groups>,
}

/// The groups that have a name.
pub(super) struct NamedGroups {
    groups: SortedArcs<NamedGroup, ByGroupName>,
    /// How many events they may have together: the sum of their limits.
    events: u32,
    /// How many are to be removed with their last use; the work is pending, or runs, while there
    /// are any.
    ending: usize,
    /// The next pause of the work, twice as long as the one before.
    pause: Delta,
}

/// A group with a name, and its files, which go with it.
pub(super) struct NamedGroup {
    pub(super) group: Arc<Group>,
    _listings: [TracefsFile<FileContext>; 2],
    data: SetOnce<TracefsFile<FileContext>>,
}

impl NamedGroup {
    /// Its name.
    pub(super) fn name(&self) -> &[u8] {
        self.group.systems().group_name().unwrap_or_default()
    }
}

struct ByGroupName;

impl Order<NamedGroup> for ByGroupName {
    fn cmp_to(group: &Arc<NamedGroup>) -> impl Fn(&Arc<NamedGroup>) -> Ordering {
        let name = group.name();
        move |other| other.name().cmp(name)
    }
}

impl NamedGroups {
    /// The group of this name.
    fn get(&self, name: GroupName<'_>) -> Option<&Arc<NamedGroup>> {
        self.groups.get(|group| group.name().cmp(name.bytes()))
    }

    /// The first group behind that of this name, whether that is there or not.
    pub(super) fn next_after(&self, name: Option<&[u8]>) -> Option<&Arc<NamedGroup>> {
        self.groups.get_from(|group| match name {
            // No group compares equal, so the first one behind is found.
            Some(name) => group.name().cmp(name).then(Ordering::Less),
            None => Ordering::Greater,
        })
    }

    /// Removes a group that is not used, its events, and its files with the last reference.
    ///
    /// # Errors
    ///
    /// `EBUSY` when it is used.
    fn remove(&mut self, group: &Arc<NamedGroup>) -> Result {
        group.group.close_if_unused()?;
        self.groups.remove(ByGroupName::cmp_to(group));
        self.events = self.events.saturating_sub(group.group.limits().events);
        self.ending -= usize::from(group.group.is_ending());
        Ok(())
    }
}

impl Groups {
    /// No groups but the first. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        symbols: CheckedSymbols,
        idle: Arc<IdleEvents>,
        first: Arc<FileContext>,
    ) -> Result<Arc<Self>> {
        let max_events = SysctlU32::new(c"user_events_groups_max", DEFAULT_GROUPS_MAX_EVENTS)?;
        let named = NamedGroups {
            groups: SortedArcs::new(),
            events: 0,
            ending: 0,
            pause: RECHECK_DELAY,
        };
        Arc::pin_init(
            pin_init!(Self {
                symbols,
                idle,
                first,
                max_events,
                named <- new_mutex!(named, "Groups::named"),
                removal_work <- workqueue::new_delayed_work!("Groups::removal_work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Uses the group of this name; `None` is the first. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when there is none; `EIO` when it is being removed.
    pub(super) fn open(&self, name: Option<GroupName<'_>>) -> Result<OpenGroup> {
        match name {
            None => OpenGroup::new(&self.first.group),
            Some(name) => OpenGroup::new(&self.named.lock().get(name).ok_or(ENOENT)?.group),
        }
    }

    /// Makes a group, or sets limits of one that there is. May sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` when there is one of this name, and nothing to be set; `EBUSY` when that has more
    /// events; `EMFILE` when there are too many groups, or all of them could have too many events;
    /// what [`Self::create`] fails with. Nothing has changed then.
    pub(super) fn create_or_change(
        &self,
        name: GroupName<'_>,
        options: GroupOptions,
        complete: &LoadComplete,
    ) -> Result {
        let mut named = self.named.lock();
        let found = named.get(name).cloned();
        let before = match &found {
            Some(_) if options.are_none() => return Err(EEXIST),
            Some(group) => Some(group.group.limits()),
            None if named.groups.len() >= MAX_GROUPS => return Err(EMFILE),
            None => None,
        };
        let limits = options.over(before.unwrap_or(GroupLimits::DEFAULT));
        let had = before.map_or(0, |before| before.events);
        let events = (named.events.saturating_sub(had)).saturating_add(limits.events);
        if limits.events > had && events > self.max_events.get() {
            return Err(EMFILE);
        }
        match found {
            Some(group) => group.group.set_limits(limits)?,
            None => self.create(&mut named.groups, name, limits, complete)?,
        }
        named.events = events;
        Ok(())
    }

    /// Makes a group and its files. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` when tracefs refuses. Nothing is left of the group then.
    fn create(
        &self,
        groups: &mut SortedArcs<NamedGroup, ByGroupName>,
        name: GroupName<'_>,
        limits: GroupLimits,
        complete: &LoadComplete,
    ) -> Result {
        let group = Group::new(self.symbols, &self.idle, Some((name, limits)))?;
        let context = FileContext {
            group: group.clone(),
            mms: self.first.mms.clone(),
        };
        let context = Arc::new(context, GFP_KERNEL_ACCOUNT)?;
        let (symbols, suffix) = (self.symbols, name.bytes());
        let listings = [
            TracefsFile::create_published::<SeqListing<StatusFile>>(
                symbols, suffix, &context, complete,
            )?,
            TracefsFile::create_published::<SeqListing<ProfileFile>>(
                symbols, suffix, &context, complete,
            )?,
        ];
        let group = NamedGroup {
            group,
            _listings: listings,
            data: SetOnce::new(),
        };
        let group = Arc::new(group, GFP_KERNEL_ACCOUNT)?;
        groups.insert(&group)?;
        // At last: from then on the group can have events, which only a group in the table loses.
        let data =
            TracefsFile::create_published::<Control<DataFile>>(symbols, suffix, &context, complete);
        let failed = data.map(|data| group.data.populate(data)).err();
        if failed.is_some() {
            groups.remove(ByGroupName::cmp_to(&group));
        }
        failed.map_or(Ok(()), Err)
    }

    /// Removes a group, its events and its files: now, or no file of it is opened any more, and it
    /// is removed when it is not used. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when there is none; `EBUSY` when it is used.
    pub(super) fn remove(self: &Arc<Self>, name: GroupName<'_>, when: When) -> Result {
        let mut named = self.named.lock();
        let group = named.get(name).ok_or(ENOENT)?.clone();
        if when == When::Unused && group.group.set_ending() {
            named.ending += 1;
        }
        let mut removed = named.remove(&group);
        if when == When::Unused && removed.is_err() {
            // What keeps it may be a reference of the trace core's.
            named.pause = RECHECK_DELAY;
            self.idle.queue().enqueue_after::<_, 0>(self, RECHECK_DELAY);
            removed = Ok(());
        }
        // The files go before the lock does: another group of that name has the same.
        drop(group);
        drop(named);
        removed
    }

    /// Removes all groups but the first. For the module's exit: as [`Group::close`], and no file is
    /// open.
    pub(crate) fn close(&self) {
        let mut named = self.named.lock();
        while let Some(groups) = named.groups.take_leaf() {
            for group in groups.values() {
                group.group.close();
            }
        }
    }

    /// Cancels the work that removes groups. For the module's exit.
    pub(crate) fn begin_close(self: &Arc<Self>) {
        // With the lock held: what has ended is cancelled once, and not begun after that.
        let mut named = self.named.lock();
        named.ending = 0;
        Delayed::<_, 0>::cancel(self);
    }
}

workqueue::impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Groups { self.removal_work }
}

impl WorkItem for Groups {
    type Pointer = Delayed<Self>;

    /// Removes the groups that were to be removed with their last use, and looks again, after a
    /// pause, at those that are used still: a consumer that goes does not tell.
    fn run(this: Delayed<Self>) {
        let mut named = this.named.lock();
        let mut last: Option<Arc<NamedGroup>> = None;
        while named.ending > 0 {
            let last_name = last.as_ref().map(|last| last.name());
            let Some(group) = named.next_after(last_name).cloned() else {
                let pause = named.pause;
                named.pause = MAX_RECHECK_DELAY.min(pause + pause);
                this.idle.queue().enqueue_after::<_, 0>(&this, pause);
                break;
            };
            if group.group.is_ending() {
                let _ = named.remove(&group);
            }
            last = Some(group);
        }
        // As in `remove`.
        drop(last);
        drop(named);
    }
}
