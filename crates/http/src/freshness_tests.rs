use std::time::Duration;

use http::{HeaderName, Method};

use super::*;
use crate::storable::{Exchange, Keep, NotStorable, keep};

const DAY: u64 = 24 * 3600;

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

fn date(offset: i64) -> String {
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs((1_700_000_000 + offset) as u64))
}

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    fields.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
}

fn judge(status: u16, response: &[(&str, &str)]) -> Result<Keep, NotStorable> {
    let (status, request, response) = (StatusCode::from_u16(status).unwrap(), HeaderMap::new(), headers(response));
    let (method, asked, answered) = (&Method::GET, now(), now());
    keep(&Exchange { method, request: &request, status, response: &response, asked, answered }, &Policy::default())
}

#[test]
fn lifetimes() {
    let hour_ahead = date(3600);
    let hour_ago = date(-3600);
    let today = date(0);
    for (response, fresh) in [
        (vec![("cache-control", "max-age=60")], 60),
        (vec![("cache-control", "max-age=60, s-maxage=90")], 90),
        (vec![("cache-control", "max-age=60"), ("expires", hour_ahead.as_str())], 60),
        (vec![("cache-control", "s-maxage=60"), ("expires", hour_ahead.as_str())], 60),
        (vec![("cache-control", "max-age=60"), ("expires", "0")], 60),
        (vec![("cache-control", "s-maxage=60"), ("expires", hour_ago.as_str())], 60),
        (vec![("cache-control", "max-age=60"), ("age", "20")], 40),
        (vec![("cache-control", "max-age=60"), ("age", "70")], 0),
        (vec![("cache-control", "max-age=60"), ("age", "-3")], 60),
        (vec![("cache-control", "max-age=60"), ("age", "99999999999999999999")], 0),
        (vec![("cache-control", "max-age=7200"), ("date", hour_ago.as_str())], 3600),
        (vec![("cache-control", "no-cache, max-age=60")], 0),
        (vec![("expires", hour_ahead.as_str()), ("date", today.as_str())], 3600),
        (vec![("expires", hour_ahead.as_str())], 3600),
        (vec![("expires", hour_ago.as_str())], 0),
        (vec![("expires", "0")], 0),
        (vec![("expires", hour_ahead.as_str()), ("expires", hour_ahead.as_str())], 0),
        (vec![("etag", "\"a\"")], 0),
    ] {
        let mut with_validator = response.clone();
        with_validator.push(("etag", "\"a\""));
        assert_eq!(judge(200, &with_validator).map(|storable| storable.fresh_seconds), Ok(fresh), "{response:?}");
        assert!(fresh > 0 || response[0].0 == "etag" || judge(200, &response).is_err(), "useless: {response:?}");
    }
}

#[test]
fn guesses() {
    for (days_ago, expected) in [(10, DAY), (30, 3 * DAY), (70, 7 * DAY), (3650, 7 * DAY), (0, 0)] {
        let modified = date(-(days_ago * DAY as i64));
        assert_eq!(heuristic_seconds(&headers(&[("last-modified", &modified)]), now()), Some(expected), "{days_ago}");
    }
    assert_eq!(heuristic_seconds(&headers(&[("last-modified", &date(999))]), now()), Some(0), "the future");
    assert_eq!(heuristic_seconds(&headers(&[("last-modified", "lately")]), now()), None);
    let modified = date(-(30 * DAY as i64));
    for (status, storable) in [(200, true), (404, true), (301, true), (302, false), (403, false), (500, false)] {
        assert_eq!(judge(status, &[("last-modified", &modified)]).is_ok(), storable, "{status}");
    }
    assert!(judge(302, &[("last-modified", &modified), ("cache-control", "public")]).is_ok());
}

#[test]
fn a_bad_lifetime_is_no_reason_to_guess() {
    let long_ago = date(-100 * DAY as i64);
    let (modified, tag) = (("last-modified", long_ago.as_str()), ("etag", "\"a\""));
    for given in [
        ("expires", "0"),
        ("expires", "tomorrow"),
        ("expires", ""),
        ("cache-control", "max-age=x"),
        ("cache-control", "max-age"),
        ("cache-control", "s-maxage=-1"),
        ("cache-control", "max-age=5, max-age=9"),
    ] {
        let fresh = judge(200, &[given, modified, tag]).map(|keep| keep.fresh_seconds);
        assert_eq!(fresh, Ok(0), "{given:?}");
    }
    assert!(judge(200, &[modified, tag]).unwrap().fresh_seconds > 0, "without one it is guessed");
}

#[test]
fn targeted_and_chosen() {
    use crate::storable::{Exchange, keep};
    let (hour_ahead, long_ago) = (date(3600), date(-100 * DAY as i64));
    let reverse = Policy { targets: vec![crate::targeted::CDN_CACHE_CONTROL], ..Policy::default() };
    let negative = Policy { negative_seconds: 30, ..Policy::default() };
    let short = Policy { max_heuristic_seconds: 60, ..Policy::default() };
    let plain = Policy::default();
    let expires = ("expires", hour_ahead.as_str());
    let modified = ("last-modified", long_ago.as_str());
    let tag = ("etag", "\"a\"");
    for (status, response, policy, fresh) in [
        (200, vec![expires, ("cdn-cache-control", "max-age=5")], &reverse, Some(5)),
        (200, vec![expires, ("cdn-cache-control", "max-age=5")], &plain, Some(3600)),
        (200, vec![expires, ("cdn-cache-control", "max-age=5,")], &reverse, Some(3600)),
        // It stands in for Expires too, which leaves a guess.
        (200, vec![expires, ("cdn-cache-control", "public"), tag], &reverse, Some(0)),
        (200, vec![("cache-control", "no-store"), ("cdn-cache-control", "max-age=5")], &reverse, Some(5)),
        (200, vec![("cache-control", "max-age=5"), ("cdn-cache-control", "no-store")], &reverse, None),
        (404, vec![], &negative, Some(30)),
        (404, vec![], &plain, None),
        (410, vec![modified], &negative, Some(30)),
        (404, vec![("cache-control", "max-age=9")], &negative, Some(9)),
        (404, vec![("cache-control", "no-store")], &negative, None),
        (403, vec![], &negative, None),
        (503, vec![], &negative, None),
        (200, vec![modified], &short, Some(60)),
        (200, vec![modified], &plain, Some(7 * DAY)),
        // A client can bring these about for everybody.
        (405, vec![modified], &plain, None),
        (414, vec![modified], &plain, None),
        (501, vec![modified], &plain, None),
        (414, vec![("cache-control", "max-age=9")], &plain, Some(9)),
    ] {
        let response = headers(&response);
        let (method, request) = (Method::GET, HeaderMap::new());
        let exchange = Exchange {
            method: &method,
            request: &request,
            status: StatusCode::from_u16(status).unwrap(),
            response: &response,
            asked: now(),
            answered: now(),
        };
        assert_eq!(keep(&exchange, policy).map(|keep| keep.fresh_seconds).ok(), fresh, "{status} {response:?}");
    }
}
