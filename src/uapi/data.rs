// SPDX-License-Identifier: GPL-2.0

//! `user_events_data`: registering and writing.

use super::file_events::FileEvents;
use super::ioctl_args::{
    DescriptionBuffer,
    UserReg,
    UserUnreg, //
};
use crate::events::{
    EventDesc,
    Group,
    OpenGroup, //
};
use crate::mms::UserMms;
use crate::schema::Description;
use crate::sys::kernel_crate::prelude::*;
use crate::sys::poll::Poll;
use crate::sys::task::perfmon_capable;
use crate::sys::tracefs::ControlFile;
use crate::sys::uapi::{
    DIAG_IOCSDEL,
    DIAG_IOCSREG,
    DIAG_IOCSUNREG, //
};
use crate::sys::user_bit::{
    untagged_addr,
    BitAddr, //
};
use crate::sys::write_source::WriteSource;
use crate::write;
use kernel::str::CStr;
use kernel::sync::Arc;
use kernel::uapi::_IOC_SIZESHIFT;

/// Bytes of the write index.
const INDEX_SIZE: usize = size_of::<u32>();

/// What the files of one group share.
pub(crate) struct FileContext {
    pub(crate) group: Arc<Group>,
    pub(crate) mms: Arc<UserMms>,
}

/// An open `user_events_data`, or data file of another group. All its operations act on that group.
pub(crate) struct DataFile {
    group: OpenGroup,
    mms: Arc<UserMms>,
    events: Pin<KBox<FileEvents>>,
}

impl ControlFile for DataFile {
    type Context = FileContext;
    const NAME: &'static CStr = c"user_events_data";
    const MODE: u16 = 0o640;

    fn open(context: &FileContext) -> Result<Self> {
        Ok(Self {
            group: OpenGroup::new(&context.group)?,
            mms: context.mms.clone(),
            events: KBox::pin_init(FileEvents::new(), GFP_KERNEL_ACCOUNT)?,
        })
    }

    #[inline(always)]
    fn write(&self, mut source: impl WriteSource) -> Result<usize> {
        let len = source.len();
        let index = source.read_u32()?;
        if index > i32::MAX as u32 {
            return Err(EINVAL);
        }
        let event = self.events.get(index).ok_or(ENOENT)?;
        let payload_len = len.saturating_sub(INDEX_SIZE);
        write::write(event, self.events.record_bufs(), payload_len, source)?;
        Ok(len)
    }

    fn poll_pri<'a>(&'a self, poll: &Poll<'a>) -> bool {
        self.events.poll(poll, self.group.changes())
    }

    fn ioctl(&self, command: u32, argument: usize, pointer_size: usize) -> Result {
        // Each command contains the size of a pointer, which is raised here to that of the kernel.
        let missing = (size_of::<usize>() - pointer_size) as u32;
        match command.wrapping_add(missing << _IOC_SIZESHIFT) {
            DIAG_IOCSREG => self.register(argument),
            DIAG_IOCSDEL => self.delete(argument),
            DIAG_IOCSUNREG => self.unregister(argument),
            _ => Err(ENOTTY),
        }
    }
}

impl DataFile {
    /// `DIAG_IOCSREG`. May sleep. C: `user_events_ioctl_reg()`.
    fn register(&self, argument: usize) -> Result {
        let reg = UserReg::read(argument)?;
        let bit = reg.bit;
        let task = current!();
        let mm = task.mm().ok_or(ESRCH)?;
        let user_mm = self.mms.find_or_create(mm)?;
        // Checked early so that a duplicate does not create the event. Not authoritative:
        // [`UserMm::register`](crate::mms::UserMm::register) checks again under its lock.
        if user_mm.has_enabler(bit.addr()) {
            return Err(EADDRINUSE);
        }
        let mut text = DescriptionBuffer::new();
        let desc = EventDesc::new(Description::parse(text.read(reg.description)?)?)?;
        if reg.flags.persistent && !perfmon_capable() {
            return Err(EPERM);
        }

        let event = self.group.register(&desc, reg.flags)?;
        // The bit shows all changes up to this number, and polls report the later ones.
        let changes = self.group.changes();
        let seen = changes.last();
        user_mm.register(mm, bit, event.get())?;
        let result = self
            .events
            .add(event, changes, seen)
            .and_then(|index| reg.write_index(index));
        if result.is_err() {
            // The caller gets no index. A failure to clear the bit does not change the result.
            let _ = user_mm.unregister(mm, bit.addr());
        }
        result
    }

    /// `DIAG_IOCSDEL`. May sleep. C: `user_events_ioctl_del()`.
    fn delete(&self, argument: usize) -> Result {
        let mut text = DescriptionBuffer::new();
        let name = text.read(argument)?;
        self.group.delete(name, perfmon_capable)
    }

    /// `DIAG_IOCSUNREG`. May sleep. C: `user_events_ioctl_unreg()`.
    fn unregister(&self, argument: usize) -> Result {
        let unreg = UserUnreg::read(argument)?;
        let address = usize::try_from(unreg.address).map_err(|_| ENOENT)?;
        let addr = BitAddr::new(untagged_addr(address), unreg.bit).ok_or(ENOENT)?;
        let task = current!();
        let mm = task.mm().ok_or(ESRCH)?;
        let user_mm = self.mms.find(mm).ok_or(ENOENT)?;
        user_mm.unregister(mm, addr)
    }
}
