// SPDX-License-Identifier: GPL-2.0

//! "Delete and lifetime", and the write indices of a file.

use super::check::{delete_when_idle, described, expect, Check, DeletedAtEnd, Row, NAME, TEXT};
use crate::kit::abi::{Data, PERSIST};
use crate::kit::child::{self, Child, Word};
use crate::kit::dynamic;
use crate::kit::errno::Errno;
use crate::kit::event::{wait_gone, Event};
use crate::kit::memory::{Mapping, KERNEL};
use crate::kit::perf::{Perf, ANY_CPU, SELF};
use crate::kit::tracefs::{self, count_of_events, TraceInstance};
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
        LIVES.scenarios(&[
            ("one_that_goes_leaves_the_others", others_stay),
            ("its_name_is_free_for_other_fields_then", name_is_free),
            ("a_failed_registration_leaves_no_event", failed_leaves_none),
        ]),
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
    &[Use::Top],
    &[Use::Instance],
    &[Use::Perf],
    &[Use::File, Use::Bit],
    &[Use::Bit, Use::SecondFile],
    &[Use::Bit, Use::SecondBit],
    &[Use::Bit, Use::Child],
    &[Use::Top, Use::Perf],
    &[Use::File, Use::Instance],
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
    Top,
    Instance,
    Perf,
}

/// Ends a use.
type End = Box<dyn FnOnce()>;

/// Makes the event, with these flags and uses only. Returns the file that registered, while that is
/// a use, and what ends each use.
fn used_by(uses: &'static [Use], flags: u16) -> (Weak<Data>, Vec<End>) {
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
    fn begin(self, data: &Rc<Data>, address: u64) -> End {
        fn dropped<T: 'static>(used: T) -> End {
            Box::new(move || drop(used))
        }
        fn ended(mut child: Child, begun: Word) -> End {
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
            Use::Top => {
                TraceInstance::top().enable(NAME);
                Box::new(|| TraceInstance::top().disable(NAME))
            }
            Use::Instance => {
                let tracer = TraceInstance::instance(NAME);
                tracer.enable(NAME);
                dropped(tracer)
            }
            Use::Perf => {
                let id = tracefs::event_id(NAME);
                dropped(Perf::open(id, SELF, ANY_CPU).unwrap())
            }
        }
    }
}

/// Makes another event and waits until it is gone, which gives time to an event that should stay to
/// go wrongly.
pub fn an_event_comes_and_goes() {
    let event = Event::new("st_passing");
    expect(event.unregister(), Ok(()));
    drop(event);
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

fn others_stay() {
    let going = Event::new("st_going u32 a");
    let event = Event::new(TEXT);
    let top = TraceInstance::top();
    top.enable(NAME);
    event.wait_set();
    expect(going.unregister(), Ok(()));
    drop(going);
    wait_gone("st_going");
    assert!(tracefs::event_exists(NAME));
    expect(event.bit(), true);
    expect(event.write(&[0; 4]), Ok(8));
    top.disable(NAME);
    event.wait_clear();
}

fn name_is_free() {
    for fields in ["u32 a", "u64 a", "", "char[4] b; u8 c", "u32 a"] {
        let event = Event::new(&described(fields));
        expect(event.unregister(), Ok(()));
        drop(event);
        wait_gone(NAME);
    }
}

fn failed_leaves_none() {
    let event = Event::new(TEXT);
    let address = event.page.address();
    let fails = |text, address, want| {
        expect(event.data.register_text(text, address, 0), Err(want));
        expect(count_of_events(), 1);
    };
    fails("st_other nonsense a", address + 4, Errno::EINVAL);
    fails("st_other u32 a", address, Errno::EADDRINUSE);
    fails("st_other u32 a", address + 1, Errno::EINVAL);
    fails("st_other u32 a", KERNEL, Errno::EFAULT);
}
