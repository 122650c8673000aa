// SPDX-License-Identifier: GPL-2.0

//! Events of different groups are independent, whatever their names are.

use crate::harness::tests;
use crate::kit::abi::{Data, MULTI_FORMAT, PERSIST, PROFILE, REGISTRATIONS};
use crate::kit::child;
use crate::kit::errno::Errno;
use crate::kit::event::{stays, wait_gone, Event};
use crate::kit::group::Group;
use crate::kit::memory::Mapping;
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::profile;
use crate::kit::status::Status;
use crate::kit::traced::Traced;
use crate::kit::tracefs::{self, formats_of, TraceInstance};
use crate::kit::wait;
use std::fs;
use std::process;

tests!("groups::apart":
    a_name_with_other_fields_is_another_event_in_each_group,
    a_bit_follows_the_event_of_its_group_only,
    formats_are_numbered_and_shown_in_each_group,
    status_and_profile_show_own_events_only,
    a_program_deletes_events_of_its_group_only,
    a_bit_is_of_one_group_and_unregistered_through_any_file,
    registrations_name_the_group,
    switching_a_system_switches_its_group_only,
);

/// A file of the first group, and one of each of two others.
fn files(groups: &[Group; 2]) -> [Data; 3] {
    let [one, two] = groups.each_ref().map(Data::open_in);
    [Data::open(), one, two]
}

/// The fields of events of the same name, in the first group and in two others.
const FIELDS: [&str; 3] = ["u32 a", "u64 a", "u8 b; u8 c"];

/// Three groups with an event of the same name each, traced by an instance each.
struct Three {
    groups: [Group; 2],
    traced: [Traced; 3],
}

impl Three {
    fn new(fields: [&str; 3]) -> Three {
        let text = |at: usize| format!("st_g_same {}", fields[at]);
        let groups = [Group::new("st_g_one"), Group::new("st_g_two")];
        let traced = [
            Traced::new(&text(0)),
            Traced::new_in(&groups[0], &text(1)),
            Traced::new_in(&groups[1], &text(2)),
        ];
        Three { groups, traced }
    }

    fn names(&self) -> [&str; 3] {
        [0, 1, 2].map(|at| self.traced[at].event.name.as_str())
    }

    fn detach(&self) {
        self.traced.iter().for_each(Traced::detach);
    }
}

fn a_name_with_other_fields_is_another_event_in_each_group() {
    let three = Three::new(FIELDS);
    let want = ["st_g_same", "user_events_st_g_one/st_g_same"];
    assert_eq!(three.names()[..2], want);
    let shown = ["field:u32 a;", "field:u64 a;", "field:u8 b;"];
    for (name, shown) in three.names().into_iter().zip(shown) {
        let format = tracefs::event_format(name);
        assert!(format.starts_with("name: st_g_same\n"), "{format}");
        assert!(format.contains(shown), "{format}");
    }
    // Each description is right only in its own group.
    let page = Mapping::kept(1);
    for (right, data) in files(&three.groups).iter().enumerate() {
        for (at, fields) in FIELDS.iter().enumerate() {
            let got = data.register_text(&format!("st_g_same {fields}"), page.address(), 0);
            match at == right {
                true => {
                    assert_eq!(got, Ok(0));
                    assert_eq!(data.unregister_bit(page.address(), 0), Ok(()));
                }
                false => assert_eq!(got, Err(Errno::EADDRINUSE)),
            }
        }
    }
    // Each index is that of the first event of its file.
    let payloads = [vec![1; 4], vec![2; 8], vec![3; 2]];
    let mut perfs = three
        .traced
        .each_ref()
        .map(|traced| Perf::sample(traced.event.id(), SELF, ANY_CPU, 4));
    for round in 1..=3 {
        for (traced, payload) in three.traced.iter().zip(&payloads) {
            assert_eq!(traced.event.index, 0);
            assert_eq!(traced.event.write(payload), Ok(4 + payload.len()));
        }
        // This payload is too short in its group, and would be right in another.
        let short = three.traced[1].event.write(&payloads[0]);
        assert_eq!(short, Err(Errno::EINVAL));
        for (at, traced) in three.traced.iter().enumerate() {
            let records = traced.tracer.take_all_records();
            let got: Vec<_> = records
                .iter()
                .map(|record| (u64::from(record.kind), record.payload(payloads[at].len())))
                .collect();
            assert_eq!(got, [(traced.event.id(), payloads[at].clone())]);
            assert_eq!(perfs[at].count(), round);
            let sampled = perfs[at].take_payloads(payloads[at].len());
            assert_eq!(sampled, [payloads[at].clone()]);
        }
    }
    drop(perfs);
    three.detach();
}

