// SPDX-License-Identifier: GPL-2.0

//! Registrations of a user that executes a setuid program.

use crate::kit::abi::Data;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::memory::{Mapping, PAGE, READ_WRITE};
use crate::kit::tracefs::TraceInstance;
use crate::kit::unprivileged::Access;
use crate::kit::wait::SetOnDrop;
use crate::kit::{os, setuid_victim, tasks, wait};
use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

/// A directory for setuid programs; removed when dropped.
struct Place(&'static str);

impl Place {
    fn new() -> Place {
        let place = Place("/tmp/selftests.setuid");
        fs::create_dir_all(place.0).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "suid,exec,mode=755", "none", place.0]);
        assert!(mount.status().unwrap().success(), "mount");
        place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", self.0]).status();
        let _ = fs::remove_dir(self.0);
    }
}

/// In a process of the user: registers bits all over the page where the victim will have memory,
/// and executes the victim.
fn become_the_victim(way: u32, program: &str, count: &str) -> Errno {
    let data = Data::open();
    let page = Mapping::placed(setuid_victim::ADDRESS, 1);
    let text = "st_evil_setuid u32 a";
    for at in (0..PAGE as u64).step_by(256) {
        data.register_text(text, page.address() + at, 0).unwrap();
    }
    let run = || {
        let error = Command::new(program)
            .args([setuid_victim::OPTION, count])
            .exec();
        Errno::from(error)
    };
    match way % 3 {
        0 => run(),
        // Another thread registers and unregisters in a loop.
        1 => {
            let started = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| loop {
                    data.register_text(text, page.address() + 64, 3).unwrap();
                    started.store(true, SeqCst);
                    data.unregister_bit(page.address() + 64, 3).unwrap();
                });
                wait::until("the other thread", || started.load(SeqCst));
                run()
            })
        }
        // From a child that shares the memory of a parent that lives on.
        _ => {
            let pid = tasks::vfork(|| {
                run();
                1
            });
            let pid = pid.expect("vfork");
            let (_, status) = os::wait(pid, 0).expect("wait");
            assert!(libc::WIFEXITED(status), "status {status:#x}");
            os::exit_now(libc::WEXITSTATUS(status));
        }
    }
}

/// Writes to the memory of a process as soon as it runs the victim.
fn spoil(pid: i32) {
    wait::until("the victim to start", || {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "setuid-victim")
    });
    let memory = OpenOptions::new()
        .write(true)
        .open(format!("/proc/{pid}/mem"));
    let memory = memory.expect("the memory of the victim");
    wait::until("its memory to be there", || {
        memory
            .write_all_at(&[1], setuid_victim::ADDRESS + 64)
            .is_ok()
    });
}

pub fn writes_nothing_into_a_program_with_roots_rights() {
    const PROGRAMS: u32 = 10;
    /// The program into whose memory root writes, to show that a write is noticed. The process of
    /// the user itself executes it.
    const SPOILED: usize = 9;
    let _access = Access::given();
    let event = Event::new("st_evil_setuid u32 a");
    let place = Place::new();
    let program = format!("{}/setuid-victim", place.0);
    let count = format!("{}/count", place.0);
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    fs::write(&count, [0; PAGE]).unwrap();
    fs::set_permissions(&count, Permissions::from_mode(0o644)).unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&count)
        .unwrap();
    let switches = Mapping::of_file(&file, 1, READ_WRITE, libc::MAP_SHARED).unwrap();
    let done = AtomicBool::new(false);
    let mut users: Vec<i32> = Vec::new();
    // Forked before there are threads.
    for way in 0..PROGRAMS {
        match os::fork().expect("fork") {
            0 => {
                os::become_unprivileged();
                let errno = become_the_victim(way, &program, &count);
                panic!("exec: {errno:?}");
            }
            pid => users.push(pid),
        }
    }
    // Before any of them can end.
    spoil(users[SPOILED]);
    thread::scope(|scope| {
        let stop = SetOnDrop(&done);
        scope.spawn(|| {
            let top = TraceInstance::top();
            while !done.load(SeqCst) {
                top.enable(&event.name);
                top.disable(&event.name);
                switches.word(0).fetch_add(1, SeqCst);
            }
        });
        for (way, pid) in users.into_iter().enumerate() {
            let (_, status) = os::wait(pid, 0).unwrap();
            let told = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status) as u8);
            let what = match told {
                Some(setuid_victim::WRITTEN) if way == SPOILED => continue,
                Some(0) if way != SPOILED => continue,
                Some(0) => "it does not see what is written",
                Some(setuid_victim::WRITTEN) => "its memory was written",
                Some(setuid_victim::NOT_ROOT) => "it has no root's rights",
                Some(setuid_victim::NOTHING_SEEN) => "it has seen no change of the event",
                _ => "it ended badly",
            };
            panic!("the program started in way {way}: {what} ({status:#x})");
        }
        drop(stop);
    });
    let switches = switches.word(0).load(SeqCst);
    println!("  # {PROGRAMS} programs, {switches} changes of the event");
    drop(place);
}
