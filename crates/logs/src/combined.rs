//! The Combined format of web servers:
//! `client - - [time] "METHOD URL HTTP/1.1" status bytes "referer" "user agent"`.
//!
//! Times are whole seconds; durations, cache results and origins are not in it.

use std::fmt::Write;

use crate::civil;
use crate::escape::{quoted, unquote};
use crate::record::{CacheResult, ParseError, Record};
use crate::shared::{or_dash, write_fields};

/// Appends `record` to `line`, newline included.
pub fn write(record: &Record, line: &mut String) {
    write_fields(record, line);
    // Writing into a String cannot fail.
    let _ = writeln!(
        line,
        " \"{}\" \"{}\"",
        or_dash(quoted(record.referer.as_deref().unwrap_or_default())),
        or_dash(quoted(record.user_agent.as_deref().unwrap_or_default())),
    );
}

/// Reads one line of the Combined or the older Common format (without the last two fields).
///
/// Errors: [`ParseError`] names the first field that is missing or malformed.
pub fn parse(line: &str) -> Result<Record, ParseError> {
    let (client, rest) = line.split_once(' ').ok_or_else(|| malformed("client"))?;
    let (_, rest) = rest.split_once('[').ok_or_else(|| malformed("time"))?;
    let (time, rest) = rest.split_once("] \"").ok_or_else(|| malformed("time"))?;
    let seconds = civil::parse(time).ok_or_else(|| malformed("time"))?;
    let (request, rest) = unquote(rest).ok_or_else(|| malformed("request"))?;
    let mut words = request.split(' ');
    let method = words.next().unwrap_or_default();
    let url = words.next().unwrap_or_default();

    let mut numbers = rest.trim_start().splitn(3, ' ');
    let status = numbers.next().and_then(|field| field.parse().ok()).ok_or_else(|| malformed("status"))?;
    let bytes = numbers.next().map(str::trim_end).and_then(number_or_dash).ok_or_else(|| malformed("bytes"))?;
    let (referer, user_agent) = quoted_pair(numbers.next().unwrap_or_default())?;
    Ok(Record {
        time_ms: seconds * 1000,
        client: text(client).unwrap_or_default(),
        method: text(method).unwrap_or_default(),
        url: text(url).unwrap_or_default(),
        status,
        bytes,
        result: CacheResult::None,
        referer,
        user_agent,
        ..Record::default()
    })
}

/// The last two fields; both are absent in the Common format.
fn quoted_pair(rest: &str) -> Result<(Option<String>, Option<String>), ParseError> {
    let Some(rest) = rest.trim_start().strip_prefix('"') else {
        return Ok((None, None));
    };
    let (referer, rest) = unquote(rest).ok_or_else(|| malformed("referer"))?;
    let rest = rest.trim_start().strip_prefix('"').ok_or_else(|| malformed("user agent"))?;
    let (user_agent, _) = unquote(rest).ok_or_else(|| malformed("user agent"))?;
    Ok((text(&referer), text(&user_agent)))
}

fn malformed(what: &'static str) -> ParseError {
    ParseError { format: "Combined", what }
}

fn text(field: &str) -> Option<String> {
    (field != "-").then(|| field.to_owned())
}

/// Servers write `-` when no body was sent.
fn number_or_dash(field: &str) -> Option<u64> {
    if field == "-" { Some(0) } else { field.parse().ok() }
}
