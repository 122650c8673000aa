// SPDX-License-Identifier: GPL-2.0

//! Forks and execs while allocations fail: a child that is made has all registrations, and so has a
//! process whose exec fails.

use crate::harness::tests;
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::faults::{self, walk, PATH};
use crate::kit::fork_tree::toggle;
use crate::kit::memory::Mapping;
use crate::kit::userfault::{Guard, Userfault};
use crate::kit::{os, tasks, wait};
use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

tests!("faults::processes" on PATH:
    whichever_allocation_of_a_fork_fails.limit(900),
    allocations_of_the_child_fail_at_random.limit(900),
    whichever_allocation_of_an_exec_fails.limit(900),
    a_child_that_waits_for_memory_can_be_killed,
);

const BITS: u64 = 40;

/// An event with several registrations of this process.
fn registered(name: &str) -> (Event, Mapping) {
    let event = Event::new(&format!("{name} u32 a"));
    let page = Mapping::kept(1);
    for bit in 0..BITS {
        let text = format!("{name} u32 a");
        let address = page.address() + 4 * bit;
        event.data.register_text(&text, address, 3).unwrap();
    }
    (event, page)
}

/// Unregisters everything. Returns whether all of it was registered.
fn all_there(event: &Event, page: &Mapping) -> bool {
    let all = (0..BITS).all(|bit| {
        let address = page.address() + 4 * bit;
        event.data.unregister_bit(address, 3) == Ok(())
    });
    all && event.unregister() == Ok(())
}

/// Exits with 0 if everything is registered.
fn judge(event: &Event, page: &Mapping) -> ! {
    os::exit_now(if all_there(event, page) { 0 } else { 1 })
}

/// The errors of a fork that fails.
const REFUSED: &[Errno] = &[Errno::ENOMEM, Errno::EAGAIN];

/// Waits for a child, and asserts that everything was registered in it, or, on 6.12, that it was
/// killed: the memory is allocated there where nothing may sleep. Returns whether it ran.
#[track_caller]
fn wait_for_all_or_kill(pid: i32) -> bool {
    let ended = os::wait(pid, 0);
    if os::is_of_6_12().is_some() && ended == Ok((pid, libc::SIGKILL)) {
        return false;
    }
    assert_eq!(ended, Ok((pid, 0)));
    true
}

fn whichever_allocation_of_a_fork_fails() {
    faults::allow(0);
    let (event, page) = registered("st_failing_nth");
    let mut made = 0;
    walk("fork", |fault| {
        let pid = fault.fails(REFUSED, || {
            let pid = tasks::clone(0);
            if pid == Ok(0) {
                judge(&event, &page);
            }
            pid
        });
        if let Ok(pid) = pid {
            made += usize::from(wait_for_all_or_kill(pid));
        }
    })
    .include(&[Errno::ENOMEM]);
    println!("  # {made} children had all registrations");
    toggle(&event, &mut []);
}

fn allocations_of_the_child_fail_at_random() {
    const CHILDREN: usize = 100;
    let (event, page) = registered("st_failing_child");
    // Low, as most forks fail before the child is made.
    faults::allow(3);
    let (mut failed, mut made, mut killed) = (0, 0, 0);
    while made < CHILDREN {
        faults::at_random(true);
        let pid = tasks::clone(0);
        faults::at_random(false);
        match pid {
            // The allocations for the child's registrations could fail, but are done before it runs
            // here.
            Ok(0) => judge(&event, &page),
            Ok(pid) if wait_for_all_or_kill(pid) => made += 1,
            Ok(_) => killed += 1,
            Err(errno) => {
                failed += 1;
                assert!(REFUSED.contains(&errno), "{errno:?}");
            }
        }
    }
    faults::allow(0);
    println!(
        "  # {failed} forks failed, {killed} children were killed, {made} had all registrations"
    );
    assert!(failed > 0, "no fork failed");
    toggle(&event, &mut []);
}

/// Exit codes of a child whose exec failed: with all its registrations, or not.
const STAYED: i32 = 70;
const LOST: i32 = 71;

