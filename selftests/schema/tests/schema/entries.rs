// SPDX-License-Identifier: GPL-2.0

//! The files of the corpus: a line is an entry, escaped by [`slice::escape_ascii`], unless it is
//! empty or begins with `#`.

/// Returns the lines of `text` that are entries.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    (text.lines()).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns the bytes of the entry in `line`, if it is one.
pub fn read(line: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        let byte = match c {
            '\\' => match rest.next()? {
                't' => b'\t',
                'n' => b'\n',
                'r' => b'\r',
                'x' => {
                    let digits: String = rest.by_ref().take(2).collect();
                    if digits.len() != 2 || digits.starts_with('+') {
                        return None;
                    }
                    u8::from_str_radix(&digits, 16).ok()?
                }
                c @ ('\\' | '"' | '\'') => u8::try_from(c).ok()?,
                _ => return None,
            },
            ' '..='~' => u8::try_from(c).ok()?,
            _ => return None,
        };
        bytes.push(byte);
    }
    Some(bytes)
}

/// Returns the line of an entry for `bytes`, with no space at its end, which editors may remove.
pub fn write(bytes: &[u8]) -> String {
    let mut line = bytes.escape_ascii().to_string();
    if line.ends_with(' ') {
        line.pop();
        line.push_str("\\x20");
    }
    match line.strip_prefix('#') {
        Some(rest) => format!("\\x23{rest}"),
        None => line,
    }
}
