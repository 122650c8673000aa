// SPDX-License-Identifier: GPL-2.0

//! Faults in calls, loads, processes and workers. Needs a kernel with fault injection.

pub mod calls;
pub mod loading;
pub mod processes;
pub mod workers;
