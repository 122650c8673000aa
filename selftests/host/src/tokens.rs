// SPDX-License-Identifier: GPL-2.0

//! Sources of Rust and C as tokens.

/// A token, a word or a sign, with its offset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token<'a> {
    pub at: usize,
    pub text: &'a str,
}

impl Token<'_> {
    pub fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// Returns the tokens of a text, without its comments.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
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

/// Returns whether a character is part of a name or a number.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
