// SPDX-License-Identifier: GPL-2.0

//! Chooses the faults of a run, and those whose results are still valid.

use super::{
    make_dir,
    rules::{
        self,
        Fault, //
    },
    text,
    write,
    write_lines,
    Verdict,
    DIR, //
};
use crate::{
    read,
    Outcome, //
};
use std::{
    collections::{
        BTreeMap,
        BTreeSet, //
    },
    fs,
    hash::{
        DefaultHasher,
        Hash,
        Hasher, //
    },
    path::Path,
    process::ExitCode, //
};

/// The faults that are requested.
#[derive(Default)]
pub struct Wanted {
    /// Parts of names of faults or of their files; all, if there are none.
    pub parts: Vec<String>,
    /// Number of faults, chosen by this word among those that a test should see and that do not
    /// upset the machine.
    pub sample: Option<(usize, String)>,
    /// Includes faults that have a result.
    pub again: bool,
}

/// A fault of this run.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: String,
    pub file: String,
    /// Hash of the module, the fault and the tests.
    pub key: String,
    /// Parts of names of tests.
    pub tests: String,
    pub is_argued: bool,
    /// Whether the fault is tested in this run.
    pub is_open: bool,
}

impl Entry {
    fn line(&self) -> String {
        let flag = |is_so: bool| if is_so { "yes" } else { "no" };
        let fields = [&self.name, &self.file, &self.key, &self.tests];
        let fields = fields.map(String::as_str).join("\t");
        format!("{fields}\t{}\t{}", flag(self.is_argued), flag(self.is_open))
    }

    fn parse(line: &str) -> Option<Entry> {
        let [name, file, key, tests, is_argued, is_open] = line.split('\t').collect::<Vec<_>>()[..]
        else {
            return None;
        };
        Some(Entry {
            name: name.into(),
            file: file.into(),
            key: key.into(),
            tests: tests.into(),
            is_argued: is_argued == "yes",
            is_open: is_open == "yes",
        })
    }

    pub fn result_file(&self) -> String {
        format!("{DIR}/results/{}", self.key)
    }

    pub fn module_file(&self) -> String {
        format!("{DIR}/modules/{}.ko", self.name)
    }
}

/// Returns the faults of this run, as [`make`] stored them.
pub fn entries() -> Result<Vec<Entry>, String> {
    let text = read(&format!("{DIR}/plan"))?;
    text.lines()
        .map(|line| Entry::parse(line).ok_or(format!("not a line of a plan: {line}")))
        .collect()
}

/// Writes the plan, the sources with the faults, and the queue of faults to test.
///
/// `key` covers the build inputs outside of the sources.
pub fn make(kernel: &str, key: &str, wanted: &Wanted) -> Outcome {
    let faults = rules::read()?.all;
    let (of_kernel, of_others): (Vec<_>, Vec<_>) =
        faults.into_iter().partition(|fault| fault.kernel == kernel);
    let tests = TestNames::read()?;
    let is_wanted =
        |text: &str| wanted.parts.is_empty() || wanted.parts.iter().any(|part| text.contains(part));
    let mut chosen = of_kernel;
    chosen.retain(|fault| is_wanted(&fault.name) || is_wanted(&fault.file));
    if let Some((size, of)) = &wanted.sample {
        chosen.retain(|fault| !fault.upsets && fault.argued.is_none());
        chosen = sample(chosen, *size, of);
    }
    if chosen.is_empty() {
        return Err(format!("selftests/mutants/ has no such fault for the kernel {kernel}: see what is listed there."));
    }

    let module = module_key(key)?;
    let sources = TestSources::read()?;
    let _ = fs::remove_dir_all(format!("{DIR}/faulty"));
    for dir in ["faulty", "results", "modules", "output"] {
        make_dir(&format!("{DIR}/{dir}"))?;
    }
    let mut plan = Vec::new();
    for fault in &chosen {
        let faulty = text::with_fault(fault, &read(&fault.file)?)?;
        let key = hash(&(
            &module,
            &fault.name,
            &fault.tests,
            &faulty,
            sources.key_of(&fault.tests, &tests.all()),
        ));
        write(&format!("{DIR}/faulty/{}", fault.name), &faulty)?;
        let mut entry = Entry {
            name: fault.name.clone(),
            file: fault.file.clone(),
            key,
            tests: fault.tests.join(" "),
            is_argued: fault.argued.is_some(),
            is_open: true,
        };
        entry.is_open = wanted.again || Verdict::read(&entry.result_file()).is_none();
        if entry.is_open {
            let _ = fs::remove_file(entry.result_file());
        }
        plan.push(entry);
    }
    let open = || plan.iter().filter(|entry| entry.is_open);
    let (all, to_test, others) = (plan.len(), open().count(), of_others.len());
    println!("{all} faults, {to_test} of them to be tested");
    if others > 0 {
        println!("  {others} more are to be seen on other kernels (KERNEL=)");
    }
    let names: Vec<&str> = open().map(|entry| entry.name.as_str()).collect();
    write_lines(&format!("{DIR}/queue"), &names)?;
    write(&format!("{DIR}/told"), "")?;
    let lines: Vec<String> = plan.iter().map(Entry::line).collect();
    write_lines(&format!("{DIR}/plan"), &lines)?;
    Ok(ExitCode::SUCCESS)
}

