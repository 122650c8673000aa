// SPDX-License-Identifier: GPL-2.0

//! Faults in calls, loads, polls, processes and workers. Needs a kernel with fault injection.

pub mod calls;
pub mod loading;
pub mod polling;
pub mod processes;
pub mod workers;
