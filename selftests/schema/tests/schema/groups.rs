// SPDX-License-Identifier: GPL-2.0

//! Names of groups, and lines of `user_events_groups`.

use user_events_schema::{
    Errno,
    Error,
    GroupLimits,
    GroupLine,
    GroupName,
    GroupOptions,
    When, //
};

fn name(name: &[u8]) -> GroupName<'_> {
    GroupName::new(name).unwrap()
}

/// The system of a group's formats ends in `_multi`, so that no other group may have such a name.
#[test]
fn names() {
    let good = "a _ ___ Web_9 abcdefghijklmnopqrstuvwxyz012345 \
        multi_ multi1 multi_a amulti a_multi_ MULTI a_Multi mult ulti _mult";
    for name in good.split(' ') {
        let got = GroupName::new(name.as_bytes()).map(GroupName::bytes);
        assert_eq!(got, Ok(name.as_bytes()), "{name}");
    }
    let (too_long, far_too_long) = ("abcdefghijklmnopqrstuvwxyz0123456", "a".repeat(5000));
    let bad = "multi _multi a_multi a__multi multi_multi abcdefghijklmnopqrstuvwxyz_multi";
    for name in bad.split(' ').chain(["", too_long, &far_too_long]) {
        let got = GroupName::new(name.as_bytes());
        assert_eq!(got, Err(Error::GroupName), "{name}");
    }
}

#[test]
fn every_byte_of_a_name() {
    for byte in 0..=255u8 {
        let is_good = byte.is_ascii_alphanumeric() || byte == b'_';
        for name in [
            vec![byte],
            vec![byte, b'x'],
            vec![b'x', byte, b'x'],
            vec![b'x', byte],
        ] {
            let got = GroupName::new(&name).map(GroupName::bytes);
            let expected = is_good.then_some(&name[..]).ok_or(Error::GroupName);
            assert_eq!(got, expected, "byte {byte:#x}");
        }
    }
}