/// The names of the tests: of those that a part of a name selects, and of those that run only by
/// their whole names.
pub struct TestNames {
    usual: String,
    lengthy: String,
}

impl TestNames {
    /// Reads `DIR/tests` and `DIR/lengthy`.
    pub fn read() -> Result<TestNames, String> {
        Ok(TestNames {
            usual: read(&format!("{DIR}/tests"))?,
            lengthy: read(&format!("{DIR}/lengthy"))?,
        })
    }

    fn all(&self) -> Vec<&str> {
        self.usual.lines().chain(self.lengthy.lines()).collect()
    }

    /// Returns whether this part of a name selects a test.
    pub fn has(&self, part: &str) -> bool {
        let is_lengthy = |name: &str| name == part;
        self.usual.lines().any(|name| name.contains(part)) || self.lengthy.lines().any(is_lengthy)
    }
}

/// A hash that is the same in each run of one build of this program.
fn hash(what: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Returns `size` of these faults, ordered by a hash of their names and `of`: the first of each
/// file first.
fn sample(mut faults: Vec<Fault>, size: usize, of: &str) -> Vec<Fault> {
    faults.sort_by_key(|fault| hash(&(of, &fault.name)));
    let mut of_file = BTreeMap::<String, usize>::new();
    let mut rounds = Vec::new();
    for fault in faults {
        let count = of_file.entry(fault.file.clone()).or_default();
        *count += 1;
        rounds.push((*count, fault));
    }
    rounds.sort_by_key(|(round, _)| *round);
    let faults = rounds.into_iter().map(|(_, fault)| fault);
    faults.take(size).collect()
}

fn module_key(key: &str) -> Result<String, String> {
    let mut files = vec!["Kbuild".to_string()];
    walk(Path::new("src"), &mut files)?;
    walk(Path::new("include"), &mut files)?;
    let texts: Result<Vec<String>, String> = files.iter().map(|file| read(file)).collect();
    Ok(hash(&(key, files, texts?)))
}

/// Returns all files below a directory, by name.
pub fn walk(dir: &Path, files: &mut Vec<String>) -> Result<(), String> {
    let error = |error| format!("{}: {error}", dir.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(error)? {
        paths.push(entry.map_err(error)?.path());
    }
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => walk(&path, files)?,
            false => files.extend(path.to_str().map(String::from)),
        }
    }
    Ok(())
}

/// The sources of the tests. A test depends on its file, the `mod.rs` files above, and the kit.
struct TestSources(BTreeMap<String, String>);

impl TestSources {
    const ROOT: &'static str = "selftests/src";
    /// The inputs of every test.
    const SHARED: [&'static str; 4] = [
        "selftests/src/kit/",
        "selftests/src/harness/",
        "selftests/src/main.rs",
        "selftests/kernel-log/",
    ];

    fn read() -> Result<TestSources, String> {
        let mut files = Vec::new();
        walk(Path::new(TestSources::ROOT), &mut files)?;
        walk(Path::new("selftests/kernel-log"), &mut files)?;
        let texts = files.into_iter();
        let texts = texts.map(|file| read(&file).map(|text| (file, text)));
        Ok(TestSources(texts.collect::<Result<_, String>>()?))
    }

