// SPDX-License-Identifier: GPL-2.0

//! Processes that use user_events in every way, as fast as possible, whether the module is loaded
//! or not.
//!
//! Each kind of use has a process of its own, active on request. A use holds its resources for a
//! moment, and has released them all when it ends.

use crate::harness;
use crate::kit::abi::{Data, DATA, PROFILE, REGISTRATIONS, STATUS};
use crate::kit::bpf::{Counters, Program};
use crate::kit::errno::{Errno, Result};
use crate::kit::group::Group;
use crate::kit::memory::{Mapping, READ, READ_WRITE};
use crate::kit::perf::{Perf, ALL_PROCESSES, ANY_CPU, SELF};
use crate::kit::random::Random;
use crate::kit::tracefs::{self, TraceInstance};
use crate::kit::{dynamic, os, tasks, wait};
use std::array;
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// The event of all kinds, made by the test.
pub const EVENT: &str = "st_stress_users";
pub const DESCRIPTION: &str = "st_stress_users u32 a";

/// One use of user_events. It fails if the module is not loaded, or goes meanwhile.
type Use = fn(&mut User) -> Result<()>;

/// A group made by one of the kinds.
const GROUP: &str = "st_stress_group";

const KINDS: [(&str, Use); 14] = [
    ("opens and lists", |user| user.open_files()),
    ("registers", |user| user.register()),
    ("writes", |user| user.write()),
    ("toggles", |user| user.toggle()),
    ("reads trace files", |user| user.read()),
    ("holds perf", |user| user.perf()),
    ("holds eBPF", |user| user.bpf()),
    ("makes dynamic events", |user| user.dynamic()),
    ("deletes", |user| user.delete()),
    ("changes its memory", |user| user.change_memory()),
    ("forks and dies", |user| user.die()),
    ("executes a program", |user| user.execute()),
    ("sets the limit", |user| user.limit()),
    ("makes a group", |user| user.group()),
];

pub const COUNT: usize = KINDS.len();
/// All kinds, as bits.
pub const ALL: u32 = (1 << COUNT) - 1;
const END: u32 = 1 << COUNT;

pub struct StressUsers {
    shared: SharedWords,
    pids: Vec<i32>,
    /// A perf event of a task, which keeps perf's static branch in the scheduler enabled. An
    /// emulator was seen to run stale code after the branch was switched, so this is not to be done
    /// thousands of times.
    _perf: Perf,
}

/// Memory shared by all processes.
struct SharedWords(Mapping);

impl SharedWords {
    /// The active kinds, as bits, and above them a number that changes with each order.
    fn orders(&self) -> &AtomicU32 {
        self.0.word(0)
    }

    /// The order by which a kind rests.
    fn resting(&self, kind: usize) -> &AtomicU32 {
        self.0.word(1024 + 4 * kind)
    }

    fn done(&self, kind: usize) -> &AtomicU64 {
        self.0.long(64 + 16 * kind)
    }

    fn failed(&self, kind: usize) -> &AtomicU64 {
        self.0.long(72 + 16 * kind)
    }
}

impl StressUsers {
    /// Forks the processes, which are inactive at first. `tracer` is an instance to use beside the
    /// top one.
    pub fn new(tracer: &TraceInstance) -> StressUsers {
        let shared = SharedWords(Mapping::shared(1));
        let start = |kind| match os::fork().expect("fork") {
            0 => {
                User::new(kind, &shared, tracer).go_on();
                os::exit_now(0);
            }
            pid => pid,
        };
        let pids = (0..COUNT).map(start).collect();
        StressUsers {
            shared,
            pids,
            _perf: Perf::of_nothing(),
        }
    }

    /// Makes these kinds active, and all others stop after the current use.
    pub fn order(&self, kinds: u32) {
        let orders = self.shared.orders();
        let number = (orders.load(SeqCst) >> (COUNT + 1)) + 1;
        orders.store((number << (COUNT + 1)) | kinds, SeqCst);
        os::wake_all(orders);
    }

    /// Stops all kinds, and waits for them.
    #[track_caller]
    pub fn rest(&self) {
        self.order(0);
        let orders = self.shared.orders().load(SeqCst);
        wait::until("all to rest", || {
            (0..COUNT).all(|kind| self.shared.resting(kind).load(SeqCst) == orders)
        });
        self.is_well();
    }

