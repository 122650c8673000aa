// SPDX-License-Identifier: GPL-2.0

//! An ordinary user with access to `user_events_data` attacks the machine. What it attempts, what
//! stops it, and which tests show that:
//!
//! | attempt | what stops it | tests |
//! |---|---|---|
//! | exhaust memory | all of it is charged to the user's control group | `exhausts_no_memory_but_its_own`, `cgroup::*` |
//! | fill the event table | the limit; the listing of registrations says who did it, and with the process the events go | `fills_the_table_and_loses_it_with_its_process`, `max_events::*` |
//! | flood the log | no message of ours is the user's to cause | `unprivileged::better_than_c_10_no_error_is_logged` |
//! | hold locks | arguments and payloads are copied with no lock but the process's own; its pages are only tried | `whose_arguments_never_come_holds_up_nobody`, `hostile::*`, `guarded::*` |
//! | forge listings | names have no byte that ends a word or a line; command names are escaped | `forges_no_line_of_a_listing`, `better_than_c_registrations::a_command_name_is_one_word` |
//! | make root's tools misread formats | descriptions that could be read in two ways are refused | `has_no_format_misread`, `conformance::descriptions::*`, `consumers::types::*` |
//! | reach kernel addresses | the word must be the process's own memory, all data is copied and its locations are checked | `reaches_no_kernel_address`, `conformance::locations::*` |
//! | pin pages of others | a page is written as the process itself could write it, and pinned for that moment only | `writes_and_pins_no_page_of_others`, `page_kinds::*`; after each test no page may be pinned |
//! | race setuid exec | registrations end with the address space, before the new program has one | `writes_nothing_into_a_program_with_roots_rights`, `exec::*` |

use super::max_events::Limit;
use crate::abi::{Data, Register, Unregister, DIAG_IOCSDEL, DIAG_IOCSREG, DIAG_IOCSUNREG};
use crate::abi::{MULTI_FORMAT, PROFILE, REGISTRATIONS};
use crate::cgroup::{self, Cgroup};
use crate::child;
use crate::errno::{Errno, Result};
use crate::event::{wait_gone, Event};
use crate::follower::{end, fork, toggle};
use crate::harness::tests;
use crate::memory::{Mapping, PAGE, READ, READ_WRITE};
use crate::nobody::{as_nobody, Access};
use crate::random::Random;
use crate::rows::Rows;
use crate::status::Status;
use crate::tracefs::{self, Tracer};
use crate::userfault::{self, Guard, Userfault};
use crate::wait::SetOnDrop;
use crate::{dynamic, machine, os, tasks, wait, witness};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

tests!("hostile_user":
    exhausts_no_memory_but_its_own.where_there_is(cgroup::SIGN),
    fills_the_table_and_loses_it_with_its_process,
    whose_arguments_never_come_holds_up_nobody.where_there_is(userfault::SIGN),
    forges_no_line_of_a_listing,
    has_no_format_misread,
    reaches_no_kernel_address,
    writes_and_pins_no_page_of_others,
    writes_nothing_into_a_program_with_roots_rights.limit(300),
);

fn exhausts_no_memory_but_its_own() {
    let _access = Access::given();
    let event = Event::new("st_evil_files u32 a");
    let mut others = vec![fork(&event)];
    let group = Cgroup::new("st_evil_files");
    group.set("memory.max", "8M");
    let count = Mapping::shared(1);
    let user = child::fork(|_| {
        group.enter();
        os::allow_open_files(500_000);
        os::become_nobody();
        // Each file has a table of its own, and each bit is registered by another.
        let page = Mapping::kept(16);
        let mut files = Vec::new();
        let mut register = |number: u64| -> Result<()> {
            let data = Data::try_open()?;
            let address = page.address() + 4 * (number / 32);
            data.register_text("st_evil_files u32 a", address, (number % 32) as u8)?;
            files.push(data);
            Ok(())
        };
        let mut result = Ok(());
        for number in 0..16 * 4096 * 8 {
            result = register(number);
            if result.is_err() {
                break;
            }
            count.word(0).fetch_add(1, SeqCst);
        }
        assert!(
            matches!(result, Err(Errno::ENOMEM | Errno::EFAULT)),
            "{result:?}"
        );
    });
    for _ in 0..3 {
        toggle(&event, &mut others);
    }
    let (_, status) = os::wait(user.pid, 0).unwrap();
    // Either it was told, or the kernel ended it as it ends others that use too much.
    assert!(status == 0 || status == libc::SIGKILL, "status {status:#x}");
    let opened = count.word(0).load(SeqCst);
    let how = ["told that there is no memory", "killed"][usize::from(status != 0)];
    println!("  # {how} after {opened} files");
    assert!(opened > 1000, "after {opened} files");
    wait::until("the charge to go", || group.slab() < 1 << 20);
    toggle(&event, &mut others);
    end(others);
}