    /// Hash of the tests in `all` whose names contain one of these parts.
    fn key_of(&self, parts: &[String], all: &[&str]) -> String {
        let is_named = |name: &&&str| parts.iter().any(|part| name.contains(part));
        let named = all.iter().filter(is_named);
        let subjects =
            named.map(|name| name.rsplit_once("::").map_or(*name, |(subject, _)| subject));
        let subjects: BTreeSet<&str> = subjects.collect();
        let matters = |(file, text): &(&String, &String)| {
            let is_shared = TestSources::SHARED
                .iter()
                .any(|shared| file.starts_with(shared));
            let is_defined = |subject: &&str| self.defines(file, text, subject);
            is_shared || subjects.is_empty() || subjects.iter().any(is_defined)
        };
        let files: Vec<_> = self.0.iter().filter(matters).collect();
        hash(&(&subjects, files))
    }

    /// Returns whether a file defines tests of this subject, or is the `mod.rs` above such a file.
    /// If no file names the subject, all files count.
    fn defines(&self, file: &str, text: &str, subject: &str) -> bool {
        let names = |text: &str| {
            text.contains(&format!("\"{subject}\"")) || text.contains(&format!("\"{subject}::"))
        };
        let that_name = self.0.iter().filter(|(_, text)| names(text));
        let mut that_name = that_name.map(|(file, _)| file).peekable();
        let dir = file.strip_suffix("mod.rs");
        let is_above = |other: &String| dir.is_some_and(|dir| other.starts_with(dir));
        that_name.peek().is_none() || names(text) || that_name.any(is_above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_plan_is_read_as_written() {
        let entry = Entry {
            name: "a-b".into(),
            file: "src/a.rs".into(),
            key: "1".into(),
            tests: "one:: two::".into(),
            is_argued: true,
            is_open: false,
        };
        assert_eq!(Entry::parse(&entry.line()), Some(entry));
        assert_eq!(Entry::parse("a\tb"), None);
    }

    #[test]
    fn a_sample_is_of_many_files_and_changes_with_its_word() {
        let fault = |number: usize| Fault {
            name: format!("fault-{number}"),
            file: ["a", "a", "a", "b"][number % 4].into(),
            ..Fault::default()
        };
        let faults: Vec<Fault> = (0..40).map(fault).collect();
        let chosen = |size, of: &str| sample(faults.clone(), size, of);
        assert_eq!(chosen(2, "x"), chosen(2, "x"));
        let mut files: Vec<String> = chosen(2, "x").into_iter().map(|one| one.file).collect();
        files.sort();
        assert_eq!(files, ["a", "b"]);
        assert!((0..20).any(|word| chosen(2, &word.to_string()) != chosen(2, "x")));
        assert_eq!(chosen(100, "x").len(), 40);
    }

    #[test]
    fn a_key_is_of_the_tests_that_are_named() {
        let all = ["fork::a", "exec::b", "fork::deep::c"];
        let files = [
            ("selftests/src/behaviour/fork/mod.rs", "above"),
            ("selftests/src/behaviour/fork/one.rs", "tests!(\"fork\": a)"),
            (
                "selftests/src/behaviour/exec.rs",
                "Test::new(\"exec::b\", b)",
            ),
            ("selftests/src/kit/wait.rs", "wait"),
        ];
        let key = |changed: Option<usize>, part: &str| {
            let mut files = files.map(|(file, text)| (file.to_string(), text.to_string()));
            if let Some(index) = changed {
                files[index].1 += " // new";
            }
            TestSources(files.into()).key_of(&[part.into()], &all)
        };
        let before = key(None, "fork::a");
        assert_ne!(before, key(Some(0), "fork::a"));
        assert_ne!(before, key(Some(1), "fork::a"));
        assert_eq!(before, key(Some(2), "fork::a"));
        assert_ne!(before, key(Some(3), "fork::a"));
        // If no file names the subject, all files count.
        assert_ne!(key(None, "deep"), key(Some(2), "deep"));
    }
}