#[test]
fn lines() {
    let set = |events, bytes_per_second, any_names| {
        let options = GroupOptions {
            events,
            bytes_per_second,
            any_names,
        };
        Ok(GroupLine::Set(name(b"web"), options))
    };
    let web = |events, bytes| set(events, bytes, None);
    let remove = |when| Ok(GroupLine::Remove(name(b"web"), when));
    let table: &[(&[u8], Result<GroupLine<'_>, Error>)] = &[
        (b"", Ok(GroupLine::Nothing)),
        (b" \t\n\x0b\x0c\r", Ok(GroupLine::Nothing)),
        (b"#", Ok(GroupLine::Nothing)),
        (b"# g:web", Ok(GroupLine::Nothing)),
        (b"\t#\0\xff", Ok(GroupLine::Nothing)),
        (b"g:web", web(None, None)),
        (b" \tg:web\r", web(None, None)),
        (b"g:web#", web(None, None)),
        (b"g:web # -:web", web(None, None)),
        (b"g:web events=1", web(Some(1), None)),
        (b"g:web events=32768", web(Some(32768), None)),
        (b"g:web\tevents=0007 ", web(Some(7), None)),
        (b"g:web events=7#8", web(Some(7), None)),
        (b"g:web bytes_per_second=1", web(None, Some(1))),
        (
            b"g:web bytes_per_second=4294967295",
            web(None, Some(u32::MAX)),
        ),
        (b"g:web events=5 bytes_per_second=6", web(Some(5), Some(6))),
        (
            b"g:web  bytes_per_second=6 \t events=5 # 2 events, 1 used, 0 open files, 3 refused",
            web(Some(5), Some(6)),
        ),
        (b"g:web bytes_per_second=0", web(None, Some(0))),
        (b"g:web names=any", set(None, None, Some(true))),
        (
            b"g:web\tnames=plain # names=any",
            set(None, None, Some(false)),
        ),
        (b"-:web", remove(When::Now)),
        (b" -:web\t# events=5", remove(When::Now)),
        (b"-:web#", remove(When::Now)),
        (b"-:web when=unused", remove(When::Unused)),
        (b" -:web \twhen=unused # now", remove(When::Unused)),
        (b"-:web when=", Err(Error::GroupLine)),
        (b"-:web when=unused when=unused", Err(Error::GroupLine)),
        (b"-:web when=now", Err(Error::GroupLine)),
        (b"g:web when=unused", Err(Error::GroupLine)),
        (b"g:", Err(Error::GroupName)),
        (b"g:multi", Err(Error::GroupName)),
        (b"g:a_multi events=3", Err(Error::GroupName)),
        (b"g:web,events=1", Err(Error::GroupName)),
        (b"-:", Err(Error::GroupName)),
        (b"-:multi", Err(Error::GroupName)),
        // In a line with a name, the words after the first are options.
        (b"g: web", Err(Error::GroupLine)),
        (b"-: web", Err(Error::GroupLine)),
        (b"web", Err(Error::GroupLine)),
        (b"g", Err(Error::GroupLine)),
        (b"g web", Err(Error::GroupLine)),
        (b"g :web", Err(Error::GroupLine)),
        (b"G:web", Err(Error::GroupLine)),
        (b"-", Err(Error::GroupLine)),
        (b"-web", Err(Error::GroupLine)),
        (b"- :web", Err(Error::GroupLine)),
        (b"-:web events=5", Err(Error::GroupLine)),
        (b"-:web web", Err(Error::GroupLine)),
        (b"-:web -:web", Err(Error::GroupLine)),
        (b"\0", Err(Error::GroupLine)),
    ];
    for (line, expected) in table {
        assert_eq!(GroupLine::parse(line), *expected, "{}", line.escape_ascii());
        if let Err(error) = expected {
            assert_eq!(error.errno(), Errno::Inval);
        }
    }
}

#[test]
fn options_are_over_limits() {
    let limits = |(events, bytes_per_second, any_names)| GroupLimits {
        events,
        bytes_per_second,
        any_names,
    };
    assert_eq!(GroupLimits::DEFAULT, limits((1024, 0, false)));
    for (had, given, has) in [
        ((7, 9, false), (None, None, None), (7, 9, false)),
        ((7, 9, true), (None, None, None), (7, 9, true)),
        ((7, 9, false), (Some(5), None, None), (5, 9, false)),
        ((7, 9, true), (None, Some(0), None), (7, 0, true)),
        ((7, 9, true), (None, None, Some(false)), (7, 9, false)),
        ((7, 9, false), (None, None, Some(true)), (7, 9, true)),
        ((7, 9, false), (Some(5), Some(6), None), (5, 6, false)),
    ] {
        let (events, bytes_per_second, any_names) = given;
        let options = GroupOptions {
            events,
            bytes_per_second,
            any_names,
        };
        assert_eq!(options.over(limits(had)), limits(has), "{options:?}");
        assert_eq!(options.are_none(), given == (None, None, None));
    }
}

#[test]
fn bad_options() {
    let all = "events|events=|events=0|events=000|events=32769|events=65537|events=4294967297|\
        events=18446744073709551617|events=340282366920938463463374607431768211457|events=-1|\
        events=+1|events=0x1|events=1k|events=1,|events==1|events=1=1|events =1|events= 1|Events=1|\
        event=1|eventss=1|=1|=|1|web|bytes_per_second|bytes_per_second=|\
        bytes_per_second=4294967296|bytes_per_second=-1|bytes-per-second=1|\
        bytes_per_second=1 bytes_per_second=1|events=1 events=1|\
        events=1 bytes_per_second=1 events=2|events=1 other=1|names|names=|names=Any|names=anyone|\
        names=any names=any|names=plain events=1 names=any|events=1 \x00";
    for options in all.split('|') {
        let line = format!("g:web {options}");
        let got = GroupLine::parse(line.as_bytes());
        assert_eq!(got, Err(Error::GroupLine), "{line:?}");
    }
}
