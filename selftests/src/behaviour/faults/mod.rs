// SPDX-License-Identifier: GPL-2.0

//! Calls of which each allocation, and each copy of user memory, fails once. On a kernel made for testing.

pub mod calls;
pub mod loading;
pub mod polling;
pub mod processes;
pub mod workers;