    /// The description of a kind.
    pub fn name(kind: usize) -> &'static str {
        KINDS[kind].0
    }

    /// The number of successful uses of a kind.
    pub fn done(&self, kind: usize) -> u64 {
        self.shared.done(kind).load(SeqCst)
    }

    /// The same for all kinds.
    pub fn all_done(&self) -> [u64; COUNT] {
        array::from_fn(|kind| self.done(kind))
    }

    /// Makes the event, and waits until each of these kinds has used it since `before`.
    #[track_caller]
    pub fn wait_for_each(&self, kinds: u32, before: &[u64; COUNT]) {
        let mut last = None;
        let comes = wait::eventually(|| {
            // The event does not stay if a user registers it first.
            if !tracefs::event_exists(EVENT) {
                dynamic::run(&format!("u:{DESCRIPTION}")).expect("make the event");
            }
            let is_active = |&kind: &usize| kinds & (1 << kind) != 0;
            last = (0..COUNT)
                .filter(is_active)
                .find(|&kind| self.done(kind) == before[kind]);
            last.is_none()
        });
        self.is_well();
        let name = last.map_or("", StressUsers::name);
        assert!(comes, "nothing from the user that {name}");
    }

    /// The number of failed uses of a kind.
    pub fn failed(&self, kind: usize) -> u64 {
        self.shared.failed(kind).load(SeqCst)
    }

    /// Checks that all processes live.
    #[track_caller]
    pub fn is_well(&self) {
        for (kind, &pid) in self.pids.iter().enumerate() {
            let ended = os::wait(pid, libc::WNOHANG).expect("wait");
            assert_eq!(
                ended.0, 0,
                "the user that {} has ended: {:#x}",
                KINDS[kind].0, ended.1
            );
        }
    }

    /// Ends the processes, which must succeed.
    #[track_caller]
    pub fn end(self) {
        self.order(END);
        for (kind, pid) in self.pids.into_iter().enumerate() {
            let (_, status) = os::wait(pid, 0).expect("wait");
            assert_eq!(status, 0, "status of the user that {}", KINDS[kind].0);
        }
    }
}

/// One of the processes.
struct User<'a> {
    kind: usize,
    shared: &'a SharedWords,
    tracer: &'a TraceInstance,
    random: Random,
    page: Mapping,
    program: Option<(Program, Counters)>,
    /// The events, by the inodes of their directories, that refused a trigger while the module was
    /// unloaded.
    refused: HashSet<u64>,
}

