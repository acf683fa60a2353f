//! One form for fields that say the same in many ways (RFC 9111 4.1 lets a cache compare those).

use std::borrow::Cow;
use std::iter;

use http::HeaderName;
use http::header::{ACCEPT_ENCODING, ACCEPT_LANGUAGE};

use crate::limits::MAX_NORMALISED_MEMBERS;
use crate::words::is_token;

/// The form of a field's value that is the same for all values that mean the same; `None` for fields without one,
/// and for values that are malformed: those are compared byte by byte.
///
/// Accept-Encoding: case, spaces, order, doubles, `x-` names and ways to write a weight play no part. Accept-Language:
/// case, spaces and weights play none; the order stays, since some servers go by it.
pub(crate) fn normal_form(name: &HeaderName, value: &[u8]) -> Option<Vec<u8>> {
    if *name != ACCEPT_ENCODING && *name != ACCEPT_LANGUAGE {
        return None;
    }
    let lower = value.to_ascii_lowercase();
    let members = if *name == ACCEPT_ENCODING { codings(&lower)? } else { weighted(&lower)? };
    let mut form = Vec::with_capacity(lower.len() + 3 * members.len());
    for (choice, weight) in members {
        form.extend_from_slice(choice.as_bytes());
        // No token has a NUL, so that what follows it is a weight.
        form.push(0);
        form.extend_from_slice(&weight.to_le_bytes());
    }
    Some(form)
}

/// The members of such a field in lower case, with their weights in thousandths; `None` for what is malformed.
fn weighted(lower: &[u8]) -> Option<Vec<(&str, u16)>> {
    let text = std::str::from_utf8(lower).ok()?;
    let mut members = Vec::new();
    for member in text.split(',').map(|member| member.trim_matches([' ', '\t'])).filter(|member| !member.is_empty()) {
        if members.len() == MAX_NORMALISED_MEMBERS {
            return None;
        }
        let (choice, weight) = match member.split_once(';') {
            Some((choice, weight)) => (choice.trim_end_matches([' ', '\t']), thousandths(weight)?),
            None => (member, 1000),
        };
        if !is_token(choice.as_bytes()) {
            return None;
        }
        members.push((choice, weight));
    }
    Some(members)
}

/// The Accept-Encoding that says which of the codings that an origin `has` a client takes, whatever else it takes and however it says
/// so: these in their order, or `identity` if it takes none of them. A client without the field may not know what a coding is, so it is
/// asked for `identity` as well. `None` where the field is malformed, and must stay as it is.
///
/// What comes out of it, it leaves as it is.
pub fn folded<'a>(lines: impl Iterator<Item = &'a [u8]>, has: &[String]) -> Option<String> {
    let lines: Vec<&[u8]> = lines.collect();
    let lower = lines.join(&b", "[..]).to_ascii_lowercase();
    let codings = codings(&lower)?;
    let weight = |name: &str| codings.iter().find(|(coding, _)| *coding == name).map(|(_, weight)| *weight);
    let takes = |coding: &&String| weight(coding).or(weight("*")).is_some_and(|weight| weight > 0);
    let mut taken: Vec<&str> = has.iter().filter(takes).map(String::as_str).collect();
    match weight("identity").or(weight("*")) {
        Some(0) => taken.push("identity;q=0"),
        _ if taken.is_empty() => taken.push("identity"),
        _ => {}
    }
    Some(taken.join(", "))
}

/// The one spelling of all Accept-Encodings that mean the same: the best liked first, and of those liked the same br, zstd and gzip before others, which some
/// servers prefer by taking the first. `None` where it has it already, is
/// malformed, or is not there: all these stay as they are.
///
/// Variants are named by what the field means. So an origin is told one spelling of it, or one that goes by the order would choose by that of the
/// first client for all.
pub fn settled<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'static, str>> {
    let (first, second) = (lines.next()?, lines.next());
    let common = COMMON.iter().find(|(common, _)| second.is_none() && common.as_bytes() == first);
    match common {
        Some((_, settled)) => settled.map(Cow::Borrowed),
        None => settled_of(iter::once(first).chain(second).chain(lines).collect()).map(Cow::Owned),
    }
}

