// SPDX-License-Identifier: GPL-2.0

//! Control groups, to see and to limit the memory that the kernel uses for a process.

use crate::kit::child::{self, Child, Line, Word};
use crate::kit::event::Event;
use crate::kit::machine::number_in;
use crate::kit::tool::succeeds;
use crate::kit::{fork_tree, wait};
use std::fs::{self, File};
use std::path::PathBuf;

/// The most pages that stay charged to a group in advance, for each processor: MEMCG_CHARGE_BATCH.
pub const IN_ADVANCE: usize = 64;

/// A file that exists if the kernel has control groups.
pub const PATH: &str = "/proc/cgroups";

/// Returns whether the kernel lacks perf events of control groups, as the obstacle of a test.
pub fn without_perf() -> Option<String> {
    let kinds = fs::read_to_string(PATH).unwrap_or_default();
    let has_perf = kinds.lines().any(|line| line.starts_with("perf_event"));
    (!has_perf).then(|| "this kernel has no perf events of control groups".into())
}

/// The place where the hierarchy is mounted, which is mounted here if need be.
fn root() -> PathBuf {
    let mounts = fs::read_to_string("/proc/mounts").expect("/proc/mounts");
    let mounted = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(place))
    });
    mounted.unwrap_or_else(|| {
        const PLACE: &str = "/tmp/selftests.cgroup";
        fs::create_dir_all(PLACE).expect("a place for cgroups");
        let is_mounted = succeeds("mount", &["-t", "cgroup2", "none", PLACE]);
        assert!(is_mounted, "mount cgroup2");
        PLACE.into()
    })
}

pub fn be_spared() {
    fs::write("/proc/self/oom_score_adj", "-1000").expect("oom_score_adj");
}

/// The number of removed groups that are still referenced.
pub fn dying() -> i64 {
    number_in(root().join("cgroup.stat"), "nr_dying_descendants")
}

/// A group that accounts memory; removed when dropped.
pub struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    pub fn new(name: &str) -> Cgroup {
        let root = root();
        fs::write(root.join("cgroup.subtree_control"), "+memory").expect("account memory");
        let dir = root.join(name);
        fs::create_dir(&dir).expect("make a cgroup");
        Cgroup { dir }
    }

    pub fn set(&self, file: &str, value: &str) {
        fs::write(self.dir.join(file), value)
            .unwrap_or_else(|error| panic!("write {value} to {file}: {error}"));
    }

    /// The group's directory, as system calls take it.
    pub fn open(&self) -> File {
        File::open(&self.dir).expect("open a cgroup")
    }

    pub fn fork_to(&self, run: impl FnOnce(&mut Line)) -> Child {
        child::fork_until(Word::Entered, |line| {
            self.enter();
            line.say(Word::Entered);
            run(line);
        })
    }

    /// Forks a process in the group, exempt from the OOM killer, that serves.
    pub fn fork(&self, event: &Event) -> Child {
        self.fork_to(|line| {
            be_spared();
            fork_tree::serve(line, event);
        })
    }

    /// Attaches ftrace to the event while the group has no memory for the page of `child`, which
    /// was made by [`Self::fork`]. Tries again while pages charged in advance are left, with a call
    /// of `before` each time. The caller runs on one processor only, as these pages are charged for
    /// each.
    pub fn enable_without_memory(&self, event: &Event, child: &mut Child, before: impl Fn()) {
        let failures = || self.number("memory.events", "oom");
        let is_lacking = (0..=IN_ADVANCE).any(|_| {
            child.tell(Word::Drop);
            self.set("memory.max", "0");
            let failed = failures();
            before();
            event.switch(true);
            wait::until("the page to be tried for", || {
                failures() > failed || event.page.is_own_in(child.pid)
            });
            let is_lacking = failures() > failed;
            if !is_lacking {
                self.disable_with_memory(event, child);
            }
            is_lacking
        });
        assert!(is_lacking, "each page was charged in advance");
    }

    /// Gives the group memory again. The child then sees its bit set, and cleared once ftrace is
    /// detached.
    pub fn disable_with_memory(&self, event: &Event, child: &mut Child) {
        self.set("memory.max", "max");
        child.tell(Word::Set);
        event.switch(false);
        child.tell(Word::Clear);
    }

    pub fn enter(&self) {
        self.set("cgroup.procs", "0");
    }

    /// Moves the calling process out of its group.
    pub fn leave() {
        fs::write(root().join("cgroup.procs"), "0").expect("leave a cgroup");
    }

    /// Requests the reclaim of `bytes` bytes of the group. Less may be reclaimed.
    pub fn reclaim(&self, bytes: usize) {
        let _ = fs::write(self.dir.join("memory.reclaim"), bytes.to_string());
    }

    /// A value of one of the group's flat-keyed files.
    pub fn number(&self, file: &str, key: &str) -> i64 {
        number_in(self.dir.join(file), key)
    }

    pub fn slab(&self) -> i64 {
        self.number("memory.stat", "slab")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Processes that have just been reaped may still count.
        wait::eventually(|| fs::remove_dir(&self.dir).is_ok());
    }
}
