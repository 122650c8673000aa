// SPDX-License-Identifier: GPL-2.0

//! Converts a corpus between one readable file and libFuzzer's directory of files.
//!
//! - `corpus unpack FILE DIR`: writes each entry of FILE into a file of its own in DIR
//! - `corpus pack DIR FILE`: writes the files in DIR as the entries of FILE, the shortest first
//! - `corpus show FILE`: prints the content of FILE as the line of an entry

#![forbid(unsafe_code)]

#[path = "../../../tests/schema/entries.rs"]
mod entries;

use std::path::Path;
use std::{env, fs, io};

fn unpack(file: &str, dir: &str) -> io::Result<()> {
    let text = fs::read_to_string(file)?;
    let name = Path::new(file).file_name().unwrap_or_default();
    for (at, line) in entries::lines(&text).enumerate() {
        let Some(entry) = entries::read(line) else {
            let error = format!("no entry: {line}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        };
        fs::write(
            Path::new(dir).join(format!("{}-{at:05}", name.to_string_lossy())),
            entry,
        )?;
    }
    Ok(())
}

fn pack(dir: &str, file: &str) -> io::Result<()> {
    let mut entries = fs::read_dir(dir)?
        .map(|found| fs::read(found?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(|entry| (entry.len(), entry.clone()));
    entries.dedup();
    let mut text = String::from("# SPDX-License-Identifier: GPL-2.0\n");
    for entry in entries.iter().filter(|entry| !entry.is_empty()) {
        text += &entries::write(entry);
        text.push('\n');
    }
    fs::write(file, text)
}

fn main() -> io::Result<()> {
    let args: Vec<_> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["unpack", file, dir] => unpack(file, dir),
        ["pack", dir, file] => pack(dir, file),
        ["show", file] => {
            println!("{}", entries::write(&fs::read(file)?));
            Ok(())
        }
        _ => {
            eprintln!("usage: corpus unpack FILE DIR | pack DIR FILE | show FILE");
            std::process::exit(2);
        }
    }
}
