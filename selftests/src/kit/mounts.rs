// SPDX-License-Identifier: GPL-2.0

//! File systems of several kinds, mounted in a mount namespace of the process.

use crate::kit::memory::PAGE;
use crate::kit::tool::succeeds;
use crate::kit::{os, wait};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// The file in each file system: `LENGTH` bytes of zeros, with their blocks allocated. In an
/// overlay the file is in the lower directory, and copied up when opened for writing.
const FILE: &str = "word";
pub const LENGTH: usize = 2 * PAGE;

/// The mount points: a tmpfs, and the others in its directories.
const PLACE: &str = "/mnt";
const IMAGE: &str = "/mnt/image";
pub const DISK: &str = "/mnt/disk";
const LOWER: &str = "/mnt/lower";
const OVERLAY: &str = "/mnt/overlay";
const SERVED: &str = "/mnt/served";

/// The tag of the directory that the emulator serves by 9p: see `selftests/machine/vm`.
const TAG: &str = "tests";

/// `FIFREEZE` and `FITHAW`.
const FREEZE: u64 = 0xc004_5877;
const THAW: u64 = 0xc004_5878;

/// The minimum size of a journal in blocks, and the block size.
const JOURNAL_BLOCKS: u32 = 1024;
const BLOCK: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ext4 with a journal, on a loop device.
    Ext4,
    /// An overlay with its upper directory on ext4.
    OverlayOnExt4,
    /// An overlay with its upper directory on a tmpfs.
    OverlayInMemory,
    /// A directory of the emulator's host.
    NineP,
    /// ext4 on a pmem device, with files mapped without a page cache.
    Dax,
}

#[track_caller]
fn must(command: &str, arguments: &[&str]) {
    assert!(succeeds(command, arguments), "{command} {arguments:?}");
}

const MEMORY_DEVICE: &str = "/dev/pmem0";

/// Returns whether the emulator serves a directory by 9p.
fn is_served() -> bool {
    let devices = fs::read_dir("/sys/bus/virtio/drivers/9pnet_virtio");
    let mut devices = devices.into_iter().flatten().flatten();
    devices.any(|device| {
        let tag = fs::read_to_string(device.path().join("mount_tag"));
        tag.is_ok_and(|tag| tag.trim_end_matches(['\0', '\n']) == TAG)
    })
}

/// Returns why there can be no file system of this kind.
pub fn obstacle(kind: Kind) -> Option<String> {
    let modules: &[&str] = match kind {
        Kind::Ext4 => &["loop", "ext4"],
        Kind::OverlayOnExt4 => &["loop", "ext4", "overlay"],
        Kind::OverlayInMemory => &["overlay"],
        Kind::NineP => &["9p"],
        Kind::Dax => &["nd_e820", "nd_pmem", "ext4"],
    };
    let is_there = |module: &&&str| succeeds("modprobe", &["-n", "-q", module]);
    if let Some(module) = modules.iter().find(|module| !is_there(module)) {
        return Some(format!("this kernel has no {module}"));
    }
    match kind {
        Kind::NineP if !is_served() => Some(format!("nothing is served by 9p as {TAG}")),
        Kind::Dax if !has_memory_device() => Some("no memory is set aside as a device".into()),
        _ => None,
    }
}

fn has_memory_device() -> bool {
    let memory = fs::read_to_string("/proc/iomem").unwrap_or_default();
    memory.contains("Persistent Memory")
}

/// A mounted file system, which lasts as long as the process's mount namespace.
pub struct Mounted {
    pub directory: &'static str,
}

impl Mounted {
    /// Mounts a file system that is empty except for its file.
    pub fn new(kind: Kind) -> Mounted {
        os::own_mounts();
        must("mount", &["-t", "tmpfs", "tests", PLACE]);
        for directory in [DISK, LOWER, OVERLAY, SERVED] {
            fs::create_dir(directory).expect("mkdir");
        }
        // Made before the overlay is mounted, which does not support changes of the lower
        // directory.
        make_file(LOWER);
        let directory = match kind {
            Kind::Ext4 => mount_ext4(),
            Kind::OverlayOnExt4 => {
                mount_ext4();
                mount_overlay()
            }
            Kind::OverlayInMemory => mount_overlay(),
            Kind::NineP => {
                let options = "trans=virtio,version=9p2000.L,cache=mmap";
                must("mount", &["-t", "9p", "-o", options, TAG, SERVED]);
                SERVED
            }
            Kind::Dax => {
                for module in ["nd_e820", "nd_pmem"] {
                    must("modprobe", &[module]);
                }
                wait::until("the device", || Path::new(MEMORY_DEVICE).exists());
                make_ext2(MEMORY_DEVICE);
                must("mount", &["-t", "ext4", "-o", "dax", MEMORY_DEVICE, DISK]);
                DISK
            }
        };
        if directory != OVERLAY {
            make_file(directory);
        }
        Mounted { directory }
    }

