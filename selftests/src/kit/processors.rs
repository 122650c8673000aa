// SPDX-License-Identifier: GPL-2.0

//! CPU hotplug, and NUMA nodes.

use crate::kit::errno::{Errno, Result};
use crate::kit::memory::Mapping;
use crate::kit::os;
use std::fs;
use std::path::Path;

/// Exists if the second processor can go offline.
pub const PATH: &str = "/sys/devices/system/cpu/cpu1/online";

/// Exists if there is a second node.
pub const SECOND_NODE: &str = "/sys/devices/system/node/node1";

/// The second processor; online again when dropped.
pub struct Second;

impl Second {
    /// Makes sure that the processor is online.
    pub fn processor() -> Second {
        Second.set(true);
        Second
    }

    /// Switches the processor on- or offline.
    #[track_caller]
    pub fn set(&self, on: bool) {
        let value = if on { "1" } else { "0" };
        if let Err(error) = fs::write(PATH, value) {
            // Fails if the processor is in that state already.
            assert_eq!(self.is_on(), on, "switch a processor: {error}");
        }
        assert_eq!(self.is_on(), on);
    }

    fn is_on(&self) -> bool {
        let text = fs::read_to_string(PATH).expect("is a processor on?");
        text.trim() == "1"
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        let _ = fs::write(PATH, "1");
    }
}

fn is_there(path: String) -> bool {
    Path::new("/sys/devices/system/node").join(path).exists()
}

pub fn nodes() -> usize {
    let nodes = (0..1024).take_while(|node| is_there(format!("node{node}")));
    nodes.count()
}

pub fn of_node(node: usize) -> Vec<usize> {
    let processors = (0..1024).filter(|cpu| is_there(format!("node{node}/cpu{cpu}")));
    processors.collect()
}

/// `move_pages()` with the first page of a mapping.
fn move_first_page(page: &Mapping, pid: i32, node: Option<&i32>) -> Result<i32> {
    let (address, mut node_or_error) = (page.address(), i32::MIN);
    let (pages, status) = (&raw const address, &raw mut node_or_error);
    let node = node.map_or(std::ptr::null(), std::ptr::from_ref);
    const MOVE: i32 = 1 << 1;
    // SAFETY: One page, one node or none, and room for one status. The content of the page stays.
    let ret = unsafe { libc::syscall(libc::SYS_move_pages, pid, 1, pages, node, status, MOVE) };
    os::check(ret)?;
    match node_or_error {
        node @ 0.. => Ok(node),
        errno => Err(Errno(-errno)),
    }
}

/// Moves the first page of a mapping of a process (0: this one) to a node. Returns the page's node
/// afterwards.
pub fn move_to_node(page: &Mapping, pid: i32, node: usize) -> Result<usize> {
    let node = move_first_page(page, pid, Some(&(node as i32)))?;
    Ok(node as usize)
}

/// The node of the first page of a mapping of this process.
pub fn node_of(page: &Mapping) -> Result<usize> {
    Ok(move_first_page(page, 0, None)? as usize)
}

/// Binds a mapping to a node, and moves its pages there.
pub fn bind_to_node(pages: &Mapping, node: usize) {
    const BIND: i32 = 2;
    const MOVE: i32 = 1 << 1;
    let nodes = 1u64 << node;
    let (at, length) = (pages.address(), pages.end() - pages.address());
    let mask = &raw const nodes;
    // SAFETY: A mask of 64 bits; the kernel uses one bit less than `maxnode`.
    let ret = unsafe { libc::syscall(libc::SYS_mbind, at, length, BIND, mask, 65, MOVE) };
    assert_eq!(ret, 0, "mbind: {:?}", Errno::last());
}

/// Undoes [`bind_to_node`].
pub fn unbind(pages: &Mapping) {
    let length = pages.end() - pages.address();
    // SAFETY: Takes numbers only: the default policy has no nodes.
    let ret = unsafe { libc::syscall(libc::SYS_mbind, pages.address(), length, 0, 0, 0, 0) };
    assert_eq!(ret, 0, "mbind: {:?}", Errno::last());
}
