// SPDX-License-Identifier: GPL-2.0

//! Listings that are read in pieces while events come and go.

use crate::harness::tests;
use crate::kit::abi::{Data, PROFILE, REGISTRATIONS, STATUS};
use crate::kit::machine;
use crate::kit::memory::Mapping;
use crate::kit::status::Status;
use crate::kit::tracefs::TraceInstance;
use crate::kit::usage::grows_by_nothing;
use crate::kit::wait;
use std::fs::File;
use std::io::Read;

tests!("listing":
    what_goes_between_two_reads_tears_nothing,
    a_reader_leaves_nothing.limit(300),
);

/// Registers events, which stay until the process ends.
fn keep(count: u64, name: impl Fn(u64) -> String) -> (Data, Mapping) {
    let data = Data::open();
    let page = Mapping::kept((4 * count).div_ceil(4096) as usize);
    for i in 0..count {
        let address = page.address() + 4 * i;
        let index = data.register_text(&format!("{} u32 a", name(i)), address, 0);
        assert_eq!(index, Ok(i as u32));
    }
    (data, page)
}

/// Unregisters the events of [`keep`].
fn let_go((data, page): (Data, Mapping), count: u64) {
    for i in 0..count {
        data.unregister_bit(page.address() + 4 * i, 0).unwrap();
    }
}

/// A listing is no snapshot, but events that stay are listed once, and lines are whole. Readers of
/// one file do not disturb each other.
fn what_goes_between_two_reads_tears_nothing() {
    let odd = |i: u64| format!("st_list_odd{i:0>200}");
    let even = |i: u64| format!("st_list_even{i:0>200}");
    let top = TraceInstance::top();
    for size in [1, 7, 300, 4096] {
        let first = keep(1, |_| "st_list_first".into());
        let goes = keep(30, odd);
        let stays = keep(30, even);
        let mut readers = [(STATUS, size), (STATUS, size + 100), (PROFILE, size)]
            .map(|(path, size)| (path, File::open(path).unwrap(), size, Vec::new()));
        for i in 0..10 {
            for (_, file, size, text) in &mut readers {
                let mut piece = vec![0; *size];
                let length = file.read(&mut piece).unwrap();
                text.extend(&piece[..length]);
            }
            top.enable(&even(i));
        }
        (0..10).for_each(|i| top.disable(&even(i)));
        let_go(goes, 30);
        wait::until("the events to go", || Status::now().active == 31);
        let comes = keep(5, |i| format!("st_list_comes{i}"));
        for (path, mut file, _, mut text) in readers {
            file.read_to_end(&mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            let status;
            let names = match path {
                STATUS => {
                    status = Status::parse(&text);
                    status.names()
                }
                _ => (text.lines())
                    .flat_map(|line| line.split_whitespace().next())
                    .collect(),
            };
            let case = format!("{path} by {size}");
            let with = |start| -> Vec<_> {
                let names = names.iter().copied();
                names.filter(|name| name.starts_with(start)).collect()
            };
            let (stayed, gone) = (with("st_list_even"), with("st_list_odd"));
            assert_eq!(names[0], "st_list_first", "{case}");
            assert_eq!(stayed, (0..30).map(even).collect::<Vec<_>>(), "{case}");
            let some: Vec<_> = (0..gone.len() as u64).map(odd).collect();
            assert_eq!(gone, some, "{case}");
            // Events made since the listing was begun are left to the next.
            assert_eq!(names.len(), 1 + stayed.len() + gone.len(), "{case}");
        }
        for (kept, count) in [(first, 1), (stays, 30), (comes, 5)] {
            let_go(kept, count);
        }
        wait::until("all events to go", || Status::now().active == 0);
    }
}

/// Whether the file was read to the end, in part, or not at all.
fn a_reader_leaves_nothing() {
    let _events = keep(100, |i| format!("st_list_left{i}"));
    grows_by_nothing(10, machine::rounds(100), |round| {
        for path in [STATUS, PROFILE, REGISTRATIONS] {
            let mut file = File::open(path).expect(path);
            let length = [0, 100, 1 << 20][round % 3];
            let mut text = vec![0; length];
            let read = file.read(&mut text).expect(path);
            assert_eq!(read == 0, length == 0, "{path}");
        }
    });
}