    pub fn open(&self) -> File {
        open(&format!("{}/{FILE}", self.directory))
    }

    /// Freezes the file system until the result is dropped.
    pub fn freeze(&self) -> Frozen {
        let directory = File::open(self.directory).expect("open a directory");
        os::ioctl(&directory, FREEZE, 0).expect("FIFREEZE");
        Frozen { directory }
    }

    /// Fills the file system until no block is free, with a file of this path.
    pub fn fill(&self) -> String {
        let path = format!("{}/filler", self.directory);
        let file = File::create(&path).expect("make a file");
        let mut at = 0;
        while let Ok(length) = file.write_at(&[1; BLOCK as usize], at) {
            at += length as u64;
        }
        file.sync_all().expect("fsync");
        path
    }
}

fn make_file(directory: &str) {
    fs::write(format!("{directory}/{FILE}"), [0; LENGTH]).expect("make a file");
}

fn open(path: &str) -> File {
    let file = File::options().read(true).write(true).open(path);
    file.expect("open a file")
}

/// A frozen file system; thawed when dropped.
pub struct Frozen {
    directory: File,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = os::ioctl(&self.directory, THAW, 0);
    }
}

fn make_ext2(path: &str) {
    let block = BLOCK.to_string();
    must("busybox", &["mke2fs", "-F", "-b", &block, "-m", "0", path]);
}

/// An empty journal (`journal_superblock_t`, all big-endian).
fn journal() -> Vec<u8> {
    let mut journal = vec![0; (BLOCK * JOURNAL_BLOCKS) as usize];
    let numbers = [
        0xc03b_3998, // JBD2_MAGIC_NUMBER
        4,           // JBD2_SUPERBLOCK_V2
        0,
        BLOCK,
        JOURNAL_BLOCKS,
        1, // s_first
        1, // s_sequence
    ];
    for (number, bytes) in numbers.into_iter().zip(journal.chunks_mut(4)) {
        bytes.copy_from_slice(&u32::to_be_bytes(number));
    }
    // s_nr_users
    journal[0x40..0x44].copy_from_slice(&1u32.to_be_bytes());
    journal
}

/// Makes a file the journal of the file system in the image, as `tune2fs -j` does.
fn use_journal(inode: u32) -> io::Result<()> {
    const SUPERBLOCK: u64 = 1024;
    const FEATURES: u64 = SUPERBLOCK + 0x5c;
    const HAS_JOURNAL: u8 = 4;
    let image = open(IMAGE);
    let mut features = [0];
    image.read_exact_at(&mut features, FEATURES)?;
    image.write_all_at(&[features[0] | HAS_JOURNAL], FEATURES)?;
    image.write_all_at(&inode.to_le_bytes(), SUPERBLOCK + 0xe0)
}

fn mount_ext4() -> &'static str {
    const SIZE: u64 = 16 << 20;
    let image = File::create(IMAGE).expect("make an image");
    image.set_len(SIZE).expect("the size of an image");
    drop(image);
    must("modprobe", &["loop"]);
    make_ext2(IMAGE);
    let mount = || must("mount", &["-t", "ext4", "-o", "loop", IMAGE, DISK]);
    mount();
    let path = format!("{DISK}/journal");
    fs::write(&path, journal()).expect("write a journal");
    let inode = fs::metadata(&path).expect("the journal").ino();
    must("umount", &[DISK]);
    use_journal(inode as u32).expect("change the image");
    mount();
    // The directory has an entry for each journal.
    let device = fs::read_dir("/proc/fs/jbd2").map(|journals| journals.count());
    assert!(device.is_ok_and(|count| count > 0), "there is no journal");
    DISK
}

/// Mounts an overlay, with the upper directory on the disk if that is mounted, else on the tmpfs.
fn mount_overlay() -> &'static str {
    let (upper, work) = (format!("{DISK}/upper"), format!("{DISK}/work"));
    for directory in [&upper, &work] {
        fs::create_dir(directory).expect("mkdir");
    }
    let options = format!("lowerdir={LOWER},upperdir={upper},workdir={work}");
    let arguments = ["-t", "overlay", "-o", &options, "tests", OVERLAY];
    must("mount", &arguments);
    OVERLAY
}
