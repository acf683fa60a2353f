//! Cache-Control aimed at some caches only (RFC 9213): such a field stands in for Cache-Control and Expires.

use http::{HeaderMap, HeaderName};

use crate::control::CacheControl;
use crate::structured::{Value, dictionary};
use crate::words::text;

/// The field for caches that speak for an origin (RFC 9213 3): reverse proxies heed it, forward proxies do not.
pub const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

/// The directives that decide about a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Those of the field that was chosen.
    pub control: CacheControl,
    /// Whether that was a targeted field, so that Cache-Control and Expires do not count.
    pub targeted: bool,
}

/// Picks the first field of the target list that is there, well-formed and not empty, and Cache-Control if there is
/// none (RFC 9213 2.2). `targets` names the fields that this cache heeds, the most special first.
pub fn choose(response: &HeaderMap, targets: &[HeaderName]) -> Chosen {
    match targets.iter().find_map(|name| read(response, name)) {
        Some(control) => Chosen { control, targeted: true },
        None => Chosen { control: CacheControl::of(response), targeted: false },
    }
}

/// One targeted field (RFC 9213 2.1), over all its lines; `None` if it is absent, empty or malformed.
fn read(response: &HeaderMap, name: &HeaderName) -> Option<CacheControl> {
    let lines: Vec<&str> = response.get_all(name).iter().map(text).collect();
    let text = lines.join(", ");
    let members = dictionary(&text)?;
    let mut control = CacheControl::default();
    for (name, value) in &members {
        match (*name, value) {
            (_, Value::Boolean(false)) => {}
            // Values of the wrong type are not consumed, except where that would open what the origin closed.
            ("private" | "no-cache", Value::String(fields)) => control.add(name, Some(fields)),
            ("private" | "no-cache" | "no-store", _) => control.add(name, None),
            (_, Value::Boolean(true)) if !has_seconds(name) => control.add(name, None),
            (_, Value::Integer(seconds @ 0..)) if has_seconds(name) => control.add(name, Some(&seconds.to_string())),
            _ => {}
        }
    }
    (!members.is_empty()).then_some(control)
}

fn has_seconds(directive: &str) -> bool {
    matches!(directive, "max-age" | "s-maxage" | "stale-while-revalidate" | "stale-if-error")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Scope;

    fn chosen(fields: &[(&str, &str)]) -> Chosen {
        let headers = fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        choose(&headers, &["special-cache-control".parse().unwrap(), CDN_CACHE_CONTROL])
    }

    #[test]
    fn which_field_counts() {
        for (fields, targeted, seconds) in [
            (vec![("cache-control", "max-age=1")], false, Some(1)),
            (vec![("cache-control", "max-age=1"), ("cdn-cache-control", "max-age=2")], true, Some(2)),
            (vec![("cdn-cache-control", "max-age=2"), ("special-cache-control", "max-age=3")], true, Some(3)),
            (vec![("cdn-cache-control", "max-age=2"), ("special-cache-control", "")], true, Some(2)),
            (vec![("cdn-cache-control", "max-age=2"), ("special-cache-control", "max-age=3,")], true, Some(2)),
            (vec![("other-cache-control", "max-age=2")], false, None),
            (vec![("cache-control", "max-age=1"), ("cdn-cache-control", "MAX-AGE=2")], false, Some(1)),
            (vec![("cache-control", "max-age=1"), ("cdn-cache-control", "max-age=\"2\"")], true, None),
            (vec![("cache-control", "max-age=1"), ("cdn-cache-control", "max-age=2.5")], true, None),
            (vec![("cache-control", "max-age=1"), ("cdn-cache-control", "max-age=-2")], true, None),
            (vec![("cache-control", "max-age=1"), ("cdn-cache-control", "max-age")], true, None),
            (vec![("cache-control", "max-age=1"), ("cdn-cache-control", "&")], false, Some(1)),
            (vec![("cache-control", "max-age=1"), ("cdn-cache-control", "foo")], true, None),
            (vec![("cdn-cache-control", "public"), ("cdn-cache-control", "max-age=2;a=b")], true, Some(2)),
            (vec![("cdn-cache-control", "max-age=1, max-age=2")], true, Some(2)),
            (vec![("cdn-cache-control", "max-age=999999999999999")], true, Some(crate::limits::MAX_SECONDS)),
            (vec![("cdn-cache-control", "max-age=9999999999999999")], false, None),
        ] {
            let found = chosen(&fields);
            assert_eq!((found.targeted, found.control.seconds("max-age")), (targeted, seconds), "{fields:?}");
        }
    }

    #[test]
    fn what_forbids_is_never_lost() {
        for (value, no_store, private) in [
            ("no-store", true, Scope::None),
            ("no-store=?0", false, Scope::None),
            ("no-store=1", true, Scope::None),
            ("private", false, Scope::All),
            ("private=\"a\"", false, Scope::Fields(vec!["a".parse().unwrap()])),
            ("private=a", false, Scope::All),
            ("private=(\"a\")", false, Scope::All),
        ] {
            let control = chosen(&[("cdn-cache-control", value), ("cache-control", "max-age=1")]).control;
            assert_eq!((control.has("no-store"), control.scope("private")), (no_store, private), "{value}");
        }
    }
}