fn fills_the_table_and_loses_it_with_its_process() {
    const MOST: usize = 300;
    let _access = Access::given();
    let limit = Limit::new(MOST as u32);
    let event = Event::new("st_evil_roots u32 a");
    let mut others = vec![fork(&event)];
    let mut user = as_nobody(|line| {
        let data = Data::open();
        let page = Mapping::kept(2);
        let register = |number: u64, flags: u16| {
            let text = format!("st_evil_{number} u32 a");
            data.register_flags(&text, page.address() + 4 * number, 0, flags)
        };
        let made = (0..).find(|&number| {
            let flags = if number % 2 == 0 { 0 } else { MULTI_FORMAT };
            match register(number, flags) {
                Ok(_) => false,
                result => {
                    assert_eq!(result, Err(Errno::EMFILE));
                    true
                }
            }
        });
        assert_eq!(made, Some(MOST as u64 - 1));
        line.say("full");
        line.hear("end");
    });
    user.line.hear("full");
    // What was there works on, also for those who come now.
    toggle(&event, &mut others);
    drop(Event::new("st_evil_roots u32 a"));
    assert_eq!(dynamic::run("u:st_evil_new u32 a"), Err(Errno::EMFILE));
    // Root sees who it is, and makes room.
    let pid = user.pid.to_string();
    let listing = fs::read_to_string(REGISTRATIONS).unwrap();
    let its = listing
        .lines()
        .filter(|line| line.split(' ').nth(1) == Some(&pid));
    // With the one that it has from its parent.
    assert_eq!(its.count(), MOST);
    limit.set(MOST as u32 + 1);
    assert_eq!(dynamic::run("u:st_evil_new u32 a"), Ok(()));
    user.kill();
    wait::until("its events to go", || Status::now().active == 2);
    assert_eq!(dynamic::run("-:st_evil_new"), Ok(()));
    end(others);
}

/// Calls of which one argument lies on a page of its own that never comes.
const WAITING_CALLS: usize = 7;

/// Makes one of these calls, which does not return.
fn wait_for_ever(call: usize, data: &Data, good: &Mapping, page: u64) {
    let register = Register::new(good.address() + 64, page).bytes();
    let index = good.address() + 128;
    let _ = match call {
        0 => os::ioctl(&data.file, DIAG_IOCSREG, page).map(|_| 0),
        1 => os::ioctl(&data.file, DIAG_IOCSREG, register.as_ptr() as u64).map(|_| 0),
        2 => os::ioctl(&data.file, DIAG_IOCSUNREG, page).map(|_| 0),
        3 => os::ioctl(&data.file, DIAG_IOCSDEL, page).map(|_| 0),
        4 => os::write_from(&data.file, page, 8),
        5 => os::writev_from(&data.file, &[(index, 4), (page, 4)]),
        // The word itself.
        _ => data
            .register_text("st_evil_waits u32 a", page, 0)
            .map(|_| 0),
    };
}

