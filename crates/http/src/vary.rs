//! Which requests share a stored response (RFC 9111 4.1, RFC 9110 12.5.5).

use http::header::{COOKIE, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE, VARY};
use http::{HeaderMap, HeaderName};

use crate::accept::normal_form;
use crate::limits::{MAX_VARIANTS, MAX_VARY_FIELDS};
use crate::words::list_members;
use crate::{hops, misleading};

/// Fields that ask for less than the whole, or for it on a condition. Who fetches for the store asks for all of it; the client's
/// conditions are judged on what comes.
pub const NOT_FETCHED_WITH: [HeaderName; 6] =
    [RANGE, IF_RANGE, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE];

/// The fields a response varies by, in one order and without doubles; empty without Vary. `None` where the response
/// must not be stored: `Vary: *`, a member that is no field name, or more than [`MAX_VARY_FIELDS`].
pub fn fields(response: &HeaderMap) -> Option<Vec<HeaderName>> {
    let mut names = Vec::new();
    for value in response.get_all(VARY) {
        // A value we cannot read may name anything.
        value.to_str().ok()?;
    }
    for member in list_members(response, &VARY) {
        if names.len() == MAX_VARY_FIELDS || member == "*" {
            return None;
        }
        names.push(member.parse::<HeaderName>().ok()?);
    }
    names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    names.dedup();
    Some(names)
}

