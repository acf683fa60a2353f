//! The Common format of the first web servers: `client - - [time] "METHOD URL HTTP/1.1" status bytes`.
//!
//! Times are whole seconds; durations, cache results, origins, referers and user agents are not in it.

use std::fmt::Write;

use crate::civil;
use crate::combined;
use crate::escape::{quoted, word};
use crate::record::{ParseError, Record};

/// Appends `record` to `line`, newline included.
pub fn write(record: &Record, line: &mut String) {
    write_fields(record, line);
    line.push('\n');
}

/// The fields that the Combined format has as well.
pub(crate) fn write_fields(record: &Record, line: &mut String) {
    // Writing into a String cannot fail.
    let _ = write!(
        line,
        "{} - - [{}] \"{} {} HTTP/1.1\" {} {}",
        or_dash(word(&record.client)),
        civil::format(record.time_ms / 1000),
        or_dash(quoted(&word(&record.method)).into_owned().into()),
        or_dash(quoted(&word(&record.url)).into_owned().into()),
        record.status,
        record.bytes,
    );
}

/// Reads one line of the Common or the Combined format, and of the latter these fields only.
///
/// Errors: [`ParseError`] names the first field that is missing or malformed.
pub fn parse(line: &str) -> Result<Record, ParseError> {
    let record = combined::parse(line).map_err(|ParseError { what, .. }| ParseError { format: "Common", what })?;
    Ok(Record { referer: None, user_agent: None, ..record })
}

pub(crate) fn or_dash(text: std::borrow::Cow<'_, str>) -> std::borrow::Cow<'_, str> {
    if text.is_empty() { "-".into() } else { text }
}
