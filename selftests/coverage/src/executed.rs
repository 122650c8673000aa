// SPDX-License-Identifier: GPL-2.0

//! Which of the module's instructions were executed: finds them in what a machine translated.
//!
//! The log has addresses, and the module is elsewhere each time it is loaded. Each part of it begins with a page,
//! and its bytes tell where that is, but for those which the kernel fills in.

use crate::code::{Code, Flow};
use crate::log::{Blocks, Seen};
use std::io::{self, BufRead};

const PAGE: u64 = 4096;

/// So many bytes that must be as they are are enough to know a place by, if nothing else fits.
const ENOUGH: usize = 16;

/// So many blocks may be translated before a part of the module is known.
const REMEMBERED: usize = 4096;

pub struct Executed<'a> {
    code: &'a Code,
    /// For each instruction: was it executed?
    pub instructions: Vec<bool>,
    /// For each instruction: did a block begin with it?
    pub entered: Vec<bool>,
    /// Blocks where the module was, or was last, that are not as its code is.
    pub strange: usize,
}

/// Where the parts of the module are while a log is read: what to add to an address.
struct Loaded {
    at: Vec<Option<u64>>,
    /// What did not fit when it came, and may belong to a part that is not known yet.
    earlier: Vec<Vec<Seen>>,
    loads: usize,
}

impl<'a> Executed<'a> {
    pub fn new(code: &'a Code) -> Executed<'a> {
        Executed {
            code,
            instructions: vec![false; code.instructions.len()],
            entered: vec![false; code.instructions.len()],
            strange: 0,
        }
    }

    /// How many bytes of a block are as they are in the module if that is loaded at `offset`; none if it is
    /// something else.
    fn alike(&self, block: &[Seen], offset: u64) -> Option<usize> {
        let mut alike = 0;
        let start = block[0].address.wrapping_sub(offset);
        self.code.at(start)?;
        for seen in block {
            let Some(index) = self.code.at(seen.address.wrapping_sub(offset)) else {
                // Inside of what the kernel has put in the place of another instruction.
                continue;
            };
            let at = &self.code.instructions[index];
            if at.bytes == seen.bytes {
                // Filled in with what the linker took for it: no evidence.
                alike += if at.is_filled_in { 0 } else { at.bytes.len() };
            } else if !at.is_filled_in && !at.is_padding {
                return None;
            }
        }
        Some(alike)
    }

    fn mark(&mut self, block: &[Seen], offset: u64) {
        for (order, seen) in block.iter().enumerate() {
            if let Some(index) = self.code.at(seen.address.wrapping_sub(offset)) {
                self.instructions[index] = true;
                self.entered[index] |= order == 0;
            }
        }
    }

    /// Takes a block for the module's if it fits where a part is known to be.
    fn take(&mut self, block: &[Seen], loaded: &Loaded) -> bool {
        for (part, offset) in self.code.parts.iter().zip(&loaded.at) {
            let Some(offset) = *offset else { continue };
            let start = block[0].address.wrapping_sub(offset);
            if !(part.start..part.end).contains(&start) {
                continue;
            }
            if self.alike(block, offset).is_some() {
                self.mark(block, offset);
                return true;
            }
            self.strange += 1;
        }
        false
    }

    /// The only place for a part of the module that makes this block be of it.
    fn place(&self, block: &[Seen]) -> Option<(usize, u64)> {
        let address = block[0].address;
        let mut found = None;
        for (number, part) in self.code.parts.iter().enumerate() {
            let mut start = part.start - part.start % PAGE + address % PAGE;
            while start < part.end {
                let offset = address.wrapping_sub(start);
                if self
                    .alike(block, offset)
                    .is_some_and(|alike| alike >= ENOUGH)
                {
                    if found.is_some() {
                        return None;
                    }
                    found = Some((number, offset));
                }
                start += PAGE;
            }
        }
        found
    }

    /// Is it the first block that runs after a load?
    fn is_entry(&self, block: &[Seen]) -> bool {
        block[0].address % PAGE == self.code.entry % PAGE
            && self
                .place(block)
                .is_some_and(|(_, offset)| block[0].address.wrapping_sub(offset) == self.code.entry)
    }

    fn block(&mut self, block: Vec<Seen>, loaded: &mut Loaded) {
        if self.is_entry(&block) {
            // Everything else may be elsewhere now.
            loaded.loads += 1;
            loaded.at.fill(None);
            loaded.earlier.clear();
        }
        if self.take(&block, loaded) {
            return;
        }
        // Who has not been loaded has no place; that this is asked first saves the most time.
        let place = match loaded.loads {
            0 => None,
            _ => self.place(&block),
        };
        let unknown = |part: usize| loaded.at[part].is_none();
        let Some((part, offset)) = place.filter(|(part, _)| unknown(*part)) else {
            if loaded.at.contains(&None) && loaded.earlier.len() < REMEMBERED {
                loaded.earlier.push(block);
            }
            return;
        };
        loaded.at[part] = Some(offset);
        self.mark(&block, offset);
        for earlier in std::mem::take(&mut loaded.earlier) {
            if !self.take(&earlier, loaded) {
                loaded.earlier.push(earlier);
            }
        }
    }

    /// Adds what a log has. Returns how often the module was loaded in it; at most, as what runs first may be
    /// translated again.
    pub fn add(&mut self, log: impl BufRead) -> io::Result<usize> {
        let mut loaded = Loaded {
            at: vec![None; self.code.parts.len()],
            earlier: Vec::new(),
            loads: 0,
        };
        let mut blocks = Blocks::new(log);
        while let Some(block) = blocks.next()? {
            self.block(block, &mut loaded);
        }
        Ok(loaded.loads)
    }

    /// Of a branch, which of its two sides were entered: to the next instruction, and to the target.
    pub fn sides(&self, index: usize) -> Option<[(u64, bool); 2]> {
        let at = &self.code.instructions[index];
        let Flow::Branch(target) = at.flow else {
            return None;
        };
        let side = |address| {
            let entered = self.code.at(address).is_some_and(|to| self.entered[to]);
            (address, entered)
        };
        Some([side(at.end()), side(target)])
    }
}
