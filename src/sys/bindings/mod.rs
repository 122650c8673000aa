// SPDX-License-Identifier: GPL-2.0

//! What bindgen made of `helpers.c` and `bindings.h`, for the other files of `sys` only.

#![allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]
// A newer rustc has a lint for the code that bindgen makes of bitfields. An older one does not know
// that lint.
#![allow(unknown_lints, unnecessary_transmutes)]

// Types that the kernel crate has already: both sets of functions share them.
pub use kernel::bindings::{
    callback_head,
    delayed_work,
    dentry,
    file,
    file_operations,
    inode,
    iov_iter,
    kiocb,
    mm_struct,
    module,
    mutex,
    page,
    seq_file,
    seq_operations,
    task_struct,
    vm_area_struct,
    wait_queue_head,
    work_struct,
    workqueue_struct, //
};

type __kernel_size_t = usize;
type __kernel_ssize_t = isize;

include!(env!("USER_EVENTS_BINDINGS"));
