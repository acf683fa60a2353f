//! Cache-Control (RFC 9111 5.2), and what a request says about caching.

use http::header::{CACHE_CONTROL, PRAGMA};
use http::{HeaderMap, HeaderName};

use crate::limits::MAX_SECONDS;
use crate::words::is_token;

/// Fields without which a stored response would mean something else. A `private` or `no-cache` that names one of them
/// counts for the whole response, since it cannot be stored without it.
const NEEDED: [&str; 14] = [
    "age",
    "cache-control",
    "content-encoding",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expires",
    "last-modified",
    "location",
    "transfer-encoding",
    "vary",
];

/// The directives of a Cache-Control field, over all its lines. Holds no more than the field itself.
///
/// Names are compared without case. A directive with seconds that comes twice with different values, or with what is
/// no number, counts as 0: in doubt a response is stale (RFC 9111 4.2.1).
///
/// Of what is no directive, as `no-cache; no-store` or `max-age =3600`, the words count that restrict the use of a response,
/// and a lifetime counts as 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheControl {
    directives: Vec<(String, Option<String>)>,
    is_malformed: bool,
}

/// What counts of a field that is malformed.
const RESTRICTING: [&str; 7] =
    ["no-store", "no-cache", "private", "must-revalidate", "proxy-revalidate", "max-age", "s-maxage"];

/// A directive that may name the fields it is about (RFC 9111 5.2.2.4 and 5.2.2.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The directive is not there.
    None,
    /// It is about these fields only: the rest of the response may be stored and used without them.
    Fields(Vec<HeaderName>),
    /// It is about the whole response.
    All,
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
                match directive.split_once('=') {
                    Some((name, value)) if is_token(name.trim_ascii_start().as_bytes()) => {
                        let value = value.trim();
                        if !(is_token(value.as_bytes()) || is_quoted(value)) {
                            found.add_malformed(value);
                        }
                        found.add(name, Some(value.trim_matches('"')));
                    }
                    None if directive.trim().is_empty() || is_token(directive.trim().as_bytes()) => {
                        found.add(directive, None)
                    }
                    _ => found.add_malformed(directive),
                }
            }
        }
        found
    }

    pub(crate) fn add(&mut self, name: &str, value: Option<&str>) {
        let name = name.trim();
        if !name.is_empty() {
            self.directives.push((name.to_ascii_lowercase(), value.map(str::to_owned)));
        }
    }

    /// Words of what is no directive; what stands behind them is not known to belong to them.
    fn add_malformed(&mut self, text: &str) {
        self.is_malformed = true;
        for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')) {
            if RESTRICTING.iter().any(|name| name.eq_ignore_ascii_case(word)) {
                self.add(word, None);
            }
        }
    }

    /// Whether a part of the field is no directive.
    pub fn is_malformed(&self) -> bool {
        self.is_malformed
    }

    fn values(&self, name: &str) -> impl Iterator<Item = Option<&str>> {
        self.directives.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_deref())
    }

    /// Whether a directive is there, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    /// The seconds of a directive, at most [`MAX_SECONDS`]: 0 for what is no whole number and for values that differ.
    pub fn seconds(&self, name: &str) -> Option<u64> {
        let mut values = self.values(name).map(|value| seconds_of(value).unwrap_or(0));
        let first = values.next()?;
        Some(if values.all(|value| value == first) { first } else { 0 })
    }

    /// What `private` or `no-cache` is about. Where it comes without fields too, where a name in it is none, and
    /// where a field is named that the response needs, it is about all of the response: the strictest reading.
    pub fn scope(&self, name: &str) -> Scope {
        let mut fields = Vec::new();
        for value in self.values(name) {
            let Some(value) = value else { return Scope::All };
            for field in value.split(',').map(str::trim).filter(|field| !field.is_empty()) {
                match field.parse::<HeaderName>() {
                    Ok(field) if !NEEDED.contains(&field.as_str()) => fields.push(field),
                    _ => return Scope::All,
                }
            }
            if fields.is_empty() {
                return Scope::All;
            }
        }
        if fields.is_empty() { Scope::None } else { Scope::Fields(fields) }
    }
}

