// SPDX-License-Identifier: GPL-2.0

//! The interface of all clients, and the clients that write events themselves: `tracepoint`,
//! `eventheader` and `eventheader_dynamic`.

use crate::perf::Record;
use crate::Failure;
use eventheader::define_provider;
use eventheader::write_event;
use eventheader_dynamic::EventBuilder;
use eventheader_dynamic::EventSet;
use eventheader_dynamic::FieldFormat;
use eventheader_dynamic::Level;
use eventheader_dynamic::Opcode;
use eventheader_dynamic::Provider;
use std::ffi::CStr;
use std::io::Error;
use std::pin::Pin;
use std::sync::Arc;
use tracepoint::EventDataDescriptor;
use tracepoint::TracepointState;

/// A client library that has registered its events.
pub trait Client {
    /// The events of the records.
    fn events(&self) -> Vec<&'static str>;

    /// Writes known records, and returns how they should read.
    fn write_known(&mut self) -> Result<Vec<String>, Failure>;

    /// Writes a record with a text of `size` times `x`. Returns the error that the library reports.
    fn write_sized(&mut self, size: usize) -> Result<(), String>;

    /// Returns a record in the form of `write_known`.
    fn text(&self, record: &Record) -> Result<String, Failure> {
        Ok(record.text.clone())
    }
}

/// The text of an error number that a library returns.
fn told(error: i32) -> Result<(), String> {
    if error == 0 {
        return Ok(());
    }
    Err(Error::from_raw_os_error(error).to_string())
}

static TRACEPOINT: TracepointState = TracepointState::new(0);
const TRACEPOINT_EVENT: &CStr =
    c"client_tracepoint u64 large;s32 negative;u8 small;char[6] fixed;__rel_loc char[] text";

/// `tracepoint`, with an event of its own.
pub struct Tracepoint;

impl Tracepoint {
    pub fn open() -> Result<Box<dyn Client>, Failure> {
        // SAFETY: A static is never deallocated, and no library is unloaded here.
        told(unsafe { Pin::static_ref(&TRACEPOINT).register(TRACEPOINT_EVENT) })?;
        Ok(Box::new(Tracepoint))
    }

    fn write(text: &[u8]) -> Result<(), String> {
        // The location includes the NUL, which ends the field.
        let location = (text.len() as u32 + 1) << 16;
        told(TRACEPOINT.write(&mut [
            EventDataDescriptor::zero(),
            EventDataDescriptor::from_value(&0x0123_4567_89ab_cdef_u64),
            EventDataDescriptor::from_value(&-2_i32),
            EventDataDescriptor::from_value(&200_u8),
            EventDataDescriptor::from_bytes(b"apples"),
            EventDataDescriptor::from_value(&location),
            EventDataDescriptor::from_bytes(text),
            EventDataDescriptor::from_bytes(b"\0"),
        ]))
    }
}

impl Client for Tracepoint {
    fn events(&self) -> Vec<&'static str> {
        vec!["client_tracepoint"]
    }

    fn write_known(&mut self) -> Result<Vec<String>, Failure> {
        let texts = ["hello", "", "grüße"];
        let mut expected = Vec::new();
        for text in texts {
            Tracepoint::write(text.as_bytes())?;
            expected.push(format!(
                "user_events:client_tracepoint {{ \"large\": 81985529216486895, \"negative\": -2, \"small\": 200, \
                 \"fixed\": \"apples\", \"text\": \"{text}\" }}"
            ));
        }
        Ok(expected)
    }

    fn write_sized(&mut self, size: usize) -> Result<(), String> {
        // A location cannot hold a larger size.
        let text = vec![b'x'; size.min(usize::from(u16::MAX) - 1)];
        Tracepoint::write(&text)
    }
}

impl Drop for Tracepoint {
    fn drop(&mut self) {
        TRACEPOINT.unregister();
    }
}

define_provider!(EVENTHEADER, "ClientEventheader");

/// `eventheader`, with events that are fixed when it is compiled.
pub struct Eventheader;

impl Eventheader {
    pub fn open() -> Result<Box<dyn Client>, Failure> {
        // SAFETY: No library is unloaded here.
        told(unsafe { EVENTHEADER.register() } as i32)?;
        Ok(Box::new(Eventheader))
    }
}