/// A program that only exits, in memory: loading a file of the host would meet faults of its own.
fn smallest_program() -> File {
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    // The machine number of ELF, and: mov x8, #93; mov x0, #0; svc #0
    #[cfg(target_arch = "aarch64")]
    const MACHINE: u16 = 183;
    #[cfg(target_arch = "aarch64")]
    const EXIT: [u8; 12] = [0xa8, 0x0b, 0x80, 0xd2, 0, 0, 0x80, 0xd2, 0x01, 0, 0, 0xd4];
    // mov $60, %eax; xor %edi, %edi; syscall
    #[cfg(target_arch = "x86_64")]
    const MACHINE: u16 = 62;
    #[cfg(target_arch = "x86_64")]
    const EXIT: [u8; 9] = [0xb8, 0x3c, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05];
    let size = HEADERS + EXIT.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    // An executable, version 1.
    let halves = [2, MACHINE, 1, 0];
    elf.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
    // Its entry, its program headers, and no section headers.
    let longs = [BASE + HEADERS, 64, 0];
    elf.extend(longs.iter().flat_map(|long| long.to_le_bytes()));
    // No flags; the sizes of the headers, of which there is one.
    let halves = [0u16, 0, 64, 56, 1, 0, 0, 0];
    elf.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
    // To be loaded, read and executed, as a whole.
    elf.extend([1u16, 0, 5, 0].iter().flat_map(|half| half.to_le_bytes()));
    let longs = [0, BASE, BASE, size, size, 0x1000];
    elf.extend(longs.iter().flat_map(|long| long.to_le_bytes()));
    elf.extend(EXIT);
    let mut file = os::memory_file(0);
    file.write_all(&elf).expect("write the program");
    // An exec fails while the file is open for writing.
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("open the program")
}

fn whichever_allocation_of_an_exec_fails() {
    // If the exec does not meet the fault, the program does, so the exec's last fault cannot be
    // seen. It has passed after this many execs in a row that ran the program.
    const ENOUGH: u32 = 40;
    faults::allow(0);
    let (event, page) = registered("st_failing_exec");
    let file = smallest_program();
    let program = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
    let (mut number, mut begun, mut stayed, mut killed) = (0, 0, 0, 0);
    while begun < ENOUGH {
        number += 1;
        let pid = tasks::clone(0).expect("fork");
        if pid == 0 {
            faults::ask(number);
            let _ = tasks::execute(&program);
            faults::ask(0);
            os::exit_now(match all_there(&event, &page) {
                true => STAYED,
                false => LOST,
            });
        }
        let (_, status) = os::wait(pid, 0).expect("wait");
        assert_ne!(status, LOST << 8, "fault {number}");
        if status == STAYED << 8 {
            stayed += 1;
            begun = 0;
        } else if status & 0x7f != 0 {
            // Killed: the exec was past the point of no return.
            killed += 1;
            begun = 0;
        } else {
            begun += 1;
        }
    }
    println!("  # {number} execs: {stayed} failed with all registrations, {killed} were killed");
    assert!(stayed > 0, "no exec failed");
    toggle(&event, &mut []);
}

/// The child is complete, and waits for memory for its registrations before it runs.
fn a_child_that_waits_for_memory_can_be_killed() {
    faults::allow(0);
    let (event, page) = registered("st_failing_killed");
    let (guard, tid) = (Userfault::new(), Mapping::kept(1));
    guard.guard(&tid, Guard::Missing);
    let (child, is_over) = (AtomicI32::new(0), AtomicBool::new(false));
    let ended = thread::scope(|scope| {
        let killer = scope.spawn(|| {
            wait::until("the fork to be stalled", || guard.next_fault().is_some());
            faults::allow(100);
            guard.fill(tid.address(), 0);
            wait::until("the child", || child.load(Ordering::SeqCst) != 0);
            let pid = child.load(Ordering::SeqCst);
            let is = |state| tasks::state(pid, pid) == Some(state);
            wait::until("the child to wait", || is('D'));
            os::kill(pid, libc::SIGKILL).expect("kill");
            let ended = wait::eventually(|| is('Z'));
            faults::allow(0);
            is_over.store(true, Ordering::SeqCst);
            ended
        });
        faults::at_random(true);
        let pid = tasks::clone_to(libc::CLONE_PARENT_SETTID, tid.address()).expect("clone");
        if pid == 0 {
            os::exit_now(0);
        }
        child.store(pid, Ordering::SeqCst);
        // A spin: until then a system call might fail.
        while !is_over.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
        faults::at_random(false);
        assert_eq!(os::wait(pid, 0), Ok((pid, libc::SIGKILL)));
        killer.join().unwrap()
    });
    assert!(ended, "a killed child went on waiting for memory");
    assert!(all_there(&event, &page));
}