fn whose_arguments_never_come_holds_up_nobody() {
    let _access = Access::given();
    let event = Event::new("st_evil_waits u32 a");
    let mut others = vec![fork(&event)];
    let top = Tracer::top();
    top.enable(&event.name);
    let mut user = child::fork(|line| {
        let faults = Userfault::new();
        os::become_nobody();
        let mine = Event::new("st_evil_waits u32 a");
        let pages = Mapping::kept(WAITING_CALLS);
        faults.guard(&pages, Guard::Missing);
        thread::scope(|scope| {
            for call in 0..WAITING_CALLS {
                let (mine, page) = (&mine, pages.address() + (call * PAGE) as u64);
                // A file each: what waits holds its file's position.
                scope.spawn(move || {
                    let data = Data::open();
                    let address = mine.page.address() + 8;
                    let text = "st_evil_waits u32 a";
                    data.register_text(text, address, call as u8).unwrap();
                    wait_for_ever(call, &data, &mine.page, page);
                });
            }
            line.say(&format!("{} {}", faults.number(), pages.address()));
        });
    });
    let said = user.line.listen();
    let (number, pages) = said.split_once(' ').expect("two numbers");
    let faults = Userfault::of(user.pid, number.parse().unwrap());
    let pages: u64 = pages.parse().unwrap();
    let mut waiting = BTreeSet::new();
    wait::until("all calls to wait", || {
        waiting.extend(faults.next_fault().map(|at| (at - pages) / PAGE as u64));
        // Two can wait for one lock of their process.
        waiting.len() >= WAITING_CALLS - 1
    });
    top.disable(&event.name);
    event.wait_clear();
    for _ in 0..3 {
        toggle(&event, &mut others);
        let other = Event::new("st_evil_other u32 a");
        toggle(&other, &mut []);
        other.unregister().unwrap();
        drop(other);
        wait_gone("st_evil_other");
        dynamic::run("u:st_evil_line u32 a").unwrap();
        assert_eq!(Data::open().delete("st_evil_line"), Ok(()));
        assert_eq!(Status::now().names(), [&event.name]);
        fs::read_to_string(REGISTRATIONS).unwrap();
        fs::read_to_string(PROFILE).unwrap();
    }
    user.kill();
    toggle(&event, &mut others);
    end(others);
}

/// Names that would be more than a name in some listing.
const FORGED: [&[u8]; 14] = [
    b"st_evil_a\nst_evil_b # Used by perf",
    b"st_evil_a\n\nActive: 0",
    b"st_evil_a # Used by ftrace",
    b"st_evil_a\t7\t7",
    b"st_evil_a\ru:st_evil_b",
    b"st_evil_a\x1b[2K",
    b"st_evil_a\x0b",
    b"st_evil_a\x7f\x7f\x7f",
    b"st_evil_a 77 root 0x0 0/32 set\n#",
    b"user_events/st_evil_a",
    b"../../sched/sched_switch",
    b"st_evil_a:mod:x",
    b"\nst_evil_a",
    b"\xa0\nst_evil_a",
];

/// Names that look bad and are one word wherever they are shown.
const ODD: [&str; 8] = [
    "st_evil_#",
    "st_evil_u",
    "st_evil_*",
    "st_evil_-e",
    "st_evil_0x41",
    "st_evil_\\n",
    "st_evil_%s%n",
    "st_evil_\u{442}\u{435}\u{441}\u{442}",
];

fn forges_no_line_of_a_listing() {
    let _access = Access::given();
    let mut user = child::fork(|line| {
        fs::write("/proc/self/comm", "x\n77 root set").unwrap();
        os::become_nobody();
        let mut rows = Rows::new();
        let data = Data::open();
        let page = Mapping::kept(1);
        for name in FORGED {
            for fields in [&b""[..], b" u32 a"] {
                let text = CString::new([name, fields].concat()).unwrap();
                let request = Register::new(page.address(), text.as_ptr() as u64);
                let got = data.register(&request);
                rows.fails("forged name", &format!("{text:?}"), got, Errno::EINVAL);
            }
        }
        for field in [
            "a\nu:st_evil_b",
            "a\n\tfield:int b",
            "a\tb",
            "a\"",
            "a\x1b[0m",
        ] {
            let text = format!("st_evil_field u32 {field}");
            let got = data.register_text(&text, page.address(), 0);
            rows.fails("forged field", &text, got, Errno::EINVAL);
            let text = format!("st_evil_field struct {field} x 4");
            let got = data.register_text(&text, page.address(), 0);
            rows.fails("forged struct", &text, got, Errno::EINVAL);
        }
        for (bit, name) in ODD.iter().enumerate() {
            let got = data.register_text(&format!("{name} u32 a"), page.address(), bit as u8);
            rows.gives("odd name", name, got, Ok(bit as u32));
        }
        rows.finish();
        line.say("registered");
        line.hear("end");
    });
    user.line.hear("registered");
    // Each listing, taken apart by its own rules, has these names and nothing else.
    assert_eq!(Status::now().names(), ODD);
    let lines = |path: &str| -> Vec<Vec<String>> {
        let text = fs::read_to_string(path).unwrap();
        let words = |line: &str| line.split_whitespace().map(String::from).collect();
        text.split_terminator('\n').map(words).collect()
    };
    let profile = lines(PROFILE);
    assert_eq!(profile.len(), ODD.len());
    for (words, name) in profile.iter().zip(ODD) {
        assert_eq!(words, &[name, "0", "0"]);
    }
    let registrations = lines(REGISTRATIONS);
    assert_eq!(registrations.len(), 1 + ODD.len());
    for (words, name) in registrations[1..].iter().zip(ODD) {
        assert_eq!(words.len(), 6, "{words:?}");
        let pid = user.pid.to_string();
        assert_eq!(words[..3], [name, &pid, "x\\01277\\040root\\040set"]);
    }
    let made = ODD.map(|name| format!("u:{name} u32 a"));
    assert_eq!(dynamic::user_lines(), made);
    let top = Tracer::top();
    let mut available: Vec<_> = top
        .text("available_events")
        .lines()
        .map(String::from)
        .collect();
    available.retain(|line| line.starts_with("user_events"));
    available.sort();
    let mut want = ODD.map(|name| format!("user_events:{name}"));
    want.sort();
    assert_eq!(available, want);
    user.line.say("end");
    user.join();
}

