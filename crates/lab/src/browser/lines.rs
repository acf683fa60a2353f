//! One line of a trace in the form of Figure 7, read and written.

use std::fmt;

use super::{Call, Event, Extent, TraceKey};

/// What is wrong with a line: which of its fields, and how.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct BadLine {
    /// The field.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
}

fn bad(field: &'static str, why: impl Into<String>) -> BadLine {
    BadLine { field, why: why.into() }
}

/// Fields of a line are cut to this in errors.
const SHOWN: usize = 60;

fn shown(field: &str) -> String {
    field.chars().take(SHOWN).collect()
}

/// Read one line: a time, a call, what it was called with and what it answered, between single spaces. Errors: any field is not of the form.
pub fn parse_line(line: &str) -> Result<Event, BadLine> {
    let mut fields = line.split(' ');
    let mut next = |field| fields.next().ok_or_else(|| bad(field, "the line ends before it"));
    let time = next("time")?;
    let time_us = time.parse().map_err(|_| bad("time", format!("{:?} is no number of microseconds", shown(time))))?;
    let (name, with, answer) = (next("operation")?, next("arguments")?, next("result")?);
    if let Some(more) = fields.next() {
        return Err(bad("line", format!("it goes on behind the result with {:?}", shown(more))));
    }
    let call = match name {
        "CreateEntry" => opened(with, answer).map(|(key, entry)| Call::Create { key, entry })?,
        "OpenEntry" => opened(with, answer).map(|(key, entry)| Call::Open { key, entry })?,
        "ReadData" => {
            let [entry, stream, offset, len] = parts(with, "arguments", "handle:stream:offset:length")?;
            Call::Read { entry: handle(entry)?, part: extent(stream, offset, len)?, result: bytes_moved(answer, len)? }
        }
        "WriteData" => {
            let [entry, stream, offset, len, truncate] =
                parts(with, "arguments", "handle:stream:offset:length:truncate")?;
            let truncate = match truncate {
                "0" => false,
                "1" => true,
                _ => return Err(bad("truncate", format!("{:?} is neither 0 nor 1", shown(truncate)))),
            };
            let (part, result) = (extent(stream, offset, len)?, bytes_moved(answer, len)?);
            Call::Write { entry: handle(entry)?, part, truncate, result }
        }
        "Doom" => done(answer).and(handle(with)).map(|entry| Call::Doom { entry })?,
        "Close" => done(answer).and(handle(with)).map(|entry| Call::Close { entry })?,
        _ => {
            let known = "CreateEntry, OpenEntry, ReadData, WriteData, Doom, Close";
            return Err(bad("operation", format!("{:?} is none of {known}", shown(name))));
        }
    };
    Ok(Event { time_us, starts_session: false, call })
}

/// Exactly so many parts between colons.
fn parts<'a, const N: usize>(text: &'a str, field: &'static str, form: &str) -> Result<[&'a str; N], BadLine> {
    let parts: Vec<_> = text.split(':').collect();
    parts.try_into().map_err(|_| bad(field, format!("{:?} is not {form}", shown(text))))
}

fn number<T: std::str::FromStr>(text: &str, field: &'static str) -> Result<T, BadLine> {
    text.parse().map_err(|_| bad(field, format!("{:?} is no number, or too large", shown(text))))
}

fn handle(text: &str) -> Result<u64, BadLine> {
    let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with('+'));
    let handle = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).filter(|handle| *handle != 0);
    handle.ok_or_else(|| bad("handle", format!("{:?} is not 0x and 1 to 16 hex digits, not 0", shown(text))))
}

fn key(hash: &str, len: &str) -> Result<TraceKey, BadLine> {
    let wrong = || bad("key", format!("{:?} is not 1 to 40 hex digits", shown(hash)));
    // The paper's own sample has a hash of 39 digits: what is missing is taken to be zeros at its front.
    if hash.is_empty() || hash.len() > 40 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let digits = format!("{hash:0>40}");
    let mut bytes = [0; 20];
    for (number, byte) in bytes.iter_mut().enumerate() {
        let pair = digits.get(number * 2..number * 2 + 2).ok_or_else(wrong)?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(TraceKey { hash: bytes, len: number(len, "key length")? })
}

/// What `CreateEntry` and `OpenEntry` say: `hash:length`, and `0:handle` or `-2:0`.
fn opened(with: &str, answer: &str) -> Result<(TraceKey, Option<u64>), BadLine> {
    let [hash, len] = parts(with, "arguments", "hash:length")?;
    let [error, entry] = parts(answer, "result", "error:handle")?;
    let error: i64 = number(error, "result")?;
    let entry = match (error, entry) {
        (0, entry) => Some(handle(entry)?),
        (..0, "0") => None,
        _ => return Err(bad("result", format!("{:?} is neither 0:handle nor an error below 0 and :0", shown(answer)))),
    };
    Ok((key(hash, len)?, entry))
}

fn extent(stream: &str, offset: &str, len: &str) -> Result<Extent, BadLine> {
    let extent =
        Extent { stream: number(stream, "stream")?, offset: number(offset, "offset")?, len: number(len, "length")? };
    // The interface has lengths of 32 bits, and ends of streams must not overflow.
    match extent.len <= u64::from(u32::MAX) && extent.offset <= 1 << 48 {
        true => Ok(extent),
        false => Err(bad("length", "it is 4 GiB or more, or its offset beyond 2^48")),
    }
}

/// What `ReadData` and `WriteData` answer: bytes, or an error below 0; then a number whose meaning the paper does not give.
fn bytes_moved(answer: &str, len: &str) -> Result<i64, BadLine> {
    let [moved, other] = parts(answer, "result", "bytes:number")?;
    let (moved, _): (i64, i64) = (number(moved, "result")?, number(other, "result")?);
    match u64::try_from(moved) {
        Ok(bytes) if bytes > number::<u64>(len, "length")? => Err(bad("result", "more bytes than were asked for")),
        _ => Ok(moved),
    }
}

fn done(answer: &str) -> Result<(), BadLine> {
    if answer == "0" { Ok(()) } else { Err(bad("result", format!("{:?} is not 0", shown(answer)))) }
}

impl fmt::Display for TraceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
        write!(f, ":{}", self.len)
    }
}

