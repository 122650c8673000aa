// SPDX-License-Identifier: GPL-2.0

//! "Delete and lifetime": what keeps an event, and keeps it from being deleted.

use super::bit::{Consumer, Detach};
use super::check::{delete_when_idle, expect, Check, DeletedAtEnd, Row, NAME, TEXT};
use crate::kit::abi::{Data, PERSIST};
use crate::kit::child::{self, Child, Word};
use crate::kit::dynamic;
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::memory::Mapping;
use crate::kit::tracefs::{self, count_of_events};
use std::rc::{Rc, Weak};

const LIVES: Row = Row::new(
    "lifetime",
    "An event lives while a file, a registration (of any process) or a consumer uses it. Without PERSIST \
     it then disappears by itself",
);
const BUSY: Row = Row::new("delete", "DIAG_IOCSDEL: in use → EBUSY");

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        LIVES.each("goes_with_its_last_use", goes_with, 0, USES),
        BUSY.each("in_use_is_ebusy", busy_with, 0, USES),
        BUSY.each("persistent_in_use_is_ebusy", busy_with, PERSIST, USES),
    ]
}

/// The ways to use an event, single and combined.
const USES: &[&[Use]] = &[
    &[Use::File],
    &[Use::SecondFile],
    &[Use::Duplicate],
    &[Use::ChildsFile],
    &[Use::Duplicate, Use::ChildsFile],
    &[Use::Bit],
    &[Use::Child],
    &[Use::By(Consumer::Top)],
    &[Use::By(Consumer::Instance)],
    &[Use::By(Consumer::Perf)],
    &[Use::File, Use::Bit],
    &[Use::Bit, Use::SecondFile],
    &[Use::Bit, Use::SecondBit],
    &[Use::Bit, Use::Child],
    &[Use::By(Consumer::Top), Use::By(Consumer::Perf)],
    &[Use::File, Use::By(Consumer::Instance)],
];

/// A use that keeps an event alive.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Use {
    /// The file that registered.
    File,
    SecondFile,
    Duplicate,
    /// Only the file, in a forked process.
    ChildsFile,
    Bit,
    SecondBit,
    Child,
    By(Consumer),
}

/// Makes the event, with these flags and uses only. Returns the file that registered, while that is
/// a use, and what ends each use.
fn used_by(uses: &'static [Use], flags: u16) -> (Weak<Data>, Vec<Detach>) {
    let (data, address) = (Rc::new(Data::open()), Mapping::kept(1).address());
    let got = data.register_flags(TEXT, address, 0, flags);
    expect(got, Ok(0));
    let ends = uses.iter().map(|one| one.begin(&data, address)).collect();
    let first = Rc::downgrade(&data);
    drop(data);
    if !uses.contains(&Use::Bit) {
        unregister(address, 0);
    }
    (first, ends)
}

fn unregister(address: u64, bit: u8) {
    expect(Data::open().unregister_bit(address, bit), Ok(()));
}

impl Use {
    fn begin(self, data: &Rc<Data>, address: u64) -> Detach {
        fn dropped<T: 'static>(used: T) -> Detach {
            Box::new(move || drop(used))
        }
        fn ended(mut child: Child, begun: Word) -> Detach {
            child.line.hear(begun);
            Box::new(move || {
                child.line.say(Word::End);
                child.join();
            })
        }
        match self {
            Use::File => dropped(data.clone()),
            Use::SecondFile => {
                let second = Data::open();
                expect(second.register_text(TEXT, address, 8), Ok(0));
                expect(second.unregister_bit(address, 8), Ok(()));
                dropped(second)
            }
            Use::Duplicate => dropped(data.file.try_clone().unwrap()),
            Use::ChildsFile => {
                let child = child::fork(|line| {
                    expect(data.unregister_bit(address, 0), Ok(()));
                    line.say(Word::Unregistered);
                    line.hear(Word::End);
                });
                ended(child, Word::Unregistered)
            }
            Use::Bit => Box::new(move || unregister(address, 0)),
            Use::SecondBit => {
                expect(data.register_text(TEXT, address, 1), Ok(0));
                Box::new(move || unregister(address, 1))
            }
            Use::Child => {
                // The inherited registration is one use, and the child's own a second one.
                let child = child::fork(|line| {
                    let Event { data, .. } = Event::new(TEXT);
                    drop(data);
                    line.say(Word::Registered);
                    line.hear(Word::End);
                });
                ended(child, Word::Registered)
            }
            Use::By(consumer) => consumer.attach(tracefs::event_id(NAME)),
        }
    }
}

/// Makes another event and waits until it is gone, which gives time to an event that should stay to
/// go wrongly.
pub fn an_event_comes_and_goes() {
    Event::new("st_passing").end();
    wait_gone("st_passing");
}

fn goes_with(uses: &'static [Use], flags: u16) {
    let (_, ends) = used_by(uses, flags);
    for end in ends {
        an_event_comes_and_goes();
        assert!(tracefs::event_exists(NAME), "went while it was used");
        end();
    }
    wait_gone(NAME);
    expect(count_of_events(), 0);
}

fn busy_with(uses: &'static [Use], flags: u16) {
    let _deleted = DeletedAtEnd(NAME);
    let (first, ends) = used_by(uses, flags);
    for end in ends {
        expect(Data::open().delete(NAME), Err(Errno::EBUSY));
        if let Some(data) = first.upgrade() {
            expect(data.delete(NAME), Err(Errno::EBUSY));
        }
        for line in [
            "-:st_conform u32 a",
            "!u:st_conform u32 a",
            "-:user_events/st_conform u32 a",
        ] {
            expect(dynamic::run(line), Err(Errno::EBUSY));
        }
        expect(dynamic::truncate(), Err(Errno::EBUSY));
        assert!(tracefs::event_exists(NAME));
        end();
    }
    if flags == PERSIST {
        expect(delete_when_idle(&Data::open(), NAME), Ok(()));
    }
}
