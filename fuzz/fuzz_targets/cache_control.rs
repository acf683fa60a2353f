//! What responses say of caching: nothing makes a lifetime out of bounds, and a line more that forbids is obeyed.
#![no_main]

use std::time::{Duration, SystemTime};

use http::header::{AGE, CACHE_CONTROL, DATE, ETAG, EXPIRES, LAST_MODIFIED, SET_COOKIE, VARY};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tinaja_http::control::{CacheControl, request_directives};
use tinaja_http::limits::MAX_SECONDS;
use tinaja_http::storable::{Exchange, Keep, Policy, keep};
use tinaja_http::targeted::CDN_CACHE_CONTROL;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((status, data)) = data.split_first() else { return };
    let status = StatusCode::from_u16(200 + u16::from(*status)).unwrap();
    let names = [CACHE_CONTROL, CDN_CACHE_CONTROL, EXPIRES, DATE, AGE, LAST_MODIFIED, ETAG, VARY, SET_COOKIE];
    let response = tinaja_fuzz::fields(data, &names);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let reverse = Policy { targets: vec![CDN_CACHE_CONTROL], parts: true, ..Policy::default() };
    let asked = request_directives(&response);
    assert!([asked.max_age, asked.max_stale, asked.min_fresh].iter().flatten().all(|seconds| *seconds <= MAX_SECONDS));

    let judge = |response: &HeaderMap, policy: &Policy| {
        let request = HeaderMap::new();
        let exchange =
            Exchange { method: &Method::GET, request: &request, status, response, asked: now, answered: now };
        keep(&exchange, policy)
    };
    for policy in [&Policy::default(), &reverse] {
        if let Ok(kept) = judge(&response, policy) {
            let Keep { fresh_seconds, stale_seconds, age_seconds, stale_while_revalidate_seconds, stale_if_error_seconds, .. } = kept;
            assert!(fresh_seconds == 0 || stale_seconds == 0);
            let all = [fresh_seconds, stale_seconds, age_seconds, stale_while_revalidate_seconds, stale_if_error_seconds];
            assert!(all.iter().all(|seconds| *seconds <= MAX_SECONDS), "{all:?}");
            assert!(kept.without.iter().all(|name| response.contains_key(name)));
        }
    }
    let plain = Policy::default();
    let with = |line: &'static str| {
        let mut more = response.clone();
        more.append(CACHE_CONTROL, HeaderValue::from_static(line));
        judge(&more, &plain)
    };
    assert!(with("private").is_err());
    assert!(with("x, PRIVATE ,y").is_err());
    assert!(with("no-store").is_err() || CacheControl::of(&response).has("must-understand"));
    assert!(
        with("no-cache").is_ok_and(|kept| kept.fresh_seconds == 0 && !kept.may_be_stale) || with("no-cache").is_err()
    );
    assert!(
        with("max-age=0, s-maxage=0").is_ok_and(|kept| kept.fresh_seconds == 0)
            || with("max-age=0, s-maxage=0").is_err()
    );
    assert!(
        with("must-revalidate").is_ok_and(|kept| kept.stale_if_error_seconds == 0) || with("must-revalidate").is_err()
    );
});
