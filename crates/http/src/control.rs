//! Cache-Control (RFC 9111 5.2), and what a request says about caching.

use std::collections::HashMap;

use http::header::{CACHE_CONTROL, PRAGMA};
use http::{HeaderMap, HeaderName};

use crate::limits::MAX_SECONDS;

/// The directives of a Cache-Control field, over all its lines.
///
/// Names are compared without case. A directive that comes twice with different values keeps the smaller number,
/// and what is no number counts as 0: in doubt a response is stale (RFC 9111 4.2.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheControl {
    directives: HashMap<String, Option<String>>,
}

impl CacheControl {
    /// Reads the field from a message's headers; no field means no directives.
    pub fn of(headers: &HeaderMap) -> CacheControl {
        CacheControl::named(headers, &CACHE_CONTROL)
    }

    fn named(headers: &HeaderMap, name: &HeaderName) -> CacheControl {
        let mut found = CacheControl::default();
        for value in headers.get_all(name) {
            // Bytes beyond ASCII can only stand in values; they make a value bad, not the whole field absent.
            for directive in split_outside_quotes(&String::from_utf8_lossy(value.as_bytes())) {
                found.add(directive);
            }
        }
        found
    }

    fn add(&mut self, directive: &str) {
        let (name, value) = match directive.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim().trim_matches('"').to_owned())),
            None => (directive.trim(), None),
        };
        if name.is_empty() {
            return;
        }
        let slot = self.directives.entry(name.to_ascii_lowercase());
        slot.and_modify(|old| {
            if seconds_of(value.as_deref()) < seconds_of(old.as_deref()) {
                old.clone_from(&value);
            }
        })
        .or_insert(value);
    }

    /// Whether a directive is there, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.directives.contains_key(name)
    }

    /// The seconds of a directive, at most [`MAX_SECONDS`]; a value that is no whole number is 0.
    pub fn seconds(&self, name: &str) -> Option<u64> {
        self.directives.get(name).map(|value| seconds_of(value.as_deref()))
    }
}

fn seconds_of(value: Option<&str>) -> u64 {
    let Some(value) = value.filter(|value| !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())) else {
        return 0;
    };
    // All digits: what does not fit is large.
    value.parse().unwrap_or(MAX_SECONDS).min(MAX_SECONDS)
}

fn split_outside_quotes(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let mut escaped = false;
    text.split(move |c: char| {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ',' => return !quoted,
            _ => {}
        }
        false
    })
}

/// What a request says about caching (RFC 9111 5.2.1 and 5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// The answer must not be stored (`no-store`).
    pub no_store: bool,
    /// A stored answer must be validated first (`no-cache`, `max-age=0`, `Pragma: no-cache`).
    pub revalidate: bool,
    /// A stored answer may be this old, in seconds (`max-age`).
    pub max_age: Option<u64>,
    /// Only a stored answer will do; 504 otherwise (`only-if-cached`).
    pub only_if_cached: bool,
}

/// Reads a request's directives. Pragma counts only where there is no Cache-Control (RFC 9111 5.4).
pub fn request_directives(headers: &HeaderMap) -> RequestDirectives {
    if !headers.contains_key(CACHE_CONTROL) {
        return RequestDirectives {
            revalidate: CacheControl::named(headers, &PRAGMA).has("no-cache"),
            ..RequestDirectives::default()
        };
    }
    let control = CacheControl::of(headers);
    let max_age = control.seconds("max-age");
    RequestDirectives {
        no_store: control.has("no-store"),
        revalidate: control.has("no-cache") || max_age == Some(0),
        max_age,
        only_if_cached: control.has("only-if-cached"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn seconds() {
        for (values, expected) in [
            (vec!["max-age=60"], Some(60)),
            (vec!["MAX-AGE=\"60\""], Some(60)),
            (vec!["public, max-age = 60 ,"], Some(60)),
            (vec!["max-age=60, max-age=30"], Some(30)),
            (vec!["max-age=60", "max-age=90"], Some(60)),
            (vec!["max-age=60", "max-age=x"], Some(0)),
            (vec!["max-age"], Some(0)),
            (vec!["max-age=-1"], Some(0)),
            (vec!["max-age=1.5"], Some(0)),
            (vec!["max-age=+5"], Some(0)),
            (vec!["max-age=99999999999999999999"], Some(MAX_SECONDS)),
            (vec!["private=\"a, max-age=9\""], None),
            (vec!["x=\"a\\\", max-age=1\", max-age=2"], Some(2)),
            (vec![], None),
        ] {
            assert_eq!(CacheControl::of(&headers(CACHE_CONTROL, &values)).seconds("max-age"), expected, "{values:?}");
        }
    }

    #[test]
    fn requests() {
        let read = |value: &str| request_directives(&headers(CACHE_CONTROL, &[value]));
        assert!(read("no-store").no_store);
        assert!(read("no-cache").revalidate);
        assert!(read("max-age=0").revalidate);
        assert!(read("only-if-cached").only_if_cached);
        assert_eq!(read("max-age=9"), RequestDirectives { max_age: Some(9), ..RequestDirectives::default() });
        assert!(request_directives(&headers(PRAGMA, &["no-cache"])).revalidate);
        let mut both = headers(PRAGMA, &["no-cache"]);
        both.insert(CACHE_CONTROL, "max-age=9".parse().unwrap());
        assert!(!request_directives(&both).revalidate, "Cache-Control overrides Pragma");
        assert_eq!(request_directives(&HeaderMap::new()), RequestDirectives::default());
    }
}
