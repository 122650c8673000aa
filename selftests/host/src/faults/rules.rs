// SPDX-License-Identifier: GPL-2.0

//! The faults in `selftests/mutants/`, in the format that the `README.md` there describes.

/// Where the lists are, in the root of the source tree.
const DIR: &str = "selftests/mutants";

/// A mistake that a developer could make.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fault {
    pub name: String,
    /// The function with the text, if the text occurs elsewhere in the file, too.
    pub function: Option<String>,
    /// Where the entry begins, as FILE:LINE.
    pub at: String,
    pub file: String,
    /// Parts of the names of the tests that should see the fault.
    pub tests: Vec<String>,
    pub kernel: String,
    /// The machine hangs or dies of the fault.
    pub upsets: bool,
    /// The reason why no test can see the fault.
    pub argued: Option<String>,
    pub old: Vec<String>,
    pub new: Vec<String>,
}

/// All faults, and the invalid lines.
#[derive(Default)]
pub struct Faults {
    pub all: Vec<Fault>,
    pub wrong: Vec<String>,
}

/// Reads all lists, in the order of their names.
pub fn read() -> Result<Faults, String> {
    let entries = std::fs::read_dir(DIR).map_err(|error| format!("{DIR}: {error}"))?;
    let paths = entries.filter_map(|entry| entry.ok()?.path().to_str().map(String::from));
    let mut paths: Vec<String> = paths.filter(|path| !path.ends_with(".md")).collect();
    paths.sort();
    let mut faults = Faults::default();
    for path in paths {
        parse(&path, &crate::read(&path)?, &mut faults);
    }
    Ok(faults)
}

fn is_name(word: &str) -> bool {
    !word.is_empty()
        && word
            .bytes()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
}

/// The lines of an entry belong to the last fault, while `in_entry`.
struct Parser<'a> {
    faults: &'a mut Faults,
    file: String,
    tests: Vec<String>,
    in_entry: bool,
}

fn parse(path: &str, text: &str, faults: &mut Faults) {
    let mut parser = Parser {
        faults,
        file: String::new(),
        tests: Vec::new(),
        in_entry: false,
    };
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let at = format!("{path}:{}", index + 1);
        let understood = match line.starts_with(char::is_whitespace) {
            true => parser.detail(trimmed),
            false => parser.heading(trimmed, &at),
        };
        if !understood {
            let wrong = format!("{at}: not understood: {line}");
            parser.faults.wrong.push(wrong);
        }
    }
}

impl Parser<'_> {
    /// Parses a line that begins in the first column. Returns false if it is invalid.
    fn heading(&mut self, line: &str, at: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["file", file] => {
                self.file = file.into();
                self.tests.clear();
                self.in_entry = false;
            }
            ["tests", ref parts @ ..] if !parts.is_empty() => {
                self.tests = parts.iter().map(|part| part.to_string()).collect();
                self.in_entry = false;
            }
            [name] | [name, "in", _] if is_name(name) => {
                self.faults.all.push(Fault {
                    name: name.into(),
                    function: words.get(2).map(|function| function.to_string()),
                    at: at.into(),
                    file: self.file.clone(),
                    tests: self.tests.clone(),
                    kernel: "stock".into(),
                    ..Fault::default()
                });
                self.in_entry = true;
            }
            _ => return false,
        }
        true
    }

    /// Parses a line of the open entry. Returns false if it is invalid.
    fn detail(&mut self, line: &str) -> bool {
        let Some(fault) = self.faults.all.last_mut().filter(|_| self.in_entry) else {
            return false;
        };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, rest.trim_start()) {
            ("-", text) if !text.is_empty() => fault.old.push(text.into()),
            ("+", text) => fault.new.push(text.into()),
            ("upsets", "") => fault.upsets = true,
            // A second such line is an error.
            ("tests", text) if !text.is_empty() && fault.tests == self.tests => {
                fault.tests = text.split_whitespace().map(String::from).collect();
            }
            ("kernel", text) if !text.is_empty() => fault.kernel = text.into(),
            ("argued", text) if !text.is_empty() => fault.argued = Some(text.into()),
            // An argument continues in the next line.
            _ => match &mut fault.argued {
                Some(argued) => *argued = format!("{argued} {line}"),
                None => return false,
            },
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Faults {
        let mut faults = Faults::default();
        parse("list", text, &mut faults);
        faults
    }

    #[test]
    fn entries_are_read() {
        let faults = parsed(
            "# A comment.\nfile src/a.rs\ntests one:: two::\n\nfirst in set\n\t- a b\n\t- c\n\t+\nsecond\n\t- x\n\t+ y\n\
             \ttests three::\n\tkernel debug\n\tupsets\n\targued it does\n\tno harm\n",
        );
        assert_eq!(faults.wrong, Vec::<String>::new());
        let strings = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
        let first = Fault {
            name: "first".into(),
            function: Some("set".into()),
            at: "list:5".into(),
            file: "src/a.rs".into(),
            tests: strings(&["one::", "two::"]),
            kernel: "stock".into(),
            upsets: false,
            argued: None,
            old: strings(&["a b", "c"]),
            new: strings(&[""]),
        };
        let second = Fault {
            name: "second".into(),
            function: None,
            at: "list:9".into(),
            tests: strings(&["three::"]),
            kernel: "debug".into(),
            upsets: true,
            argued: Some("it does no harm".into()),
            old: strings(&["x"]),
            new: strings(&["y"]),
            ..first.clone()
        };
        assert_eq!(faults.all, [first, second]);
    }

    #[test]
    fn what_is_not_understood_is_told() {
        let faults = parsed(
            "file\nUPPER\nfault\n\tsaid why\n\ttests one\n\ttests two\nfile src/a.rs\n\t- a\n",
        );
        assert_eq!(
            faults.wrong,
            [
                "list:2: not understood: UPPER",
                "list:4: not understood: \tsaid why",
                "list:6: not understood: \ttests two",
                "list:8: not understood: \t- a",
            ]
        );
    }

    #[test]
    fn a_file_has_its_own_tests() {
        let faults = parsed("file a\ntests one::\nx\n\t- a\n\t+ b\nfile b\ny\n\t- a\n\t+ b\n");
        assert_eq!(faults.all[1].tests, Vec::<String>::new());
    }
}
