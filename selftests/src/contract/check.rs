// SPDX-License-Identifier: GPL-2.0

//! Rows of the contract, and the tables of cases that check them.

use crate::harness::TOOK_OVER;
use crate::kit::abi::{Data, Register};
use crate::kit::child;
use crate::kit::errno::{Errno, Result};
use crate::kit::memory::Mapping;
use crate::kit::wait;
use std::ffi::CString;
use std::fmt::{Debug, Display};

/// A row of the contract.
#[derive(Clone, Copy)]
pub struct Row {
    section: &'static str,
    /// The rule, as the contract words it.
    pub text: &'static str,
    /// What it is that the C implementation does not keep this rule, if it does not.
    pub better: Option<Better>,
}

/// A row of "Differences from the built-in implementation" (Documentation/differences.rst), by its number.
#[derive(Clone, Copy)]
pub struct Better {
    pub number: u8,
    /// How what the check says ends on C, where each `*` is any text.
    on_c: &'static str,
}

impl Better {
    /// Is this how the check fails on C?
    pub fn is_predicted(&self, why: &str) -> bool {
        let mut parts = self.on_c.split('*').rev();
        let last = parts.next().unwrap_or_default();
        let mut rest = why.strip_suffix(last);
        for part in parts {
            rest = rest.and_then(|rest| Some(&rest[..rest.rfind(part)?]));
        }
        // What it said before it was ended is not what came of it.
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
    /// A row that the C implementation keeps, too. The names of its checks begin with `section`.
    pub const fn new(section: &'static str, text: &'static str) -> Row {
        Row {
            section,
            text,
            better: None,
        }
    }

    /// Row `number` of the differences, where what a check says ends with `on_c`: see [`Better`].
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

    /// The same row, for cases in which C does something else.
    pub const fn on_c(self, on_c: &'static str) -> Row {
        match self.better {
            Some(Better { number, .. }) => {
                Row::better_than_c(number, self.section, self.text, on_c)
            }
            None => panic!("C keeps this row"),
        }
    }

    /// A table: each case is a name, what to try and what must come of it.
    pub fn cases<N: Display, I: Copy + 'static, W: Copy + 'static>(
        self,
        run: fn(I, W),
        cases: &[(N, I, W)],
    ) -> Vec<Check> {
        let checks = cases.iter().map(|(name, input, want)| {
            let (input, want) = (*input, *want);
            Check {
                name: format!("contract::{}::{name}", self.section),
                row: self,
                run: Box::new(move || run(input, want)),
            }
        });
        checks.collect()
    }

    /// A table of cases that all must come to the same.
    pub fn all<I: Copy + 'static, W: Copy + 'static>(
        self,
        run: fn(I, W),
        want: W,
        cases: &[(&str, I)],
    ) -> Vec<Check> {
        let cases: Vec<_> = cases
            .iter()
            .map(|&(name, input)| (name, input, want))
            .collect();
        self.cases(run, &cases)
    }

    /// Rules that each need a scenario of their own.
    pub fn scenarios(self, scenarios: &[(&str, fn())]) -> Vec<Check> {
        fn run(scenario: fn(), (): ()) {
            scenario();
        }
        self.all(run, (), scenarios)
    }
}

/// Fails the check unless it got what it wants.
#[track_caller]
pub fn expect<T: PartialEq + Debug>(got: T, want: T) {
    assert!(got == want, "want {want:?}, got {got:?}");
}

/// The event of most checks: its name and its description.
pub const NAME: &str = "st_conform";
pub const TEXT: &str = "st_conform u32 a";

/// A request that is right in everything, for the checks to spoil.
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

    /// What to give to `data.register`.
    pub fn request(&self) -> Register {
        Register::new(self.page.address(), self.text.as_ptr() as u64)
    }
}

/// The description of [`NAME`] with these fields.
pub fn described(fields: &str) -> String {
    format!("{NAME} {fields}").trim_end().to_string()
}

/// Registers these with flags in a process that ends, having closed all.
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

/// A size that a structure says, where it has a byte that is not 0 past its end, if it has one, and what comes of it.
type Size = (String, (u32, Option<usize>), Result<()>);

/// Sizes that a structure of `end` bytes may say, good and bad ones.
pub fn sizes(end: u32) -> Vec<Size> {
    let case = |size, not_zero: Option<usize>, want| match (not_zero, want) {
        (None, Ok(())) => format!("size_{size}_with_zeros_is_taken"),
        (Some(at), _) => format!("size_{size}_with_byte_{at}_not_zero_is_e2big"),
        (None, Err(Errno::EINVAL)) => format!("size_{size}_is_einval"),
        (None, Err(_)) => format!("size_{size}_is_e2big"),
    };
    let zeros = [
        (Err(Errno::EINVAL), vec![0, 1, 4, end - 1]),
        (Ok(()), vec![end, end + 1, 32, 64, 128, 4095, 4096]),
        (Err(Errno::E2BIG), vec![4097, 8192, u32::MAX]),
    ];
    let zeros = zeros.into_iter().flat_map(|(want, sizes)| {
        let sizes = sizes.into_iter();
        sizes.map(move |size| (size, None, want))
    });
    let end = end as usize;
    let others = [
        (end + 1, end),
        (32, 31),
        (64, 63),
        (128, end),
        (4096, 2000),
        (4096, 4095),
    ];
    let others = others.map(|(size, at)| (size as u32, Some(at), Err(Errno::E2BIG)));
    let all = zeros.chain(others);
    all.map(|(size, not_zero, want)| (case(size, not_zero, want), (size, not_zero), want))
        .collect()
}

/// Deletes an event as soon as nothing uses it: what ended a moment ago may take a moment to settle.
pub fn delete_when_idle(data: &Data, name: &str) -> Result<()> {
    let mut last = Ok(());
    wait::eventually(|| {
        last = data.delete(name);
        last != Err(Errno::EBUSY)
    });
    last
}

/// Deletes an event when dropped, as soon as nothing uses it.
pub struct DeletedAtEnd<'a>(pub &'a str);

impl Drop for DeletedAtEnd<'_> {
    fn drop(&mut self) {
        // In vain if the check has deleted it.
        let _ = delete_when_idle(&Data::open(), self.0);
    }
}

/// Runs what makes a persistent event in a process of its own, and deletes the event then.
#[track_caller]
pub fn in_child_then_delete(name: &str, run: impl FnOnce()) {
    let _deleted = DeletedAtEnd(name);
    child::fork(|_| run()).join();
}
