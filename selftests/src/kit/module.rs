// SPDX-License-Identifier: GPL-2.0

//! Loading and unloading the module under test.

use crate::harness::options;
use crate::kit::errno::{Errno, Result};
use crate::kit::{dynamic, machine, max_events, os, tracefs, wait};
use std::ffi::CString;
use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;
use std::process::Command;

pub const NAME: &str = "user_events";

/// Returns the path of a copy of a module's file without debug information, as distributions
/// install modules, which loads much faster. Returns the file itself if there is no `strip`.
pub fn without_debug(path: String) -> String {
    let copy = format!("/tmp/selftests{}", path.replace('/', "-"));
    let stripped = Command::new("strip")
        .args(["--strip-debug", "-o", &copy, &path])
        .status();
    match stripped.is_ok_and(|status| status.success()) {
        true => copy,
        false => path,
    }
}

pub fn path() -> &'static str {
    options().module.as_deref().expect("a module to load")
}

pub fn is_given() -> bool {
    options().module.is_some()
}

/// The addresses of its code, a range without code of the kernel itself.
pub fn code() -> Range<u64> {
    let words = listed().expect("the module in the list");
    let start = words[5].strip_prefix("0x").expect("its address");
    let start = u64::from_str_radix(start, 16).expect("a number");
    // The size counts all parts of the module, not only the code: the range can overlap the next
    // module.
    start..start + words[1].parse::<u64>().expect("a number")
}

/// The words of its line in the list of modules, if it is loaded, loading or unloading:
/// `user_events 135168 0 - Live 0xffffffffc0200000`.
fn listed() -> Option<Vec<String>> {
    let modules = fs::read_to_string("/proc/modules").expect("the list of modules");
    let mut lines = modules.lines().map(|line| line.split(' '));
    let words = lines.find(|words| words.clone().next() == Some(NAME))?;
    Some(words.map(String::from).collect())
}

/// The address of its first function whose name has all of these parts.
pub fn function(parts: &[&str]) -> u64 {
    let symbols = fs::read_to_string("/proc/kallsyms").expect("symbols");
    let lines = symbols.lines();
    let mut its = lines.filter_map(|line| line.strip_suffix("\t[user_events]"));
    let found = its.find(|line| {
        let is_function = line.contains(" t _R") || line.contains(" T _R");
        is_function && parts.iter().all(|part| line.contains(part))
    });
    let address = found.and_then(|line| line.split(' ').next());
    let address = address.and_then(|address| u64::from_str_radix(address, 16).ok());
    address.unwrap_or_else(|| panic!("no function of {parts:?}"))
}

/// Loads the module, with parameters as insmod takes them.
pub fn load_with(parameters: &str) -> Result<()> {
    load_path(path(), parameters)
}

/// Loads the module in which a step of loading can be made to fail, by its number in the parameter
/// `fail_load_at`.
pub fn load_failing(parameters: &str) -> Result<()> {
    let path = options().failing_module.as_deref();
    let path = path.expect("a module built with USER_EVENTS_FAIL_LOAD=y, by --failing-module");
    load_path(path, parameters)
}

fn load_path(path: &str, parameters: &str) -> Result<()> {
    let file = File::open(path).unwrap_or_else(|error| panic!("open {path}: {error}"));
    load_file(&file, parameters)
}

pub fn load_file(file: &File, parameters: &str) -> Result<()> {
    os::load_module(file, &CString::new(parameters).unwrap())
}

#[track_caller]
pub fn load() {
    load_with("").expect("loading the module");
}

/// Unloads the module, without waiting for its users.
pub fn unload() -> Result<()> {
    os::unload_module(&CString::new(NAME).unwrap())
}

/// Unloads the module once it is idle: references of tasks that just ended may be dropped with a
/// delay.
#[track_caller]
pub fn unload_when_idle() {
    let unloaded = wait::until_idle(&[Errno::EAGAIN, Errno::EBUSY], unload);
    unloaded.expect("unloading the idle module");
}

/// The module's own lines of the kernel log, without the kernel's message that the module taints
/// it.
pub fn said(lines: Vec<String>) -> Vec<String> {
    let start = format!("{NAME}: ");
    let said = lines.into_iter().filter(|line| line.starts_with(&start));
    said.filter(|line| !line.contains("taint")).collect()
}

/// The version of the first entry in NEWS.
pub fn version() -> &'static str {
    let news = include_str!("../../../NEWS");
    let mut lines = news.lines();
    let entry = lines.find_map(|line| line.strip_prefix("user_events "));
    let version = entry.and_then(|entry| entry.split(' ').next());
    version.expect("NEWS has an entry")
}

pub fn says_loaded() -> String {
    format!("{NAME}: loaded, version {}", version())
}

pub fn says_unloaded() -> String {
    format!("{NAME}: unloaded")
}

pub fn is_loaded() -> bool {
    listed().is_some()
}

pub fn users() -> u32 {
    let words = listed().expect("the module is loaded");
    words[2].parse().expect("a number")
}

fn visible_traces() -> Vec<String> {
    let mut found = tracefs::names_starting_with(NAME, Path::new(tracefs::ROOT));
    found.extend(tracefs::systems());
    let sysctls = [max_events::PATH, max_events::GROUPS_PATH];
    let files = sysctls.into_iter().chain(["/sys/module/user_events"]);
    let files = files.filter(|path| Path::new(path).exists());
    found.extend(files.map(String::from));
    if is_loaded() {
        found.push("/proc/modules".into());
    }
    // Walks the kernel's list of dynamic events, and calls every registered type's match function:
    // a stale entry in either list would be called.
    found.extend(dynamic::user_lines());
    found
}

/// All traces of the module, memory included.
fn traces_of_the_module() -> Vec<String> {
    let mut found = visible_traces();
    let memory = machine::slab_objects().into_keys();
    let memory = memory.chain(machine::vmalloc_areas());
    found.extend(memory.filter(|name| name.contains("user_event")));
    if fs::write(dynamic::path(), "u:st_load_left u32 a").is_ok() {
        found.push("dynamic_events still takes u:".into());
    }
    found
}

#[track_caller]
pub fn nothing_is_left() {
    assert_eq!(traces_of_the_module(), [""; 0], "left behind");
}

/// Checks that no trace is visible. Leaves out memory, which takes long to count.
#[track_caller]
pub fn nothing_is_seen() {
    assert_eq!(visible_traces(), [""; 0], "left behind");
}
