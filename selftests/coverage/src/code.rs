// SPDX-License-Identifier: GPL-2.0

//! The module's instructions, as `objdump -dwr` shows them.

/// Where an instruction leads to.
#[derive(Debug, PartialEq)]
pub enum Flow {
    /// The next one, whatever else it does.
    On,
    /// The next one, or the one at this address.
    Branch(u64),
    /// The one at this address.
    Jump(u64),
    /// What panics; nothing comes back.
    Panic,
    /// Another function; it may come back.
    Call,
    /// The caller, or nowhere.
    End,
}

pub struct Instruction {
    pub address: u64,
    pub bytes: Vec<u8>,
    /// The kernel fills in some of its bytes when it loads the module, or puts another in its place.
    pub is_filled_in: bool,
    /// Fills a gap between functions, or one that the kernel may patch: no line of the source.
    pub is_padding: bool,
    pub flow: Flow,
}

impl Instruction {
    pub fn end(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }
}

/// A part of the module that lies in one piece wherever it is loaded.
pub struct Part {
    pub start: u64,
    pub end: u64,
}

pub struct Code {
    /// By address.
    pub instructions: Vec<Instruction>,
    pub parts: Vec<Part>,
    /// Where the first instruction is that runs after a load.
    pub entry: u64,
}

/// Those parts of mangled names that functions have which panic.
const PANICS: [&str; 4] = [
    "9panicking",
    "unwrap_failed",
    "expect_failed",
    "__stack_chk_fail",
];

fn panics(name: &str) -> bool {
    // Indices and lengths of slices have a function each.
    PANICS.iter().any(|part| name.contains(part))
        || name.contains("5slice") && name.contains("_fail")
}

fn flow(mnemonic: &str, operand: &str) -> Flow {
    let target = operand.split_whitespace().next();
    let target = target.and_then(|word| u64::from_str_radix(word, 16).ok());
    match mnemonic {
        "jmp" => target.map_or(Flow::End, Flow::Jump),
        "ret" | "ud2" | "int3" | "iretq" => Flow::End,
        // What the compiler puts where the language leaves open what is done.
        "ud1" => Flow::Panic,
        "call" if panics(operand) => Flow::Panic,
        "call" => Flow::Call,
        _ if mnemonic.starts_with('j') => target.map_or(Flow::End, Flow::Branch),
        _ => Flow::On,
    }
}

/// An instruction of a line "ADDRESS:\tBYTES\tTEXT[\tADDRESS: RELOCATION\tSYMBOL...]".
fn instruction(line: &str) -> Option<Instruction> {
    let mut columns = line.split('\t');
    let address = columns.next()?.trim().strip_suffix(':')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let bytes = columns.next()?.split_whitespace();
    let bytes = bytes.map(|byte| u8::from_str_radix(byte, 16));
    let bytes: Vec<u8> = bytes.collect::<Result<_, _>>().ok()?;
    let mut text = columns.next().unwrap_or("").trim();
    let relocations: Vec<&str> = columns.collect();
    let is_padding = text.contains("nop") || text == "int3" || text == "xchg   %ax,%ax";
    for prefix in ["cs ", "ds ", "notrack ", "bnd "] {
        text = text.strip_prefix(prefix).unwrap_or(text).trim_start();
    }
    let (mnemonic, operand) = text.split_once(' ').unwrap_or((text, ""));
    // The name is a word of its own after the kind of relocation.
    let symbol = relocations.last().copied().unwrap_or("");
    let mut flow = flow(mnemonic, operand.trim());
    if flow == Flow::Call && panics(symbol) {
        flow = Flow::Panic;
    }
    Some(Instruction {
        address,
        bytes,
        // Where no pointer leads, the latter is taken away.
        is_filled_in: !relocations.is_empty() || mnemonic == "endbr64",
        is_padding,
        flow,
    })
}

impl Code {
    pub fn parse(text: &str) -> Result<Code, String> {
        let mut code = Code {
            instructions: Vec::new(),
            parts: Vec::new(),
            entry: 0,
        };
        // The kernel has the compiler leave room before each function, under a name of its own.
        let mut is_before_function = false;
        for line in text.lines() {
            if line.starts_with("Disassembly of section ") {
                code.parts.push(Part { start: 0, end: 0 });
            } else if let Some((address, name)) = line
                .strip_suffix(">:")
                .and_then(|line| line.split_once(" <"))
            {
                is_before_function = name.starts_with("__pfx_");
                if name == "init_module" {
                    code.entry = u64::from_str_radix(address, 16)
                        .map_err(|error| format!("{line}: {error}"))?;
                }
            } else if let Some(mut found) = instruction(line) {
                let part = code.parts.last_mut();
                let part = part.ok_or("an instruction before the first section")?;
                if part.end == 0 {
                    part.start = found.address;
                }
                part.end = found.end();
                found.is_padding |= is_before_function;
                code.instructions.push(found);
            }
        }
        if code.instructions.is_empty() || code.entry == 0 {
            return Err("no instructions, or none named init_module".into());
        }
        code.instructions.sort_by_key(|at| at.address);
        Ok(code)
    }

    /// Which instruction begins at an address.
    pub fn at(&self, address: u64) -> Option<usize> {
        self.instructions
            .binary_search_by_key(&address, |at| at.address)
            .ok()
    }

    /// Does who comes to this address panic, whatever else is the case?
    pub fn ends_in_panic(&self, address: u64) -> bool {
        let mut address = address;
        // Arguments of a panic take no more; a loop ends here, too.
        for _ in 0..32 {
            let Some(index) = self.at(address) else {
                return false;
            };
            let at = &self.instructions[index];
            address = match at.flow {
                Flow::On => at.end(),
                Flow::Jump(target) => target,
                Flow::Panic => return true,
                _ => return false,
            };
        }
        false
    }
}
