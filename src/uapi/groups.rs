// SPDX-License-Identifier: GPL-2.0

//! `user_events_groups`: making, listing and removing groups, and the files of each.

use super::data::{
    Context,
    DataFile, //
};
use super::profile::ProfileFile;
use super::status::StatusFile;
use crate::events::{
    Group,
    IdleEvents,
    OpenGroup,
    Usage, //
};
use crate::mms::UserMms;
use crate::schema::{
    GroupLimits,
    GroupLine,
    GroupName, //
};
use crate::sorted_arcs::{
    Order,
    SortedArcs, //
};
use crate::sys::loading::Publishing;
use crate::sys::symbols::Symbols;
use crate::sys::tracefs::{
    Control,
    Listed,
    Listing,
    ListingFile,
    TracefsFile,
    Write, //
};
use core::cmp::Ordering;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::{
    Arc,
    Mutex,
    SetOnce, //
};
use kernel::uaccess::UserSlice;

/// The longest line that can be written, in bytes, without its end.
const MAX_LINE: usize = 255;

/// The most groups, the first not counted.
const MAX_GROUPS: usize = 4096;

/// All groups.
#[pin_data]
pub(crate) struct Groups {
    symbols: Symbols,
    idle: Arc<IdleEvents>,
    /// The first group, and the mms of all.
    first: Arc<Context>,
    /// Those that have a name. Outside of `event_mutex`.
    #[pin]
    named: Mutex<SortedArcs<NamedGroup, ByName>>,
}

/// A group with a name, and its files, which go with it.
struct NamedGroup {
    limits: GroupLimits,
    group: Arc<Group>,
    _listings: [TracefsFile<Context>; 2],
    data: SetOnce<TracefsFile<Context>>,
}

impl NamedGroup {
    /// Its name.
    fn name(&self) -> &[u8] {
        self.group.systems().group_name().unwrap_or_default()
    }
}

struct ByName;

impl Order<NamedGroup> for ByName {
    fn beside(group: &Arc<NamedGroup>) -> impl Fn(&Arc<NamedGroup>) -> Ordering {
        let name = group.name();
        move |other| other.name().cmp(name)
    }
}

impl Groups {
    /// The first group alone. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        symbols: Symbols,
        idle: Arc<IdleEvents>,
        mms: Arc<UserMms>,
    ) -> Result<Arc<Self>> {
        let group = Group::new(symbols, &idle, None)?;
        let first = Arc::new(Context { group, mms }, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                symbols,
                idle,
                first,
                named <- new_mutex!(SortedArcs::new(), "Groups::named"),
            }),
            GFP_KERNEL,
        )
    }

    /// What the files of the first group share.
    pub(crate) fn first(&self) -> &Arc<Context> {
        &self.first
    }

    /// Uses the group of this name; `None` is the first. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when there is none; `EIO` when it is just being removed.
    pub(super) fn open(&self, name: Option<GroupName<'_>>) -> Result<OpenGroup> {
        let Some(name) = name else {
            return OpenGroup::new(&self.first.group);
        };
        let named = self.named.lock();
        let group = named.get(|group| group.name().cmp(name.bytes()));
        OpenGroup::new(&group.ok_or(ENOENT)?.group)
    }

    /// Makes a group and its files. May sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` when there is one of this name; `EMFILE` when there are too many; `ENOMEM`; `ENODEV` when tracefs
    /// refuses. Nothing is left of it then.
    fn make(&self, name: GroupName<'_>, limits: GroupLimits, publishing: &Publishing) -> Result {
        let mut named = self.named.lock();
        let found = named.get(|group| group.name().cmp(name.bytes()));
        if found.is_some() {
            return Err(EEXIST);
        }
        if named.len() >= MAX_GROUPS {
            return Err(EMFILE);
        }
        let group = Group::new(self.symbols, &self.idle, Some((name, limits)))?;
        let context = Context {
            group: group.clone(),
            mms: self.first.mms.clone(),
        };
        let context = Arc::new(context, GFP_KERNEL_ACCOUNT)?;
        let (symbols, suffix) = (self.symbols, name.bytes());
        let listings = [
            TracefsFile::create_live::<Listed<StatusFile>>(symbols, suffix, &context, publishing)?,
            TracefsFile::create_live::<Listed<ProfileFile>>(symbols, suffix, &context, publishing)?,
        ];
        let group = NamedGroup {
            limits,
            group,
            _listings: listings,
            data: SetOnce::new(),
        };
        let group = Arc::new(group, GFP_KERNEL_ACCOUNT)?;
        named.insert(&group)?;
        // At last: from then on the group can have events, which only a group in the table loses.
        let data =
            TracefsFile::create_live::<Control<DataFile>>(symbols, suffix, &context, publishing);
        let failed = data.map(|data| group.data.populate(data)).err();
        if failed.is_some() {
            named.remove(|group| group.name().cmp(name.bytes()));
        }
        failed.map_or(Ok(()), Err)
    }

    /// Removes a group that is not used, its events and its files. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` when there is none; `EBUSY` when it is used.
    fn remove(&self, name: GroupName<'_>) -> Result {
        let mut named = self.named.lock();
        let group = named.get(|group| group.name().cmp(name.bytes()));
        group.ok_or(ENOENT)?.group.close_unused()?;
        let group = named.remove(|group| group.name().cmp(name.bytes()));
        // The files go before the lock does: another group of that name has the same.
        drop(group);
        drop(named);
        Ok(())
    }

    /// Removes all events and all groups but the first. For the module's exit: as [`Group::close`], and no file is
    /// open.
    pub(crate) fn close(&self) {
        self.first.group.close();
        let mut named = self.named.lock();
        while let Some(groups) = named.take_leaf() {
            for group in groups.values() {
                group.group.close();
            }
        }
        drop(named);
        self.idle.close();
        self.first.group.forget_kept();
    }

    /// Has no event's removal waited for any more.
    pub(crate) fn begin_close(&self) {
        self.idle.begin_close();
    }
}

