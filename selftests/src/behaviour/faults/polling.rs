// SPDX-License-Identifier: GPL-2.0

//! Polls while no allocation of the module succeeds: they need none.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::faults::{InModule, PATH};
use crate::kit::memory::Mapping;
use crate::kit::poll::{has_changed, Epoll, CHANGED, EDGE};
use crate::kit::tracefs::TraceInstance;

tests!("faults::polling":
    a_poll_needs_no_memory.needs_path(PATH),
);

fn a_poll_needs_no_memory() {
    let top = TraceInstance::top();
    for how in [0, EDGE] {
        let data = Data::open();
        let set = Epoll::new();
        set.add(&data.file, CHANGED | how);
        assert!(!set.has_changed(&data.file));
        let page = Mapping::kept(1);
        let register = |bit| data.register_text("st_poll u32 a", page.address(), bit);
        register(0).unwrap();
        // The next poll examines new registrations and changed bits.
        for change in [false, true] {
            register(1 + u8::from(change)).unwrap();
            if change {
                top.enable("st_poll");
            }
            let in_module = InModule::fail(&[("failslab", 100)]);
            if change {
                set.wait_for_change(&data.file);
            }
            for _ in 0..3 {
                assert!(!set.has_changed(&data.file));
                assert!(!has_changed(&data.file));
            }
            assert_eq!(in_module.end(), 0, "allocations of the module");
        }
        top.disable("st_poll");
        set.wait_for_change(&data.file);
    }
}