fn a_bit_follows_the_event_of_its_group_only() {
    let three = Three::new(["u32 a"; 3]);
    three.detach();
    for traced in &three.traced {
        traced.tracer.enable(&traced.event.name);
        traced.event.wait_set();
        // A wrong bit that a worker writes late is found in the next round.
        let set = three.traced.iter().filter(|other| other.event.bit());
        assert_eq!(set.count(), 1);
        for other in &three.traced {
            let want = match std::ptr::eq(other, traced) {
                true => Ok(8),
                false => Err(Errno::EBADF),
            };
            assert_eq!(other.event.write(&[0; 4]), want);
        }
        assert_eq!(traced.recorded(4), [[0; 4]]);
        traced.detach();
    }
}

fn formats_are_numbered_and_shown_in_each_group() {
    let groups = ["st_g_one", "st_g_two"].map(Group::of_any_names);
    let page = Mapping::kept(1);
    let files = files(&groups);
    let mut bit = 0;
    for fields in ["u32 a", "u64 a", "u32 a"] {
        for data in &files {
            let text = format!("st_g_formats {fields}");
            let index = data.register_flags(&text, page.address(), bit, MULTI_FORMAT);
            assert_eq!(index, Ok(u32::from(fields == "u64 a")));
            bit += 1;
        }
    }
    for group in &groups {
        let start = format!("{}/st_g_formats", group.multi_system());
        let want = [format!("{start}.0"), format!("{start}.1")];
        assert_eq!(group.formats_of("st_g_formats"), want);
        assert!(!tracefs::group_dir(&group.system()).exists());
        assert_eq!(group.status().active, 2);
    }
    assert_eq!(formats_of("st_g_formats").len(), 2);
}

fn status_and_profile_show_own_events_only() {
    let three = Three::new(["u32 a"; 3]);
    let [first, one, two] = &three.traced;
    let other = Event::new_in(&three.groups[0], "st_g_other u32 a");
    let perf = Perf::open(one.event.id(), SELF, ANY_CPU).unwrap();
    let words = |status: Status| {
        let used = status.events.into_iter();
        used.map(|(name, by)| format!("{name} {}", by.join(" ")))
            .collect::<Vec<_>>()
    };
    assert_eq!(words(Status::now()), ["st_g_same ftrace"]);
    let shown = ["st_g_same ftrace perf", "st_g_other "];
    assert_eq!(words(three.groups[0].status()), shown);
    assert_eq!(words(three.groups[1].status()), ["st_g_same ftrace"]);
    drop(perf);
    two.detach();
    assert_eq!(words(three.groups[1].status()), ["st_g_same "]);

    let profiles = [
        PROFILE.into(),
        three.groups[0].profile(),
        three.groups[1].profile(),
    ];
    let lines = profiles.map(|path| fs::read_to_string(path).unwrap().lines().count());
    assert_eq!(lines, [1, 2, 1]);
    for (traced, times) in [(first, 3), (one, 5)] {
        traced.tracer.control("tracing_on", "0");
        for _ in 0..times {
            assert_eq!(traced.event.write(&[0; 4]), Ok(8));
        }
    }
    assert_eq!(profile::missed("st_g_same"), (3, 0));
    assert_eq!(three.groups[0].missed("st_g_same"), (5, 0));
    assert_eq!(three.groups[0].missed("st_g_other"), (0, 0));
    assert_eq!(three.groups[1].missed("st_g_same"), (0, 0));
    drop(other);
    [first, one].into_iter().for_each(Traced::detach);
}