/// A field as the user means it: what `format` is to say of it, its size, its sign, and what is
/// printed of it.
struct Field {
    text: String,
    shown: String,
    size: usize,
    signed: bool,
    print: &'static str,
    argument: String,
}

/// A field of any type, with a name of any characters.
fn any_field(random: &mut Random, number: usize) -> Field {
    let mut name = format!("f{number}");
    for _ in 0..random.below(6) {
        let odd: Vec<char> = "ab_9.,:()-><=+&|!?@/^~$#{}'`".chars().collect();
        name.push(*random.one_of(&odd));
    }
    let rec = format!("REC->{name}");
    let (text, shown, size, signed, print, argument) = match random.below(6) {
        0 => ("u8", None, 1, false, "%u", rec),
        1 => ("s64", None, 8, true, "%lld", rec),
        2 => ("unsigned int", None, 4, false, "%u", rec),
        3 => ("char[24]", Some("char"), 24, true, "%s", rec),
        4 => {
            let string = format!("__get_rel_str({name})");
            ("__rel_loc char[]", None, 4, true, "%s", string)
        }
        _ => ("struct tag", None, 12, true, "%llu", rec),
    };
    let shown = match (shown, text.strip_suffix("[]")) {
        (Some(element), _) => format!("{element} {name}[24]"),
        (None, Some(element)) => format!("{element} {name}[]"),
        (None, None) => format!("{text} {name}"),
    };
    let size_word = if text == "struct tag" { " 12" } else { "" };
    Field {
        text: format!("{text} {name}{size_word}"),
        shown,
        size,
        signed,
        print,
        argument,
    }
}

/// The lines of a `format` from the first of the event's own fields on, as they are to be.
fn format_of(fields: &[Field]) -> Vec<String> {
    let mut offset = 8;
    let mut lines = Vec::new();
    for field in fields {
        let (shown, size, signed) = (&field.shown, field.size, u8::from(field.signed));
        lines.push(format!(
            "\tfield:{shown};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
        ));
        offset += size;
    }
    let names = |text: &str| {
        text.rsplit(' ')
            .next()
            .unwrap_or("")
            .replace("[24]", "")
            .replace("[]", "")
    };
    let prints = fields
        .iter()
        .map(|field| format!("{}={}", names(&field.shown), field.print));
    let prints = prints.collect::<Vec<_>>().join(" ");
    let arguments = fields.iter().map(|field| format!(", {}", field.argument));
    lines.push(String::new());
    lines.push(format!(
        "print fmt: \"{prints}\"{}",
        arguments.collect::<String>()
    ));
    lines
}

