// SPDX-License-Identifier: GPL-2.0

//! `USER_EVENT_REG_PERSIST`: the privileges needed, and the lifetime of such events.

use super::check::{
    delete_when_idle, expect, register_and_exit, Check, DeletedAtEnd, Row, NAME, TEXT,
};
use super::lifetime::an_event_comes_and_goes;
use crate::kit::abi::{Data, MULTI_FORMAT, PERSIST};
use crate::kit::child;
use crate::kit::dynamic;
use crate::kit::errno::{Errno, Result};
use crate::kit::event::Event;
use crate::kit::memory::Mapping;
use crate::kit::os::{self, CAP_PERFMON, CAP_SYS_ADMIN};
use crate::kit::tracefs::{count_of_events, event_exists, TraceInstance};

const MAY: Row = Row::new(
    "persist",
    "PERSIST needs CAP_PERFMON or CAP_SYS_ADMIN, else EPERM; DIAG_IOCSDEL: persistent without the \
     capability → EPERM",
);
const STAYS: Row = Row::new("persist", "With PERSIST it stays until deleted");

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        MAY.cases(
            may,
            &[
                ("without_capabilities_is_eperm", 0, Err(Errno::EPERM)),
                (
                    "with_all_other_capabilities_is_eperm",
                    !(CAP_PERFMON | CAP_SYS_ADMIN),
                    Err(Errno::EPERM),
                ),
                ("with_cap_perfmon_alone_is_taken", CAP_PERFMON, Ok(())),
                ("with_cap_sys_admin_alone_is_taken", CAP_SYS_ADMIN, Ok(())),
            ],
        ),
        STAYS.scenarios(&[("stays_through_use_until_deleted", stays_through_use)]),
    ]
}

/// Makes persistent events and deletes them, with only these capabilities.
fn may(capabilities: u64, want: Result<()>) {
    let _deleted = DeletedAtEnd(NAME);
    expect(dynamic::run("u:st_conform u32 a"), Ok(()));
    child::fork(|_| {
        os::keep_capabilities(capabilities);
        let (data, page) = (Data::open(), Mapping::kept(1));
        let register = |text, flags| {
            let got = data.register_flags(text, page.address(), 0, flags);
            if got.is_ok() {
                expect(data.unregister_bit(page.address(), 0), Ok(()));
            }
            got.map(drop)
        };
        expect(register("st_other u32 a", PERSIST), want);
        expect(register("st_other u32 a", PERSIST | MULTI_FORMAT), want);
        // The capability is required even if the event exists.
        expect(register(TEXT, PERSIST), want);
        // No other flag requires it.
        expect(register("st_third u32 a", 0), Ok(()));
        expect(register("st_third u32 a", MULTI_FORMAT), Ok(()));
        // Nor is it asked for while the event is in use.
        expect(register(TEXT, 0), Ok(()));
        expect(data.delete(NAME), Err(Errno::EBUSY));
        drop(data);

        let data = Data::open();
        expect(delete_when_idle(&data, NAME), want);
        if want.is_ok() {
            expect(delete_when_idle(&data, "st_other"), Ok(()));
        } else {
            expect(dynamic::run("-:st_conform u32 a"), want);
            expect(dynamic::run("u:st_fourth u32 a"), want);
            assert!(event_exists(NAME));
        }
    })
    .join();
}

fn stays_through_use() {
    let _deleted = DeletedAtEnd(NAME);
    register_and_exit(&[TEXT], PERSIST);
    an_event_comes_and_goes();
    let event = Event::new(TEXT);
    event.follows(true);
    event.end();
    TraceInstance::top().disable(NAME);
    an_event_comes_and_goes();
    expect(count_of_events(), 1);
    // Other fields under this name are refused, as for an event in use.
    let (data, page) = (Data::open(), Mapping::kept(1));
    let register_other = || data.register_text("st_conform u64 a", page.address(), 0);
    expect(register_other(), Err(Errno::EADDRINUSE));
    expect(delete_when_idle(&data, NAME), Ok(()));
    expect(count_of_events(), 0);
    expect(data.delete(NAME), Err(Errno::ENOENT));
    // The name is free for any description.
    expect(register_other(), Ok(0));
    expect(data.unregister_bit(page.address(), 0), Ok(()));
}
