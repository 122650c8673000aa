// SPDX-License-Identifier: GPL-2.0

//! Addresses to which a user may not let the kernel write, or from which to read.

use crate::kit::abi::{Data, Register, Unregister, DIAG_IOCSDEL, DIAG_IOCSREG, DIAG_IOCSUNREG};
use crate::kit::child::{self, Word};
use crate::kit::errno::{fails, Errno};
use crate::kit::event::Event;
use crate::kit::memory::{Mapping, PAGE, READ, READ_WRITE, USER_END};
use crate::kit::tracefs::TraceInstance;
use crate::kit::unprivileged::{fork_unprivileged, Access};
use crate::kit::{machine, os, tasks, wait};
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering::SeqCst;

/// Areas of this process that are not ordinary memory, and kernel addresses of all sorts.
fn forbidden_addresses() -> Vec<u64> {
    let mut addresses = vec![
        0,
        8,
        0x7fff_ffff_f000,
        0x7fff_ffff_fff8,
        0x8000_0000_0000,
        1 << 62,
        1 << 63,
        0xffff_8000_0000_0000,
        0xffff_8880_0000_0000,
        0xffff_c900_0000_0000,
        0xffff_ffff_8100_0000,
        0xffff_ffff_c000_0000,
        0xffff_ffff_ff60_0000,
        0xffff_ffff_ffff_f000,
        0xffff_ffff_ffff_fff8,
    ];
    // Per-CPU data, text and data of the running kernel.
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
    for name in ["_text", "init_task", "jiffies", "sys_call_table"] {
        let line = symbols
            .lines()
            .find(|line| line.split(' ').nth(2) == Some(name));
        let address = line.and_then(|line| u64::from_str_radix(line.split(' ').next()?, 16).ok());
        addresses.extend(address.map(|address| address & !7));
    }
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    for line in maps
        .lines()
        .filter(|line| line.contains("[v") || line.contains(" r-xp "))
    {
        let start = line.split('-').next().unwrap();
        addresses.push(u64::from_str_radix(start, 16).unwrap());
    }
    addresses
}

pub fn reaches_no_kernel_address() {
    let _access = Access::given();
    let event = Event::new("st_evil_kernel u32 a");
    let tracer = TraceInstance::instance("st_evil_kernel");
    tracer.enable(&event.name);
    let user = child::fork(|_| {
        let addresses = forbidden_addresses();
        assert!(addresses.len() > 20, "{addresses:x?}");
        let is_the_kernels = |address: u64| !(4096..USER_END).contains(&address);
        os::become_unprivileged();
        let data = Data::open();
        let page = Mapping::kept(1);
        data.register_text("st_evil_kernel u32 a", page.address(), 0)
            .unwrap();
        for address in addresses {
            let case = format!("{address:#x}");
            for size in [4, 8] {
                for bit in [0, 8 * size - 1] {
                    let text = c"st_evil_kernel u32 a";
                    let request = Register {
                        enable_size: size,
                        enable_bit: bit,
                        ..Register::new(address, text.as_ptr() as u64)
                    };
                    fails("the word", &case, data.register(&request), Errno::EFAULT);
                }
            }
            let got = data.unregister(&Unregister::new(address, 0));
            fails("unregister", &case, got, Errno::ENOENT);
            // The program's own text may be read, kernel memory may not.
            if is_the_kernels(address) {
                for command in [DIAG_IOCSREG, DIAG_IOCSUNREG, DIAG_IOCSDEL] {
                    let got = os::ioctl(&data.file, command, address);
                    fails("an argument", &case, got, Errno::EFAULT);
                }
                let request = Register::new(page.address() + 8, address);
                fails("a name", &case, data.register(&request), Errno::EFAULT);
                let got = os::write_from(&data.file, address, 8);
                fails("a record", &case, got, Errno::EFAULT);
                let got = os::writev_from(&data.file, &[(page.address() + 64, 4), (address, 4)]);
                fails("a payload", &case, got, Errno::EFAULT);
            }
        }
        // A structure that is readable but not writable: the index cannot be stored.
        let request = Mapping::kept(1);
        let text = c"st_evil_index u32 a";
        request.put(
            0,
            &Register::new(page.address() + 8, text.as_ptr() as u64).bytes(),
        );
        request.protect(READ);
        let got = os::ioctl(&data.file, DIAG_IOCSREG, request.address());
        fails("the index", "read-only", got, Errno::EFAULT);
    });
    user.join();
    assert_eq!(tracer.take_records(event.id()).len(), 0);
    tracer.disable(&event.name);
}

pub fn writes_and_pins_no_page_of_others() {
    let _access = Access::given();
    let event = Event::new("st_evil_pages u32 a");
    let path = "/tmp/selftests.roots";
    let content: Vec<u8> = (0..2 * PAGE).map(|at| (at / 7) as u8).collect();
    fs::write(path, &content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let roots = Mapping::of_file(&file, 2, READ_WRITE, libc::MAP_SHARED).unwrap();
    let rounds = Mapping::shared(1);
    let mut user = fork_unprivileged(|line| {
        let denied = OpenOptions::new().write(true).open(path).map(drop);
        assert_eq!(denied.map_err(Errno::from), Err(Errno::EACCES));
        let file = File::open(path).unwrap();
        let data = Data::open();
        let text = "st_evil_pages u32 a";
        // Mapped read-only, as the user may not write to the file.
        let shared = Mapping::of_file(&file, 2, READ, libc::MAP_SHARED).unwrap();
        let got = data.register_text(text, shared.address(), 0);
        assert_eq!(got, Err(Errno::EFAULT), "a page that is only read");
        // A private copy.
        let copy = Mapping::of_file(&file, 2, READ_WRITE, libc::MAP_PRIVATE).unwrap();
        let copy = std::mem::ManuallyDrop::new(copy);
        data.register_text(text, copy.address(), 31).unwrap();
        // Registered in memory of its own, which is then replaced by root's page.
        let own = Mapping::kept(1);
        let place = Mapping::kept(1);
        data.register_text(text, place.address(), 5).unwrap();
        line.say(Word::Registered);
        while rounds.word(4).load(SeqCst) == 0 {
            tasks::map_file(place.address(), &file);
            tasks::map_anew(place.address(), READ_WRITE);
            tasks::map_file(place.address(), &file);
            rounds.word(0).fetch_add(1, SeqCst);
        }
        drop(own);
        line.hear(Word::End);
    });
    user.line.hear(Word::Registered);
    let before = rounds.word(0).load(SeqCst);
    for round in 0.. {
        event.toggle();
        if round >= 15 && rounds.word(0).load(SeqCst).wrapping_sub(before) >= 40 {
            break;
        }
    }
    rounds.word(4).store(1, SeqCst);
    // An attached event pins no page.
    event.follows(true);
    wait::until("no page to be pinned", || machine::pinned_pages() == 0);
    event.switch(false);
    assert!(
        fs::read(path).unwrap() == content,
        "root's file has changed"
    );
    for (at, word) in content.chunks(4).enumerate() {
        let seen = roots.get(4 * at).to_ne_bytes();
        assert_eq!(seen, word, "root's memory has changed");
    }
    user.line.say(Word::End);
    user.join();
    fs::remove_file(path).unwrap();
}
