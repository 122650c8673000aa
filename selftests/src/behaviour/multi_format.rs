// SPDX-License-Identifier: GPL-2.0

//! `USER_EVENT_REG_MULTI_FORMAT`: how formats are numbered after loading, and that they are deleted together.

use crate::harness::Test;
use crate::kit::abi::{Data, MULTI_FORMAT, PERSIST};
use crate::kit::child;
use crate::kit::errno::Errno;
use crate::kit::memory::Mapping;
use crate::kit::module;
use crate::kit::tracefs::{self, formats_of, TraceInstance, MULTI_GROUP};
use crate::kit::wait;

pub const TESTS: &[Test] = &[
    Test::of_loading(
        "multi_format::ids_count_from_0_in_hex",
        ids_count_from_0_in_hex,
    ),
    Test::new(
        "multi_format::all_or_none_are_deleted",
        all_or_none_are_deleted,
    ),
];

fn ids_count_from_0_in_hex() {
    module::load();
    let user = child::fork(|_| {
        let (data, page) = (Data::open(), Mapping::kept(1));
        let register =
            |text: &str, bit| data.register_flags(text, page.address(), bit, MULTI_FORMAT);
        for i in 0..18 {
            // All formats count together, whatever their names are.
            let name = ["st_multi_hex", "st_multi_hex2"][usize::from(i % 2)];
            assert_eq!(register(&format!("{name} u32 a{i}"), i), Ok(i.into()));
        }
        // What fails takes no number away.
        assert_eq!(register("st_multi_hex long a", 18), Err(Errno::EINVAL));
        assert_eq!(register("st_multi_hex u32 a18", 18), Ok(18));
        for (name, first, count) in [("st_multi_hex", 0, 10), ("st_multi_hex2", 1, 9)] {
            let ids = (0..count).map(|n| first + 2 * n);
            let want: Vec<_> = ids
                .map(|id| format!("{MULTI_GROUP}/{name}.{id:x}"))
                .collect();
            assert_eq!(formats_of(name), want);
        }
    });
    user.join();
    module::unload_when_idle();
    assert!(!tracefs::group_dir(MULTI_GROUP).exists());
}

/// The C implementation deletes those that it comes to before one that is in use.
fn all_or_none_are_deleted() {
    let name = "st_multi_delete";
    let maker = child::fork(|_| {
        let (data, page) = (Data::open(), Mapping::kept(1));
        for (bit, fields) in ["u32 a", "u64 a", "u8 a; u8 b"].iter().enumerate() {
            let (text, flags) = (format!("{name} {fields}"), PERSIST | MULTI_FORMAT);
            data.register_flags(&text, page.address(), bit as u8, flags)
                .unwrap();
        }
    });
    maker.join();
    let formats = formats_of(name);
    assert_eq!(formats.len(), 3);
    let top = TraceInstance::top();
    for busy in &formats {
        top.enable(busy);
        assert_eq!(Data::open().delete(name), Err(Errno::EBUSY));
        assert_eq!(formats_of(name), formats, "with {busy} in use");
        top.disable(busy);
    }
    wait::until("the formats to be deleted", || {
        Data::open().delete(name) == Ok(())
    });
    assert_eq!(formats_of(name), [""; 0]);
}
