// SPDX-License-Identifier: GPL-2.0

//! Checks the imports between the directories of `src/` against `Documentation/design.rst`. A file
//! of `src/` counts as a directory. Within `src/schema/` each file imports only files that
//! `src/schema/mod.rs` lists above it. The number of files that import one another is bounded.

mod circle;

use crate::{
    outcome,
    read,
    tokens::{
        is_word,
        tokens,
        Token, //
    },
    Outcome, //
};
/// The imports that a directory, or one of its modules, may have from others.
const MAY: &[(&str, &[&str])] = &[
    (
        "user_events",
        &["uapi", "mms", "events", "sys", "fail_load"],
    ),
    (
        "uapi",
        &["write", "mms", "events", "schema", "sys", "sorted_arcs"],
    ),
    ("write", &["events", "schema", "sys"]),
    ("mms", &["events", "sys", "sorted_arcs"]),
    ("events", &["schema", "sys", "sorted_arcs"]),
    // The one import that goes back: an event lists its enablers.
    ("events::toggle", &["mms"]),
    // For records, whose fields the schema describes and checks.
    ("sys", &["schema"]),
    ("schema", &[]),
    ("errno", &["schema"]),
    ("fail_load", &["sys"]),
    ("sorted_arcs", &[]),
];

/// The files of `src/schema/`, from top to bottom of `src/schema/mod.rs`.
const LAYERS: &[&str] = &[
    "error",
    "limits",
    "payload",
    "text",
    "field",
    "description",
    "group",
    "listing",
];

/// Items that the module macro makes, in no directory.
const OF_MACRO: &[&str] = &["LocalModule", "THIS_MODULE", "module_parameters"];

/// Largest allowed number of files that import one another.
const MAX_CIRCLE: usize = 10;

/// Prints each import that design.rst does not draw, and the largest circle of files that import
/// one another.
pub fn check(files: &[&str]) -> Outcome {
    let mut are_drawn = true;
    let is_source = |file: &&&str| file.starts_with("src/") && file.ends_with(".rs");
    let sources = files.iter().filter(is_source);
    let sources = sources.map(|file| Ok((*file, read(file)?)));
    let sources = sources.collect::<Result<Vec<_>, String>>()?;
    for (file, text) in &sources {
        for (line, what) in undrawn(file, text) {
            println!("{file}:{line}: {what}");
            are_drawn = false;
        }
    }
    let circle = circle::largest(&sources);
    let (len, names) = (circle.len(), circle.join(" "));
    println!("{len} files import one another, which may be {MAX_CIRCLE}: {names}");
    outcome(are_drawn && len <= MAX_CIRCLE)
}

/// Returns the module of a file, as names from the crate's root on.
fn module_of(file: &str) -> Vec<&str> {
    let module = file.trim_start_matches("src/").trim_end_matches(".rs");
    module.trim_end_matches("/mod").split('/').collect()
}

/// Returns the imports of a file that design.rst does not draw, each with its line.
fn undrawn(file: &str, text: &str) -> Vec<(usize, String)> {
    let module = module_of(file);
    let mut found = Vec::new();
    // Only the root imports a directory by its name alone.
    let is_module =
        |name: &str| module[0] == "user_events" && MAY.iter().any(|(of, _)| *of == name);
    let above: Vec<String> = match module[0] {
        "user_events" => Vec::new(),
        _ => module.iter().map(|name| name.to_string()).collect(),
    };
    for path in imports(&tokens(text), &above, is_module) {
        let [to, rest @ ..] = &path.names[..] else {
            continue;
        };
        if OF_MACRO.contains(&to.as_str()) {
            continue;
        }
        let dir = module[0];
        let item = rest
            .first()
            .map_or(String::new(), |item| format!("::{item}"));
        let what = match to == dir {
            true if is_above(&module, rest) => continue,
            true => format!("imports {to}{item}, which src/schema/mod.rs does not list above it"),
            false if may(&module, to) => continue,
            false => {
                format!("{dir} imports {to}{item}, which Documentation/design.rst does not draw")
            }
        };
        found.push((1 + text[..path.at].matches('\n').count(), what));
    }
    found
}

fn may(module: &[&str], to: &str) -> bool {
    let (dir, whole) = (module[0], module.join("::"));
    let mut rows = MAY.iter().filter(|(of, _)| *of == dir || *of == whole);
    rows.any(|(_, names)| names.contains(&to))
}

/// Returns whether an import within a directory is from a file above, in directories with an order.
fn is_above(module: &[&str], rest: &[String]) -> bool {
    let layer = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    match (module[0], module.get(1).and_then(|own| layer(own))) {
        ("schema", Some(own)) => {
            let other = rest.first().and_then(|other| layer(other));
            other.is_some_and(|other| other < own)
        }
        _ => true,
    }
}

/// An imported path from the crate's root on, and the offset of its last name.
struct Path {
    at: usize,
    names: Vec<String>,
    /// By `pub(crate) use`.
    is_passed_on: bool,
}

