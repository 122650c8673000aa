// SPDX-License-Identifier: GPL-2.0

//! Building blocks of tests: the ABI, tracefs, perf, eBPF, processes, memory, and the state of the
//! machine.

pub mod abi;
pub mod beside;
pub mod bpf;
pub mod cgroup;
pub mod child;
pub mod dynamic;
pub mod errno;
pub mod event;
pub mod faults;
pub mod fork_tree;
pub mod fuse;
pub mod group;
pub mod latency;
pub mod lock_trace;
pub mod machine;
pub mod max_events;
pub mod memory;
/// The model of the schema's tests: descriptions and payloads.
#[path = "../../schema/tests/schema/model.rs"]
#[allow(dead_code)]
pub mod model;
pub mod module;
pub mod mounts;
pub mod numbered;
pub mod os;
pub mod other_tasks;
pub mod payload;
pub mod perf;
pub mod poll;
pub mod processors;
pub mod profile;
pub mod random;
pub mod ring;
pub mod setting;
pub mod setuid_victim;
pub mod stall;
pub mod status;
pub mod swap;
pub mod tasks;
pub mod tool;
pub mod traced;
pub mod tracefs;
pub mod transfer;
pub mod trap;
pub mod unprivileged;
pub mod uring;
pub mod usage;
pub mod userfault;
pub mod wait;
pub mod writer;
