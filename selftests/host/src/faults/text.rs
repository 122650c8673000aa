// SPDX-License-Identifier: GPL-2.0

//! Puts a fault into a source file. The source and the text to replace are compared as tokens, so
//! that white space, comments and a comma before a closing bracket do not matter.

use super::rules::Fault;
use crate::tokens::{
    is_word,
    tokens,
    Token, //
};

/// Returns all places of a text in a source, each from begin to end, without overlaps.
fn places(source: &[Token], text: &[Token]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut from = 0;
    while from < source.len() {
        match length_of(&source[from..], text) {
            Some(len) => {
                found.push((source[from].at, source[from + len - 1].end()));
                from += len;
            }
            None => from += 1,
        }
    }
    found
}

/// Returns the number of the source's first tokens that match a text.
fn length_of(source: &[Token], text: &[Token]) -> Option<usize> {
    let mut len = 0;
    for (index, token) in text.iter().enumerate() {
        let is_closing = matches!(token.text, ")" | "]" | "}");
        let before = index.checked_sub(1).map(|index| text[index].text);
        // rustfmt adds a comma where lines break.
        if is_closing && before.is_some_and(|before| before != ",") && source.get(len)?.text == ","
        {
            len += 1;
        }
        if source.get(len)?.text != token.text {
            return None;
        }
        len += 1;
    }
    (len > 0).then_some(len)
}

/// Returns begin and end of each function of a name. A function ends at the line with a closing
/// bracket in its head's indentation.
fn functions(text: &str, name: &str, is_rust: bool) -> Vec<(usize, usize)> {
    let tokens = tokens(text);
    let function = |index: usize| {
        let at = tokens[index].at;
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let is_head = match is_rust {
            true => index
                .checked_sub(1)
                .is_some_and(|before| tokens[before].text == "fn"),
            false => text[line..].starts_with(is_word),
        };
        // The first sign outside of the arguments, and of an array that is returned.
        let mut brackets = 0;
        let sign = tokens[index..].iter().find(|token| {
            match token.text {
                "(" | "[" => brackets += 1,
                ")" | "]" => brackets -= 1,
                _ => {}
            }
            brackets == 0 && matches!(token.text, "{" | ";")
        });
        let body = sign.filter(|sign| is_head && sign.text == "{")?.at;
        let indent = text[line..].len() - text[line..].trim_start_matches([' ', '\t']).len();
        let last = format!("\n{}}}", &text[line..line + indent]);
        let end = text[body..].find(&last);
        Some((line, end.map_or(text.len(), |len| body + len + last.len())))
    };
    let of_name = (0..tokens.len()).filter(|index| tokens[*index].text == name);
    of_name.filter_map(function).collect()
}

/// Returns the text of the fault's file with the fault, or the reason why the fault does not apply.
pub fn with_fault(fault: &Fault, text: &str) -> Result<String, String> {
    let file = &fault.file;
    let (parts, place) = match &fault.function {
        None => (vec![(0, text.len())], file.clone()),
        Some(name) => {
            let found = functions(text, name, file.ends_with(".rs"));
            if found.is_empty() {
                return Err(format!("{file} has no function {name}()"));
            }
            (found, format!("{file} in {name}()"))
        }
    };
    let old = fault.old.join(" ");
    let old = tokens(&old);
    let found = parts.iter().flat_map(|(start, end)| {
        let places = places(&tokens(&text[*start..*end]), &old);
        places
            .into_iter()
            .map(move |(from, to)| (start + from, start + to))
    });
    match found.collect::<Vec<_>>()[..] {
        [(from, to)] => Ok([&text[..from], &fault.new.join("\n"), &text[to..]].concat()),
        ref found => Err(format!("the text stands {} times in {place}", found.len())),
    }
}

/// Returns whether a source has a function with a body.
pub fn has_code(text: &str, is_rust: bool) -> bool {
    match is_rust {
        true => tokens(text)
            .windows(2)
            .any(|pair| pair[0].text == "fn" && pair[1].text.starts_with(is_word)),
        false => text
            .lines()
            .zip(text.lines().skip(1))
            .any(|(head, next)| head.ends_with(')') && next == "{"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Result<&str, &str> = Err("the text stands 0 times in a.rs");
    const NO_FUNCTION: Result<&str, &str> = Err("a.rs has no function f()");

    #[track_caller]
    fn becomes(
        file: &str,
        function: Option<&str>,
        old: &str,
        source: &str,
        expected: Result<&str, &str>,
    ) {
        let fault = Fault {
            file: file.into(),
            function: function.map(String::from),
            old: old.lines().map(String::from).collect(),
            new: vec!["NEW".into()],
            ..Fault::default()
        };
        let got = with_fault(&fault, source);
        let got = got.as_ref().map(String::as_str).map_err(String::as_str);
        assert_eq!(got, expected, "{old} in {source}");
    }

    #[test]
    fn texts_are_compared_as_tokens() {
        for (old, source, expected) in [
            // White space and comments do not matter.
            ("a(b, c)", "a(\n\tb, // it's \"so\n\tc,\n) y", Ok("NEW y")),
            ("a /* no */ b", "a/* yes */b c", Ok("NEW c")),
            ("a;\nb;", "a;\n\n// why\nb; c", Ok("NEW c")),
            // Words are whole.
            ("ab c", "abc", ABSENT),
            ("a.b", "aa.b a.bb", ABSENT),
            ("a.b", "x.a.b", Ok("x.NEW")),
            // Strings are no comments.
            ("f(\"a//b\")", "f(\"a//b\") g", Ok("NEW g")),
            (
                "g",
                "f('\"', '\\'', '\\\\') // g\n g",
                Ok("f('\"', '\\'', '\\\\') // g\n NEW"),
            ),
            ("g", "\"\\\"// \" g", Ok("\"\\\"// \" NEW")),
            ("a", "a a", Err("the text stands 2 times in a.rs")),
        ] {
            becomes("a.rs", None, old, source, expected);
        }
    }

    #[test]
    fn a_function_ends_where_its_head_is_indented() {
        let source = "impl A {\n    pub(super) unsafe fn f(\n        a: [u8; 4],\n    ) {\n        { a }\n    }\n    fn ff() {\n        a\n    }\n}\nfn g() { a }\n";
        let faulty = source.replace("{ a }\n    }\n    fn ff", "NEW\n    }\n    fn ff");
        becomes("a.rs", Some("f"), "{ a }", source, Ok(&faulty));
        for source in ["fn g() {\n}\n", "trait F { fn f(); }\nfn h() { a }\n"] {
            becomes("a.rs", Some("f"), "a }", source, NO_FUNCTION);
        }
        let source = "int f(int a);\n\nstatic int\ng(void)\n{\n\treturn f(a);\n}\n\nint f(int a,\n      int b)\n{\n\treturn a;\n}\n";
        let faulty = source.replace("return a;", "NEW");
        becomes("a.c", Some("f"), "return a;", source, Ok(&faulty));
    }

    #[test]
    fn code_is_a_function_with_a_body() {
        assert!(has_code("//! fn\npub fn a() {}", true));
        assert!(!has_code("// fn a\nmod a;", true));
        assert!(has_code("int f(void)\n{\n}\n", false));
        assert!(!has_code("int f(void);\n", false));
    }
}
