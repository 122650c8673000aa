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

/// The longest name.
const LONG_NAME: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";

fn name(name: &[u8]) -> GroupName<'_> {
    GroupName::new(name).unwrap()
}

#[test]
fn good_names() {
    let names: &[&[u8]] = &[
        b"a",
        b"Z",
        b"0",
        b"_",
        b"___",
        b"web",
        b"Web_9",
        b"multi_",
        b"multi1",
        b"multi_a",
        b"amulti",
        b"a_multi_",
        b"MULTI",
        b"a_Multi",
        b"mult",
        b"ulti",
        b"_mult",
        LONG_NAME,
    ];
    for bytes in names {
        let name = GroupName::new(bytes);
        assert_eq!(
            name.map(GroupName::bytes),
            Ok(*bytes),
            "{}",
            bytes.escape_ascii()
        );
    }
}

/// The system of a group's formats ends in `_multi`, so that no other group may have such a name.
#[test]
fn bad_names() {
    let too_long = [&LONG_NAME[..], b"6"].concat();
    let names: &[&[u8]] = &[
        b"",
        b"multi",
        b"_multi",
        b"a_multi",
        b"a__multi",
        b"multi_multi",
        b"abcdefghijklmnopqrstuvwxyz_multi",
        b"a-b",
        b"a.b",
        b"a/b",
        b"/",
        b".",
        b"..",
        b"a b",
        b"a\n",
        b"a\0",
        b"\0",
        b"gr\xc3\xbcn",
        &too_long,
        &[b'a'; 255],
        &[b'a'; 5000],
    ];
    for name in names {
        let got = GroupName::new(name);
        assert_eq!(got, Err(Error::GroupName), "{}", name.escape_ascii());
    }
}

#[test]
fn every_byte_of_a_name() {
    for byte in 0..=255u8 {
        let good = byte.is_ascii_alphanumeric() || byte == b'_';
        for name in [
            vec![byte],
            vec![byte, b'x'],
            vec![b'x', byte, b'x'],
            vec![b'x', byte],
        ] {
            assert_eq!(GroupName::new(&name).is_ok(), good, "byte {byte:#x}");
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
        (b"g:#web", Err(Error::GroupName)),
        (b"g:multi", Err(Error::GroupName)),
        (b"g:a_multi events=3", Err(Error::GroupName)),
        (b"g:a:b", Err(Error::GroupName)),
        (b"g:a=b", Err(Error::GroupName)),
        (b"g:web,events=1", Err(Error::GroupName)),
        (b"g:web\0", Err(Error::GroupName)),
        (b"-:", Err(Error::GroupName)),
        (b"-:multi", Err(Error::GroupName)),
        (b"-:a-b", Err(Error::GroupName)),
        (b"web", Err(Error::GroupLine)),
        (b"g", Err(Error::GroupLine)),
        (b"g web", Err(Error::GroupLine)),
        (b"g :web", Err(Error::GroupLine)),
        (b"G:web", Err(Error::GroupLine)),
        (b":web", Err(Error::GroupLine)),
        (b"u:web", Err(Error::GroupLine)),
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
    // In a line with a name, the words after the first are options.
    assert_eq!(GroupLine::parse(b"g: web"), Err(Error::GroupLine));
    assert_eq!(GroupLine::parse(b"-: web"), Err(Error::GroupLine));
}

#[test]
fn options_are_over_limits() {
    let limits = |events, bytes_per_second| GroupLimits {
        events,
        bytes_per_second,
        any_names: false,
    };
    let over = |events, bytes_per_second, of| {
        let options = GroupOptions {
            events,
            bytes_per_second,
            any_names: None,
        };
        (options.are_none(), options.over(of))
    };
    assert_eq!(GroupLimits::DEFAULT, limits(1024, 0));
    let of = limits(7, 9);
    assert_eq!(over(None, None, of), (true, of));
    assert_eq!(over(Some(5), None, of), (false, limits(5, 9)));
    assert_eq!(over(None, Some(0), of), (false, limits(7, 0)));
    assert_eq!(over(Some(5), Some(6), of), (false, limits(5, 6)));
    for (had, says, has) in [
        (false, None, false),
        (true, None, true),
        (true, Some(false), false),
        (false, Some(true), true),
    ] {
        let options = GroupOptions {
            any_names: says,
            ..GroupOptions::default()
        };
        let of = |any_names| GroupLimits { any_names, ..of };
        assert_eq!(options.over(of(had)), of(has));
        assert_eq!(options.are_none(), says.is_none());
    }
}

#[test]
fn bad_options() {
    for options in [
        "events",
        "events=",
        "events=0",
        "events=000",
        "events=32769",
        "events=65537",
        "events=4294967297",
        "events=18446744073709551617",
        "events=340282366920938463463374607431768211457",
        "events=-1",
        "events=+1",
        "events=0x1",
        "events=1k",
        "events=1.0",
        "events=1,",
        "events==1",
        "events=1=1",
        "events =1",
        "events= 1",
        "Events=1",
        "event=1",
        "eventss=1",
        "=1",
        "=",
        "1",
        "web",
        "bytes_per_second",
        "bytes_per_second=",
        "bytes_per_second=4294967296",
        "bytes_per_second=18446744073709551617",
        "bytes_per_second=-1",
        "bytes-per-second=1",
        "bytes_per_second=1 bytes_per_second=1",
        "events=1 events=1",
        "events=1 bytes_per_second=1 events=2",
        "events=1 other=1",
        "names",
        "names=",
        "names=Any",
        "names=anyone",
        "names=1",
        "names=any names=any",
        "names=plain events=1 names=any",
        "events=1 \x00",
    ] {
        let line = format!("g:web {options}");
        let got = GroupLine::parse(line.as_bytes());
        assert_eq!(got, Err(Error::GroupLine), "{line:?}");
    }
}