/// Returns all paths of a module that begin with `crate::`, `super::`, or the name of one of its
/// own modules.
fn imports(tokens: &[Token], module: &[String], is_module: impl Fn(&str) -> bool) -> Vec<Path> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let start = at;
        at += 1;
        if ends_with(&tokens[..start], &[":", ":"]) || !goes_on(tokens, start) {
            continue;
        }
        let mut base: &[String] = &[];
        match tokens[start].text {
            "crate" => at = start + 3,
            "super" => {
                base = module;
                at = start;
                while word(tokens, at) == Some("super") && goes_on(tokens, at) {
                    base = base.split_last().map_or(base, |(_, above)| above);
                    at += 3;
                }
            }
            name if is_module(name) => (base, at) = (module, start),
            _ => continue,
        }
        let before = found.len();
        paths(tokens, &mut at, base, &mut found);
        let is_passed_on = ends_with(&tokens[..start], &["pub", "(", "crate", ")", "use"]);
        found[before..]
            .iter_mut()
            .for_each(|path| path.is_passed_on = is_passed_on);
    }
    found
}

fn ends_with(tokens: &[Token], texts: &[&str]) -> bool {
    let mut last = tokens.iter().rev().map(|token| token.text);
    texts.iter().rev().all(|text| last.next() == Some(*text))
}

fn word<'a>(tokens: &[Token<'a>], at: usize) -> Option<&'a str> {
    let text = tokens.get(at)?.text;
    text.starts_with(is_word).then_some(text)
}

/// Returns whether `::` follows a token.
fn goes_on(tokens: &[Token], at: usize) -> bool {
    let next = tokens.get(at + 1..at + 3);
    next.is_some_and(|next| next.iter().all(|token| token.text == ":"))
}

/// Adds the paths of a use tree: "a::{b, c::d}" is a::b and a::c::d. Moves `at` behind the tree.
fn paths(tokens: &[Token], at: &mut usize, prefix: &[String], found: &mut Vec<Path>) {
    let mut names = prefix.to_vec();
    while let Some(word) = word(tokens, *at) {
        names.push(word.into());
        if !goes_on(tokens, *at) {
            break;
        }
        *at += 3;
    }
    let Some(Token { at: offset, text }) = tokens.get(*at).copied() else {
        return;
    };
    if text == "{" {
        *at += 1;
        tree(tokens, at, &names, found);
    } else if names.len() > prefix.len() {
        // A name, or "a::*".
        found.push(Path {
            at: offset,
            names,
            is_passed_on: false,
        });
        *at += 1;
    }
}

/// Adds the paths in braces, from behind the opening brace on.
fn tree(tokens: &[Token], at: &mut usize, names: &[String], found: &mut Vec<Path>) {
    loop {
        paths(tokens, at, names, found);
        // A path may be followed by "as name".
        while !matches!(
            tokens.get(*at).map_or("}", |token| token.text),
            "{" | "}" | ","
        ) {
            *at += 1;
        }
        *at += 1;
        if tokens.get(*at - 1).is_none_or(|token| token.text != ",") {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the imports that are not drawn, each as "LINE: WHAT".
    #[track_caller]
    fn shows(file: &str, text: &str, expected: &[&str]) {
        let found = undrawn(file, text);
        let found = found.iter().map(|(line, what)| format!("{line}: {what}"));
        let end = ", which Documentation/design.rst does not draw";
        let found: Vec<String> = found.map(|text| text.replace(end, "")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn imports_go_down() {
        let text = "use crate::mms::Mm;\nuse super::status;\nuse kernel::prelude::*;";
        shows("src/uapi/data.rs", text, &[]);
        let text = "use kernel::c_str;\nuse crate::mms::Mm;";
        shows("src/sys/mod.rs", text, &["2: sys imports mms::Mm"]);
        // One goes back.
        let text = "use crate::mms::Enabler;";
        shows("src/events/toggle.rs", text, &[]);
        shows(
            "src/events/event.rs",
            text,
            &["1: events imports mms::Enabler"],
        );
        // Comments are none.
        shows(
            "src/sys/a.rs",
            "// crate::mms::x\n/* crate::mms::y */\n",
            &[],
        );
    }

    #[test]
    fn trees_are_read_whole() {
        shows(
            "src/write/mod.rs",
            "use crate::{\n    events::{Event, Held}, //\n    sys::*,\n    mms::{a::b, self as c},\n    uapi, //\n};",
            &[
                "4: write imports mms::a",
                "4: write imports mms::self",
                "5: write imports uapi",
            ],
        );
    }

    #[test]
    fn paths_amid_code_are_imports() {
        let text = "fn f() { super::super::super::mms::g(); super::x() }";
        shows("src/events/held/a.rs", text, &["1: events imports mms::g"]);
    }

    #[test]
    fn the_root_names_directories() {
        let text = "use schema::Field;\nuse events::Event;\nkernel::schema::x();";
        shows(
            "src/user_events.rs",
            text,
            &["1: user_events imports schema::Field"],
        );
    }

    #[test]
    fn files_of_schema_have_an_order() {
        shows("src/schema/field.rs", "use super::text::Text;", &[]);
        let below = "1: imports schema::field, which src/schema/mod.rs does not list above it";
        shows("src/schema/text.rs", "use super::field::Field;", &[below]);
    }
}
