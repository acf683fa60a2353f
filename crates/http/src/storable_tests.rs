use std::time::Duration;

use super::*;

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    fields.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
}

fn judge(status: u16, response: &[(&str, &str)]) -> Result<Keep, NotStorable> {
    kept(status, &[], response, &Policy::default())
}

/// An answer without caring for the policy.
fn storable(
    method: &Method,
    request: &HeaderMap,
    status: StatusCode,
    response: &HeaderMap,
    now: SystemTime,
) -> Result<Keep, NotStorable> {
    keep(&Exchange { method, request, status, response, asked: now, answered: now }, &Policy::default())
}

fn kept(
    status: u16,
    request: &[(&str, &str)],
    response: &[(&str, &str)],
    policy: &Policy,
) -> Result<Keep, NotStorable> {
    let (method, request, response) = (Method::GET, headers(request), headers(response));
    let exchange = Exchange {
        method: &method,
        request: &request,
        status: StatusCode::from_u16(status).unwrap(),
        response: &response,
        asked: now() - Duration::from_secs(2),
        answered: now(),
    };
    keep(&exchange, policy)
}

#[test]
fn refusals() {
    use NotStorable::*;
    for (status, response, why) in [
        (200, vec![("cache-control", "no-store, max-age=9")], Forbidden),
        (200, vec![("cache-control", "private, max-age=9")], Forbidden),
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

/// Each client's whole Cookie was a variant, and 64 clients pushed out all that could be used again.
#[test]
fn what_varies_by_cookie() {
    let shared = Policy { orders: Orders { store: Storing::Shared, ..Orders::default() }, ..Policy::default() };
    let named = Policy { cookies_named: true, ..Policy::default() };
    let cookie = [("cookie", "a=b")];
    for (control, vary, request, policy, stored) in [
        ("max-age=9", "Cookie", &cookie[..], &Policy::default(), false),
        ("public, max-age=9", "Cookie", &cookie, &Policy::default(), false),
        ("s-maxage=9", "accept, cookie", &cookie, &Policy::default(), false),
        ("max-age=9", "Cookie", &[], &Policy::default(), true),
        ("max-age=9", "Accept", &cookie, &Policy::default(), true),
        ("max-age=9", "Cookie", &cookie, &named, true),
        ("max-age=9", "Cookie", &cookie, &shared, true),
    ] {
        let kept = kept(200, request, &[("cache-control", control), ("vary", vary)], policy);
        let expected = if stored { None } else { Some(NotStorable::VaryCookie) };
        assert_eq!(kept.err(), expected, "{control} {vary} {request:?} {policy:?}");
    }
    for (status, control) in [(500, "public"), (200, "no-cache"), (200, "max-age=0")] {
        let never = kept(status, &cookie, &[("vary", "Cookie"), ("cache-control", control)], &Policy::default());
        assert_eq!(
            never.err(),
            Some(NotStorable::NoLifetime),
            "naming cookies would change nothing: {status} {control}"
        );
    }
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
fn what_must_be_understood() {
    for (status, control, stored) in [
        (200, "max-age=9, must-understand", true),
        (200, "max-age=9, must-understand, no-store", true),
        (200, "max-age=9, no-store", false),
        (299, "max-age=9", true),
        (299, "max-age=9, must-understand", false),
        (599, "max-age=9, must-understand, no-store", false),
        (200, "max-age=9, must-understand, no-store, private", false),
        (304, "max-age=9, must-understand", false),
    ] {
        let judged = kept(status, &[], &[("cache-control", control)], &Policy::default());
        assert_eq!(judged.is_ok(), stored, "{status} {control}");
    }
}

#[test]
fn unknown_directives_are_ignored() {
    for control in [
        "max-age=9, community=\"UCI\"",
        "odd, max-age=9",
        "max-age=9, odd=no-store",
        "max-age=9, odd=\"a, no-store, private\"",
        "max-age=9, no-stores, privately, x-no-store",
        "max-age=9, no-transform, pre-check=0, post-check=0",
        "max-age=9, immutable=no-store",
    ] {
        let keep = judge(200, &[("cache-control", control)]).unwrap();
        assert_eq!((keep.fresh_seconds, keep.may_be_stale), (7, true), "{control}");
    }
}

#[test]
fn fields_left_out() {
    for (response, expected) in [
        (vec![("cache-control", "max-age=9"), ("a", "1")], Some(vec![])),
        (vec![("cache-control", "max-age=9, private=\"a, b\""), ("a", "1")], Some(vec!["a"])),
        (vec![("cache-control", "max-age=9, no-cache=A, private=c"), ("a", "1"), ("c", "1")], Some(vec!["a", "c"])),
        (vec![("cache-control", "max-age=9, private=\"set-cookie\""), ("set-cookie", "1")], Some(vec!["set-cookie"])),
        (vec![("cache-control", "max-age=9, private=\"a\""), ("set-cookie", "1")], None),
        (vec![("cache-control", "max-age=9, private=\"content-type\""), ("content-type", "a/b")], None),
        (vec![("cache-control", "max-age=9, private=\"a\", private")], None),
        (
            vec![("cache-control", "max-age=9"), ("connection", "a"), ("a", "1"), ("proxy-authentication-info", "x")],
            Some(vec!["a", "connection", "proxy-authentication-info"]),
        ),
    ] {
        let names = kept(200, &[], &response, &Policy::default()).ok().map(|keep| keep.without);
        assert_eq!(
            names,
            expected.map(|names| names.iter().map(|name| name.parse().unwrap()).collect()),
            "{response:?}"
        );
    }
}

#[test]
fn stale_rules() {
    for (control, while_revalidate, if_error, may_be_stale) in [
        ("max-age=9", 0, 0, true),
        ("max-age=9, stale-while-revalidate=5, stale-if-error=7", 5, 7, true),
        ("max-age=9, stale-while-revalidate=x", 0, 0, true),
        ("max-age=9, stale-while-revalidate=99999999999", crate::limits::MAX_SECONDS, 0, true),
        ("max-age=9, must-revalidate, stale-while-revalidate=5, stale-if-error=7", 0, 0, false),
        ("max-age=9, proxy-revalidate, stale-while-revalidate=5", 0, 0, false),
        ("s-maxage=9, stale-while-revalidate=5", 0, 0, false),
        ("max-age=9, immutable", 0, 0, true),
        ("max-age=9, no-cache=\"a\", stale-if-error=7", 0, 7, true),
    ] {
        let keep = kept(200, &[], &[("cache-control", control)], &Policy::default()).unwrap();
        let found = (keep.stale_while_revalidate_seconds, keep.stale_if_error_seconds, keep.may_be_stale);
        assert_eq!(found, (while_revalidate, if_error, may_be_stale), "{control}");
        let stored = headers(&[("cache-control", control)]);
        assert_eq!(super::may_be_stale(&stored, &Policy::default()), may_be_stale, "{control}");
        assert_eq!((keep.age_seconds, keep.fresh_seconds), (2, 7), "the answer took 2 s");
    }
    let validated = kept(200, &[], &[("cache-control", "max-age=9, no-cache"), ("etag", "\"a\"")], &Policy::default());
    let validated = validated.unwrap();
    assert_eq!((validated.fresh_seconds, validated.may_be_stale), (0, false));
}

#[test]
fn clients_and_parts() {
    let plain = Policy::default();
    let parts = Policy { parts: true, ..Policy::default() };
    let fresh = ("cache-control", "max-age=9");
    let (range, tag) = (("content-range", "bytes 0-4/10"), ("etag", "\"a\""));
    for (status, request, response, policy, expected) in [
        (200, vec![("cache-control", "no-store")], vec![fresh], &plain, Err(NotStorable::ClientForbids)),
        (200, vec![("cache-control", "no-cache")], vec![fresh], &plain, Ok(7)),
        (206, vec![], vec![fresh, range, tag], &plain, Err(NotStorable::Status)),
        (206, vec![], vec![fresh, range, tag], &parts, Ok(7)),
        (206, vec![], vec![fresh, range, ("etag", "W/\"a\"")], &parts, Err(NotStorable::Status)),
        (206, vec![], vec![fresh, range], &parts, Err(NotStorable::Status)),
        (206, vec![], vec![fresh, tag], &parts, Err(NotStorable::Status)),
        (206, vec![], vec![fresh, tag, ("content-range", "bytes 5-4/10")], &parts, Err(NotStorable::Status)),
        (206, vec![], vec![fresh, tag, ("content-range", "bytes */10")], &parts, Err(NotStorable::Status)),
        (101, vec![], vec![fresh], &plain, Err(NotStorable::Status)),
        (103, vec![], vec![fresh], &plain, Err(NotStorable::Status)),
        (412, vec![], vec![fresh], &plain, Err(NotStorable::Status)),
    ] {
        let found = kept(status, &request, &response, policy).map(|keep| keep.fresh_seconds);
        assert_eq!(found, expected, "{status} {request:?} {response:?}");
    }
}

/// What was decrypted on the way: of one client's own unless it is explicitly for all, whatever an operator orders otherwise.
#[test]
fn what_was_decrypted() {
    use NotStorable::{Authorization, Cookie, SetCookie};
    let generous = Orders {
        store: Storing::Shared,
        without_cookies: true,
        overrides: [Override::Authorization].into_iter().collect(),
        ..Orders::default()
    };
    let (cookie, login) = (("cookie", "a=b"), ("authorization", "Basic eA=="));
    for (control, request, sets, why) in [
        ("max-age=9", None, false, None),
        ("max-age=9", Some(cookie), false, Some(Cookie)),
        ("max-age=9", Some(login), false, Some(Authorization)),
        ("max-age=9, must-revalidate", Some(login), false, Some(Authorization)),
        ("max-age=9", None, true, Some(SetCookie)),
        ("max-age=9, no-cache=\"set-cookie\"", None, true, Some(SetCookie)),
        ("max-age=9, public", Some(cookie), true, None),
        ("s-maxage=9", Some(cookie), true, None),
        ("s-maxage=9", Some(login), true, None),
    ] {
        for orders in [Orders::default(), generous] {
            let policy = Policy { decrypted: true, orders, ..Policy::default() };
            let response = [("cache-control", control), ("set-cookie", "a=b")];
            let kept = kept(200, request.as_slice(), &response[..if sets { 2 } else { 1 }], &policy);
            assert_eq!(kept.as_ref().err(), why.as_ref(), "{control} {request:?} {sets} {orders:?}");
            assert_eq!(kept.is_ok_and(|keep| keep.without.contains(&SET_COOKIE)), why.is_none() && sets, "{control}");
        }
    }
}
