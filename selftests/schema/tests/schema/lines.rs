// SPDX-License-Identifier: GPL-2.0

//! Lines of `dynamic_events`.

use crate::claims;
use crate::event::{
    listing,
    Description, //
};
use crate::properties::{
    any_text,
    config, //
};
use proptest::prelude::*;
use user_events_schema::{
    Errno,
    Error, //
};

/// Returns the listing of the event that a line makes, with its group and a `/` before it, or the
/// error.
fn made(text: &[u8]) -> Result<String, Error> {
    let (group, description) = Description::parse_line(text)?;
    let listing = String::from_utf8(listing(&description)).unwrap();
    Ok(match group {
        Some(group) => format!("{}/{listing}", group.bytes().escape_ascii()),
        None => listing,
    })
}

/// Row 4 of the differences: the system may be named; it must be the system of a group, which then
/// gets the event.
#[test]
fn lines_that_make_events() {
    let table: &[(&[u8], Result<&str, Error>)] = &[
        (b" \tx u8 a", Ok("x u8 a")),
        (b"user_events/x", Ok("x")),
        (b"user_events/x u8 a/b", Ok("x u8 a/b")),
        (b"x struct a/b c 4", Ok("x struct a/b c 4")),
        (b"user_events_multi/x", Err(Error::Group)),
        (b"user_events_web/x u8 a", Ok("web/x u8 a")),
        (b" user_events_A_9/x", Ok("A_9/x")),
        (b"user_events__/x", Ok("_/x")),
        (b"user_events_multiple/x", Ok("multiple/x")),
        (b"user_events_web_multi/x", Err(Error::Group)),
        (b"user_events_/x", Err(Error::Group)),
        (b"user_events_a-b/x", Err(Error::Group)),
        (b"user_eventsweb/x", Err(Error::Group)),
        (
            b"user_events_0123456789abcdef0123456789abcdef/x",
            Ok("0123456789abcdef0123456789abcdef/x"),
        ),
        (
            b"user_events_0123456789abcdef0123456789abcdef0/x",
            Err(Error::Group),
        ),
        (b"user_events_web/", Err(Error::NameEmpty)),
        (b"user_events_web/a/b", Err(Error::NameByte)),
        (b"/x", Err(Error::Group)),
        (b"user_events/user_events/x", Err(Error::NameByte)),
        (b"user_events / x", Err(Error::UnknownType)),
    ];
    for (text, expected) in table {
        let expected = expected.map(str::to_string);
        assert_eq!(made(text), expected, "{}", text.escape_ascii());
    }
    assert_eq!(Error::Group.errno(), Errno::Inval);
}

proptest! {
    #![proptest_config(config(1))]

    #[test]
    fn any_line(text in any_text(), deleting in any_text()) {
        claims::line_that_makes(&text);
        claims::line_that_deletes(&text, &deleting);
    }
}