/// Delta-seconds (RFC 9111 1.2.2): digits only; what does not fit is large.
fn seconds_of(value: Option<&str>) -> Option<u64> {
    let value = value.filter(|value| !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(value.parse().unwrap_or(MAX_SECONDS).min(MAX_SECONDS))
}

/// A quoted string, which has no quote in its midst: those end it.
fn is_quoted(value: &str) -> bool {
    value.len() > 1 && value.starts_with('"') && value.ends_with('"')
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
    /// A stored answer may be stale for this long, in seconds, [`MAX_SECONDS`] if for any time (`max-stale`).
    pub max_stale: Option<u64>,
    /// A stored answer must stay fresh for this long, in seconds (`min-fresh`).
    pub min_fresh: Option<u64>,
    /// A stored answer may be stale for this long if the origin fails, in seconds (`stale-if-error`, RFC 5861 4).
    pub stale_if_error: Option<u64>,
    /// Only a stored answer will do; 504 otherwise (`only-if-cached`).
    pub only_if_cached: bool,
}

/// Reads a request's directives. Pragma counts only where there is no Cache-Control (RFC 9111 5.4).
///
/// Of values that differ, and of those that are none, the strictest reading counts: the least age, the least
/// staleness, the longest freshness.
pub fn request_directives(headers: &HeaderMap) -> RequestDirectives {
    if !headers.contains_key(CACHE_CONTROL) {
        return RequestDirectives {
            revalidate: CacheControl::named(headers, &PRAGMA).has("no-cache"),
            ..RequestDirectives::default()
        };
    }
    let control = CacheControl::of(headers);
    let max_age = control.seconds("max-age");
    // Without a value any staleness will do (RFC 9111 5.2.1.2).
    let stale = |value: Option<&str>| if value.is_none() { MAX_SECONDS } else { seconds_of(value).unwrap_or(0) };
    RequestDirectives {
        no_store: control.has("no-store"),
        revalidate: control.has("no-cache") || max_age == Some(0),
        max_age,
        max_stale: control.values("max-stale").map(stale).min(),
        min_fresh: control.values("min-fresh").map(|value| seconds_of(value).unwrap_or(MAX_SECONDS)).max(),
        stale_if_error: control.values("stale-if-error").map(|value| seconds_of(value).unwrap_or(0)).min(),
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
            (vec!["public,, max-age= 60 ,"], Some(60)),
            (vec!["public, max-age =60"], Some(0)),
            (vec!["public; max-age=60"], Some(0)),
            (vec!["max-age=60; public"], Some(0)),
            (vec!["max-age=60, no-store;"], Some(60)),
            (vec!["max-age=60, max-age=60"], Some(60)),
            (vec!["max-age=60, max-age=30"], Some(0)),
            (vec!["max-age=60", "max-age=90"], Some(0)),
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

    /// `no-cache; no-store` was one directive that nobody knows, and the response was kept for a guessed time.
    #[test]
    fn what_is_no_directive_restricts_and_allows_nothing() {
        for (value, there, malformed) in [
            ("no-cache; no-store", vec!["no-cache", "no-store"], true),
            ("max-age=600, no-store;", vec!["max-age", "no-store"], true),
            ("public; private", vec!["private"], true),
            ("x-no-store y", vec![], true),
            ("max-age=0; private", vec!["max-age", "private"], true),
            ("x=1; no-store", vec!["x", "no-store"], true),
            ("x=\"a\"; no-store", vec!["x", "no-store"], true),
            ("@, =5", vec![], true),
            ("public, immutable, x=\"; no-store\",,", vec!["public", "immutable", "x"], false),
        ] {
            let control = CacheControl::of(&headers(CACHE_CONTROL, &[value]));
            let all = ["no-store", "no-cache", "private", "public", "immutable", "max-age", "x"];
            let mut found: Vec<_> = all.into_iter().filter(|name| control.has(name)).collect();
            let mut expected = there.clone();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!((found, control.is_malformed()), (expected, malformed), "{value}");
        }
        assert_eq!(CacheControl::of(&headers(CACHE_CONTROL, &["private; x"])).scope("private"), Scope::All);
    }

    #[test]
    fn scopes() {
        let fields = |names: &[&str]| Scope::Fields(names.iter().map(|name| name.parse().unwrap()).collect());
        for (values, expected) in [
            (vec!["max-age=60"], Scope::None),
            (vec!["private"], Scope::All),
            (vec!["private=\"Set-Cookie\""], fields(&["set-cookie"])),
            (vec!["Private=\"a, B ,,c\""], fields(&["a", "b", "c"])),
            (vec!["private=a"], fields(&["a"])),
            (vec!["private=\"a\"", "private=b"], fields(&["a", "b"])),
            (vec!["private=\"a\"", "private"], Scope::All),
            (vec!["private, private=\"a\""], Scope::All),
            (vec!["private=\"\""], Scope::All),
            (vec!["private=\" ,\""], Scope::All),
            (vec!["private=\"a b\""], Scope::All),
            (vec!["private=\"a, Content-Type\""], Scope::All),
            (vec!["private=\"vary\""], Scope::All),
            (vec!["x=\"private\""], Scope::None),
        ] {
            assert_eq!(CacheControl::of(&headers(CACHE_CONTROL, &values)).scope("private"), expected, "{values:?}");
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
        for (value, max_stale, min_fresh, stale_if_error) in [
            ("max-stale", Some(MAX_SECONDS), None, None),
            ("max-stale=5, min-fresh=7", Some(5), Some(7), None),
            ("max-stale, max-stale=5", Some(5), None, None),
            ("max-stale=x, min-fresh=x, stale-if-error=x", Some(0), Some(MAX_SECONDS), Some(0)),
            ("min-fresh=3, min-fresh=9, stale-if-error=9, stale-if-error=3", None, Some(9), Some(3)),
            ("stale-if-error=99999999999999999999", None, None, Some(MAX_SECONDS)),
        ] {
            let read = read(value);
            let found = (read.max_stale, read.min_fresh, read.stale_if_error);
            assert_eq!(found, (max_stale, min_fresh, stale_if_error), "{value}");
        }
        let mut both = headers(PRAGMA, &["no-cache"]);
        both.insert(CACHE_CONTROL, "max-age=9".parse().unwrap());
        assert!(!request_directives(&both).revalidate, "Cache-Control overrides Pragma");
        assert_eq!(request_directives(&HeaderMap::new()), RequestDirectives::default());
    }
}
