// SPDX-License-Identifier: GPL-2.0

//! `bytes_per_second`: how many bytes of payload a group may record in a second. Further records
//! are refused, and are neither recorded nor missed.

use crate::harness::tests;
use crate::kit::abi::{location, Data};
use crate::kit::errno::Errno;
use crate::kit::event::Event;
use crate::kit::group::Group;
use crate::kit::memory::Mapping;
use crate::kit::profile;
use crate::kit::traced::Traced;
use crate::kit::wait;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

tests!("groups::rate":
    more_bytes_than_a_second_has_are_never_recorded,
    a_record_without_a_payload_counts,
    a_write_that_fails_counts_nothing,
    what_no_consumer_can_take_counts_nothing,
    all_events_and_files_of_a_group_share_its_bytes,
    what_several_threads_record_is_bounded,
    a_group_at_its_limit_is_not_in_the_way_of_others,
);

/// The bytes that a record counts in addition to its payload.
const OVERHEAD: usize = 16;

/// A group that may record one payload of this size per second.
fn limited(payload: usize) -> Group {
    Group::with(
        "st_g_rate",
        &format!("bytes_per_second={}", payload + OVERHEAD),
    )
}

fn more_bytes_than_a_second_has_are_never_recorded() {
    let group = limited(100);
    let traced = Traced::new_in(&group, "st_g_more u32 a");
    let event = &traced.event;
    let mut refused = 0;
    // Too large for any second.
    let start = Instant::now();
    while start.elapsed().as_millis() < 1500 || refused < 20 {
        let length = [101, 150, 4000][refused as usize % 3];
        let payload = vec![1; length];
        assert_eq!(event.write(&payload), Err(Errno::EDQUOT), "{length} bytes");
        let parts = [
            &event.index.to_ne_bytes()[..],
            &payload[..50],
            &payload[50..],
        ];
        assert_eq!(event.data.writev(&parts), Err(Errno::EDQUOT));
        refused += 2;
        assert_eq!(group.refused(), refused);
    }
    assert_eq!(traced.tracer.take_all_records().len(), 0);
    assert_eq!(group.missed("st_g_more"), (0, 0));
    // Refused records take nothing from the limit, nor does the index of this one.
    assert_eq!(event.write(&[2; 100]), Ok(104));
    assert_eq!(traced.recorded(100), [[2; 100]]);
    assert!(event.bit());
    assert_eq!(group.refused(), refused);
    traced.detach();
}

/// An empty record takes room in a buffer.
fn a_record_without_a_payload_counts() {
    // Two per second.
    let group = limited(OVERHEAD);
    let traced = Traced::new_in(&group, "st_g_empty");
    let start = Instant::now();
    let mut refused = 0;
    for _ in 0..50 {
        match traced.event.write(&[]) {
            Ok(_) => (),
            Err(errno) => {
                assert_eq!(errno, Errno::EDQUOT);
                refused += 1;
            }
        }
    }
    let seconds = start.elapsed().as_secs() as usize + 2;
    let recorded = traced.tracer.take_all_records().len();
    assert!(
        (2..=2 * seconds).contains(&recorded),
        "{recorded} in {seconds} s"
    );
    assert_eq!((recorded as u64 + refused, group.refused()), (50, refused));
    traced.detach();
}

fn a_write_that_fails_counts_nothing() {
    let group = limited(100);
    let unwanted = Event::new_in(&group, "st_g_unwanted u32 a");
    let traced = Traced::new_in(&group, "st_g_fails u32 a; __rel_loc char[] b");
    let event = &traced.event;
    let bad = [&[0; 4][..], &location(60, 50), &[0; 80]].concat();
    for _ in 0..5 {
        assert_eq!(event.write(&[0; 7]), Err(Errno::EINVAL));
        assert_eq!(event.write(&bad), Err(Errno::EFAULT));
        assert_eq!(event.data.write(77, &[0; 90]), Err(Errno::ENOENT));
        assert_eq!(unwanted.write(&[0; 100]), Err(Errno::EBADF));
    }
    let good = [&[0; 4][..], &location(0, 0), &[0; 92]].concat();
    assert_eq!(event.write(&good), Ok(104));
    // Nor does a write without a consumer get `EDQUOT` when the limit is reached.
    for _ in 0..10 {
        assert_eq!(unwanted.write(&[0; 101]), Err(Errno::EBADF));
    }
    assert_eq!(group.refused(), 0);
    traced.detach();
}

