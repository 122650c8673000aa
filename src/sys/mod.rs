// SPDX-License-Identifier: GPL-2.0

//! One safe type per kernel facility that the `kernel` crate lacks.
//!
//! This is the only directory with `unsafe` code. Nothing here is specific to user events, except
//! [`uapi`], the ABI's header in Rust. From [`schema`](crate::schema) come the fields that the
//! trace core gets, and the check of a record against them, which keeps the kernel from reading
//! beyond the record.
//!
//! An abstraction of the `kernel` crate can replace each file, with two exceptions: [`append_vec`]
//! is a container of the module's own, and an out-of-tree module needs [`symbols`], [`layouts`],
//! [`loading`] and [`kernel_crate`].

mod bindings;
mod c_list;
mod layouts;
mod lazy_box;
mod load_acquire;
mod tracepoint;
mod wake_timer;

pub(crate) mod append_vec;
pub(crate) mod clock;
pub(crate) mod dyn_event;
pub(crate) mod event_files;
pub(crate) mod event_mutex;
pub(crate) mod exit_probe;
pub(crate) mod fork;
pub(crate) mod kernel_crate;
pub(crate) mod loading;
pub(crate) mod mm_owner;
pub(crate) mod mm_users;
pub(crate) mod module_ref;
pub(crate) mod perf;
pub(crate) mod poll;
pub(crate) mod process_list;
pub(crate) mod record_buf;
pub(crate) mod ring_buffer;
pub(crate) mod string_hash;
pub(crate) mod symbols;
pub(crate) mod sysctl;
pub(crate) mod task;
pub(crate) mod task_work;
pub(crate) mod trace_event;
pub(crate) mod tracefs;
pub(crate) mod uapi;
pub(crate) mod user_bit;
pub(crate) mod work_queue;
pub(crate) mod write_source;
