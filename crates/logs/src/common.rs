//! The Common format of the first web servers: `client - - [time] "METHOD URL HTTP/1.1" status bytes`.
//!
//! Times are whole seconds; durations, cache results, origins, referers and user agents are not in it.

use crate::combined;
use crate::record::{ParseError, Record};
use crate::shared::write_fields;

/// Appends `record` to `line`, newline included.
pub fn write(record: &Record, line: &mut String) {
    write_fields(record, line);
    line.push('\n');
}

/// Reads one line of the Common or the Combined format, and of the latter these fields only.
///
/// Errors: [`ParseError`] names the first field that is missing or malformed.
pub fn parse(line: &str) -> Result<Record, ParseError> {
    let record = combined::parse(line).map_err(|ParseError { what, .. }| ParseError { format: "Common", what })?;
    Ok(Record { referer: None, user_agent: None, ..record })
}
