// SPDX-License-Identifier: GPL-2.0

//! File systems of several kinds, each mounted for the process that does it and its children only.

use crate::kit::errno::Result;
use crate::kit::memory::PAGE;
use crate::kit::os;
use crate::kit::tool::succeeds;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// The file that each has from the start: so many bytes of zeros, which have their place in the file system. In
/// an overlay it lies below, and is copied when it is opened.
const FILE: &str = "word";
pub const LENGTH: usize = 2 * PAGE;

/// Where all is mounted: a file system in memory, and the others in its directories.
const PLACE: &str = "/mnt";
const IMAGE: &str = "/mnt/image";
pub const DISK: &str = "/mnt/disk";
const LOWER: &str = "/mnt/lower";
const OVERLAY: &str = "/mnt/overlay";
const SERVED: &str = "/mnt/served";

/// What the emulator calls the directory that it serves by 9p: see `selftests/machine/vm`.
const TAG: &str = "tests";

/// `FIFREEZE` and `FITHAW`.
const FREEZE: u64 = 0xc004_5877;
const THAW: u64 = 0xc004_5878;

/// The fewest blocks that a journal has, and how large they are.
const JOURNAL_BLOCKS: u32 = 1024;
const BLOCK: u32 = 4096;

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ext4 with a journal, on a loop device.
    Ext4,
    /// An overlay, the upper directory of which is in ext4.
    OverlayOnExt4,
    /// An overlay, the upper directory of which is in memory.
    OverlayInMemory,
    /// A directory of the emulator's host.
    NineP,
    /// ext4 on memory that is taken for a device: files are mapped without a page cache.
    Dax,
}

#[track_caller]
fn must(command: &str, arguments: &[&str]) {
    assert!(succeeds(command, arguments), "{command} {arguments:?}");
}

/// The device that is memory.
const MEMORY_DEVICE: &str = "/dev/pmem0";

/// Does the emulator serve a directory?
fn is_served() -> bool {
    let devices = fs::read_dir("/sys/bus/virtio/drivers/9pnet_virtio");
    let mut devices = devices.into_iter().flatten().flatten();
    devices.any(|device| {
        let tag = fs::read_to_string(device.path().join("mount_tag"));
        tag.is_ok_and(|tag| tag.trim_end_matches(['\0', '\n']) == TAG)
    })
}

/// Why there can be no file system of this kind here, if there can be none.
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

/// A mounted file system. It goes with the mounts of the process that made it.
pub struct Mounted {
    /// A directory in it.
    pub directory: String,
}

impl Mounted {
    /// Mounts one, empty but for what it begins with.
    pub fn new(kind: Kind) -> Mounted {
        os::own_mounts();
        must("mount", &["-t", "tmpfs", "tests", PLACE]);
        for directory in [DISK, LOWER, OVERLAY, SERVED] {
            fs::create_dir(directory).expect("mkdir");
        }
        // Made before the overlay, which does not look for what changes below.
        make_file(LOWER);
        let directory = match kind {
            Kind::Ext4 => {
                mount_ext4();
                DISK
            }
            Kind::OverlayOnExt4 => {
                mount_ext4();
                mount_overlay();
                OVERLAY
            }
            Kind::OverlayInMemory => {
                mount_overlay();
                OVERLAY
            }
            Kind::NineP => {
                let options = "trans=virtio,version=9p2000.L,cache=mmap";
                must("mount", &["-t", "9p", "-o", options, TAG, SERVED]);
                SERVED
            }
            Kind::Dax => {
                for module in ["nd_e820", "nd_pmem"] {
                    must("modprobe", &[module]);
                }
                crate::kit::wait::until("the device", || Path::new(MEMORY_DEVICE).exists());
                make_ext2(MEMORY_DEVICE);
                must("mount", &["-t", "ext4", "-o", "dax", MEMORY_DEVICE, DISK]);
                DISK
            }
        };
        if directory != OVERLAY {
            make_file(directory);
        }
        Mounted {
            directory: directory.into(),
        }
    }

    /// Opens its file.
    pub fn open(&self) -> File {
        open(&format!("{}/{FILE}", self.directory))
    }

    /// Suspends all that changes the file system, until the result is dropped.
    pub fn freeze(&self) -> Frozen {
        let directory = File::open(&self.directory).expect("open a directory");
        os::ioctl(&directory, FREEZE, 0).expect("FIFREEZE");
        Frozen { directory }
    }

    /// Writes to a new file until there is no room left, and then removes what it can.
    pub fn fill(&self) -> Filled {
        let path = format!("{}/filler", self.directory);
        let file = File::create(&path).expect("make a file");
        let mut at = 0;
        while let Ok(length) = file.write_at(&[1; BLOCK as usize], at) {
            at += length as u64;
        }
        file.sync_all().expect("fsync");
        Filled { path }
    }
}

fn make_file(directory: &str) {
    fs::write(format!("{directory}/{FILE}"), [0; LENGTH]).expect("make a file");
}

/// Opens a file to read and write.
fn open(path: &str) -> File {
    let file = File::options().read(true).write(true).open(path);
    file.expect("open a file")
}

/// Takes what room there is until dropped.
pub struct Filled {
    path: String,
}

impl Drop for Filled {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Thaws when dropped.
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

/// The start of a journal (`journal_superblock_t`, all big-endian) that has nothing in it.
fn journal() -> Vec<u8> {
    let mut journal = vec![0; (BLOCK * JOURNAL_BLOCKS) as usize];
    let numbers = [
        0xc03b_3998, // JBD2_MAGIC_NUMBER
        4,           // JBD2_SUPERBLOCK_V2
        0,
        BLOCK,
        JOURNAL_BLOCKS,
        1, // the first block of the log
        1, // the first transaction
    ];
    for (number, bytes) in numbers.into_iter().zip(journal.chunks_mut(4)) {
        bytes.copy_from_slice(&u32::to_be_bytes(number));
    }
    // The number of file systems that use it.
    journal[0x40..0x44].copy_from_slice(&1u32.to_be_bytes());
    journal
}

/// Has the file system in the image use a file of its own as its journal, as `tune2fs -j` does.
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

fn mount_ext4() {
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
    // There is something there for each journal.
    let device = fs::read_dir("/proc/fs/jbd2").map(|journals| journals.count());
    assert!(device.is_ok_and(|count| count > 0), "there is no journal");
}

/// The upper directory is on the disk, if there is one: else in memory.
fn mount_overlay() {
    let (upper, work) = (format!("{DISK}/upper"), format!("{DISK}/work"));
    for directory in [&upper, &work] {
        fs::create_dir(directory).expect("mkdir");
    }
    let options = format!("lowerdir={LOWER},upperdir={upper},workdir={work}");
    must(
        "mount",
        &["-t", "overlay", "-o", &options, "tests", OVERLAY],
    );
}

/// Has the kernel forget the pages of a file that are clean and that no mapping holds.
pub fn forget_pages(file: &File) -> Result<()> {
    os::advise_file(file, libc::POSIX_FADV_DONTNEED)
}
