// SPDX-License-Identifier: GPL-2.0

//! Puts a fault into a source file. The source and the text to replace are compared as tokens, so
//! that white space, comments and a comma before a closing bracket do not matter.

use super::rules::Fault;
use crate::is_word;

/// A token, a word or a sign, with its offset.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Token<'a> {
    at: usize,
    text: &'a str,
}

impl Token<'_> {
    fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// Returns the tokens of a text, without its comments.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut at, mut in_string) = (0, false);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let mut len = c.len_utf8();
        let mut is_token = true;
        if in_string && c == '\\' {
            // An escape, with the escaped character.
            len += rest[len..].chars().next().map_or(0, char::len_utf8);
        } else if !in_string && rest.starts_with("//") {
            is_token = false;
            len = rest.find('\n').unwrap_or(rest.len());
        } else if !in_string && rest.starts_with("/*") {
            is_token = false;
            len = rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else if !in_string && (rest.starts_with("'\"'") || rest.starts_with("'\\")) {
            // A quote as a character, or an escaped character.
            let from = if rest.starts_with("'\\") { 3 } else { 2 };
            let end = rest.get(from..).and_then(|rest| rest.find('\''));
            len = end.map_or(len, |end| from + end + 1);
        } else if is_word(c) {
            len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        } else {
            is_token = !c.is_whitespace();
            in_string ^= c == '"';
        }
        if is_token {
            let text = &rest[..len];
            found.push(Token { at, text });
        }
        at += len;
    }
    found
}

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
    let mut found = Vec::new();
    let mut line_at = 0;
    while line_at < text.len() {
        let line_end = text[line_at..]
            .find('\n')
            .map_or(text.len(), |len| line_at + len + 1);
        let line = &text[line_at..line_end];
        let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        let body = match is_rust {
            true => rust_body(text, line_at + indent.len(), name),
            false if indent.is_empty() => c_body(text, line_at, name),
            false => None,
        };
        let Some(body) = body else {
            line_at = line_end;
            continue;
        };
        let last = format!("\n{indent}}}");
        let end = text[body..]
            .find(&last)
            .map_or(text.len(), |len| body + len + last.len());
        found.push((line_at, end));
        line_at = end;
    }
    found
}

/// Returns the offset behind the opening bracket of a Rust function's body, if its head begins
/// here.
fn rust_body(text: &str, at: usize, name: &str) -> Option<usize> {
    let line = text[at..].lines().next()?;
    let (before, behind) = line.split_once("fn ")?;
    let is_part = |c: char| is_word(c) || "()\":".contains(c);
    if !(before.is_empty() || before.ends_with(' '))
        || !before.split(' ').all(|word| word.chars().all(is_part))
    {
        return None;
    }
    if behind.strip_prefix(name)?.starts_with(is_word) {
        return None;
    }
    let mut brackets = 0;
    let start = at + before.len() + "fn ".len() + name.len();
    for (len, c) in text[start..].char_indices() {
        match c {
            '[' => brackets += 1,
            ']' => brackets -= 1,
            ';' if brackets == 0 => return None,
            '{' if brackets == 0 => return Some(start + len + 1),
            _ => {}
        }
    }
    None
}

/// Like [`rust_body`], for a C function.
fn c_body(text: &str, at: usize, name: &str) -> Option<usize> {
    let line = text[at..].lines().next()?;
    if !line.starts_with(is_word) {
        return None;
    }
    let call = line.find(&format!("{name}("))?;
    if line[..call].ends_with(is_word) || line[..call].contains(['(', ';']) {
        return None;
    }
    let start = at + call;
    let end = text[start..].find(['{', ';'])?;
    (text[start..start + end].ends_with('\n') && text[start + end..].starts_with('{'))
        .then_some(start + end + 1)
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
            (
                "a(b, c)",
                "x a(\n\tb, // it's \"so\n\tc,\n) y",
                Ok("x NEW y"),
            ),
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