fn a_program_deletes_events_of_its_group_only() {
    let groups = ["st_g_one", "st_g_two"].map(Group::of_any_names);
    let deleted = "st_g_deleted";
    let names = [
        deleted.into(),
        groups[0].event(deleted),
        groups[1].event(deleted),
    ];
    let formats = || {
        let own = [0, 1].map(|at| groups[at].formats_of("st_g_multi").len());
        [formats_of("st_g_multi").len(), own[0], own[1]]
    };
    let maker = child::fork(|_| {
        let page = Mapping::kept(1);
        for (data, bit) in files(&groups).iter().zip([0, 4, 8]) {
            for (more, text, flags) in [
                (0, "st_g_deleted u32 a", PERSIST),
                (1, "st_g_multi u32 a", PERSIST | MULTI_FORMAT),
                (2, "st_g_multi u64 a", PERSIST | MULTI_FORMAT),
            ] {
                data.register_flags(text, page.address(), bit + more, flags)
                    .unwrap();
            }
        }
    });
    maker.join();
    assert_eq!(formats(), [2; 3]);
    // No form of the name of another group's event is valid here.
    let files = files(&groups);
    for name in [
        "user_events_st_g_one/st_g_deleted",
        "user_events/st_g_deleted",
        "st_g_one/st_g_deleted",
        "../user_events/st_g_deleted",
        "st_g_multi.0",
    ] {
        assert_eq!(files[2].delete(name), Err(Errno::ENOENT), "{name}");
    }
    let mut left = [true; 3];
    for at in [1, 0, 2] {
        for name in ["st_g_deleted", "st_g_multi"] {
            wait::until("an event to be deleted", || {
                files[at].delete(name) != Err(Errno::EBUSY)
            });
            let again = files[at].delete(name);
            assert_eq!(again, Err(Errno::ENOENT), "{name} of {at}");
        }
        left[at] = false;
        let events = [0, 1, 2].map(|at| tracefs::event_exists(&names[at]));
        assert_eq!(events, left, "after {at}");
        assert_eq!(
            formats(),
            left.map(|left| 2 * usize::from(left)),
            "after {at}"
        );
    }
}

/// A bit is identified by its address in the process that unregisters it.
fn a_bit_is_of_one_group_and_unregistered_through_any_file() {
    let group = Group::new("st_g_one");
    let other = Group::new("st_g_two");
    let mine = Event::new_in(&group, "st_g_bit u32 a");
    let first = Event::new("st_g_bit u32 a");
    for (event, left) in [(&mine, &first), (&first, &mine)] {
        for data in [Data::open(), Data::open_in(&group), Data::open_in(&other)] {
            let taken = left.register(event.page.address(), 0);
            assert_eq!(taken, Err(Errno::EADDRINUSE));
            assert_eq!(data.unregister_bit(event.page.address(), 0), Ok(()));
            assert_eq!(event.unregister(), Err(Errno::ENOENT));
            // The bit of the event of the same name in another group is not affected.
            left.toggle();
            assert!(!event.bit());
            event.add_bit(event.page.address(), 0);
            event.toggle();
        }
    }
    // An unregistration through another group's file leaves no reference to the event or its group.
    let data = Data::open_in(&other);
    assert_eq!(data.unregister_bit(mine.page.address(), 0), Ok(()));
    let name = mine.name.clone();
    drop(mine);
    wait_gone(&name);
    stays(&first.name);
    assert_eq!(group.remove(), Ok(()));
    assert_eq!(other.remove(), Err(Errno::EBUSY));
    first.end();
}

fn registrations_name_the_group() {
    let group = Group::of_any_names("st_g_one");
    let (pid, page) = (process::id(), Mapping::kept(1));
    let comm = fs::read_to_string("/proc/self/comm").unwrap();
    let line = |event: &str, bit: u8| {
        let (comm, address) = (comm.trim(), page.address());
        format!("{event} {pid} {comm} {address:#x} {bit}/32 clear")
    };
    let (first, in_group) = (Data::open(), Data::open_in(&group));
    for bit in 0..4 {
        let data = [&first, &in_group][usize::from(bit % 2)];
        let flags = [0, MULTI_FORMAT][usize::from(bit / 2)];
        let got = data.register_flags("st_g_regs u32 a", page.address(), bit, flags);
        got.unwrap();
    }
    let text = fs::read_to_string(REGISTRATIONS).unwrap();
    let lines: Vec<_> = text.lines().skip(1).collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[0], line("st_g_regs", 0));
    assert_eq!(lines[1], line("user_events_st_g_one/st_g_regs", 1));
    // A format is shown with its system and name in tracefs; in the first group without the system.
    let first_format = formats_of("st_g_regs").remove(0);
    let (_, first_format) = first_format.split_once('/').unwrap();
    assert_eq!(lines[2], line(first_format, 2));
    assert_eq!(lines[3], line(&group.formats_of("st_g_regs")[0], 3));
}

/// The file `enable` of a system.
fn switching_a_system_switches_its_group_only() {
    let three = Three::new(["u32 a"; 3]);
    three.detach();
    let system = three.groups[0].system();
    let enable = tracefs::group_dir(&system).join("enable");
    let top = TraceInstance::top();
    fs::write(&enable, "1").unwrap();
    three.traced[1].event.wait_set();
    let enabled = three.names().map(|name| top.get(name, "enable"));
    assert_eq!(enabled, ["0\n", "1\n", "0\n"]);
    assert_eq!(three.groups[0].status().busy, 1);
    assert_eq!(three.groups[1].status().busy + Status::now().busy, 0);
    fs::write(&enable, "0").unwrap();
    three.traced[1].event.wait_clear();
}