/// The listing. One line a group, by name: the line that makes it, and a comment that tells what it
/// has.
pub(crate) struct GroupsFile;

/// Behind the group with this name, whether it is there or not; `None`: in front of all.
pub(crate) struct Cursor(Option<KVec<u8>>);

impl ListingFile for GroupsFile {
    type Context = Groups;
    type Cursor = Cursor;
    const NAME: &'static CStr = c"user_events_groups";
    const MODE: u16 = 0o600;
    const WRITE: Option<Write<Groups>> = Some(write);

    fn begin(_: &Groups) -> Cursor {
        Cursor(None)
    }

    fn show(groups: &Groups, cursor: &Cursor, out: &Listing<'_>) -> Result<Option<Cursor>> {
        let named = groups.named.lock();
        let group = named.get_from(|group| match &cursor.0 {
            // No group compares equal, so the first one behind is found.
            Some(name) => group.name().cmp(name).then(Ordering::Less),
            None => Ordering::Greater,
        });
        let Some(group) = group else {
            return Ok(None);
        };
        let mut name = KVec::with_capacity(group.name().len(), GFP_KERNEL)?;
        name.extend_from_slice(group.name(), GFP_KERNEL)?;
        show_group(group, out);
        Ok(Some(Cursor(Some(name))))
    }
}

/// Takes each line of a write. The end of a write is that of a line. Returns the bytes of the lines
/// that were taken. May sleep.
///
/// # Errors
///
/// Why the first was not: `EFAULT`, `EINVAL` when it is too long, or what [`write_line`] fails
/// with.
fn write(groups: &Arc<Groups>, from: UserSlice, publishing: &Publishing) -> Result<usize> {
    let mut left = from.reader();
    let count = left.len();
    while !(left.is_empty() || left.len() < count && current!().signal_pending()) {
        let mut buf = [0; MAX_LINE + 1];
        let buf = buf.get_mut(..left.len().min(MAX_LINE + 1));
        let buf = buf.ok_or(EINVAL)?;
        let result = (left.clone_reader().read_slice(buf))
            .and_then(|()| match buf.iter().position(|byte| *byte == b'\n') {
                Some(end) => write_line(groups, buf.get(..end).unwrap_or_default(), publishing)
                    .map(|()| end + 1),
                None if buf.len() > MAX_LINE => Err(EINVAL),
                None => write_line(groups, buf, publishing).map(|()| buf.len()),
            })
            .and_then(|len| left.skip(len));
        match result {
            Ok(()) => {}
            Err(error) if left.len() == count => return Err(error),
            Err(_) => break,
        }
    }
    Ok(count - left.len())
}

/// What a line asks for.
fn write_line(groups: &Arc<Groups>, line: &[u8], publishing: &Publishing) -> Result {
    match GroupLine::parse(line)? {
        GroupLine::Nothing => Ok(()),
        GroupLine::Make(name, limits) => groups.make(name, limits, publishing),
        GroupLine::Remove(name) => groups.remove(name),
    }
}

/// Shows a group.
fn show_group(group: &NamedGroup, out: &Listing<'_>) {
    out.bytes(b"g:");
    out.bytes(group.name());
    out.text(fmt!(" events={}", group.limits.events));
    if let Some(bytes) = group.limits.bytes_per_second {
        out.text(fmt!(" bytes_per_second={bytes}"));
    }
    let Usage {
        events,
        used_events,
        open_files,
    } = group.group.usage();
    out.text(fmt!(
        " # {events} events, {used_events} used, {open_files} open files"
    ));
    if let Some(rate) = group.group.byte_rate() {
        out.text(fmt!(", {} refused", rate.refused()));
    }
    out.bytes(b"\n");
}
