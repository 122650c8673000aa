// SPDX-License-Identifier: GPL-2.0

//! The largest circle of files that import one another, which can only be understood together. An
//! import of a `pub use` counts as an import of the file that defines the item.

use super::{
    imports,
    module_of,
    paths,
    without_comments, //
};
use std::collections::{
    BTreeMap,
    BTreeSet, //
};

/// A module, by its path from the crate's root on; the root is empty.
type Module = Vec<String>;

/// Returns the files of the largest circle, each as a path of modules.
pub(super) fn largest(sources: &[(&str, String)]) -> Vec<String> {
    let texts: BTreeMap<Module, String> = (sources.iter())
        .map(|(file, text)| (module(file), without_comments(text)))
        .collect();
    let passed_on: BTreeMap<&Module, _> = (texts.iter())
        .map(|(module, text)| (module, passed_on(module, text)))
        .collect();
    let mut imported = BTreeMap::new();
    for (module, text) in &texts {
        let is_module = |name: &str| texts.contains_key(&child(module, name));
        let mut found = BTreeSet::new();
        for path in imports(&without_passed_on(text), module, is_module) {
            found.insert(owner(&path.names, &passed_on));
        }
        found.remove(module);
        // All files import items of the module macro from the root.
        found.remove(&Module::new());
        imported.insert(module, found);
    }
    let reached: BTreeMap<_, _> = (texts.keys())
        .map(|module| (module, reached(module, &imported)))
        .collect();
    let circles = reached.iter().map(|(module, others)| {
        let back = |other: &&&Module| reached[*other].contains(*module);
        others.iter().filter(back).map(|other| other.join("::"))
    });
    circles
        .map(Iterator::collect::<Vec<_>>)
        .max_by_key(Vec::len)
        .unwrap_or_default()
}

fn module(file: &str) -> Module {
    let module = module_of(file).into_iter().map(String::from);
    module.filter(|name| name != "user_events").collect()
}

fn child(module: &Module, name: &str) -> Module {
    module.iter().cloned().chain([name.into()]).collect()
}

/// Returns the items of its own modules that a module exports by `pub use`, by name.
fn passed_on(module: &Module, text: &str) -> BTreeMap<String, Module> {
    let mut found = Vec::new();
    for (at, keyword) in text.match_indices("pub(crate) use ") {
        paths(text, &mut (at + keyword.len()), module, &mut found);
    }
    (found.into_iter())
        .filter_map(|path| Some((path.names.last()?.clone(), path.names)))
        .collect()
}

fn without_passed_on(text: &str) -> String {
    let mut pieces = text.split("pub(crate) use ");
    let first = pieces.next().unwrap_or_default().to_string();
    pieces.fold(first, |text, piece| {
        text + piece.split_once(';').map_or("", |(_, behind)| behind)
    })
}

/// Returns the module that defines the item of a path.
fn owner(path: &[String], passed_on: &BTreeMap<&Module, BTreeMap<String, Module>>) -> Module {
    for end in (0..=path.len()).rev() {
        let (module, rest) = path.split_at(end);
        let Some(names) = passed_on.get(&module.to_vec()) else {
            continue;
        };
        return match rest.first().and_then(|name| names.get(name)) {
            Some(path) => owner(path, passed_on),
            None => module.to_vec(),
        };
    }
    Module::new()
}

/// Returns all modules that a module imports, directly or through others.
fn reached<'a>(
    from: &'a Module,
    imported: &'a BTreeMap<&Module, BTreeSet<Module>>,
) -> BTreeSet<&'a Module> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        for other in imported.get(module).into_iter().flatten() {
            if found.insert(other) {
                next.push(other);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_go_through_what_is_passed_on() {
        let circle = |in_c: &str| {
            largest(&[
                ("src/user_events.rs", "mod a;\nuse a::B;".into()),
                (
                    "src/a/mod.rs",
                    "mod b;\nmod d;\npub(crate) use b::{\n    B, //\n};".into(),
                ),
                (
                    "src/a/b.rs",
                    "use super::d::D;\n// use crate::c::C;\nuse kernel::a;".into(),
                ),
                ("src/a/d.rs", "fn d() { crate::c::C }".into()),
                ("src/c.rs", in_c.into()),
            ])
        };
        assert_eq!(circle("use crate::a::B;"), ["a::b", "a::d", "c"]);
        assert_eq!(circle("// use crate::a::B;"), [""; 0]);
    }

    #[test]
    fn a_module_above_is_in_the_circle_of_its_own() {
        let sources = [
            ("src/a/mod.rs", "mod b;\nstruct A(b::B);".into()),
            ("src/a/b.rs", "use super::A;\nstruct B;".into()),
        ];
        assert_eq!(largest(&sources), ["a", "a::b"]);
    }
}
