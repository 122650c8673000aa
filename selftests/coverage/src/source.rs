// SPDX-License-Identifier: GPL-2.0

//! Where the module's instructions come from, as `llvm-symbolizer --inlines --addresses --verbose` says.

use crate::code::Code;
use std::collections::HashMap;
use std::io::{self, BufRead};

/// The module's own source, as the compilers name it, and how it is named here.
const OWN: &str = "/src/src/";
const SHOWN: &str = "src/";

/// A line of a file, both of the module's source.
pub type Line = (usize, u32);

pub struct Function {
    /// Where it begins.
    pub line: Line,
    pub name: String,
}

/// What an instruction was made from: the innermost first, then who inlined that.
#[derive(Default)]
pub struct Origin {
    pub lines: Vec<Line>,
    pub functions: Vec<usize>,
}

#[derive(Default)]
pub struct Source {
    pub files: Vec<String>,
    pub functions: Vec<Function>,
    /// For each instruction.
    pub origins: Vec<Origin>,
    file_numbers: HashMap<String, usize>,
    function_numbers: HashMap<(Line, String), usize>,
}

/// A function that was inlined, or the one that all was inlined into.
#[derive(Default)]
struct Frame {
    name: String,
    file: String,
    line: u32,
    start_file: String,
    start_line: u32,
}

/// A function's name without the modules that its path begins with, as the file says those, and without the types that
/// it was made for, as it is the same function for all of them: `<Type as Trait>::function::{closure#0}`.
fn plain(name: &str) -> String {
    let mut plain = String::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        if let Some(types) = rest.strip_prefix("::<") {
            rest = after_types(types);
            continue;
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let (word, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        if word.is_empty() {
            plain.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        rest = after;
        match after.strip_prefix("::") {
            // A module; only what is in a function begins with a brace.
            Some(item) if !plain.ends_with("::") && item.starts_with(is_word) => rest = item,
            _ if after.starts_with('<') => {
                plain.push_str(word);
                rest = after_types(&after[1..]);
            }
            _ => plain.push_str(word),
        }
    }
    plain
}

/// What follows a list of types, of which this is all but the first '<'.
fn after_types(types: &str) -> &str {
    let mut depth = 1;
    let mut before = ' ';
    for (at, c) in types.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &types[at + 1..];
        }
        before = c;
    }
    ""
}

impl Source {
    pub fn parse(symbols: impl BufRead, code: &Code) -> Result<Source, String> {
        let mut source = Source::default();
        source
            .origins
            .resize_with(code.instructions.len(), Origin::default);
        source
            .read(symbols, code)
            .map_err(|error| format!("what llvm-symbolizer says: {error}"))?;
        match source.functions.is_empty() {
            true => Err("the module has no notes for debuggers, or none of its own source".into()),
            false => Ok(source),
        }
    }

    fn read(&mut self, symbols: impl BufRead, code: &Code) -> io::Result<()> {
        let mut address = None;
        let mut frames: Vec<Frame> = Vec::new();
        for line in symbols.lines() {
            let line = line?;
            if let Some(digits) = line.strip_prefix("0x") {
                self.add(code, address, &frames);
                frames.clear();
                address = u64::from_str_radix(digits, 16).ok();
            } else if !line.starts_with("  ") {
                if !line.is_empty() {
                    let name = line;
                    frames.push(Frame {
                        name,
                        ..Frame::default()
                    });
                }
            } else if let (Some(frame), Some((key, value))) =
                (frames.last_mut(), line.trim().split_once(": "))
            {
                match key {
                    "Filename" => frame.file = value.into(),
                    "Line" => frame.line = value.parse().unwrap_or(0),
                    "Function start filename" => frame.start_file = value.into(),
                    "Function start line" => frame.start_line = value.parse().unwrap_or(0),
                    _ => {}
                }
            }
        }
        self.add(code, address, &frames);
        Ok(())
    }

    /// Notes where the instruction at an address comes from.
    fn add(&mut self, code: &Code, address: Option<u64>, frames: &[Frame]) {
        let Some(index) = address.and_then(|address| code.at(address)) else {
            return;
        };
        // Such an instruction says nothing about the line that it is counted to.
        if code.instructions[index].is_padding {
            return;
        }
        let mut origin = Origin::default();
        for frame in frames {
            origin.lines.extend(self.line(&frame.file, frame.line));
            // Of gcc's functions it knows the line alone, if they were not inlined: the file is that of their code.
            let start_file = match frame.start_file.as_str() {
                "" => &frame.file,
                file => file,
            };
            if let Some(line) = self.line(start_file, frame.start_line) {
                // gcc has a part of its own for what it takes to be rare.
                let name = frame.name.strip_suffix(".cold").unwrap_or(&frame.name);
                origin.functions.push(self.function(line, name));
            }
        }
        self.origins[index] = origin;
    }

    /// A line, if it is of the module's source.
    fn line(&mut self, file: &str, line: u32) -> Option<Line> {
        let file = file.strip_prefix(OWN).filter(|_| line > 0)?;
        if let Some(number) = self.file_numbers.get(file) {
            return Some((*number, line));
        }
        let number = self.files.len();
        self.files.push(format!("{SHOWN}{file}"));
        self.file_numbers.insert(file.into(), number);
        Some((number, line))
    }

    fn function(&mut self, line: Line, name: &str) -> usize {
        let key = (line, plain(name));
        if let Some(number) = self.function_numbers.get(&key) {
            return *number;
        }
        let number = self.functions.len();
        let name = key.1.clone();
        self.functions.push(Function { line, name });
        self.function_numbers.insert(key, number);
        number
    }
}
