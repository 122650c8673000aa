// SPDX-License-Identifier: GPL-2.0

//! The way from what the tools say to a table, with a module of a few instructions.

use crate::code::{Code, Flow};
use crate::executed::Executed;
use crate::log::Blocks;
use crate::report::Report;
use crate::source::Source;

/// A function with a branch one side of which panics, one with a branch to itself, and what is run first.
const CODE: &str = "
laid-out:     file format elf64-x86-64

Disassembly of section .core:

0000000010000000 <__pfx_checked>:
    10000000:\t90                   \tnop

0000000010000001 <checked>:
    10000001:\tf3 0f 1e fa          \tendbr64
    10000005:\te8 f6 ff ff ef       \tcall   0 <x-0x10000000>\t10000006: R_X86_64_PLT32\t__fentry__-0x4
    1000000a:\t48 8d bc 24 98 00 00 00 \tlea    0x98(%rsp),%rdi
    10000012:\t48 c7 84 24 98 00 00 00 01 00 00 00 \tmovq   $0x1,0x98(%rsp)
    1000001e:\t74 05                \tje     10000025 <checked+0x24>
    10000020:\te9 db ff ff ef       \tjmp    0 <x-0x10000000>\t10000021: R_X86_64_PLT32\t__x86_return_thunk-0x4
    10000025:\t48 c7 c7 00 00 00 00 \tmov    $0x0,%rdi\t10000028: R_X86_64_32S\t.rodata+0x10
    1000002c:\te8 cf ff ff ef       \tcall   0 <x-0x10000000>\t1000002d: R_X86_64_PLT32\t_RNvNtCs_4core9panicking5panic-0x4

0000000010000031 <again>:
    10000031:\t31 c0                \txor    %eax,%eax
    10000033:\tff cf                \tdec    %edi
    10000035:\t75 fc                \tjne    10000033 <again+0x2>
    10000037:\te9 c4 ff ff ef       \tjmp    0 <x-0x10000000>\t10000038: R_X86_64_PLT32\t__x86_return_thunk-0x4

Disassembly of section .init:

0000000020000010 <init_module>:
    20000010:\t41 57                \tpush   %r15
    20000012:\t41 56                \tpush   %r14
    20000014:\t48 81 ec b0 01 00 00 \tsub    $0x1b0,%rsp
    2000001b:\t48 8d bc 24 98 00 00 00 \tlea    0x98(%rsp),%rdi
    20000023:\te8 d9 ff fd ef       \tcall   10000001 <checked>\t20000024: R_X86_64_PLT32\tchecked-0x4
    20000028:\tc3                   \tret
";

/// What the addresses come from, in the order of CODE: function, the line it begins in, the line.
const ORIGINS: [(u64, &str, u32, u32); 15] = [
    (0x10000000, "m::checked::<u8>", 1, 1),
    (0x10000001, "m::checked::<u8>", 1, 1),
    (0x10000005, "m::checked::<u8>", 1, 1),
    (0x1000000a, "m::checked::<u8>", 1, 2),
    (0x10000012, "m::checked::<u8>", 1, 2),
    (0x1000001e, "m::checked::<u8>", 1, 3),
    (0x10000020, "m::checked::<u8>", 1, 4),
    (0x10000025, "m::checked::<u8>", 1, 3),
    (0x1000002c, "m::checked::<u8>", 1, 3),
    (
        0x10000031,
        "<m::Type as m::Trait<fn(u8) -> u8>>::again",
        10,
        11,
    ),
    (
        0x10000033,
        "<m::Type as m::Trait<fn(u8) -> u8>>::again",
        10,
        11,
    ),
    (
        0x10000035,
        "<m::Type as m::Trait<fn(u8) -> u8>>::again",
        10,
        12,
    ),
    (
        0x10000037,
        "<m::Type as m::Trait<fn(u8) -> u8>>::again",
        10,
        13,
    ),
    (0x20000010, "m::begin::{closure#0}", 20, 21),
    (0x20000028, "m::begin::{closure#0}", 20, 22),
];

/// What is first executed after a load, with its part at `page`.
fn entry(page: u64) -> String {
    format!(
        "----------------\nIN: \n\
         0x{:016x}:  41 57                    pushq    %r15\n\
         0x{:016x}:  41 56                    pushq    %r14\n\
         0x{:016x}:  48 81 ec b0 01 00 00     subq     $0x1b0, %rsp\n\
         0x{:016x}:  48 8d bc 24 98 00 00 00  leaq     0x98(%rsp), %rdi\n\
         0x{:016x}:  e8 d4 6e 00 00           callq    0xffffffffc0aa1001\n\n",
        page + 0x10,
        page + 0x12,
        page + 0x14,
        page + 0x1b,
        page + 0x23
    )
}