/// The line, as [`parse_line`] reads it; a session's beginning is a line of its own.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.time_us;
        let opened = |f: &mut fmt::Formatter<'_>, name, key, entry: Option<u64>| match entry {
            Some(entry) => write!(f, "{time} {name} {key} 0:{entry:#x}"),
            None => write!(f, "{time} {name} {key} -2:0"),
        };
        match self.call {
            Call::Create { key, entry } => opened(f, "CreateEntry", key, entry),
            Call::Open { key, entry } => opened(f, "OpenEntry", key, entry),
            Call::Read { entry, part: Extent { stream, offset, len }, result } => {
                write!(f, "{time} ReadData {entry:#x}:{stream}:{offset}:{len} {result}:0")
            }
            Call::Write { entry, part: Extent { stream, offset, len }, truncate, result } => {
                let truncate = u8::from(truncate);
                write!(f, "{time} WriteData {entry:#x}:{stream}:{offset}:{len}:{truncate} {result}:0")
            }
            Call::Doom { entry } => write!(f, "{time} Doom {entry:#x} 0"),
            Call::Close { entry } => write!(f, "{time} Close {entry:#x} 0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 7, but for its key of 39 digits, which is written with 40.
    #[test]
    fn lines_are_written_as_they_are_read() {
        for line in [
            "4332781373459 WriteData 0x171a0fc0:1:0:1702:1 1702:0",
            "4332781374765 Close 0x171a0fc0 0",
            "4332790701807 OpenEntry 0FD43A89D499A163F2D1173EDE9935A418F4E3A6:77 -2:0",
            "4332790701987 CreateEntry 0FD43A89D499A163F2D1173EDE9935A418F4E3A6:77 0:0x17084950",
            "4332790794450 Doom 0x17084950 0",
            "4332790794451 ReadData 0x17084950:0:0:600 512:0",
        ] {
            assert_eq!(parse_line(line).unwrap().to_string(), line);
        }
        let short = "4332797398913 OpenEntry 0E7C5EAF3AD3FA4F4B1FE164DB8303F8762DB1E:217 -2:0";
        let read = parse_line(short).unwrap();
        assert_eq!(parse_line(&read.to_string()), Ok(read));
    }

    #[test]
    fn a_bad_line_is_told_by_its_field() {
        for (line, field) in [
            ("", "time"),
            ("x Close 0x1 0", "time"),
            ("1 Close", "arguments"),
            ("1 Close 0x1", "result"),
            ("1 Close 0x1 0 more", "line"),
            ("1 Close 0x1 7", "result"),
            ("1 Shut 0x1 0", "operation"),
            ("1 Close 1 0", "handle"),
            ("1 Close 0x+1 0", "handle"),
            ("1 Close 0x0 0", "handle"),
            ("1 Doom 0x11111111111111111 0", "handle"),
            ("1 OpenEntry XY:7 -2:0", "key"),
            ("1 OpenEntry 0FD43A89D499A163F2D1173EDE9935A418F4E3A6A:7 -2:0", "key"),
            ("1 OpenEntry AB:-7 -2:0", "key length"),
            ("1 OpenEntry AB -2:0", "arguments"),
            ("1 OpenEntry AB:7 5:0x1", "result"),
            ("1 OpenEntry AB:7 -2:0x1", "result"),
            ("1 ReadData 0x1:0:0 5:0", "arguments"),
            ("1 ReadData 0x1:0:0:5 6:0", "result"),
            ("1 ReadData 0x1:0:0:5 6", "result"),
            ("1 ReadData 0x1:0:0:4294967296 6:0", "length"),
            ("1 WriteData 0x1:0:0:5:2 5:0", "truncate"),
        ] {
            assert_eq!(parse_line(line).unwrap_err().field, field, "{line}");
        }
        assert!(parse_line(&format!("1 {} 0x1 0", "y".repeat(10_000))).unwrap_err().to_string().len() < 200);
    }
}
