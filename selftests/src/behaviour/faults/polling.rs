// SPDX-License-Identifier: GPL-2.0

//! Polls while the module gets no memory.

use crate::harness::tests;
use crate::kit::abi::Data;
use crate::kit::faults::{InModule, SIGN};
use crate::kit::memory::Mapping;
use crate::kit::poll::{has_changed, Epoll, CHANGED, EDGE};
use crate::kit::tracefs::TraceInstance;
use crate::kit::wait;

tests!("faults::polling":
    without_memory_a_change_is_reported_that_may_be_none.where_there_is(SIGN),
);

fn without_memory_a_change_is_reported_that_may_be_none() {
    for how in [0, EDGE] {
        let data = Data::open();
        let set = Epoll::new();
        set.add(&data.file, CHANGED | how);
        assert!(!set.has_changed(&data.file));
        let page = Mapping::kept(1);
        data.register_text("st_poll u32 a", page.address(), 0)
            .unwrap();
        let in_module = InModule::fail(&[("failslab", 100)]);
        for _ in 0..3 {
            assert!(set.has_changed(&data.file), "there is no memory");
            assert!(has_changed(&data.file));
        }
        assert!(in_module.end() > 0);
        // The last one that was reported so.
        wait::until("the memory to be there", || !set.has_changed(&data.file));
        TraceInstance::top().enable("st_poll");
        set.wait_for_change(&data.file);
        TraceInstance::top().disable("st_poll");
        set.wait_for_change(&data.file);
    }
}
