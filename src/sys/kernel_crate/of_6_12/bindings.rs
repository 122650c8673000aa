// SPDX-License-Identifier: GPL-2.0

//! Bindings of C: the crate's, and wrappers in `bindings/of_6_12.c` for what its headers lack.

#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unreachable_pub
)]

pub use self::generated::{
    user_events_of_6_12_atomic_fetch_andnot_release as atomic_fetch_andnot_release,
    user_events_of_6_12_atomic_fetch_or_release as atomic_fetch_or_release,
    user_events_of_6_12_krealloc_node_align as krealloc_node_align,
    user_events_of_6_12_list_add_tail as list_add_tail,
    user_events_of_6_12_mmap_read_lock as mmap_read_lock,
    user_events_of_6_12_mmap_read_trylock as mmap_read_trylock,
    user_events_of_6_12_mmap_read_unlock as mmap_read_unlock,
    user_events_of_6_12_mmdrop as mmdrop,
    user_events_of_6_12_mmget_not_zero as mmget_not_zero,
    user_events_of_6_12_mmgrab as mmgrab,
    user_events_of_6_12_rcu_read_lock as rcu_read_lock,
    user_events_of_6_12_rcu_read_unlock as rcu_read_unlock,
    user_events_of_6_12_smp_mb as smp_mb,
    user_events_of_6_12_task_active_pid_ns as task_active_pid_ns,
    user_events_of_6_12_task_tgid_nr_ns as task_tgid_nr_ns,
    user_events_of_6_12_vma_lookup as vma_lookup, //
};
pub use tree::bindings::init_timer_key as timer_init_key;
pub use tree::bindings::*;

mod generated {
    #![allow(
        dead_code,
        improper_ctypes,
        non_camel_case_types,
        non_snake_case,
        non_upper_case_globals,
        unknown_lints,
        unnecessary_transmutes,
        unsafe_op_in_unsafe_fn
    )]

    use tree::bindings::{
        list_head,
        mm_struct,
        pid_namespace,
        task_struct,
        vm_area_struct, //
    };

    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;

    include!(env!("USER_EVENTS_BINDINGS_OF_6_12"));
}
