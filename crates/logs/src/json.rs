//! One JSON object a line, with every field of [`Record`] by its name. What an answer had not, is left out.
//!
//! The only format that loses nothing: what is read is what was written.

use std::fmt::Write;

use crate::record::{ParseError, Record};

/// Appends `record` to `line`, newline included. All of it is printable ASCII.
pub fn write(record: &Record, line: &mut String) {
    // A record is numbers and texts, all of which JSON can say.
    let object = serde_json::to_string(record).unwrap_or_default();
    for c in object.chars() {
        if c == '\u{7f}' || !c.is_ascii() {
            // Such characters stand in texts only; some of them move a terminal's cursor.
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing into a String cannot fail.
                let _ = write!(line, "\\u{unit:04x}");
            }
        } else {
            line.push(c);
        }
    }
    line.push('\n');
}

/// Reads one line. Further fields are ignored; `time_ms`, `method`, `url` and `status` must be there.
///
/// Errors: [`ParseError`], which does not say where.
pub fn parse(line: &str) -> Result<Record, ParseError> {
    serde_json::from_str(line).map_err(|_| ParseError { format: "JSON", what: "an object with a record's fields" })
}