impl<'a> User<'a> {
    fn new(kind: usize, shared: &'a SharedWords, tracer: &'a TraceInstance) -> User<'a> {
        User {
            kind,
            shared,
            tracer,
            random: harness::random(kind as u64),
            page: Mapping::kept(1),
            program: None,
            refused: HashSet::new(),
        }
    }

    fn go_on(&mut self) {
        loop {
            let orders = self.shared.orders().load(SeqCst);
            if orders & END != 0 {
                return;
            }
            if orders & (1 << self.kind) == 0 {
                self.shared.resting(self.kind).store(orders, SeqCst);
                os::wait_while(self.shared.orders(), orders);
                continue;
            }
            let count = match KINDS[self.kind].1(self) {
                Ok(()) => self.shared.done(self.kind),
                // EIO: removed between lookup and open.
                Err(Errno::ENOENT | Errno::ENODEV | Errno::ENXIO | Errno::EIO) => {
                    self.shared.failed(self.kind)
                }
                Err(errno) => panic!("the user that {}: {errno:?}", KINDS[self.kind].0),
            };
            count.fetch_add(1, SeqCst);
            // Pauses without resources, so that the module can be loaded or unloaded.
            thread::sleep(Duration::from_micros(self.random.long_below(1500)));
        }
    }

    /// Holds the current resources for a random time.
    fn hold(&mut self) {
        if self.random.below(2) == 0 {
            thread::sleep(Duration::from_micros(self.random.long_below(2000)));
        }
    }

    fn open_files(&mut self) -> Result<()> {
        let path = *self.random.one_of(&[DATA, STATUS, PROFILE, REGISTRATIONS]);
        let mut file = File::open(path)?;
        self.hold();
        if path != DATA {
            file.read_to_end(&mut Vec::new()).expect("read a listing");
        }
        Ok(())
    }

    /// Registers the event with the page's first bit.
    fn use_event(&self, data: &Data) {
        let index = data.register_text(DESCRIPTION, self.page.address(), 0);
        assert_eq!(index, Ok(0), "register on an open file");
    }

    /// Unregisters it.
    fn leave_event(&self, data: &Data) {
        let ended = data.unregister_bit(self.page.address(), 0);
        assert_eq!(ended, Ok(()), "unregister");
    }

    fn register(&mut self) -> Result<()> {
        let mut data = Data::try_open()?;
        self.use_event(&data);
        // Makes the kernel read the bit.
        fs::read_to_string(REGISTRATIONS).expect("read a listing");
        if self.random.below(2) == 0 {
            // The registration alone keeps the event.
            drop(data);
            self.hold();
            data = Data::open();
        } else {
            self.hold();
        }
        self.leave_event(&data);
        assert_eq!(self.page.word(0).load(SeqCst), 0, "set after unregistering");
        // The next use has a new page.
        self.page.advise(libc::MADV_DONTNEED)?;
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let data = Data::try_open()?;
        self.use_event(&data);
        for number in 0..8u32 {
            let written = data.write(0, &number.to_ne_bytes());
            let not_attached = Err(Errno::EBADF);
            assert!(written == Ok(8) || written == not_attached, "{written:?}");
            if number == 4 {
                self.hold();
            }
        }
        self.leave_event(&data);
        Ok(())
    }

    fn toggle(&mut self) -> Result<()> {
        let top = TraceInstance::top();
        let tracer = *self.random.one_of(&[&top, self.tracer]);
        match self.random.below(4) {
            0 => {
                // All events of the system at once; there may be none.
                let group = tracer.path("events").join(tracefs::GROUP).join("enable");
                let on = tracefs::replace(&group, "1");
                self.hold();
                let off = tracefs::replace(&group, "0");
                // EINVAL: the last event went while the file was open.
                on.and(off).map_err(|errno| match errno {
                    Errno::EINVAL => Errno::ENODEV,
                    errno => errno,
                })
            }
            1 => {
                let trigger = "traceon:3 if a == 77";
                let event = fs::metadata(tracer.file(EVENT, ""))?.ino();
                // The kernel counts a refused trigger as registered (`register_trigger()`). It
                // takes the event's next trigger without calling the module, so that this trigger
                // holds no reference, and is lost when the event goes. So there is no next trigger.
                if self.refused.contains(&event) {
                    return Err(Errno::ENODEV);
                }
                let set = tracer.set(EVENT, "trigger", trigger);
                if set == Err(Errno::ENODEV) {
                    self.refused.insert(event);
                }
                set?;
                self.hold();
                let removed = tracer.set(EVENT, "trigger", &format!("!{trigger}"));
                assert_eq!(removed, Ok(()), "a trigger goes while it is attached");
                Ok(())
            }
            _ => {
                tracer.set(EVENT, "enable", "1")?;
                self.hold();
                let disabled = tracer.set(EVENT, "enable", "0");
                assert_eq!(disabled, Ok(()), "an event goes while it is enabled");
                Ok(())
            }
        }
    }

    fn read(&mut self) -> Result<()> {
        let cpu = *self.random.one_of(&os::cpus());
        let others = [
            self.tracer.path("trace_pipe"),
            self.tracer
                .path(&format!("per_cpu/cpu{cpu}/trace_pipe_raw")),
            TraceInstance::top().path("available_events"),
            self.tracer.file(EVENT, "id"),
            self.tracer.file(EVENT, "filter"),
            self.tracer.file(EVENT, "trigger"),
            self.tracer.file(EVENT, "enable"),
        ];
        // The first three call the module, and are read often enough to detect a leak in each.
        let path = match self.random.below(4) {
            0 => self.tracer.path("trace"),
            1 => TraceInstance::top().path("dynamic_events"),
            2 => self.tracer.file(EVENT, "format"),
            _ => self.random.one_of(&others).clone(),
        };
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)?;
        self.hold();
        let mut part = vec![0; 1 << 14];
        loop {
            match file.read(&mut part).map_err(Errno::from) {
                Ok(0) | Err(Errno::EAGAIN) => return Ok(()),
                Ok(_) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn attached(&mut self) -> Result<Perf> {
        let id = fs::read_to_string(self.tracer.file(EVENT, "id"))?;
        let id = id.trim().parse().expect("an event's id");
        let cpu = *self.random.one_of(&os::cpus()) as i32;
        let perf = match self.random.below(2) {
            0 => Perf::open(id, ALL_PROCESSES, cpu),
            _ => Perf::open(id, SELF, ANY_CPU),
        };
        // The event of this id is gone, or about to go.
        perf.map_err(|errno| match errno {
            Errno::EINVAL => Errno::ENODEV,
            errno => errno,
        })
    }

    fn perf(&mut self) -> Result<()> {
        let perf = self.attached()?;
        self.hold();
        perf.count();
        Ok(())
    }

    fn bpf(&mut self) -> Result<()> {
        let perf = self.attached()?;
        let (program, _) = self.program.get_or_insert_with(|| {
            let counters = Counters::new(1);
            (Program::counting(&counters, 1), counters)
        });
        assert_eq!(perf.attach(program), Ok(()), "attach a program");
        self.hold();
        Ok(())
    }

    fn dynamic(&mut self) -> Result<()> {
        // EINVAL: without the module, no event type accepts the line.
        dynamic::run("u:st_stress_line u32 a").map_err(|errno| match errno {
            Errno::EINVAL => Errno::ENODEV,
            errno => errno,
        })?;
        self.hold();
        // The event may be gone with the module, which it does not hold, or be enabled with its
        // system.
        match dynamic::run("-:st_stress_line") {
            Ok(()) | Err(Errno::EBUSY) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    fn delete(&mut self) -> Result<()> {
        let data = Data::try_open()?;
        let registered = data.register_text("st_stress_brief u32 a", self.page.address(), 1);
        assert_eq!(registered, Ok(0), "register on an open file");
        let ended = data.unregister_bit(self.page.address(), 1);
        assert_eq!(ended, Ok(()), "unregister");
        assert_eq!(data.delete("st_stress_brief"), Err(Errno::EBUSY));
        drop(data);
        // The event may be gone, or be enabled with its system.
        match Data::try_open()?.delete("st_stress_brief") {
            Ok(()) | Err(Errno::ENOENT | Errno::EBUSY) => Ok(()),
            Err(errno) => panic!("delete: {errno:?}"),
        }
    }

    fn change_memory(&mut self) -> Result<()> {
        let data = Data::try_open()?;
        self.use_event(&data);
        match self.random.below(3) {
            0 => self.page.advise(libc::MADV_DONTNEED)?,
            1 => {
                self.page.protect(READ);
                self.hold();
                self.page.protect(READ_WRITE);
            }
            _ => {
                self.page.unmap();
                self.hold();
                self.page.map_again();
            }
        }
        self.hold();
        self.leave_event(&data);
        Ok(())
    }

    fn die(&mut self) -> Result<()> {
        let data = Data::try_open()?;
        let way = self.random.below(4);
        if way == 0 {
            self.use_event(&data);
        }
        let pid = os::fork()?;
        if pid == 0 {
            match way {
                // Inherits the registration, and ends with it.
                0 => self.hold(),
                1 => self.use_event(&data),
                // Runs until it is killed.
                2 => {
                    drop(data);
                    loop {
                        let _ = self.write();
                    }
                }
                _ => self.use_event(&data),
            }
            os::exit_now(0);
        }
        self.hold();
        let mut well = 0;
        if way == 2 {
            os::kill(pid, libc::SIGKILL).expect("kill");
            well = libc::SIGKILL;
        }
        let (_, status) = os::wait(pid, 0).expect("wait");
        assert_eq!(status, well, "status of a child that dies in way {way}");
        if way == 0 {
            self.leave_event(&data);
        }
        Ok(())
    }

    fn execute(&mut self) -> Result<()> {
        let data = Data::try_open()?;
        let pid = os::fork()?;
        if pid == 0 {
            self.use_event(&data);
            tasks::execute(c"/bin/true");
            os::exit_now(1);
        }
        self.hold();
        assert_eq!(os::wait(pid, 0), Ok((pid, 0)), "a child that executes");
        Ok(())
    }

    fn limit(&mut self) -> Result<()> {
        let path = "/proc/sys/kernel/user_events_max";
        let most = fs::read_to_string(path)?;
        self.hold();
        fs::write(path, most)?;
        Ok(())
    }

    fn group(&mut self) -> Result<()> {
        let group = match Group::made(GROUP, "bytes_per_second=1000") {
            // Could not be removed the last time.
            Err(Errno::EEXIST) => Group::of_name(GROUP),
            made => made?,
        };
        self.hold();
        // The module may have been reloaded meanwhile, without the group.
        let data = Data::try_open_in(&group)?;
        let index = data.register_text("st_stress_grouped u32 a", self.page.address(), 0);
        assert_eq!(index, Ok(0), "register on an open file");
        self.hold();
        self.leave_event(&data);
        drop(data);
        match group.remove() {
            // perf may be attached to its event by a reused id.
            Ok(()) | Err(Errno::EBUSY) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}