/// The key of the variant that a request selects: a hash of the named fields of the request, each with its length,
/// so that no value can pass for another. Accept-Encoding and Accept-Language count by what they mean, all others by
/// their bytes. `None` where the response does not vary (or may not be stored at all).
///
/// The origin has answered what is forwarded, so that is what counts: a field that ends at this hop, or that the proxy takes away or
/// sets, is as one that the client has not sent. And some origins do not tell `accept_language` from `accept-language`: a field in such a
/// spelling counts as well, apart from the one that is meant.
pub fn key(response: &HeaderMap, request: &HeaderMap) -> Option<[u8; 16]> {
    let names = fields(response)?;
    if names.is_empty() {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    let ends_here = hops::hop_by_hop(request);
    let has_other_spelling = |name: &HeaderName| name.as_str().contains('_');
    let any = names.iter().any(has_other_spelling);
    let spelt_otherwise: Vec<&HeaderName> = request.keys().filter(|name| any || has_other_spelling(name)).collect();
    for name in &names {
        part(&mut hasher, name.as_str().as_bytes());
        // Several lines of a field mean the same as one line with commas (RFC 9110 5.2).
        let mut value = Vec::new();
        let sent = is_sent(request, name, &ends_here);
        let lines = request.get_all(name).iter().filter(|_| sent);
        for (index, line) in lines.enumerate() {
            if index > 0 {
                value.extend_from_slice(b", ");
            }
            value.extend_from_slice(line.as_bytes().trim_ascii());
        }
        // An absent field differs from an empty one (RFC 9111 4.1), and a value's normal form from its bytes.
        let (form, value) = match normal_form(name, &value) {
            _ if !sent => (0, value),
            None => (1, value),
            Some(normal) => (2, normal),
        };
        hasher.update(&[form]);
        part(&mut hasher, &value);
        for other in &spelt_otherwise {
            let is_same = *other != name && other.as_str().replace('_', "-") == name.as_str().replace('_', "-");
            for line in request.get_all(*other).iter().filter(|_| is_same && is_sent(request, other, &ends_here)) {
                hasher.update(&[3]);
                part(&mut hasher, line.as_bytes());
            }
        }
    }
    let mut key = [0; 16];
    hasher.finalize_xof().fill(&mut key);
    Some(key)
}

/// Whether an origin whose answer may be stored gets this field of a request.
fn is_sent(request: &HeaderMap, name: &HeaderName, ends_here: &[HeaderName]) -> bool {
    request.contains_key(name)
        && !ends_here.contains(name)
        && !NOT_FETCHED_WITH.contains(name)
        && !misleading::is_misleading(name, true)
}

/// Whether a response varies by Cookie and was asked for with one. Each client has a Cookie of its own, so each would have a variant of its
/// own, which nobody asks for again.
pub fn is_of_one_cookie(response: &HeaderMap, request: &HeaderMap) -> bool {
    let has_cookie = request.contains_key(COOKIE) && is_sent(request, &COOKIE, &hops::hop_by_hop(request));
    has_cookie && fields(response).is_some_and(|names| names.contains(&COOKIE))
}

fn part(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// Where a variant belongs among those of its URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariantPlace {
    /// It is known, at this place in the list.
    Known(usize),
    /// It is new, and there is room.
    New,
    /// It is new, and takes the place of this one, which is to be forgotten.
    Instead(usize),
}

/// Finds the place of a variant among the `known` ones of its URL, which are ordered by their last use, the longest
/// ago first. No URL has more than [`MAX_VARIANTS`]: beyond that the one unused for longest leaves, so that a client
/// that invents values pushes out variants of one URL, and nothing else.
pub fn place(known: &[[u8; 16]], variant: &[u8; 16]) -> VariantPlace {
    match known.iter().position(|other| other == variant) {
        Some(at) => VariantPlace::Known(at),
        None if known.len() < MAX_VARIANTS => VariantPlace::New,
        None => VariantPlace::Instead(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    fn of(vary: &[&str], request: &[(&str, &str)]) -> Option<[u8; 16]> {
        let vary: Vec<_> = vary.iter().map(|value| ("vary", *value)).collect();
        key(&headers(&vary), &headers(request))
    }

    #[test]
    fn what_is_not_stored() {
        let many = (0..=MAX_VARY_FIELDS).map(|n| format!("x-{n}")).collect::<Vec<_>>().join(",");
        for vary in ["*", "accept, *", "a b", "é", &many] {
            assert_eq!(fields(&headers(&[("vary", vary)])), None, "{vary}");
        }
        assert_eq!(fields(&headers(&[])), Some(vec![]));
        assert_eq!(fields(&headers(&[("vary", "B, a,,b")])).unwrap(), ["a", "b"]);
    }

    #[test]
    fn same_variant() {
        let one = of(&["accept-encoding"], &[("accept-encoding", "gzip")]);
        assert!(one.is_some());
        assert_eq!(one, of(&["Accept-Encoding"], &[("accept-encoding", " gzip "), ("cookie", "x")]));
        assert_eq!(of(&["a, b"], &[("a", "1")]), of(&["b", "a"], &[("a", "1")]));
        assert_eq!(of(&["a"], &[("a", "1"), ("a", "2")]), of(&["a"], &[("a", "1, 2")]));
        assert_eq!(of(&[], &[("a", "1")]), None);
    }

    /// `Accept-Language: de` with `Connection: Accept-Language` was the name of what the origin had answered without it.
    #[test]
    fn what_is_forwarded_counts() {
        let named = [("accept-language", "de"), ("connection", "Accept-Language")];
        assert_eq!(of(&["accept-language"], &named), of(&["accept-language"], &[]));
        assert_ne!(of(&["accept-language"], &named), of(&["accept-language"], &[("accept-language", "de")]));
        for taken in ["x-forwarded-host", "x_forwarded_host", "proxy", "te", "range", "if-none-match"] {
            assert_eq!(of(&[taken], &[(taken, "1")]), of(&[taken], &[]), "{taken}");
        }
        // These stay, whatever Connection says.
        let named = [("authorization", "a"), ("connection", "authorization")];
        assert_ne!(of(&["authorization"], &named), of(&["authorization"], &[]));
    }

    /// What CGI does not tell apart: an origin had answered `Accept_Language: de`, and everybody without either got it.
    #[test]
    fn another_spelling_counts() {
        let by = |request: &[(&str, &str)]| of(&["accept-language, user-agent"], request);
        let german = by(&[("accept_language", "de")]);
        for other in [&[][..], &[("accept-language", "de")], &[("accept_language", "en")], &[("user_agent", "de")]] {
            assert_ne!(german, by(other), "{other:?}");
        }
        assert_eq!(german, by(&[("accept_language", "de"), ("x_other", "1")]));
        // Not where it is not forwarded, and nothing changes for those who send none.
        assert_eq!(by(&[]), by(&[("accept_language", "de"), ("connection", "accept_language")]));
        assert_eq!(of(&["x-forwarded-host"], &[("x_forwarded_host", "1")]), of(&["x-forwarded-host"], &[]));
        assert_ne!(of(&["x_a"], &[("x-a", "1")]), of(&["x_a"], &[]));
    }

    #[test]
    fn whose_cookie_counts() {
        let cookie = ("cookie", "a=1");
        for (vary, request, expected) in [
            (vec!["Cookie"], vec![cookie], true),
            (vec!["accept, COOKIE"], vec![cookie], true),
            (vec!["accept", "cookie"], vec![cookie], true),
            (vec!["cookie"], vec![("cookie", "")], true),
            (vec!["cookie"], vec![], false),
            (vec!["accept"], vec![cookie], false),
            (vec!["x-cookie"], vec![cookie], false),
            (vec![], vec![cookie], false),
        ] {
            let response: Vec<_> = vary.iter().map(|value| ("vary", *value)).collect();
            assert_eq!(is_of_one_cookie(&headers(&response), &headers(&request)), expected, "{vary:?} {request:?}");
        }
    }

    #[test]
    fn same_meaning() {
        let key = |name, value| of(&[name], &[(name, value)]);
        assert_eq!(key("accept-encoding", "gzip, br"), key("accept-encoding", "BR,gzip;q=1"));
        assert_eq!(
            of(&["accept-encoding"], &[("accept-encoding", "br"), ("accept-encoding", "gzip")]),
            key("accept-encoding", "gzip, br")
        );
        assert_eq!(key("accept-language", "en-GB,en;q=0.5"), key("accept-language", "en-gb, en;q=0.50"));
        assert_ne!(key("accept-language", "en, de"), key("accept-language", "de, en"));
        assert_ne!(key("accept", "a/b, c/d"), key("accept", "c/d,a/b"), "compared by its bytes");
        assert_ne!(key("accept-encoding", "gzip"), key("accept-encoding", "gzip;q=0.999"));
        assert_ne!(key("accept-encoding", ""), of(&["accept-encoding"], &[]));
    }

    #[test]
    fn places() {
        let known: Vec<[u8; 16]> = (0..MAX_VARIANTS as u8).map(|n| [n; 16]).collect();
        for (count, variant, expected) in [
            (0, 0, VariantPlace::New),
            (1, 0, VariantPlace::Known(0)),
            (1, 1, VariantPlace::New),
            (MAX_VARIANTS, 5, VariantPlace::Known(5)),
            (MAX_VARIANTS - 1, 255, VariantPlace::New),
            (MAX_VARIANTS, 255, VariantPlace::Instead(0)),
        ] {
            assert_eq!(place(&known[..count], &[variant; 16]), expected, "{variant} of {count}");
        }
    }

    #[test]
    fn other_variant() {
        let one = of(&["a, b"], &[("a", "1")]);
        for request in [vec![("a", "2")], vec![("b", "1")], vec![], vec![("a", "1"), ("b", "")], vec![("a", "")]] {
            assert_ne!(one, of(&["a, b"], &request), "{request:?}");
        }
    }
}
