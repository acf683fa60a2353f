//! Values as people write them, in flags and in the configuration file alike.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use http::HeaderName;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// A file, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOrOff(pub Option<PathBuf>);

/// A number of bytes: `4GiB`, `512MiB`, `100kB`, `1.5GB`, `4096`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// How large a disk of the laboratory is: a [`Size`], or a part of what a log's objects take, as in `10%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskPart(pub tinaja_lab::DiskPart);

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

/// What to say on stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(pub String);

/// A time limit: `10s`, `1m 30s`, `500ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub Duration);

/// A text in the configuration file that is read as something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<T>(pub T);

/// A number from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number<const LEAST: u32, const MOST: u32>(pub u32);

/// A field of requests by which ids are told: none that means something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldName(pub HeaderName);

/// How the program's own log is written: as text, or as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormatName {
    /// For people.
    Text,
    /// An object a line.
    Json,
}

impl FromStr for FieldName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.parse::<HeaderName>().ok();
        // Whatever else is told in fields of requests does not begin so.
        let fits = name.filter(|name| name.as_str().starts_with("x-") || name.as_str().ends_with("-id"));
        let fits = fits.filter(|name| !name.as_str().starts_with("x-forwarded"));
        fits.map(FieldName).ok_or_else(|| {
            format!(
                "{text:?} cannot be the field for ids; use X-Request-Id, or another name that begins with X- or ends with -Id"
            )
        })
    }
}

impl FromStr for LogFormatName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(LogFormatName::Text),
            "json" => Ok(LogFormatName::Json),
            _ => Err(format!("{text:?} is not a log format; use text or json")),
        }
    }
}

impl FromStr for FileOrOff {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("name a file, or use off".to_owned()),
            "off" => Ok(FileOrOff(None)),
            file => Ok(FileOrOff(Some(PathBuf::from(file)))),
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MOST: u64 = 1 << 62;
        match ByteSize::from_str(text) {
            Ok(size) if size.as_u64() <= MOST => Ok(Size(size.as_u64())),
            Ok(_) => Err("the size is larger than any disk".to_owned()),
            Err(_) => Err("a size is a number and a unit, as in 4GiB, 512MiB or 100kB".to_owned()),
        }
    }
}

impl FromStr for DiskPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let disk = match text.strip_suffix('%') {
            Some(number) => number
                .trim()
                .parse()
                .ok()
                .filter(|part| (0.001..=1000.0).contains(part))
                .map(tinaja_lab::DiskPart::Percent),
            None => {
                text.parse().ok().filter(|Size(bytes)| *bytes > 0).map(|Size(bytes)| tinaja_lab::DiskPart::Bytes(bytes))
            }
        };
        let disk = disk
            .ok_or("a disk is a size, as in 512MiB, or a part of what the log's objects take, from 0.001% to 1000%")?;
        Ok(DiskPart(disk))
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |_| format!("{text:?} is not an IP address and a port, as in 127.0.0.1:3128 or [::1]:3128");
        text.parse().map(Address).map_err(bad)
    }
}

impl FromStr for Filter {
    type Err = String;

    /// A bare word must be a level, or a misspelt one would silently name a part of the program.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_level = |part: &str| !part.is_empty() && LevelFilter::from_str(part).is_ok();
        let meant = text.split(',').all(|part| part.contains('=') || is_level(part));
        if meant && EnvFilter::try_new(text).is_ok() {
            Ok(Filter(text.to_owned()))
        } else {
            Err("log levels are error, warn, info, debug, trace and off, or MODULE=LEVEL for one module".to_owned())
        }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MOST: Duration = Duration::from_secs(24 * 3600);
        match humantime::parse_duration(text) {
            Ok(time) if !time.is_zero() && time <= MOST => Ok(Limit(time)),
            Ok(_) => Err("a time limit must be more than 0 and at most 24h".to_owned()),
            Err(_) => Err("a time is a number and a unit, as in 10s, 5m or 500ms".to_owned()),
        }
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Text).map_err(D::Error::custom)
    }
}

impl<'de, const LEAST: u32, const MOST: u32> Deserialize<'de> for Number<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        let within = u32::try_from(number).ok().filter(|number| (LEAST..=MOST).contains(number));
        within.map(Number).ok_or_else(|| D::Error::custom(format!("{number} is not from {LEAST} to {MOST}")))
    }
}

/// A value, or several in a list; none by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneOrMore<T>(pub Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        OneOrMore(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Several(PhantomData)).map(OneOrMore)
    }
}

/// Tells a list from a single value by what comes. An untagged enum would, too, but could not say what is wrong.
struct Several<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Several<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or a list of values")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
        Ok(vec![T::deserialize(serde::de::value::StrDeserializer::new(text))?])
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Vec<T>, E> {
        Ok(vec![T::deserialize(serde::de::value::I64Deserializer::new(number))?])
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_or_refused() {
        let size = |text: &str| text.parse::<Size>().map(|Size(bytes)| bytes);
        for (text, bytes) in [("4GiB", 4 << 30), ("512MiB", 512 << 20), ("100kB", 100_000), ("1.5GB", 1_500_000_000)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for (text, bytes) in [("4096", 4096), ("0", 0)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1GiB", "4 apples", "1e9999", "nan", "99999999999EiB", "4GiBs"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn disks_are_sizes_or_percents() {
        use tinaja_lab::DiskPart::{Bytes, Percent};
        let disk = |text: &str| text.parse::<DiskPart>().map(|DiskPart(disk)| disk);
        for (text, wanted) in
            [("10%", Percent(10.0)), ("0.5 %", Percent(0.5)), ("4MiB", Bytes(4 << 20)), ("4096", Bytes(4096))]
        {
            assert_eq!(disk(text), Ok(wanted), "{text}");
        }
        for text in ["", "%", "0%", "-1%", "nan%", "inf%", "1001%", "0", "10 apples", "99999999999EiB"] {
            assert!(disk(text).is_err(), "{text}");
        }
    }

    #[test]
    fn levels_are_read_or_refused() {
        for text in ["info", "off", "tinaja_store=debug,warn", "WARN"] {
            assert!(text.parse::<Filter>().is_ok(), "{text}");
        }
        for text in ["chatty", "", "info,chatty", "tinaja_store=loud"] {
            assert!(text.parse::<Filter>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_read_or_refused() {
        for (text, ms) in [("10s", 10_000), ("1m 30s", 90_000), ("500ms", 500), ("24h", 86_400_000)] {
            assert_eq!(text.parse(), Ok(Limit(Duration::from_millis(ms))), "{text}");
        }
        for text in ["", "10", "0s", "25h", "-1s", "soon", "10 apples"] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
    }
}
