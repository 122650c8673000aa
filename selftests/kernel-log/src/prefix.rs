// SPDX-License-Identifier: GPL-2.0

//! Separates the text of a line from its prefix, in `dmesg`, on a console and in `/dev/kmsg`.

/// Removes the prefix of a line of `dmesg` or of a console, the time and the task or CPU in
/// brackets, and the blanks at its end.
pub(crate) fn without_prefix(line: &str) -> &str {
    let mut text = line.trim_end_matches([' ', '\t', '\r']);
    while let Some(rest) = after_bracket(text) {
        text = rest;
    }
    text
}

/// Returns the text after `[ 1.000000] `, `[ T12] ` or `[ C1] `.
fn after_bracket(text: &str) -> Option<&str> {
    let (inside, rest) = text.strip_prefix('[')?.split_once(']')?;
    // The rest of the line may be empty.
    let rest = match rest.strip_prefix(' ') {
        Some(rest) => rest,
        None if rest.is_empty() => rest,
        None => return None,
    };
    let inside = inside.trim_start_matches(' ');
    let number = inside.strip_prefix(['T', 'C']).unwrap_or(inside);
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    (!number.is_empty() && number.chars().all(is_number)).then_some(rest)
}

/// Returns the text of a record of `/dev/kmsg`. Before it are level, number and time, then `;`;
/// after it are lines of properties.
pub fn kmsg_text(record: &str) -> &str {
    let line = record.lines().next().unwrap_or_default();
    line.split_once(';').map_or(line, |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_task_are_no_part_of_the_text() {
        for (prefix, end) in [
            ("", ""),
            ("[    0.000000] ", ""),
            ("[12345.678901] ", ""),
            ("[    2.000000] [   T12] ", ""),
            ("[    2.000000] [    C1] ", " \t\r"),
        ] {
            for text in ["", "one [two] three"] {
                let line = format!("{prefix}{text}{end}");
                assert_eq!(without_prefix(&line), text, "{line}");
            }
        }
        assert_eq!(without_prefix("[    2.000000]"), "");
        // Other brackets are part of the text.
        for line in [
            "[one] two",
            "[] two",
            "[T] two",
            "[TC1] two",
            "[   1.0 ] two",
            "[1.0]two",
            " [1.0] two",
        ] {
            assert_eq!(without_prefix(line), line);
        }
    }

    #[test]
    fn a_record_has_its_text_between_level_and_properties() {
        let record =
            "6,339,5140900,-;user_events: one; two\n SUBSYSTEM=acpi\n DEVICE=+acpi:PNP0A03:00\n";
        assert_eq!(kmsg_text(record), "user_events: one; two");
        assert_eq!(kmsg_text("6,339,5140900,c;"), "");
        assert_eq!(kmsg_text(""), "");
    }
}
