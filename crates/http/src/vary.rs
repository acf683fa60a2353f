//! Which requests share a stored response (RFC 9111 4.1, RFC 9110 12.5.5).

use http::header::VARY;
use http::{HeaderMap, HeaderName};

use crate::limits::MAX_VARY_FIELDS;
use crate::list_members;

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
/// so that no value can pass for another. `None` where the response does not vary (or may not be stored at all).
pub fn key(response: &HeaderMap, request: &HeaderMap) -> Option<[u8; 16]> {
    let names = fields(response)?;
    if names.is_empty() {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    for name in &names {
        part(&mut hasher, name.as_str().as_bytes());
        // Several lines of a field mean the same as one line with commas (RFC 9110 5.2).
        let mut value = Vec::new();
        for (index, line) in request.get_all(name).iter().enumerate() {
            if index > 0 {
                value.extend_from_slice(b", ");
            }
            value.extend_from_slice(line.as_bytes().trim_ascii());
        }
        // An absent field differs from an empty one (RFC 9111 4.1).
        hasher.update(&[u8::from(request.contains_key(name))]);
        part(&mut hasher, &value);
    }
    let mut key = [0; 16];
    hasher.finalize_xof().fill(&mut key);
    Some(key)
}

fn part(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
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

    #[test]
    fn other_variant() {
        let one = of(&["a, b"], &[("a", "1")]);
        for request in [vec![("a", "2")], vec![("b", "1")], vec![], vec![("a", "1"), ("b", "")], vec![("a", "")]] {
            assert_ne!(one, of(&["a, b"], &request), "{request:?}");
        }
    }
}