/// What most clients send, each with what comes of it, which need not be worked out for each request.
const COMMON: [(&str, Option<&str>); 7] = [
    ("gzip, deflate, br, zstd", Some("br, zstd, gzip, deflate")),
    ("gzip, deflate, br", Some("br, gzip, deflate")),
    ("gzip, deflate", None),
    ("gzip", None),
    ("br, gzip", None),
    ("identity", None),
    ("deflate, gzip, br, zstd", Some("br, zstd, gzip, deflate")),
];

fn settled_of(lines: Vec<&[u8]>) -> Option<String> {
    let lower = lines.join(&b", "[..]).to_ascii_lowercase();
    let mut codings = codings(&lower)?;
    codings.sort_by_key(|(coding, weight)| (std::cmp::Reverse(*weight), rank(coding)));
    let written = |(coding, weight): &(&str, u16)| match weight {
        1000 => (*coding).to_owned(),
        weight => format!("{coding};q={}", format!("0.{weight:03}").trim_end_matches('0').trim_end_matches('.')),
    };
    let settled = codings.iter().map(written).collect::<Vec<_>>().join(", ");
    (lines != [settled.as_bytes()]).then_some(settled)
}

/// The codings that an Accept-Encoding in lower case names, once each, with their weights in thousandths.
pub(crate) fn codings(lower: &[u8]) -> Option<Vec<(&str, u16)>> {
    let mut members = weighted(lower)?;
    settle_codings(&mut members)?;
    Some(members)
}

/// Which of several that a client likes the same it is best served with. Others go by name; deflate is late, since servers and clients differ over what it
/// is (RFC 9110 8.4.1.2).
fn rank(coding: &str) -> u8 {
    match coding {
        "br" => 0,
        "zstd" => 1,
        "gzip" => 2,
        "deflate" => 4,
        "*" => 5,
        "identity" => 6,
        _ => 3,
    }
}

/// Codings by their current names (RFC 9110 8.4.1), in one order and without doubles; `None` where one has two weights.
fn settle_codings(codings: &mut Vec<(&str, u16)>) -> Option<()> {
    for (coding, _) in codings.iter_mut() {
        *coding = match *coding {
            "x-gzip" => "gzip",
            "x-compress" => "compress",
            other => other,
        };
    }
    codings.sort_unstable();
    codings.dedup();
    let contradicts = codings.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b));
    (!contradicts).then_some(())
}

