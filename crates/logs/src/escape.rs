//! Escaping: one request is one line, and its fields stay where they are.

use std::borrow::Cow;
use std::fmt::Write;

/// Percent-encodes what may not stand in a field that ends at a space: controls, spaces, DEL and all that is not
/// ASCII. What is escaped already stays as it is, so that escaping twice changes nothing.
pub fn word(text: &str) -> Cow<'_, str> {
    escape_where(text, |byte| !byte.is_ascii_graphic(), |out, byte| write!(out, "%{byte:02X}"))
}

/// Escapes what may not stand between double quotes: controls, `"`, `\` and all that is not ASCII, as `\xHH`.
pub fn quoted(text: &str) -> Cow<'_, str> {
    let special = |byte: u8| byte == b'"' || byte == b'\\' || !(byte.is_ascii_graphic() || byte == b' ');
    escape_where(text, special, |out, byte| write!(out, "\\x{byte:02x}"))
}

fn escape_where(
    text: &str,
    special: impl Fn(u8) -> bool,
    write: impl Fn(&mut String, u8) -> std::fmt::Result,
) -> Cow<'_, str> {
    if !text.bytes().any(&special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if special(byte) {
            // Writing into a String cannot fail.
            let _ = write(&mut out, byte);
        } else {
            out.push(char::from(byte));
        }
    }
    Cow::Owned(out)
}

/// Reads up to the closing quote what [`quoted`] or another server wrote (`\"`, `\\`, `\xHH`). `text` starts behind
/// the opening quote. Returns the text and what follows the closing quote; `None` without one.
pub fn unquote(text: &str) -> Option<(String, &str)> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    loop {
        match *bytes.get(at)? {
            b'"' => return Some((String::from_utf8_lossy(&out).into_owned(), text.get(at + 1..)?)),
            b'\\' => match *bytes.get(at + 1)? {
                b'x' if hex_at(text, at + 2).is_some() => {
                    out.push(hex_at(text, at + 2)?);
                    at += 4;
                }
                other => {
                    out.push(other);
                    at += 2;
                }
            },
            other => {
                out.push(other);
                at += 1;
            }
        }
    }
}

fn hex_at(text: &str, at: usize) -> Option<u8> {
    u8::from_str_radix(text.get(at..at + 2)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_what_could_break_a_line() {
        for (from, to) in [
            ("http://a/b?c=%20", "http://a/b?c=%20"),
            ("/a b", "/a%20b"),
            ("/a\r\nGET /x", "/a%0D%0AGET%20/x"),
            ("/\u{1b}[31m", "/%1B[31m"),
            ("/\u{7f}\u{0}", "/%7F%00"),
            ("/é", "/%C3%A9"),
        ] {
            assert_eq!(word(from), to);
            assert_eq!(word(&word(from)), to, "escaping twice");
        }
    }

    #[test]
    fn quotes_come_back_whole() {
        for text in ["", "Mozilla/5.0 (X11)", "a\"b\\c", "\r\n\u{1b}[0m\u{7f}", "é\\x41", "\\"] {
            let line = format!("{}\" rest", quoted(text));
            assert!(line.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{line}");
            assert_eq!(unquote(&line), Some((text.to_owned(), " rest")));
        }
        assert_eq!(unquote("never closed\\"), None);
        assert_eq!(unquote("\\\"\\\\\\q\""), Some(("\"\\q".to_owned(), "")));
    }
}
