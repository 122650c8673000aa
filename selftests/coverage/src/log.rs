// SPDX-License-Identifier: GPL-2.0

//! What the emulator was asked to note: each block of instructions when it translates it (`-d in_asm`).

use std::io::{self, BufRead};

/// An instruction where and as it was in the machine's memory.
#[derive(Debug, PartialEq)]
pub struct Seen {
    pub address: u64,
    pub bytes: Vec<u8>,
}

/// The blocks of a log, in the order in which they were translated.
pub struct Blocks<R> {
    log: R,
    line: Vec<u8>,
}

/// A line "0xADDRESS:  BYTES  TEXT", and whether it has a text: an instruction that is too long for its line goes on
/// in the next, which has bytes only.
fn parse(line: &str) -> Option<(Seen, bool)> {
    let (address, rest) = line.strip_prefix("0x")?.split_once(':')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let rest = rest.trim();
    let (bytes, text) = rest.split_once("  ").unwrap_or((rest, ""));
    let bytes = bytes.split(' ').map(|byte| u8::from_str_radix(byte, 16));
    let bytes = bytes.collect::<Result<_, _>>().ok()?;
    Some((Seen { address, bytes }, !text.is_empty()))
}

impl<R: BufRead> Blocks<R> {
    pub fn new(log: R) -> Blocks<R> {
        Blocks {
            log,
            line: Vec::new(),
        }
    }

    /// The next block's instructions; none at the end of the log. The last line may be cut, if the emulator was stopped.
    pub fn next(&mut self) -> io::Result<Option<Vec<Seen>>> {
        let mut block: Vec<Seen> = Vec::new();
        loop {
            self.line.clear();
            if self.log.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(Some(block).filter(|block| !block.is_empty()));
            }
            let line = String::from_utf8_lossy(&self.line);
            match (parse(&line), block.last_mut()) {
                (Some((seen, false)), Some(last))
                    if last.address + last.bytes.len() as u64 == seen.address =>
                {
                    last.bytes.extend(seen.bytes);
                }
                (Some((seen, _)), _) => block.push(seen),
                (None, Some(_)) => return Ok(Some(block)),
                (None, None) => {}
            }
        }
    }
}
