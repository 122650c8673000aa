// SPDX-License-Identifier: GPL-2.0

//! An unmodified .NET runtime, and the commands of a collector on its diagnostics socket.

use crate::kit::abi::DATA;
use crate::kit::os::UNPRIVILEGED;
use crate::kit::tool::Scratch;
use crate::kit::{transfer, wait};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The runtime that `selftests/machine/build dotnet` installs.
const PROGRAM: &str = "/build/dotnet/runtime";

/// A copy in memory for all tests: the runtime reads random parts of its file, which takes half a
/// minute by 9p.
const COPY: &str = "/tmp/dotnet-runtime";

pub fn obstacle() -> Option<String> {
    let is_there = Path::new(PROGRAM).exists();
    (!is_there).then(|| format!("there is no runtime of .NET in {PROGRAM}"))
}

/// Keywords of a session: the records of the JIT compiler.
pub const JIT: u64 = 0x10;
/// The objects on the heap and their types. The runtime collects garbage for them.
pub const HEAP_DUMP: u64 = 0x198_0001;

pub const PROVIDER: &str = "Microsoft-Windows-DotNETRuntime";
const VERBOSE: u32 = 5;

/// Commands, and the start of an answer that reports success.
const COLLECT: [u8; 2] = [2, 6];
const RESUME: [u8; 2] = [4, 1];
const DONE: [u8; 2] = [0xff, 0];
const MAGIC: &[u8] = b"DOTNET_IPC_V1\0";
const HEADER: usize = 20;

/// A runtime; killed when dropped.
pub struct Runtime {
    outer: Child,
    // The program ends at the end of its input.
    _input: ChildStdin,
    scratch: Scratch,
}

impl Runtime {
    /// Starts a runtime that waits for [`Runtime::resume`], as an ordinary user without access to
    /// tracefs, in user, mount and pid namespaces of its own.
    pub fn start(name: &str) -> Runtime {
        if !Path::new(COPY).exists() {
            fs::copy(PROGRAM, COPY).expect("copy the runtime");
        }
        let scratch = Scratch::new(name);
        let owner = Some(UNPRIVILEGED);
        chown(scratch.file(""), owner, owner).expect("give a directory away");
        let mut outer = Command::new("setpriv")
            .args([
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "unshare",
            ])
            .args(["--user", "--map-root-user", "--mount", "--mount-proc"])
            .args(["--pid", "--fork", "--kill-child", COPY])
            .args(["server", "start"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", scratch.file(""))
            .env("TMPDIR", scratch.file(""))
            .env("DOTNET_DefaultDiagnosticPortSuspend", "1")
            .env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1")
            .env("AZURE_MCP_COLLECT_TELEMETRY", "false")
            .stdin(Stdio::piped())
            .stdout(File::create(scratch.file("output")).expect("make a file"))
            .stderr(File::create(scratch.file("errors")).expect("make a file"))
            .spawn()
            .expect("start the runtime");
        let input = outer.stdin.take().expect("its input");
        Runtime {
            outer,
            _input: input,
            scratch,
        }
    }

    /// Returns whether the runtime is still running.
    pub fn runs(&mut self) -> bool {
        self.outer
            .try_wait()
            .expect("look at the runtime")
            .is_none()
    }

    fn socket(&self) -> Option<UnixStream> {
        let mut files = fs::read_dir(self.scratch.file("")).ok()?.flatten();
        let name = |file: &fs::DirEntry| file.file_name().to_string_lossy().into_owned();
        let socket = files.find(|file| name(file).starts_with("dotnet-diagnostic-"))?;
        UnixStream::connect(socket.path()).ok()
    }

    fn said(&self) -> String {
        let said = ["output", "errors"].map(|name| fs::read_to_string(self.scratch.file(name)));
        said.map(|text| text.unwrap_or_default()).concat()
    }

    /// Sends a command, with a file if there is one. Returns the connection after the runtime has
    /// reported success.
    fn command(&self, [set, number]: [u8; 2], payload: &[u8], file: Option<&File>) -> UnixStream {
        let mut socket = None;
        wait::eventually(|| {
            socket = self.socket();
            socket.is_some()
        });
        let mut socket = socket.unwrap_or_else(|| panic!("no socket, but {}", self.said()));
        let length = (HEADER + payload.len()) as u16;
        let header = [MAGIC, &length.to_le_bytes(), &[set, number, 0, 0]].concat();
        socket
            .write_all(&[&header, payload].concat())
            .expect("write to the runtime");
        if let Some(file) = file {
            transfer::send_file(&socket, file);
        }
        let mut answer = [0; HEADER];
        socket
            .read_exact(&mut answer)
            .expect("read from the runtime");
        let length = usize::from(u16::from_le_bytes([answer[14], answer[15]]));
        let mut said = vec![0; length - HEADER];
        socket.read_exact(&mut said).expect("read from the runtime");
        assert_eq!(answer[16..18], DONE, "what the runtime said: {said:x?}");
        socket
    }

    /// Starts the program.
    pub fn resume(&self) {
        self.command(RESUME, &[], None);
    }

    /// Makes the runtime register an event, and write its own events with these keywords to it
    /// until the connection, a session, is closed.
    pub fn collect(&self, event: &str, keywords: u64) -> UnixStream {
        let text = |text: &str| -> Vec<u8> {
            let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
            let length = (units.len() as u32).to_le_bytes();
            length
                .into_iter()
                .chain(units.into_iter().flat_map(u16::to_le_bytes))
                .collect()
        };
        let none = 0u32.to_le_bytes();
        let payload = [
            &1u32.to_le_bytes()[..], // to user_events
            &0u64.to_le_bytes(),     // nothing at the end
            &1u32.to_le_bytes(),     // one provider
            &keywords.to_le_bytes(),
            &VERBOSE.to_le_bytes(),
            &text(PROVIDER),
            &none, // no arguments
            &[0],  // without these:
            &none,
            &text(event),
            &none, // nothing to other events
        ];
        let data = File::options()
            .read(true)
            .write(true)
            .open(DATA)
            .expect(DATA);
        self.command(COLLECT, &payload.concat(), Some(&data))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // `--kill-child` kills the runtime as well.
        let _ = self.outer.kill();
        let _ = self.outer.wait();
    }
}
