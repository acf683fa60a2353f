//! Variants: requests that differ in a named field never share one, whatever else is in them.
#![no_main]

use std::collections::BTreeSet;

use http::header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, COOKIE, HeaderName, VARY};
use http::{HeaderMap, HeaderValue};
use tinaja_http::vary;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((which, data)) = data.split_first() else { return };
    let names = [ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, COOKIE, HeaderName::from_static("x")];
    let middle = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let one = tinaja_fuzz::fields(&data[..middle], &names);
    let other = tinaja_fuzz::fields(data.get(middle + 1..).unwrap_or_default(), &names);
    let named: Vec<_> =
        names.iter().enumerate().filter(|(bit, _)| which >> bit & 1 == 1).map(|(_, name)| name).collect();
    let mut response = HeaderMap::new();
    let mut backwards = HeaderMap::new();
    for name in &named {
        response.append(VARY, HeaderValue::from_str(name.as_str()).unwrap());
    }
    for name in named.iter().rev() {
        backwards.append(VARY, HeaderValue::from_str(&name.as_str().to_uppercase()).unwrap());
    }
    let (key, other_key) = (vary::key(&response, &one), vary::key(&response, &other));
    assert_eq!(key, vary::key(&backwards, &one));
    assert_eq!(key.is_some(), !named.is_empty());
    if named.iter().any(|name| differ(&one, &other, name)) {
        assert_ne!(key, other_key, "{one:?} {other:?}");
    }
    if named.iter().all(|name| joined(&one, name) == joined(&other, name)) {
        assert_eq!(key, other_key, "{one:?} {other:?}");
    }
});

/// Whether two requests certainly differ in a field: by its bytes, or, where it has a normal form, by the words in it.
fn differ(one: &HeaderMap, other: &HeaderMap, name: &HeaderName) -> bool {
    let (one, other) = (joined(one, name), joined(other, name));
    match (one, other) {
        (Some(one), Some(other)) if *name == ACCEPT_ENCODING || *name == ACCEPT_LANGUAGE => {
            words(&one) != words(&other)
        }
        (one, other) => one != other,
    }
}

fn joined(request: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    let lines: Vec<_> = request.get_all(name).iter().map(|line| line.as_bytes().trim_ascii()).collect();
    (!lines.is_empty()).then(|| lines.join(b", ".as_slice()))
}

fn words(value: &[u8]) -> BTreeSet<Vec<u8>> {
    let value = value.to_ascii_lowercase();
    let members = value.split(|byte| *byte == b',').map(|member| member.split(|byte| *byte == b';').next().unwrap());
    let members = members.map(|member| member.trim_ascii().strip_prefix(b"x-").unwrap_or(member.trim_ascii()).to_vec());
    members.filter(|member| !member.is_empty()).collect()
}
