// SPDX-License-Identifier: GPL-2.0

//! Transfer of bytes and files by the kernel: splice, sendfile, SCM_RIGHTS.

use crate::kit::errno::Result;
use crate::kit::os::count;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr;

/// Moves bytes from a pipe to a file, or from a file to a pipe.
pub fn splice(from: &File, to: &File, length: usize) -> Result<usize> {
    let here = ptr::null_mut();
    let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
    // SAFETY: The offsets are null.
    count(unsafe { libc::splice(from, here, to, here, length, 0) })
}

/// Puts pages of this memory into a pipe. They must stay unchanged until read.
pub fn vmsplice(pipe: &File, bytes: &'static [u8]) -> Result<usize> {
    let part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: The kernel reads one iovec, and the bytes, which are static.
    count(unsafe { libc::vmsplice(pipe.as_raw_fd(), &part, 1, 0) })
}

/// Copies from one file to another within the kernel.
pub fn sendfile(to: &File, from: &File, length: usize) -> Result<usize> {
    // SAFETY: The offset is null.
    count(unsafe { libc::sendfile(to.as_raw_fd(), from.as_raw_fd(), ptr::null_mut(), length) })
}

/// Control data with one descriptor.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    descriptor: RawFd,
    padding: u32,
}

/// A message of one byte, with a descriptor.
fn message(part: *mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: A msghdr is plain data, for which zero is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = ptr::from_mut(control).cast();
    message.msg_controllen = size_of::<Control>();
    message
}

fn control(descriptor: RawFd) -> Control {
    Control {
        header: libc::cmsghdr {
            cmsg_len: size_of::<libc::cmsghdr>() + size_of::<RawFd>(),
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        },
        descriptor,
        padding: 0,
    }
}

/// Sends a file to the other end (`SCM_RIGHTS`).
pub fn send_file(socket: &UnixStream, file: &File) {
    let mut control = control(file.as_raw_fd());
    let mut part = IoSlice::new(b"f");
    let message = message(ptr::from_mut(&mut part).cast(), &mut control);
    // SAFETY: The message and its buffers live through the call.
    let ret = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, 0) };
    assert_eq!(count(ret), Ok(1));
}

pub fn receive_file(socket: &UnixStream) -> File {
    let mut control = control(-1);
    let mut byte = [0];
    let mut part = IoSliceMut::new(&mut byte);
    let mut message = message(ptr::from_mut(&mut part).cast(), &mut control);
    // SAFETY: As for sending; the kernel writes to the byte and the control data.
    let ret = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) };
    assert_eq!(count(ret), Ok(1));
    assert!(control.descriptor > 2, "no file was passed");
    // SAFETY: The descriptor is new, and this is its only owner.
    unsafe { File::from_raw_fd(control.descriptor) }
}