/// What comes first in `checked`, as the kernel has changed it, and with a line that is too long.
fn checked(page: u64) -> String {
    format!(
        "----------------\nIN: \n\
         0x{:016x}:  0f 1f 40 d6              nopl     -0x2a(%rax)\n\
         0x{:016x}:  0f 1f 44 00 00           nopl     (%rax, %rax)\n\
         0x{:016x}:  48 8d bc 24 98 00 00 00  leaq     0x98(%rsp), %rdi\n\
         0x{:016x}:  48 c7 84 24 98 00 00 00  movq     $1, 0x98(%rsp)\n\
         0x{:016x}:  01 00 00 00\n\
         0x{:016x}:  74 05                    je       0x{:x}\n\n",
        page + 1,
        page + 5,
        page + 0xa,
        page + 0x12,
        page + 0x1a,
        page + 0x1e,
        page + 0x25
    )
}

/// The loop of `again`, in the bytes of its first instruction or others.
fn turn(page: u64, bytes: &str) -> String {
    format!(
        "----------------\nIN: \n\
         0x{:016x}:  {bytes}                    decl     %edi\n\
         0x{:016x}:  75 fc                    jne      0x{:x}\n\n",
        page + 0x33,
        page + 0x35,
        page + 0x33
    )
}

/// `again` from its first instruction on.
fn again(page: u64) -> String {
    let head = format!(
        "0x{:016x}:  31 c0                    xorl     %eax, %eax",
        page + 0x31
    );
    turn(page, "ff cf").replacen("IN: ", &format!("IN: \n{head}"), 1)
}

const CORE: u64 = 0xffff_ffff_c0aa_1000;
const INIT: u64 = 0xffff_ffff_c0bb_2000;

fn code() -> Code {
    Code::parse(CODE).unwrap()
}

fn source(code: &Code) -> Source {
    let mut said = String::new();
    for (address, name, start, line) in ORIGINS {
        said += &format!(
            "{address:#x}\ncore::inlined\n  Filename: /usr/lib/core/src/lib.rs\n  \
             Function start filename: /usr/lib/core/src/lib.rs\n  Function start line: 7\n  Line: 8\n  \
             Column: 5\n{name}\n  Filename: /src/src/m.rs\n  Function start filename: /src/src/m.rs\n  \
             Function start line: {start}\n  Line: {line}\n  Column: 1\n\n"
        );
    }
    Source::parse(said.as_bytes(), code).unwrap()
}

/// The addresses of what a log has as executed, and how often the module was loaded.
fn executed(log: &str) -> (Vec<u64>, usize) {
    let code = code();
    let mut executed = Executed::new(&code);
    let loads = executed.add(log.as_bytes()).unwrap();
    assert_eq!(executed.strange, 0);
    let all = code.instructions.iter().zip(&executed.instructions);
    let done = all.filter(|(_, done)| **done).map(|(at, _)| at.address);
    (done.collect(), loads)
}

#[test]
fn code_has_parts_flows_and_padding() {
    let code = code();
    assert_eq!(code.instructions.len(), 19);
    let parts: Vec<_> = code
        .parts
        .iter()
        .map(|part| (part.start, part.end))
        .collect();
    assert_eq!(
        parts,
        [(0x1000_0000, 0x1000_003c), (0x2000_0010, 0x2000_0029)]
    );
    assert_eq!(code.entry, 0x2000_0010);
    let flow = |address| &code.instructions[code.at(address).unwrap()].flow;
    assert_eq!(*flow(0x1000_001e), Flow::Branch(0x1000_0025));
    assert_eq!(*flow(0x1000_002c), Flow::Panic);
    assert_eq!(*flow(0x2000_0023), Flow::Call);
    assert_eq!(*flow(0x2000_0028), Flow::End);
    assert!(code.ends_in_panic(0x1000_0025));
    assert!(!code.ends_in_panic(0x1000_0020));
    assert!(code.instructions[0].is_padding);
    assert!(!code.instructions[1].is_padding);
}