fn has_no_format_misread() {
    const EVENTS: usize = 150;
    let _access = Access::given();
    let mut random = Random::new(6);
    let events: Vec<Vec<Field>> = (0..EVENTS)
        .map(|_| {
            let count = 1 + random.below(4);
            (0..count)
                .map(|number| any_field(&mut random, number))
                .collect()
        })
        .collect();
    let mut user = as_nobody(|line| {
        let data = Data::open();
        let page = Mapping::kept(1);
        let mut refused = Vec::new();
        for (number, fields) in events.iter().enumerate() {
            let texts: Vec<_> = fields.iter().map(|field| field.text.as_str()).collect();
            let text = format!("st_evil_{number} {}", texts.join(";"));
            match data.register_text(&text, page.address() + 4 * number as u64, 0) {
                Ok(_) => {}
                Err(Errno::EINVAL) => refused.push(number.to_string()),
                Err(errno) => panic!("{text}: {errno:?}"),
            }
        }
        line.say(&refused.join(" "));
        line.hear("end");
    });
    let said = user.line.listen();
    let refused: BTreeSet<usize> = said
        .split_whitespace()
        .map(|n| n.parse().unwrap())
        .collect();
    println!("  # {} of {EVENTS} descriptions refused", refused.len());
    assert!(refused.len() < EVENTS / 2, "most are refused");
    for (number, fields) in events.iter().enumerate() {
        let name = format!("st_evil_{number}");
        assert_eq!(tracefs::event_exists(&name), !refused.contains(&number));
        if refused.contains(&number) {
            continue;
        }
        let text = tracefs::event_format(&name);
        let lines: Vec<_> = text.lines().collect();
        // A head of three lines, the common fields and an empty one.
        assert_eq!(lines[0], format!("name: {name}"));
        let own = &lines[8..];
        assert!(
            own.iter().eq(&format_of(fields)),
            "{text}\nwant {:?}",
            format_of(fields)
        );
    }
    user.line.say("end");
    user.join();
}

/// The areas of this process that are no ordinary memory, and kernel addresses of all sorts.
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
    // Per-CPU data, text and data of the kernel, as it is loaded now.
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

fn reaches_no_kernel_address() {
    let _access = Access::given();
    let event = Event::new("st_evil_kernel u32 a");
    let tracer = Tracer::instance("st_evil_kernel");
    tracer.enable(&event.name);
    let user = child::fork(|_| {
        let addresses = forbidden_addresses();
        assert!(addresses.len() > 20, "{addresses:x?}");
        let is_the_kernels = |address: u64| !(4096..0x7fff_ffff_f000).contains(&address);
        os::become_nobody();
        let data = Data::open();
        let page = Mapping::kept(1);
        data.register_text("st_evil_kernel u32 a", page.address(), 0)
            .unwrap();
        let mut rows = Rows::new();
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
                    rows.fails("the word", &case, data.register(&request), Errno::EFAULT);
                }
            }
            let got = data.unregister(&Unregister::new(address, 0));
            rows.fails("unregister", &case, got, Errno::ENOENT);
            // The program's own text may be read; not so what is the kernel's.
            if is_the_kernels(address) {
                for command in [DIAG_IOCSREG, DIAG_IOCSUNREG, DIAG_IOCSDEL] {
                    let got = os::ioctl(&data.file, command, address);
                    rows.fails("an argument", &case, got, Errno::EFAULT);
                }
                let request = Register::new(page.address() + 8, address);
                rows.fails("a name", &case, data.register(&request), Errno::EFAULT);
                let got = os::write_from(&data.file, address, 8);
                rows.fails("a record", &case, got, Errno::EFAULT);
                let got = os::writev_from(&data.file, &[(page.address() + 64, 4), (address, 4)]);
                rows.fails("a payload", &case, got, Errno::EFAULT);
            }
        }
        // A structure that could be read and not be written: the index finds no place.
        let request = Mapping::kept(1);
        let text = c"st_evil_index u32 a";
        request.put(
            0,
            &Register::new(page.address() + 8, text.as_ptr() as u64).bytes(),
        );
        request.protect(READ);
        let got = os::ioctl(&data.file, DIAG_IOCSREG, request.address());
        rows.fails("the index", "read-only", got, Errno::EFAULT);
        rows.finish();
    });
    user.join();
    assert_eq!(tracer.take_records(event.id()).len(), 0);
    tracer.disable(&event.name);
}

