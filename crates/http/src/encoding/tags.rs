//! Entity tags of encoded forms.
//!
//! Each form has a tag of its own: the origin's, made weak, with the name of the coding behind it, as `W/"x--gzip"` for `"x"`. So a client that
//! says which tag it has says which bytes it has, and a 304 tells it of no others. The origin knows nothing of such tags, and is asked with its own.

use http::header::IF_NONE_MATCH;
use http::{HeaderMap, HeaderValue};

use super::Coding;
use crate::conditional::{EntityTag, tags};

/// What stands between the origin's tag and the name of a coding.
const MARK: &[u8] = b"--";

/// The tag of a response's form in this coding. `None` for what is no tag.
pub fn form_tag(value: &[u8], coding: Coding) -> Option<Vec<u8>> {
    let tag = EntityTag::parse(value)?;
    let opaque = [tag.opaque, MARK, coding.name().as_bytes()].concat();
    Some(written(EntityTag { weak: true, opaque: &opaque }))
}

/// The tag of the response that a form with this tag was made of, as far as it is known: weak. Any other tag as it is. `None` for what is no tag.
pub fn origin_tag(value: &[u8]) -> Option<Vec<u8>> {
    EntityTag::parse(value).map(|tag| written(of_origin(tag)))
}

/// If-None-Match as it is for the origin, and for comparing with its tags. `None` where it names no tag of a form.
pub fn for_origin(request: &HeaderMap) -> Option<Vec<u8>> {
    let all = || tags(request.get_all(IF_NONE_MATCH).iter());
    all().any(|tag| of_origin(tag) != tag).then(|| {
        let all: Vec<_> = all().map(|tag| written(of_origin(tag))).collect();
        all.join(&b", "[..])
    })
}

/// The tag that a 304 names where the one of the response is `own`: that by which the condition matched, as the client has it. So the client takes the 304
/// for what it says of no other bytes. `None` where it is `own` itself, or none matched.
pub fn matched<'a>(if_none_match: impl Iterator<Item = &'a HeaderValue>, own: &[u8]) -> Option<Vec<u8>> {
    let own = EntityTag::parse(own)?;
    let (origins, mut first) = (of_origin(own), None);
    for tag in tags(if_none_match) {
        if tag == own {
            return None;
        }
        if first.is_none() && of_origin(tag).matches_weakly(&origins) {
            first = Some(tag);
        }
    }
    first.map(written)
}

/// The tag of what a form with this tag was made of; any other as it is.
fn of_origin(tag: EntityTag<'_>) -> EntityTag<'_> {
    let without = |coding: Coding| tag.opaque.strip_suffix(coding.name().as_bytes())?.strip_suffix(MARK);
    match Coding::ALL.into_iter().find_map(without).filter(|_| tag.weak) {
        Some(opaque) => EntityTag { opaque, ..tag },
        None => tag,
    }
}

fn written(tag: EntityTag<'_>) -> Vec<u8> {
    let weak = if tag.weak { &b"W/"[..] } else { b"" };
    [weak, b"\"", tag.opaque, b"\""].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Option<Vec<u8>>) -> Option<String> {
        bytes.map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn there_and_back() {
        for (own, form, back) in [
            ("\"x\"", Some("W/\"x--gzip\""), Some("W/\"x\"")),
            ("W/\"x\"", Some("W/\"x--gzip\""), Some("W/\"x\"")),
            ("\"\"", Some("W/\"--gzip\""), Some("W/\"\"")),
            ("x", None, None),
        ] {
            let made = form_tag(own.as_bytes(), Coding::Gzip);
            assert_eq!(text(made.clone()).as_deref(), form, "{own}");
            assert_eq!(text(made.and_then(|made| origin_tag(&made))).as_deref(), back, "{own}");
        }
        // What is strong is no form's.
        assert_eq!(text(origin_tag(b"\"x--gzip\"")).as_deref(), Some("\"x--gzip\""));
    }

    #[test]
    fn what_the_origin_is_asked() {
        for (asked, expected) in [
            (&["W/\"x--gzip\""][..], Some("W/\"x\"")),
            (&["\"a\", W/\"x--br\"", "W/\"y--zstd\""], Some("\"a\", W/\"x\", W/\"y\"")),
            (&["\"x--gzip\""], None),
            (&["W/\"x--deflate\""], None),
            (&["*"], None),
            (&["nonsense"], None),
            (&[], None),
        ] {
            let mut fields = HeaderMap::new();
            for line in asked {
                fields.append(IF_NONE_MATCH, line.parse().unwrap());
            }
            assert_eq!(text(for_origin(&fields)).as_deref(), expected, "{asked:?}");
        }
    }

    #[test]
    fn what_a_304_names() {
        for (asked, own, expected) in [
            ("\"x\"", "\"x\"", None),
            ("\"x\"", "W/\"x--gzip\"", Some("\"x\"")),
            ("W/\"x\"", "\"x\"", Some("W/\"x\"")),
            ("\"y\", W/\"x--br\"", "W/\"x--gzip\"", Some("W/\"x--br\"")),
            ("\"x\", W/\"x--gzip\"", "W/\"x--gzip\"", None),
            ("W/\"x--gzip\"", "\"x\"", Some("W/\"x--gzip\"")),
            ("*", "\"x\"", None),
            ("\"y\"", "\"x\"", None),
        ] {
            let line: HeaderValue = asked.parse().unwrap();
            let named = matched([&line].into_iter(), own.as_bytes());
            assert_eq!(text(named).as_deref(), expected, "{asked} of {own}");
        }
    }
}
