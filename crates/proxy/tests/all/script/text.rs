//! The text of a script as bytes: escapes, and names in braces.

use std::time::{Duration, SystemTime};

use super::Side;

/// What the names in braces stand for, in one run.
pub struct Names<'a> {
    pub side: Side,
    /// Where the origin listens, and under another address.
    pub origin: String,
    pub other: String,
    pub proxy: String,
    /// The run's number, from 0, and its row.
    pub number: usize,
    pub row: &'a [String],
}

impl Names<'_> {
    /// The bytes that `text` stands for.
    ///
    /// Errors: a name or an escape that is none.
    pub fn expand(&self, text: &str) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            rest = &rest[next.len_utf8()..];
            match next {
                '\\' => rest = escape(rest, &mut bytes).ok_or_else(|| format!("no such escape: {text:?}"))?,
                '{' => {
                    let end = closing(rest).ok_or_else(|| format!("no closing brace: {text:?}"))?;
                    bytes.extend(self.named(&rest[..end])?);
                    rest = &rest[end + 1..];
                }
                other => bytes.extend(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        Ok(bytes)
    }

    fn named(&self, name: &str) -> Result<Vec<u8>, String> {
        let forward = self.side == Side::Forward;
        let host = if forward { &self.origin } else { "www.example" };
        let other_host = if forward { &self.other } else { "other.example" };
        let target = |host: &str, path: &str| {
            let path = self.expand(path)?;
            let scheme = if forward { format!("http://{host}").into_bytes() } else { Vec::new() };
            Ok([scheme, path].concat())
        };
        if let Some(repeated) = name.strip_prefix("repeat ") {
            let (count, repeated) = repeated.split_once(' ').ok_or("repeat what?")?;
            let count = String::from_utf8_lossy(&self.expand(count)?).into_owned();
            let count: usize = count.parse().map_err(|_| format!("repeat how often? {count:?}"))?;
            return Ok(self.expand(repeated)?.repeat(count));
        }
        if let Some(offset) = name.strip_prefix("now") {
            let offset: i64 = if offset.is_empty() { 0 } else { offset.parse().map_err(|_| "now and what?")? };
            return Ok(date(offset).into_bytes());
        }
        match name {
            "host" => Ok(host.into()),
            "otherhost" => Ok(other_host.into()),
            "origin" => Ok(self.origin.clone().into()),
            "proxy" => Ok(self.proxy.clone().into()),
            // How many of something that is meant to be too much; more by hand.
            "many" => Ok(std::env::var("TINAJA_MANY").unwrap_or("250000".into()).into()),
            "n" => Ok(self.number.to_string().into()),
            _ if name.starts_with('/') => target(host, name),
            _ if name.starts_with("other/") => target(other_host, &name["other".len()..]),
            column => {
                let column = column.parse::<usize>().ok().and_then(|column| self.row.get(column.wrapping_sub(1)));
                self.expand(column.ok_or_else(|| format!("no such name: {{{name}}}"))?)
            }
        }
    }
}

/// A date that many seconds from now, as HTTP writes it.
fn date(offset_seconds: i64) -> String {
    let away = Duration::from_secs(offset_seconds.unsigned_abs());
    let now = SystemTime::now();
    httpdate::fmt_http_date(if offset_seconds < 0 { now - away } else { now + away })
}

/// Where the brace that is open here is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            '{' => depth += 1,
            _ => {}
        }
    }
    None
}

/// Reads what follows a backslash; what is left behind it.
fn escape<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let (byte, length) = match text.chars().next()? {
        'r' => (b'\r', 1),
        'n' => (b'\n', 1),
        't' => (b'\t', 1),
        '0' => (0, 1),
        'x' => (u8::from_str_radix(text.get(1..3)?, 16).ok()?, 3),
        c @ ('\\' | '{' | '}') => (c as u8, 1),
        _ => return None,
    };
    bytes.push(byte);
    text.get(length..)
}
