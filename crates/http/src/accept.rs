//! One form for fields that say the same in many ways (RFC 9111 4.1 lets a cache compare those).

use http::HeaderName;
use http::header::{ACCEPT_ENCODING, ACCEPT_LANGUAGE};

use crate::judge::is_token;
use crate::limits::MAX_NORMALISED_MEMBERS;

/// The form of a field's value that is the same for all values that mean the same; `None` for fields without one,
/// and for values that are malformed: those are compared byte by byte.
///
/// Accept-Encoding: case, spaces, order, doubles, `x-` names and ways to write a weight play no part. Accept-Language:
/// case, spaces and weights play none; the order stays, since some servers go by it.
pub(crate) fn normal_form(name: &HeaderName, value: &[u8]) -> Option<Vec<u8>> {
    if *name != ACCEPT_ENCODING && *name != ACCEPT_LANGUAGE {
        return None;
    }
    let text = std::str::from_utf8(value).ok()?;
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
        members.push((choice.to_ascii_lowercase(), weight));
    }
    if *name == ACCEPT_ENCODING {
        for (coding, _) in &mut members {
            // The same codings by their old names (RFC 9110 8.4.1).
            if matches!(coding.as_str(), "x-gzip" | "x-compress") {
                coding.drain(..2);
            }
        }
        members.sort();
        members.dedup();
        let contradicts = members.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b));
        if contradicts {
            return None;
        }
    }
    Some(members.iter().map(|(choice, weight)| format!("{choice};{weight},")).collect::<String>().into_bytes())
}

/// `q=0.5` in thousandths (RFC 9110 12.4.2).
fn thousandths(parameter: &str) -> Option<u32> {
    let (name, weight) = parameter.trim_start_matches([' ', '\t']).split_once('=')?;
    let (whole, decimals) = weight.split_once('.').unwrap_or((weight, ""));
    let valid = name.eq_ignore_ascii_case("q") && decimals.len() <= 3 && decimals.bytes().all(|b| b.is_ascii_digit());
    let decimals: u32 = format!("{decimals:0<3}").parse().ok()?;
    match whole {
        "0" if valid => Some(decimals),
        "1" if valid && decimals == 0 => Some(1000),
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
