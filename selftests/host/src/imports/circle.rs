// SPDX-License-Identifier: GPL-2.0

//! The largest circle of files that import one another, which can only be understood together. An
//! import of a `pub use` counts as an import of the file that defines the item.

use super::{
    imports,
    module_of, //
};
use crate::tokens::tokens;
use std::collections::{
    BTreeMap,
    BTreeSet, //
};

/// A module, by its path from the crate's root on; the root is empty.
type Module = Vec<String>;

/// The items of its own modules that a module exports by `pub(crate) use`, by name.
type PassedOn = BTreeMap<Module, BTreeMap<String, Module>>;

/// Returns the files of the largest circle, each as a path of modules.
pub(super) fn largest(sources: &[(&str, String)]) -> Vec<String> {
    let modules: Vec<Module> = sources.iter().map(|(file, _)| module(file)).collect();
    let (mut passed_on, mut imported) = (PassedOn::new(), Vec::new());
    for (module, (_, text)) in modules.iter().zip(sources) {
        let is_module = |name: &str| modules.contains(&child(module, name));
        let paths = imports(&tokens(text), module, is_module).into_iter();
        let (passed, others): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_passed_on);
        let items = passed
            .into_iter()
            .filter_map(|path| Some((path.names.last()?.clone(), path.names)));
        passed_on.insert(module.clone(), items.collect());
        imported.push(others);
    }
    let owners = modules.iter().zip(imported).map(|(module, paths)| {
        let paths = paths.iter().map(|path| owner(&path.names, &passed_on));
        // All files import items of the module macro from the root.
        let owners = paths.filter(|owner| owner != module && !owner.is_empty());
        (module, owners.collect())
    });
    let imported: BTreeMap<&Module, BTreeSet<Module>> = owners.collect();
    let reached: BTreeMap<_, _> = (modules.iter())
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

/// Returns the module that defines the item of a path.
fn owner(path: &[String], passed_on: &PassedOn) -> Module {
    for end in (0..=path.len()).rev() {
        let (module, rest) = path.split_at(end);
        let Some(names) = passed_on.get(module) else {
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
        assert_eq!(
            circle("use crate::{a::B, THIS_MODULE};"),
            ["a::b", "a::d", "c"]
        );
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
