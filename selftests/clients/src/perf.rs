// SPDX-License-Identifier: GPL-2.0

//! Runs `perf record`, and reads its records with `tracepoint_perf` and `tracepoint_decode`.

use crate::Failure;
use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::ChildStdin;
use std::process::ChildStdout;
use std::process::Command;
use std::process::Stdio;
use tracepoint_decode::EventHeaderEnumeratorContext;
use tracepoint_decode::EventHeaderEnumeratorState;
use tracepoint_decode::PerfConvertOptions;
use tracepoint_decode::PerfEventHeaderType;
use tracepoint_decode::PerfFieldArray;
use tracepoint_decode::PerfFieldFormat;
use tracepoint_perf::PerfDataFileEventOrder;
use tracepoint_perf::PerfDataFileReader;

/// A record, in order of time.
pub struct Record {
    /// The event and all of its fields, as JSON.
    pub text: String,
    /// The data of the record's last `__rel_loc`, if it has one.
    pub buffer: Option<Vec<u8>>,
}

/// A running `perf record` of all processes.
pub struct Session {
    perf: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    file: PathBuf,
}

impl Session {
    /// Begins to record events of `user_events`, which must exist.
    pub fn begin<S: AsRef<str>>(events: &[S]) -> Result<Session, Failure> {
        Session::begin_with(events, &[])
    }

    /// Like [`Session::begin`], with more arguments for perf.
    pub fn begin_with<S: AsRef<str>>(events: &[S], words: &[&str]) -> Result<Session, Failure> {
        let file = PathBuf::from("/tmp/clients.data");
        let mut command = Command::new("perf");
        // Starts disabled, as perf acknowledges that it is enabled, and then records.
        command.args([
            "record",
            "-q",
            "-a",
            "-m",
            "1024",
            "-D",
            "-1",
            "--control",
            "fd:0,1",
            "-o",
        ]);
        command.arg(&file);
        command.args(words);
        for event in events {
            command
                .arg("-e")
                .arg(format!("user_events:{}", event.as_ref()));
        }
        let mut perf = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("perf: {error}"))?;
        let commands = perf.stdin.take().ok_or("perf has no input")?;
        let answers = BufReader::new(perf.stdout.take().ok_or("perf has no output")?);
        let mut session = Session {
            perf,
            commands,
            answers,
            file,
        };
        session.tell("enable")?;
        Ok(session)
    }

    /// Sends perf a command, and waits for its acknowledgement.
    fn tell(&mut self, command: &str) -> Result<(), Failure> {
        let mut answer = String::new();
        writeln!(self.commands, "{command}")
            .map_err(|error| format!("perf takes no command: {error}"))?;
        let answered = self
            .answers
            .read_line(&mut answer)
            .map_err(|error| error.to_string())?;
        if answered == 0 || !answer.contains("ack") {
            return Err(format!("perf did not do '{command}': {answer}"));
        }
        Ok(())
    }

    /// Ends perf, and reads its records.
    pub fn end(mut self) -> Result<Vec<Record>, Failure> {
        self.tell("stop")?;
        let status = self.perf.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("perf ended with {status}"));
        }
        let records = read(&self.file);
        let _ = fs::remove_file(&self.file);
        records
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A failed test leaves perf running.
        let _ = self.perf.kill();
        let _ = self.perf.wait();
    }
}

/// Reads a file of perf's. Lost records are an error, too.
pub fn read(file: &Path) -> Result<Vec<Record>, Failure> {
    let mut reader = PerfDataFileReader::new();
    let mut context = EventHeaderEnumeratorContext::new();
    let mut records = Vec::new();
    reader
        .open_file(&file.to_string_lossy(), PerfDataFileEventOrder::Time)
        .map_err(|error| format!("{}: {error}", file.display()))?;
    while reader
        .move_next_event()
        .map_err(|error| error.to_string())?
    {
        let event = reader.current_event();
        if event.header.ty == PerfEventHeaderType::Lost
            || event.header.ty == PerfEventHeaderType::LostSamples
        {
            return Err("perf lost records".to_string());
        }
        if event.header.ty != PerfEventHeaderType::Sample {
            continue;
        }
        let info = reader
            .get_sample_event_info(&event)
            .map_err(|error| format!("a sample cannot be read: {error}"))?;
        if let Ok(mut fields) = context.enumerate(&info) {
            let mut text = fields.event_info().identity_display().to_string() + " { ";
            fields
                .write_json_item_and_move_next_sibling(
                    &mut text,
                    false,
                    PerfConvertOptions::Default,
                )
                .map_err(|error| error.to_string())?;
            if fields.state() == EventHeaderEnumeratorState::Error {
                return Err(format!("{text} cannot be decoded: {}", fields.last_error()));
            }
            text.push_str(if text.ends_with(' ') { "}" } else { " }" });
            records.push(Record { text, buffer: None });
            continue;
        }
        let format = info
            .format()
            .ok_or_else(|| format!("{} has no format", info.name()))?;
        let mut texts = Vec::new();
        let mut buffer = None;
        for field in format.fields().iter().skip(format.common_field_count()) {
            let value = if field.array() == PerfFieldArray::RelLoc4 {
                let bytes = located(field, info.raw_data()).ok_or_else(|| {
                    format!(
                        "{} of {} lies outside of the record",
                        field.name(),
                        info.name()
                    )
                })?;
                buffer = Some(bytes.to_vec());
                match bytes.split_last() {
                    Some((0, text)) if field.field().contains("char") => {
                        format!("{:?}", String::from_utf8_lossy(text))
                    }
                    _ => format!("{bytes:02x?}"),
                }
            } else {
                field.get_field_value(&info).json_display().to_string()
            };
            texts.push(format!("\"{}\": {value}", field.name()));
        }
        let text = format!("{} {{ {} }}", info.name(), texts.join(", "));
        records.push(Record { text, buffer });
    }
    Ok(records)
}

/// Returns the data of a `__rel_loc` field. `tracepoint_decode` 0.5.0 counts its offset from the
/// record's start instead of the field's end.
fn located<'a>(field: &PerfFieldFormat, record: &'a [u8]) -> Option<&'a [u8]> {
    let end = usize::from(field.offset()) + usize::from(field.size());
    let location = record.get(usize::from(field.offset())..end)?;
    let location = u32::from_ne_bytes(location.try_into().ok()?);
    let start = end + (location & 0xffff) as usize;
    record.get(start..start + (location >> 16) as usize)
}
