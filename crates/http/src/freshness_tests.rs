use http::HeaderName;

use super::*;

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

fn judge(status: u16, response: &[(&str, &str)]) -> Result<Storable, NotStorable> {
    let status = StatusCode::from_u16(status).unwrap();
    storable(&Method::GET, &HeaderMap::new(), status, &headers(response), now())
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
fn refusals() {
    use NotStorable::*;
    for (status, response, why) in [
        (200, vec![("cache-control", "no-store, max-age=9")], Forbidden),
        (200, vec![("cache-control", "private, max-age=9")], Forbidden),
        (200, vec![("cache-control", "private=\"x\", max-age=9")], Forbidden),
        (206, vec![("cache-control", "max-age=9")], Status),
        (304, vec![("cache-control", "max-age=9")], Status),
        (416, vec![("cache-control", "max-age=9")], Status),
        (200, vec![("cache-control", "max-age=9"), ("set-cookie", "a=b")], SetCookie),
        (200, vec![("cache-control", "max-age=9"), ("vary", "*")], Vary),
        (200, vec![], NoLifetime),
        (503, vec![("etag", "\"a\"")], NoLifetime),
    ] {
        assert_eq!(judge(status, &response), Err(why), "{status} {response:?}");
    }
    assert!(judge(200, &[("cache-control", "public, max-age=9"), ("set-cookie", "a=b")]).is_ok());
    let post = storable(&http::Method::POST, &HeaderMap::new(), StatusCode::OK, &headers(&[]), now());
    assert_eq!(post, Err(Method));
}

#[test]
fn authorised_requests() {
    let request = headers(&[("authorization", "Basic eA==")]);
    for (control, storable_) in
        [("max-age=9", false), ("public, max-age=9", true), ("s-maxage=9", true), ("must-revalidate, max-age=9", true)]
    {
        let response = headers(&[("cache-control", control)]);
        let judged = storable(&http::Method::GET, &request, StatusCode::OK, &response, now());
        assert_eq!(judged.is_ok(), storable_, "{control}");
    }
}

#[test]
fn stale_if_error() {
    for (control, seconds) in [
        ("max-age=9", 0),
        ("max-age=9, stale-if-error=100", 100),
        ("max-age=9, stale-if-error=100, must-revalidate", 0),
        ("s-maxage=9, stale-if-error=100", 0),
    ] {
        let stored = judge(200, &[("cache-control", control)]).unwrap();
        assert_eq!(stored.stale_if_error_seconds, seconds, "{control}");
    }
}

#[test]
fn ages() {
    assert_eq!(age_on_arrival(&headers(&[("age", "5, 7")]), now()), 5);
    assert_eq!(age_on_arrival(&headers(&[("age", "5"), ("date", &date(-60))]), now()), 60);
    assert_eq!(age_on_arrival(&headers(&[("date", &date(60))]), now()), 0);
    assert_eq!(current_age(5, Duration::from_millis(2900)), 7);
    assert_eq!(current_age(u64::MAX, Duration::from_secs(1)), MAX_SECONDS);
}

#[test]
fn invalidation() {
    for (method, status, expected) in [
        ("POST", 200, true),
        ("PUT", 204, true),
        ("DELETE", 303, true),
        ("PATCH", 500, false),
        ("POST", 404, false),
        ("GET", 200, false),
        ("OPTIONS", 200, false),
        ("BREW", 200, true),
    ] {
        let judged = invalidates(&method.parse().unwrap(), StatusCode::from_u16(status).unwrap());
        assert_eq!(judged, expected, "{method} {status}");
    }
}
