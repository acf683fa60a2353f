//! Squid's native format:
//! `timestamp.ms elapsed client RESULT/status bytes METHOD URL user HIERARCHY/origin type`.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use crate::escape::word;
use crate::record::{CacheResult, ParseError, Record};

/// Appends `record` to `line`, newline included.
pub fn write(record: &Record, line: &mut String) {
    let result = word(record.result.name());
    // Writing into a String cannot fail.
    let _ = write!(
        line,
        "{}.{:03} {:6} {} {result}/{:03} {} {} {} - ",
        record.time_ms / 1000,
        record.time_ms % 1000,
        record.duration_ms,
        or_dash(&record.client),
        record.status,
        record.bytes,
        or_dash(&record.method),
        or_dash(&record.url),
    );
    match record.origin.as_deref().filter(|origin| !origin.is_empty()) {
        Some(origin) => {
            let how = if is_chosen(record, origin) { "ORIGINAL_DST" } else { "HIER_DIRECT" };
            line.push_str(&format!("{how}/{}", word(origin)));
        }
        None => line.push_str("HIER_NONE/-"),
    }
    let _ = writeln!(line, " {}", or_dash(record.content_type.as_deref().unwrap_or_default()));
}

/// Whether the origin is where the client was going before the kernel sent it here.
fn is_chosen(record: &Record, origin: &str) -> bool {
    let chosen = record.chosen.as_deref().and_then(|chosen| chosen.parse::<SocketAddr>().ok());
    chosen.is_some_and(|chosen| {
        origin.parse::<IpAddr>().is_ok_and(|origin| origin.to_canonical() == chosen.ip().to_canonical())
    })
}

fn or_dash(text: &str) -> std::borrow::Cow<'_, str> {
    if text.is_empty() { "-".into() } else { word(text) }
}

/// Reads one line. Fields stay escaped; further fields at the end are ignored, and so is the user.
///
/// Errors: [`ParseError`] names the first field that is missing or malformed.
pub fn parse(line: &str) -> Result<Record, ParseError> {
    let mut fields = line.split_ascii_whitespace();
    let mut next = |what| fields.next().ok_or_else(|| malformed(what));

    let time_ms = parse_time(next("time")?).ok_or_else(|| malformed("time"))?;
    // Squid writes a negative time when its clock was set back.
    let duration_ms = next("duration")?.parse::<i64>().map_err(|_| malformed("duration"))?.max(0).unsigned_abs();
    let client = text(next("client")?).unwrap_or_default();
    let (result, status) = next("result")?.rsplit_once('/').ok_or_else(|| malformed("result"))?;
    let status = status.parse().map_err(|_| malformed("status"))?;
    let bytes = next("bytes")?.parse().map_err(|_| malformed("bytes"))?;
    let method = text(next("method")?).unwrap_or_default();
    let url = text(next("URL")?).unwrap_or_default();
    next("user")?;
    let (_, origin) = next("origin")?.rsplit_once('/').ok_or_else(|| malformed("origin"))?;
    let origin = text(origin);
    let content_type = text(next("content type")?);
    let result = CacheResult::from(result.to_owned());
    Ok(Record {
        time_ms,
        duration_ms,
        client,
        method,
        url,
        status,
        bytes,
        result,
        origin,
        content_type,
        ..Record::default()
    })
}

fn malformed(what: &'static str) -> ParseError {
    ParseError { format: "Squid native", what }
}

fn text(field: &str) -> Option<String> {
    (field != "-").then(|| field.to_owned())
}

/// Seconds with a fraction of any length, as milliseconds.
fn parse_time(field: &str) -> Option<u64> {
    let (seconds, fraction) = field.split_once('.').unwrap_or((field, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = format!("{fraction:0<3}");
    seconds.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(digits.get(..3)?.parse().ok()?)
}
