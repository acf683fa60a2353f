//! Conditions, validation and what later answers change: a response always meets its own conditions, no update
//! reframes stored bytes, and nothing leads to another origin.
#![no_main]

use std::time::{Duration, SystemTime};

use http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_LOCATION, DATE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, LAST_MODIFIED, LOCATION, RANGE,
};
use http::{HeaderMap, Method, StatusCode};
use tinaja_http::authority::Authority;
use tinaja_http::conditional::{Answer, EntityTag, Stored, evaluate};
use tinaja_http::invalidate::{Url, invalidated};
use tinaja_http::validate::{selected, update, validation};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let middle = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let names = [ETAG, LAST_MODIFIED, DATE, CONTENT_LENGTH, CONTENT_ENCODING, CONNECTION, LOCATION, CONTENT_LOCATION];
    let stored = tinaja_fuzz::fields(&data[..middle], &names);
    let asked = [IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_RANGE, RANGE];
    let request = tinaja_fuzz::fields(data.get(middle + 1..).unwrap_or_default(), &asked);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let answer = |request: &HeaderMap| {
        evaluate(&Method::GET, request, Stored { status: StatusCode::OK, headers: &stored, received: now }, now)
    };
    let found = answer(&request);
    assert_ne!(found, Answer::AskOrigin);
    assert!(found != Answer::Serve { ranges: true } || request.contains_key(RANGE));
    assert!(found != Answer::NotModified || asked[..2].iter().any(|name| request.contains_key(name)));

    // The request that validates a response is one that the response itself answers with 304.
    if let Some(edits) = validation(&request, &stored) {
        let mut validating = request.clone();
        edits.apply(&mut validating);
        let tagged = validating.get(IF_NONE_MATCH).is_some_and(|tag| EntityTag::parse(tag.as_bytes()).is_some());
        assert!(!tagged || answer(&validating) == Answer::NotModified, "{validating:?} {stored:?}");
        assert!(validating.contains_key(IF_NONE_MATCH) || validating.contains_key(IF_MODIFIED_SINCE));
    }
    let before =
        HeaderMap::from_iter([(CONTENT_LENGTH, "5".parse().unwrap()), (CONTENT_ENCODING, "x".parse().unwrap())]);
    let mut after = before.clone();
    update(&stored, now).apply(&mut after);
    assert!(before.iter().all(|(name, value)| after.get_all(name).iter().eq([value])), "{after:?}");
    assert!(!after.contains_key(CONNECTION) && after.contains_key(DATE));
    assert!(selected(&[&before, &before], &stored).len() < 2 || stored.contains_key(ETAG));
    check_invalidated(&stored);
});

fn check_invalidated(response: &HeaderMap) {
    let authority = Authority::parse(b"h").unwrap();
    let url = Url { tls: false, authority: &authority, path: "/a/b?c" };
    let paths = invalidated(&Method::POST, StatusCode::OK, url, response);
    assert_eq!(paths.first().map(String::as_str), Some("/a/b?c"));
    for path in &paths {
        assert!(path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic() && b != b'#'), "{path}");
    }
    for line in [LOCATION, CONTENT_LOCATION].iter().flat_map(|name| response.get_all(name)) {
        let line = line.as_bytes();
        let rest = line.strip_prefix(b"http://").or_else(|| line.strip_prefix(b"https://"));
        let elsewhere = rest.is_some_and(|rest| !rest.starts_with(b"h") && !rest.starts_with(b"H"));
        assert!(!elsewhere || paths.len() <= response.len(), "{paths:?}");
    }
}
