//! Files of traces.

use std::io::{self, BufRead, Write};
use std::path::Path;

use super::{Event, parse_line};
use crate::error::LabError;
use crate::load::{next_line, open_text};

/// Events that are read of one trace, at most: 80 bytes each. The rest is left out, and said so.
const MAX_EVENTS: usize = 20_000_000;
/// The line that begins a session.
const SESSION: &str = "# session";

/// A trace that was read.
#[derive(Clone, Debug, Default)]
pub struct BackendTrace {
    /// In the order of the file; times never go backwards.
    pub events: Vec<Event>,
    /// Whether the file went on beyond the twenty million events that are read of one.
    pub cut: bool,
}

/// Read a trace; the file may be packed by gzip. Memory: 80 bytes an event. Errors: it cannot be read; a line is not of the form, or
/// earlier than the one before: with its number and what is wrong.
pub fn read_backend_trace(path: &Path) -> Result<BackendTrace, LabError> {
    let refused = |why: String| LabError::Trace { path: path.to_path_buf(), why };
    let text = open_text(path).map_err(|error| refused(error.to_string()))?;
    read(text).map_err(refused)
}

/// Whether a file's first line that says anything is of the form. Errors: it cannot be read.
pub fn is_backend_trace(path: &Path) -> io::Result<bool> {
    let mut text = open_text(path)?;
    while let Some(line) = next_line(&mut text)? {
        if !line.is_empty() && !line.starts_with('#') {
            return Ok(parse_line(&line).is_ok());
        }
    }
    Ok(false)
}

fn read(mut from: impl BufRead) -> Result<BackendTrace, String> {
    let mut trace = BackendTrace::default();
    let (mut starts_session, mut before, mut number) = (false, 0, 0_u64);
    loop {
        number += 1;
        let line = next_line(&mut from).map_err(|error| format!("line {number}: {error}"))?;
        let Some(line) = line else { return Ok(trace) };
        if line.is_empty() || line.starts_with('#') {
            starts_session |= line == SESSION;
            continue;
        }
        if trace.events.len() >= MAX_EVENTS {
            trace.cut = true;
            return Ok(trace);
        }
        let event = parse_line(&line).map_err(|bad| format!("line {number}: {bad}"))?;
        if event.time_us < before {
            return Err(format!("line {number}: time: {} comes after {before}", event.time_us));
        }
        before = event.time_us;
        trace.events.push(Event { starts_session, ..event });
        starts_session = false;
    }
}

/// Write a trace so that [`read_backend_trace`] reads it. Errors: those of what is written to.
pub fn write_backend_trace(events: &[Event], to: &mut impl Write) -> io::Result<()> {
    for event in events {
        if event.starts_session {
            writeln!(to, "{SESSION}")?;
        }
        writeln!(to, "{event}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sample as the paper prints it, with a blank line first.
    const FIGURE_7: &str = "
4332781373459 WriteData 0x171a0fc0:1:0:1702:1 1702:0
4332781374765 Close 0x171a0fc0 0
4332790701807 OpenEntry 0FD43A89D499A163F2D1173EDE9935A418F4E3A6:77 -2:0
4332790701987 CreateEntry 0FD43A89D499A163F2D1173EDE9935A418F4E3A6:77 0:0x17084950
4332790794450 Doom 0x17084950 0
4332790794491 Close 0x17084950 0
# session
4332797398506 OpenEntry CC60F344EBFC6D88B2BE1567A4B88E335966D4B5:105 -2:0
4332797398913 OpenEntry 0E7C5EAF3AD3FA4F4B1FE164DB8303F8762DB1E:217 -2:0
4332797399074 CreateEntry CC60F344EBFC6D88B2BE1567A4B88E335966D4B5:105 0:0x187a3580
4332797399149 CreateEntry 0E7C5EAF3AD3FA4F4B1FE164DB8303F8762DB1E:217 0:0x1664b1f0
";

    #[test]
    fn a_trace_is_written_as_it_was_read() {
        let trace = read(FIGURE_7.as_bytes()).unwrap();
        let sessions: Vec<_> = trace.events.iter().map(|event| event.starts_session).collect();
        assert_eq!(sessions, [false, false, false, false, false, false, true, false, false, false]);
        let mut written = Vec::new();
        write_backend_trace(&trace.events, &mut written).unwrap();
        assert_eq!(read(&*written).unwrap().events, trace.events);
    }

    #[test]
    fn a_bad_line_is_refused_with_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        std::fs::write(&path, FIGURE_7.replace("Doom", "doom")).unwrap();
        assert!(is_backend_trace(&path).unwrap() && is_backend_trace(&dir.path().join("none")).is_err());
        let refused = read_backend_trace(&path).unwrap_err().to_string();
        assert!(refused.contains("line 6: operation: \"doom\" is none of"), "{refused}");
        let refused = read(FIGURE_7.replace("4332790794491", "1").as_bytes()).unwrap_err();
        assert_eq!(refused, "line 7: time: 1 comes after 4332790794450");
        let long = format!("1 Close 0x1 0{}\n", "0".repeat(300_000));
        assert!(read(long.as_bytes()).unwrap_err().starts_with("line 1: result"));
        assert!(read_backend_trace(&dir.path().join("none")).is_err());
    }
}
