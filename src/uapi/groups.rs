// SPDX-License-Identifier: GPL-2.0

//! Groups with a name: making, changing and removing them, with the files of each.

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

/// The most groups with a name.
const MAX_GROUPS: usize = 4096;

/// The most events of all groups with a name together, unless `kernel.user_events_groups_max` is
/// set. The kernel has some 63,000 numbers for events: with the first group's 32,768 and those that
/// are kept, some thousands are left to the host's probes.
const DEFAULT_GROUPS_MAX_EVENTS: u32 = 24576;

/// All groups, and the work that removes some.
#[pin_data]
pub(crate) struct Groups {
    symbols: CheckedSymbols,
    idle: Arc<IdleEvents>,
    /// The first group, which has no name, and the mms of all groups.
    first: Arc<FileContext>,
    max_events: SysctlU32,
    /// Nests outside of `event_mutex`.
    #[pin]
    pub(super) named: Mutex<NamedGroups>,
    #[pin]
    removal_work: DelayedWork<Groups>,
}

/// The groups with a name.
pub(super) struct NamedGroups {
    groups: SortedArcs<NamedGroup, ByGroupName>,
    /// Of the most events of each.
    sum_of_limits: u32,
    /// How many groups are to be removed with their last use. While there are any, the work is
    /// queued or runs.
    ending: usize,
    /// The next pause of the work. Each pause is twice as long as the one before, up to
    /// [`MAX_RECHECK_DELAY`].
    pause: Delta,
}

/// A group with a name, and its files, which are removed with it.
pub(super) struct NamedGroup {
    pub(super) group: Arc<Group>,
    _listings: [TracefsFile<FileContext>; 2],
    data: SetOnce<TracefsFile<FileContext>>,
}

impl NamedGroup {
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
    fn get(&self, name: GroupName<'_>) -> Option<&Arc<NamedGroup>> {
        self.groups.get(|group| group.name().cmp(name.bytes()))
    }

    /// The group with the next name after `name`, which no group need have; the first one for
    /// `None`.
    pub(super) fn next_after(&self, name: Option<&[u8]>) -> Option<&Arc<NamedGroup>> {
        self.groups.get_from(|group| match name {
            // No group compares equal, so the search ends at the first one behind.
            Some(name) => group.name().cmp(name).then(Ordering::Less),
            None => Ordering::Greater,
        })
    }

    /// Removes a group that is not used, and its events; its files go with the last reference. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` when the group is used.
    fn remove(&mut self, group: &Arc<NamedGroup>) -> Result {
        group.group.close_if_unused()?;
        self.groups.remove(ByGroupName::cmp_to(group));
        self.sum_of_limits = self
            .sum_of_limits
            .saturating_sub(group.group.limits().events);
        self.ending -= usize::from(group.group.is_ending());
        Ok(())
    }
}

impl Groups {
    /// No groups but the first. May sleep.
    pub(crate) fn new(
        symbols: CheckedSymbols,
        idle: Arc<IdleEvents>,
        first: Arc<FileContext>,
    ) -> Result<Arc<Self>> {
        let max_events = SysctlU32::new(c"user_events_groups_max", DEFAULT_GROUPS_MAX_EVENTS)?;
        let named = NamedGroups {
            groups: SortedArcs::new(),
            sum_of_limits: 0,
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

    /// Opens the group of this name; `None` is the first. May sleep.
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

    /// Makes a group, or changes the limits of an existing one. May sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` when the group exists, and no limit is given; `EBUSY` when it has more events than
    /// the new limit; `EMFILE` when there are too many groups, or the sum of their limits would be
    /// too large; those of [`Self::create`]. Nothing has changed then.
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
        let sum = (named.sum_of_limits.saturating_sub(had)).saturating_add(limits.events);
        if limits.events > had && sum > self.max_events.get() {
            return Err(EMFILE);
        }
        match found {
            Some(group) => group.group.set_limits(limits)?,
            None => self.create(&mut named.groups, name, limits, complete)?,
        }
        named.sum_of_limits = sum;
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
        // Last: from then on the group can get events, which are removed only from a group in the
        // table.
        let data =
            TracefsFile::create_published::<Control<DataFile>>(symbols, suffix, &context, complete);
        let failed = data.map(|data| group.data.populate(data)).err();
        if failed.is_some() {
            groups.remove(ByGroupName::cmp_to(&group));
        }
        failed.map_or(Ok(()), Err)
    }

    /// Removes a group, its events and its files: now, or with its last use. In the latter case no
    /// file of it can be opened any more. May sleep.
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
            // The last use may be a reference of the trace core, whose end is only found by
            // checking again.
            named.pause = RECHECK_DELAY;
            self.idle.queue().enqueue_after::<_, 0>(self, RECHECK_DELAY);
            removed = Ok(());
        }
        // Under the lock: the files of a new group of that name have the same names.
        drop(group);
        drop(named);
        removed
    }

    /// Removes all groups with a name. For the module's exit, when no file is open. Waits as
    /// [`Group::close`] does; may sleep.
    pub(crate) fn close(&self) {
        let mut named = self.named.lock();
        while let Some(groups) = named.groups.take_leaf() {
            for group in groups.values() {
                group.group.close();
            }
        }
    }

    /// Cancels the work that removes groups. For the module's exit. May sleep.
    pub(crate) fn begin_close(self: &Arc<Self>) {
        // Under the lock: the work is cancelled once, and not queued after that.
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

    /// Removes the groups that were to be removed with their last use, and checks those that are
    /// still used again after a pause, as a consumer that detaches gives no notice.
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
        // Under the lock, as in `remove`.
        drop(last);
        drop(named);
    }
}
