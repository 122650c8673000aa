// SPDX-License-Identifier: GPL-2.0

//! Rows of the contract, and the tables of cases that check them.

use crate::harness::{begin_case, TOOK_OVER};
use crate::kit::abi::{Data, Register};
use crate::kit::child;
use crate::kit::errno::{Errno, Result};
use crate::kit::memory::Mapping;
use crate::kit::tracefs::count_of_events;
use crate::kit::wait;
use std::ffi::CString;
use std::fmt::Debug;

#[derive(Clone, Copy)]
pub struct Row {
    section: &'static str,
    /// The rule, as the contract words it.
    pub text: &'static str,
    /// Set if the C implementation does not follow the rule.
    pub better: Option<Better>,
}

/// A row of "Differences from the built-in implementation" (Documentation/differences.rst), by its
/// number.
#[derive(Clone, Copy)]
pub struct Better {
    pub number: u8,
    /// The end of the failure message on C, where each `*` matches any text.
    on_c: &'static str,
}

impl Better {
    /// Returns whether the check fails on C in this way.
    pub fn is_predicted(&self, why: &str) -> bool {
        let mut parts = self.on_c.split('*').rev();
        let last = parts.next().unwrap_or_default();
        let mut rest = why.strip_suffix(last);
        for part in parts {
            rest = rest.and_then(|rest| Some(&rest[..rest.rfind(part)?]));
        }
        // After a timeout, the message is the output so far.
        rest.is_some() && !why.starts_with(TOOK_OVER)
    }
}

/// One case of a row, run in a process of its own.
pub struct Check {
    pub name: String,
    pub row: Row,
    pub run: Box<dyn Fn()>,
}

impl Row {
    /// A row that the C implementation follows. The names of its checks begin with `section`.
    pub const fn new(section: &'static str, text: &'static str) -> Row {
        Row {
            section,
            text,
            better: None,
        }
    }

    /// Row `number` of the differences, with the end of the failure message on C: see [`Better`].
    pub const fn better_than_c(
        number: u8,
        section: &'static str,
        text: &'static str,
        on_c: &'static str,
    ) -> Row {
        Row {
            section,
            text,
            better: Some(Better { number, on_c }),
        }
    }

    /// The same row, for cases with another failure on C.
    pub const fn on_c(self, on_c: &'static str) -> Row {
        match self.better {
            Some(Better { number, .. }) => {
                Row::better_than_c(number, self.section, self.text, on_c)
            }
            None => panic!("C keeps this row"),
        }
    }

    /// A table of cases, each with a name, an input and the expected result.
    pub fn cases<I: Copy + 'static, W: Copy + 'static>(
        self,
        run: fn(I, W),
        cases: &[(&str, I, W)],
    ) -> Vec<Check> {
        let cases = cases.iter().copied();
        let check = |(name, input, want)| self.check(name, move || run(input, want));
        cases.map(check).collect()
    }

    fn check(self, name: &str, run: impl Fn() + 'static) -> Check {
        Check {
            name: format!("contract::{}::{name}", self.section),
            row: self,
            run: Box::new(run),
        }
    }

    /// A table of cases with the same expected result.
    pub fn all<I: Copy + 'static, W: Copy + 'static>(
        self,
        run: fn(I, W),
        want: W,
        cases: &[(&str, I)],
    ) -> Vec<Check> {
        let cases = cases.iter().map(|&(name, input)| (name, input, want));
        self.cases(run, &cases.collect::<Vec<_>>())
    }

    /// One check of a table of cases, each with an input and the expected result. The name of a
    /// case is its input, which begins the message of its failure. Each case has a process of its
    /// own, and no event is left of the one before.
    pub fn table<I, W>(self, name: &str, run: fn(I, W), cases: &[(I, W)]) -> Vec<Check>
    where
        I: Copy + Debug + 'static,
        W: Copy + 'static,
    {
        assert!(self.better.is_none(), "C may fail each case of {name}");
        let cases = cases.to_vec();
        let run_all = move || {
            for &(input, want) in &cases {
                begin_case(input);
                child::fork(|_| run(input, want)).join();
                wait::until("the events to go", || count_of_events() == 0);
            }
        };
        vec![self.check(name, run_all)]
    }