impl Client for Eventheader {
    fn events(&self) -> Vec<&'static str> {
        vec!["ClientEventheader_L4K1", "ClientEventheader_L2K1f"]
    }

    fn write_known(&mut self) -> Result<Vec<String>, Failure> {
        told(write_event!(EVENTHEADER, "Empty", level(Informational), keyword(1)) as i32)?;
        told(write_event!(
            EVENTHEADER,
            "Known",
            level(Informational),
            keyword(1),
            opcode(Reply),
            id_version(3, 4),
            tag(0x1234),
            u8("small", &200),
            i64("negative", &-9_000_000_000),
            u32_hex("hex", &0xfeed_f00d),
            f64("float", &2.5),
            bool8("yes", &true),
            str8("text", "hello"),
            str16("wide", &[0x67, 0x72, 0xfc, 0x6e]),
            u16_slice("row", &[1, 2, 65535]),
            ipv4("address", &[192, 0, 2, 1]),
            struct("outer", {
                u8("first", &1),
                struct("inner", {
                    cstr8("second", "two"),
                }),
            }),
        ) as i32)?;
        told(write_event!(
            EVENTHEADER,
            "Wrong",
            level(Error),
            keyword(0x1f),
            errno("error", &2),
        ) as i32)?;
        Ok(vec![
            "ClientEventheader:Empty { }".to_string(),
            "ClientEventheader:Known { \"small\": 200, \"negative\": -9000000000, \"hex\": \"0xFEEDF00D\", \
             \"float\": 2.5, \"yes\": true, \"text\": \"hello\", \"wide\": \"grün\", \"row\": [ 1, 2, 65535 ], \
             \"address\": \"192.0.2.1\", \"outer\": { \"first\": 1, \"inner\": { \"second\": \"two\" } } }"
                .to_string(),
            "ClientEventheader:Wrong { \"error\": \"ENOENT(2)\" }".to_string(),
        ])
    }

    fn write_sized(&mut self, size: usize) -> Result<(), String> {
        let text = "x".repeat(size);
        told(write_event!(
            EVENTHEADER,
            "Sized",
            level(Informational),
            keyword(1),
            str8("text", &text)
        ) as i32)
    }
}

impl Drop for Eventheader {
    fn drop(&mut self) {
        EVENTHEADER.unregister();
    }
}

/// `eventheader_dynamic`, with events that are made when they are written.
pub struct Dynamic {
    provider: Provider,
    events: Arc<EventSet>,
    builder: EventBuilder,
}

impl Dynamic {
    pub fn open() -> Result<Box<dyn Client>, Failure> {
        let mut provider = Provider::new("ClientDynamic", &Provider::new_options());
        let events = provider.register_set(Level::Warning, 0x2a);
        told(events.errno())?;
        Ok(Box::new(Dynamic {
            provider,
            events,
            builder: EventBuilder::new(),
        }))
    }
}

impl Client for Dynamic {
    fn events(&self) -> Vec<&'static str> {
        vec!["ClientDynamic_L3K2a"]
    }

    fn write_known(&mut self) -> Result<Vec<String>, Failure> {
        let activity = [0x11_u8; 16];
        told(
            self.builder
                .reset("Known", 0)
                .opcode(Opcode::ActivityStart)
                .add_value("small", 200_u8, FieldFormat::Default, 0)
                .add_value("negative", -2_i32, FieldFormat::SignedInt, 0)
                .add_value("float", 2.5_f64, FieldFormat::Float, 0)
                .add_str("text", "hello", FieldFormat::Default, 0)
                .add_value_sequence("row", &[1_u16, 2, 65535], FieldFormat::Default, 0)
                .add_struct("outer", 1, 0)
                .add_cstr("inner", "two", FieldFormat::Default, 0)
                .write(&self.events, Some(&activity), None),
        )?;
        told(
            self.builder
                .reset("Empty", 0)
                .write(&self.events, None, None),
        )?;
        Ok(vec![
            "ClientDynamic:Known { \"small\": 200, \"negative\": -2, \"float\": 2.5, \"text\": \"hello\", \
             \"row\": [ 1, 2, 65535 ], \"outer\": { \"inner\": \"two\" } }"
                .to_string(),
            "ClientDynamic:Empty { }".to_string(),
        ])
    }

    fn write_sized(&mut self, size: usize) -> Result<(), String> {
        let text = "x".repeat(size);
        told(
            self.builder
                .reset("Sized", 0)
                .add_str("text", &text, FieldFormat::Default, 0)
                .write(&self.events, None, None),
        )
    }
}

impl Drop for Dynamic {
    fn drop(&mut self) {
        self.provider.unregister();
    }
}