/// `E2BIG` is detected after the bytes were counted.
fn what_no_consumer_can_take_counts_nothing() {
    let group = limited(100_000);
    let traced = Traced::new_in(&group, "st_g_huge u32 a");
    for _ in 0..5 {
        assert_eq!(traced.event.write(&[0; 70_000]), Err(Errno::E2BIG));
    }
    assert_eq!(group.refused(), 0);
    assert_eq!(traced.event.write(&[4; 100]), Ok(104));
    assert_eq!(traced.recorded(100), [[4; 100]]);
    traced.detach();
}

fn all_events_and_files_of_a_group_share_its_bytes() {
    const ROUNDS: usize = 4;
    let group = limited(100);
    let one = Traced::new_in(&group, "st_g_one u32 a");
    let other = Traced::new_in(&group, "st_g_other u32 a");
    // A file of its own, which has its own indices.
    let (data, page) = (Data::open_in(&group), Mapping::kept(1));
    let index = data.register_text("st_g_other u32 a", page.address(), 0);
    let mut refused = 0;
    for _ in 0..ROUNDS {
        // The first write that is recorded is in another second than those before.
        wait::until("a write to be refused", || {
            one.event.write(&[0; 60]).is_err()
        });
        wait::until("a write to be recorded", || {
            one.event.write(&[0; 60]).is_ok()
        });
        match data.write(index.unwrap(), &[0; 60]) {
            Ok(written) => assert_eq!(written, 64),
            Err(errno) => {
                assert_eq!(errno, Errno::EDQUOT);
                refused += 1;
            }
        }
    }
    // A second may end between the two writes, but not in most of the rounds.
    assert!(refused >= ROUNDS / 2, "{refused} of {ROUNDS}");
    [one, other].iter().for_each(Traced::detach);
}

fn what_several_threads_record_is_bounded() {
    const LENGTH: u64 = 50;
    const COUNTED: u64 = LENGTH + OVERHEAD as u64;
    const BYTES: u64 = 100 * COUNTED;
    const SECONDS: u64 = 4;
    let group = limited(BYTES as usize - OVERHEAD);
    let traced = Traced::new_in(&group, "st_g_threads u32 a");
    let (recorded, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while start.elapsed().as_secs() < SECONDS {
                    match traced.event.write(&[7; LENGTH as usize]) {
                        Ok(_) => recorded.fetch_add(1, Ordering::Relaxed),
                        Err(errno) => {
                            assert_eq!(errno, Errno::EDQUOT);
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                }
            });
        }
    });
    let (recorded, refused) = (recorded.into_inner(), refused.into_inner());
    // Including the clock's seconds that began before or ended later.
    let seconds = start.elapsed().as_secs() + 2;
    assert!(
        recorded * COUNTED <= seconds * BYTES,
        "{recorded} in {seconds} s"
    );
    // At least so many of these seconds are complete, and no record is refused while there is room.
    assert!(
        recorded * COUNTED >= (SECONDS - 1) * BYTES,
        "{recorded} records"
    );
    assert!(refused > 0, "none was refused");
    assert_eq!(group.refused(), refused);
    assert_eq!(group.missed("st_g_threads"), (0, 0));
    let taken = traced.tracer.take_all_records().len() as u64;
    assert_eq!(taken, recorded);
    traced.detach();
}

fn a_group_at_its_limit_is_not_in_the_way_of_others() {
    let group = limited(10);
    let wide = Group::with("st_g_wide", "bytes_per_second=4294967295");
    let unlimited = Group::new("st_g_free");
    let full = Traced::new_in(&group, "st_g_same u32 a");
    let others = [
        Traced::new("st_g_same u32 a"),
        Traced::new_in(&wide, "st_g_same u32 a"),
        Traced::new_in(&unlimited, "st_g_same u32 a"),
    ];
    for round in 0..100 {
        let got = full.event.write(&[0; 10]);
        assert!(matches!(got, Ok(14) | Err(Errno::EDQUOT)), "{got:?}");
        assert_eq!(full.event.write(&[0; 11]), Err(Errno::EDQUOT));
        for other in &others {
            assert_eq!(other.event.write(&[0; 1000]), Ok(1004), "round {round}");
        }
    }
    for other in &others {
        assert_eq!(other.tracer.take_all_records().len(), 100);
    }
    assert!(group.refused() >= 100);
    assert_eq!(wide.refused(), 0);
    // Without the option refused records are not counted.
    assert_eq!(unlimited.numbers(), [1, 1, 1]);
    assert_eq!(profile::missed("st_g_same"), (0, 0));
    others.iter().chain([&full]).for_each(Traced::detach);
}
