//! The formats by their names.

use std::fmt;
use std::str::FromStr;

use crate::record::{ParseError, Record};
use crate::{combined, common, json, squid};

/// A format of access logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Squid's native format, see [`squid`].
    #[default]
    Squid,
    /// See [`common`].
    Common,
    /// See [`combined`].
    Combined,
    /// See [`json`].
    Json,
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no format of access logs; there are squid, common, combined and json")]
pub struct UnknownFormat(String);

impl Format {
    /// All of them.
    pub const ALL: [Format; 4] = [Format::Squid, Format::Common, Format::Combined, Format::Json];

    /// Its name, as [`FromStr`] reads it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Squid => "squid",
            Format::Common => "common",
            Format::Combined => "combined",
            Format::Json => "json",
        }
    }

    /// Appends `record` to `line`, newline included.
    pub fn write(self, record: &Record, line: &mut String) {
        match self {
            Format::Squid => squid::write(record, line),
            Format::Common => common::write(record, line),
            Format::Combined => combined::write(record, line),
            Format::Json => json::write(record, line),
        }
    }

    /// Reads one line. Errors: those of the format.
    pub fn parse(self, line: &str) -> Result<Record, ParseError> {
        match self {
            Format::Squid => squid::parse(line),
            Format::Common => common::parse(line),
            Format::Combined => combined::parse(line),
            Format::Json => json::parse(line),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Format::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}