    /// The same for cases with the same expected result.
    pub fn each<I, W>(self, name: &str, run: fn(I, W), want: W, cases: &[I]) -> Vec<Check>
    where
        I: Copy + Debug + 'static,
        W: Copy + 'static,
    {
        let cases: Vec<_> = cases.iter().map(|&input| (input, want)).collect();
        self.table(name, run, &cases)
    }

    /// Rules that need a scenario each.
    pub fn scenarios(self, scenarios: &[(&str, fn())]) -> Vec<Check> {
        let check = |&(name, scenario): &(&str, fn())| self.check(name, scenario);
        scenarios.iter().map(check).collect()
    }
}

/// Fails the check unless it got the expected result.
#[track_caller]
pub fn expect<T: PartialEq + Debug>(got: T, want: T) {
    assert!(got == want, "want {want:?}, got {got:?}");
}

/// The event of most checks: its name and its description.
pub const NAME: &str = "st_conform";
pub const TEXT: &str = "st_conform u32 a";

pub struct ValidRequest {
    pub data: Data,
    pub page: Mapping,
    text: CString,
}

impl ValidRequest {
    /// Opens a file; registers nothing.
    pub fn new(text: &str) -> ValidRequest {
        ValidRequest {
            data: Data::open(),
            page: Mapping::kept(1),
            text: CString::new(text).expect("no NUL in a description"),
        }
    }

    /// The request for `data.register`.
    pub fn request(&self) -> Register {
        Register::new(self.page.address(), self.text.as_ptr() as u64)
    }
}

/// The description of [`NAME`] with these fields.
pub fn described(fields: &str) -> String {
    format!("{NAME} {fields}").trim_end().to_string()
}

/// Registers these descriptions with flags in a process that exits.
pub fn register_and_exit(texts: &[&str], flags: u16) {
    child::fork(|_| {
        let (data, page) = (Data::open(), Mapping::kept(1));
        for (bit, text) in texts.iter().enumerate() {
            let got = data.register_flags(text, page.address(), bit as u8, flags);
            expect(got, Ok(bit as u32));
        }
    })
    .join();
}

/// A size in a structure, and the position of a byte behind the structure that is not 0, if any.
type Size = (u32, Option<usize>);

/// Sizes in a structure of `end` bytes, good and bad ones, with the expected results.
pub fn sizes(end: u32) -> Vec<(Size, Result<()>)> {
    let zeros = [
        (Err(Errno::EINVAL), vec![0, 1, 4, end - 1]),
        (Ok(()), vec![end, end + 1, 32, 64, 128, 4095, 4096]),
        (Err(Errno::E2BIG), vec![4097, 8192, u32::MAX]),
    ];
    let zeros = zeros.into_iter().flat_map(|(want, sizes)| {
        let sizes = sizes.into_iter();
        sizes.map(move |size| ((size, None), want))
    });
    let first = end as usize;
    let others = [
        (end + 1, first),
        (32, 31),
        (64, 63),
        (128, first),
        (4096, 2000),
        (4096, 4095),
    ];
    let others = others.map(|(size, at)| ((size, Some(at)), Err(Errno::E2BIG)));
    zeros.chain(others).collect()
}

/// Repeats a deletion until the event is unused: references of tasks that just ended may be dropped
/// with a delay.
pub fn when_idle(delete: impl Fn() -> Result<()>) -> Result<()> {
    let mut last = Ok(());
    wait::eventually(|| {
        last = delete();
        last != Err(Errno::EBUSY)
    });
    last
}

pub fn delete_when_idle(data: &Data, name: &str) -> Result<()> {
    when_idle(|| data.delete(name))
}

/// Deletes an event when dropped, once it is unused.
pub struct DeletedAtEnd<'a>(pub &'a str);

impl Drop for DeletedAtEnd<'_> {
    fn drop(&mut self) {
        // Fails if the check has deleted it.
        let _ = delete_when_idle(&Data::open(), self.0);
    }
}