/// `q=0.5` in thousandths (RFC 9110 12.4.2).
fn thousandths(parameter: &str) -> Option<u16> {
    let weight = parameter.trim_start_matches([' ', '\t']).strip_prefix("q=")?;
    let (whole, decimals) = weight.split_once('.').unwrap_or((weight, ""));
    let mut thousandths = 0;
    for (place, digit) in [100, 10, 1].into_iter().zip(decimals.bytes()) {
        thousandths += place * u16::from(char::from(digit).to_digit(10).and_then(|digit| u8::try_from(digit).ok())?);
    }
    match whole {
        _ if decimals.len() > 3 => None,
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_and_other() {
        for (name, one, other, same) in [
            (ACCEPT_ENCODING, "gzip, br", "br,gzip", true),
            (ACCEPT_ENCODING, "gzip", "GZIP ; Q=1.000", true),
            (ACCEPT_ENCODING, "gzip;q=0.5", "gzip;q=0.500", true),
            (ACCEPT_ENCODING, "gzip;q=0", "gzip;q=0.", true),
            (ACCEPT_ENCODING, "x-gzip, gzip,, x-compress", "compress,gzip", true),
            (ACCEPT_ENCODING, "", " , ", true),
            (ACCEPT_ENCODING, "gzip", "gzip;q=0", false),
            (ACCEPT_ENCODING, "gzip;q=0.5", "gzip;q=0.51", false),
            (ACCEPT_ENCODING, "gzip", "gzip, br", false),
            (ACCEPT_ENCODING, "gzip", "*", false),
            (ACCEPT_ENCODING, "gzip", "", false),
            (ACCEPT_ENCODING, "identity", "", false),
            (ACCEPT_LANGUAGE, "en-GB, en;q=0.8", "EN-gb,en; q=0.80", true),
            (ACCEPT_LANGUAGE, "en, de", "de, en", false),
            (ACCEPT_LANGUAGE, "en", "en-GB", false),
        ] {
            let form = |value: &str| normal_form(&name, value.as_bytes());
            assert!(form(one).is_some() && form(other).is_some(), "{one} {other}");
            assert_eq!(form(one) == form(other), same, "{name}: {one} | {other}");
        }
    }

    #[test]
    fn one_spelling() {
        let settled = |value: &str| super::settled([value.as_bytes()].into_iter()).map(Cow::into_owned);
        for (value, expected) in [
            ("gzip, br", "br, gzip"),
            ("GZIP;q=1.0 ,x-gzip,,br", "br, gzip"),
            ("gzip;q=0.50, br;Q=0, a;q=1.000, *;q=0.123", "a, gzip;q=0.5, *;q=0.123, br;q=0"),
            ("gzip, deflate", "gzip, deflate"),
            ("deflate, identity, zstd, gzip, *, br, compress", "br, zstd, gzip, compress, deflate, *, identity"),
            (" , ", ""),
        ] {
            assert_eq!(settled(value).as_deref().unwrap_or(value), expected, "{value}");
            assert_eq!(settled(expected), None, "{expected} has it");
            let form = |value: &str| normal_form(&ACCEPT_ENCODING, value.as_bytes());
            assert_eq!(form(value), form(expected), "it means the same");
        }
        assert_eq!(super::settled([&b"gzip"[..], b"br"].into_iter()).as_deref(), Some("br, gzip"));
        for value in ["br, gzip", "", "identity", "gzip br", "gzip;q=0.5, gzip", "a b"] {
            assert_eq!(settled(value), None, "{value}");
        }
        assert_eq!(super::settled([].into_iter()), None);
    }

    #[test]
    fn what_is_common_is_known() {
        for (common, settled) in COMMON {
            assert_eq!(settled_of(vec![common.as_bytes()]).as_deref(), settled, "{common}");
        }
    }

    #[test]
    fn folded_into_what_there_is() {
        let has = ["br".to_owned(), "gzip".to_owned()];
        let folded = |value: &str| super::folded([value.as_bytes()].into_iter(), &has);
        for (value, expected) in [
            ("gzip, deflate, br", "br, gzip"),
            ("gzip,deflate,br,zstd", "br, gzip"),
            ("br;q=0.1, GZIP;q=1.0", "br, gzip"),
            ("x-gzip", "gzip"),
            ("gzip;q=0, br", "br"),
            ("*", "br, gzip"),
            ("br;q=0, *;q=0.5", "gzip"),
            ("deflate", "identity"),
            ("", "identity"),
            ("identity", "identity"),
            ("*;q=0", "identity;q=0"),
            ("gzip, *;q=0", "gzip, identity;q=0"),
            ("identity;q=0, gzip", "gzip, identity;q=0"),
            ("identity;q=0.5, *;q=0", "identity"),
        ] {
            assert_eq!(folded(value).as_deref(), Some(expected), "{value}");
            assert_eq!(folded(expected).as_deref(), Some(expected), "once more");
        }
        assert_eq!(super::folded([].into_iter(), &has).as_deref(), Some("identity"));
        assert_eq!(super::folded([&b"gzip"[..], b"br"].into_iter(), &has).as_deref(), Some("br, gzip"));
        for value in ["gzip br", "gzip;q=2", "gzip;q=1, gzip;q=0"] {
            assert_eq!(folded(value), None, "{value}");
        }
    }

    #[test]
    fn none() {
        let many = "a,".repeat(MAX_NORMALISED_MEMBERS + 1);
        for value in [
            "gzip br",
            "gzip;q=2",
            "gzip;q=1.001",
            "gzip;q=-1",
            "gzip;q=0.1234",
            "gzip;q=.5",
            "gzip;q=",
            "gzip;q",
            "gzip;x=1",
            "gzip;q=1;q=1",
            "gzip;q=0.5, gzip;q=0.6",
            ";q=1",
            "\"gzip\"",
            "é",
            &many,
        ] {
            assert_eq!(normal_form(&ACCEPT_ENCODING, value.as_bytes()), None, "{value}");
        }
        assert_eq!(normal_form(&ACCEPT_ENCODING, b"\xff"), None);
        assert_eq!(normal_form(&http::header::COOKIE, b"a"), None);
    }
}
