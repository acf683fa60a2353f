//! The fields that the Common and the Combined format have both.

use std::borrow::Cow;
use std::fmt::Write;

use crate::civil;
use crate::escape::{quoted, word};
use crate::record::Record;

/// Appends them to `line`.
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

/// A field's text, or a dash for none.
pub(crate) fn or_dash(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.is_empty() { "-".into() } else { text }
}