#[test]
fn long_instructions_and_cut_logs_are_read() {
    let log = checked(CORE);
    let mut blocks = Blocks::new(log.as_bytes());
    let block = blocks.next().unwrap().unwrap();
    assert_eq!(block.len(), 5);
    assert_eq!(block[3].bytes.len(), 12);
    assert_eq!(block[4].address, CORE + 0x1e);
    assert_eq!(blocks.next().unwrap(), None);
    let cut = &log[..log.len() - 10];
    assert_eq!(
        Blocks::new(cut.as_bytes()).next().unwrap().unwrap().len(),
        5
    );
}

#[test]
fn the_module_is_found_wherever_it_is_loaded() {
    let entry_of = [
        0x2000_0010,
        0x2000_0012,
        0x2000_0014,
        0x2000_001b,
        0x2000_0023,
    ];
    let checked_of = [
        0x1000_0001,
        0x1000_0005,
        0x1000_000a,
        0x1000_0012,
        0x1000_001e,
    ];
    let again_of = [0x1000_0031, 0x1000_0033, 0x1000_0035];
    let all = [&checked_of[..], &again_of, &entry_of].concat();
    // Nothing is the module's before its entry.
    assert_eq!(executed(&checked(CORE)), (vec![], 0));
    assert_eq!(executed(&entry(INIT)), (entry_of.to_vec(), 1));
    let one = entry(INIT) + &checked(CORE) + &again(CORE);
    assert_eq!(executed(&one), (all.clone(), 1));
    // What came when the part was not known yet.
    let early = entry(INIT) + &again(CORE) + &checked(CORE);
    assert_eq!(executed(&early), (all.clone(), 1));
    // Elsewhere the second time.
    let two = entry(INIT) + &checked(CORE) + &entry(INIT + 0x5000);
    let two = two + &checked(CORE + 0x3000) + &again(CORE + 0x3000);
    assert_eq!(executed(&two), (all, 2));
}

#[test]
fn others_code_is_not_the_modules() {
    let first = entry(INIT) + &checked(CORE);
    let (with, _) = executed(&(first.clone() + &again(CORE + 0x1000)));
    assert_eq!(with, executed(&first).0);
    // Where the module is, and other code: that is told.
    let code = code();
    let mut executed = Executed::new(&code);
    let log = first + &turn(CORE, "ff ce");
    executed.add(log.as_bytes()).unwrap();
    assert_eq!(executed.strange, 1);
    assert!(!executed.instructions[code.at(0x1000_0033).unwrap()]);
}

#[test]
fn the_table_counts_lines_functions_and_branches() {
    let code = code();
    let source = source(&code);
    let names: Vec<_> = source.functions.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        names,
        ["checked", "<Type as Trait>::again", "begin::{closure#0}"]
    );
    let table = |log: &str| {
        let mut executed = Executed::new(&code);
        executed.add(log.as_bytes()).unwrap();
        let report = Report::new(&code, &source, &executed);
        (report.table(), report.unreached())
    };
    let row = |text: &str| {
        let row = text
            .lines()
            .find(|line| line.starts_with("src/m.rs "))
            .unwrap();
        row.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    // The branch of `checked` goes nowhere that is in the log.
    let (text, unreached) = table(&(entry(INIT) + &checked(CORE)));
    assert_eq!(row(&text), "4 of 9 2 of 3 0 0 0 2");
    assert!(text.contains("Not entered:\n  src/m.rs:10: <Type as Trait>::again\n"));
    assert!(unreached.contains("src/m.rs:4: not reached\n"));
    assert!(unreached.contains("src/m.rs:3: 1 of 1 branches not to both sides\n"));
    // It goes on, which leaves the panic. The other's block began before its target.
    let on = format!(
        "IN: \n0x{:016x}:  c3                       retq\n\n",
        CORE + 0x20
    );
    let log = entry(INIT) + &checked(CORE) + &on + &again(CORE);
    assert_eq!(row(&table(&log).0), "7 of 9 3 of 3 0 0 1 1");
    // It goes back.
    let log = log + &turn(CORE, "ff cf");
    let (text, unreached) = table(&log);
    assert_eq!(row(&text), "7 of 9 3 of 3 0 1 1 0");
    assert!(text.contains("Each function is entered."));
    assert_eq!(
        unreached,
        "src/m.rs:12: 1 of 1 branches not to both sides\nsrc/m.rs:13: not reached\nsrc/m.rs:22: not reached\n"
    );
    let end = format!(
        "IN: \n0x{:016x}:  c3                       retq\n\n",
        CORE + 0x37
    );
    assert_eq!(row(&table(&(log + &end)).0), "8 of 9 3 of 3 1 0 1 0");
}