fn writes_and_pins_no_page_of_others() {
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
    let mut user = as_nobody(|line| {
        let denied = OpenOptions::new().write(true).open(path).map(drop);
        assert_eq!(denied.map_err(Errno::from), Err(Errno::EACCES));
        let file = File::open(path).unwrap();
        let data = Data::open();
        let text = "st_evil_pages u32 a";
        // Read-only, as that is all it may.
        let shared = Mapping::of_file(&file, 2, READ, libc::MAP_SHARED).unwrap();
        let got = data.register_text(text, shared.address(), 0);
        assert_eq!(got, Err(Errno::EFAULT), "a page that is only read");
        // A copy of its own.
        let copy = Mapping::of_file(&file, 2, READ_WRITE, libc::MAP_PRIVATE).unwrap();
        let copy = std::mem::ManuallyDrop::new(copy);
        data.register_text(text, copy.address(), 31).unwrap();
        // Registered while it was its own, and then exchanged for root's.
        let own = Mapping::kept(1);
        let place = Mapping::kept(1);
        data.register_text(text, place.address(), 5).unwrap();
        line.say("registered");
        while rounds.word(4).load(SeqCst) == 0 {
            tasks::map_file(place.address(), &file);
            tasks::map_anew(place.address(), READ_WRITE);
            tasks::map_file(place.address(), &file);
            rounds.word(0).fetch_add(1, SeqCst);
        }
        drop(own);
        line.hear("end");
    });
    user.line.hear("registered");
    let top = Tracer::top();
    let before = rounds.word(0).load(SeqCst);
    for round in 0.. {
        top.enable(&event.name);
        event.wait_set();
        top.disable(&event.name);
        event.wait_clear();
        if round >= 15 && rounds.word(0).load(SeqCst).wrapping_sub(before) >= 40 {
            break;
        }
    }
    rounds.word(4).store(1, SeqCst);
    // Attached, which pins nothing.
    top.enable(&event.name);
    event.wait_set();
    wait::until("no page to be pinned", || machine::pinned_pages() == 0);
    top.disable(&event.name);
    assert!(
        fs::read(path).unwrap() == content,
        "root's file has changed"
    );
    for (at, word) in content.chunks(4).enumerate() {
        let word = u32::from_ne_bytes(word.try_into().unwrap());
        assert_eq!(
            roots.word(4 * at).load(SeqCst),
            word,
            "root's memory has changed"
        );
    }
    user.line.say("end");
    user.join();
    fs::remove_file(path).unwrap();
}

/// A place for programs with root's rights, gone when dropped.
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

/// In a process of the user's: registers bits all over the page where the witness will have memory,
/// and becomes the witness.
fn become_the_witness(way: u32, program: &str, count: &str) -> Errno {
    let data = Data::open();
    let page = Mapping::placed(witness::ADDRESS, 1);
    let text = "st_evil_setuid u32 a";
    for at in (0..PAGE as u64).step_by(256) {
        data.register_text(text, page.address() + at, 0).unwrap();
    }
    let run = || {
        let error = Command::new(program).args([witness::OPTION, count]).exec();
        Errno::from(error)
    };
    match way % 3 {
        0 => run(),
        // While another thread registers without end.
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
        // From a process that shares the memory, which lives on.
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

/// Writes to the memory of a witness, as soon as it is one.
fn spoil(pid: i32) {
    wait::until("the witness to start", || {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "witness")
    });
    let memory = OpenOptions::new()
        .write(true)
        .open(format!("/proc/{pid}/mem"));
    let memory = memory.expect("the memory of the witness");
    wait::until("its memory to be there", || {
        memory.write_all_at(&[1], witness::ADDRESS + 64).is_ok()
    });
}

fn writes_nothing_into_a_program_with_roots_rights() {
    const PROGRAMS: u32 = 10;
    /// The program into whose memory root writes, to see that it would notice. Its user executes it
    /// in its own process.
    const SPOILED: usize = 9;
    let _access = Access::given();
    let event = Event::new("st_evil_setuid u32 a");
    let place = Place::new();
    let program = format!("{}/witness", place.0);
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
                os::become_nobody();
                let errno = become_the_witness(way, &program, &count);
                panic!("exec: {errno:?}");
            }
            pid => users.push(pid),
        }
    }
    // Before any can end.
    spoil(users[SPOILED]);
    thread::scope(|scope| {
        let stop = SetOnDrop(&done);
        scope.spawn(|| {
            let top = Tracer::top();
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
                Some(witness::WRITTEN) if way == SPOILED => continue,
                Some(0) if way != SPOILED => continue,
                Some(0) => "it does not see what is written",
                Some(witness::WRITTEN) => "its memory was written",
                Some(witness::NOT_ROOT) => "it has no root's rights",
                Some(witness::NOTHING_SEEN) => "it has seen no change of the event",
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
