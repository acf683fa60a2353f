use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, Method, StatusCode};

use super::*;
use crate::storable::{Exchange, Keep, NotStorable, keep};

const PLAIN: Orders = Orders {
    store: Storing::Careful,
    ttl_seconds: None,
    min_seconds: 0,
    max_seconds: MAX_SECONDS,
    grace_seconds: None,
    overrides: Overrides(0),
    without_cookies: false,
    ignores_reload: false,
    encode: Codings::NONE,
};
const TTL: Orders = Orders { ttl_seconds: Some(100), ..PLAIN };

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    fields.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
}

fn kept(status: u16, request: &[(&str, &str)], response: &[(&str, &str)], orders: Orders) -> Result<Keep, NotStorable> {
    let (request, response) = (headers(request), headers(response));
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let exchange = Exchange {
        method: &Method::GET,
        request: &request,
        status: StatusCode::from_u16(status).unwrap(),
        response: &response,
        asked: now,
        answered: now,
    };
    keep(&exchange, &Policy { orders, ..Policy::default() })
}

fn overriding<const N: usize>(orders: Orders, all: [Override; N]) -> Orders {
    Orders { overrides: all.into_iter().collect(), ..orders }
}

#[test]
fn lifetimes() {
    use NotStorable::*;
    let tag = ("etag", "\"a\"");
    let modified = ("last-modified", "Tue, 14 Nov 2023 22:11:40 GMT");
    let bounds = Orders { min_seconds: 50, max_seconds: 70, ..PLAIN };
    let never_fresh = Orders { max_seconds: 0, ..PLAIN };
    let lifetime = overriding(TTL, [Override::Lifetime]);
    for (status, response, orders, fresh) in [
        (200, vec![], PLAIN, Err(NoLifetime)),
        (200, vec![], TTL, Ok(100)),
        (200, vec![tag], TTL, Ok(100)),
        (200, vec![modified], PLAIN, Ok(10)),
        (200, vec![modified], TTL, Ok(100)),
        (200, vec![("cache-control", "max-age=9")], TTL, Ok(9)),
        (200, vec![("cache-control", "public")], TTL, Ok(100)),
        (200, vec![("age", "30")], TTL, Ok(70)),
        (200, vec![("expires", "0"), tag], TTL, Ok(0)),
        (200, vec![("cache-control", "no-cache"), tag], TTL, Ok(0)),
        (200, vec![("cache-control", "no-cache")], TTL, Err(NoLifetime)),
        // What the origin meant is not known.
        (200, vec![("cache-control", "public; x"), tag], TTL, Ok(0)),
        (404, vec![], TTL, Ok(100)),
        // Nobody's request may leave an error page behind for the others, and some errors are brief.
        (302, vec![], TTL, Err(NoLifetime)),
        (405, vec![], TTL, Err(NoLifetime)),
        (503, vec![], TTL, Err(NoLifetime)),
        (405, vec![], Orders { store: Storing::Shared, ..TTL }, Ok(100)),
        (302, vec![], Orders { store: Storing::Shared, ..TTL }, Err(NoLifetime)),
        (302, vec![], overriding(TTL, [Override::Status]), Ok(100)),
        (503, vec![], overriding(TTL, [Override::Status]), Ok(10)),
        (206, vec![], overriding(TTL, [Override::Status]), Err(Status)),
        (200, vec![("cache-control", "max-age=9")], bounds, Ok(50)),
        (200, vec![("cache-control", "max-age=60")], bounds, Ok(60)),
        (200, vec![("cache-control", "max-age=90")], bounds, Ok(70)),
        (200, vec![modified], bounds, Ok(50)),
        (200, vec![tag], bounds, Ok(50)),
        (200, vec![], bounds, Err(NoLifetime)),
        (200, vec![("cache-control", "no-cache, max-age=9"), tag], bounds, Ok(0)),
        (500, vec![("cache-control", "max-age=9")], bounds, Ok(10)),
        (200, vec![("cache-control", "max-age=90"), tag], never_fresh, Ok(0)),
        (200, vec![("cache-control", "max-age=90")], never_fresh, Err(NoLifetime)),
        (200, vec![("cache-control", "max-age=9, s-maxage=8")], lifetime, Ok(100)),
        (200, vec![("cache-control", "max-age=900")], lifetime, Ok(100)),
    ] {
        let found = kept(status, &[], &response, orders).map(|keep| keep.fresh_seconds);
        assert_eq!(found, fresh, "{status} {response:?} {orders:?}");
    }
}

/// Each override lifts its own sentence and no other, and is told only where something was overruled.
#[test]
fn overrides() {
    let grace = Orders { grace_seconds: Some(30), ..TTL };
    for (one, status, request, response) in [
        (Override::NoStore, 200, vec![], vec![("cache-control", "no-store")]),
        (Override::NoCache, 200, vec![], vec![("cache-control", "no-cache")]),
        (Override::Private, 200, vec![], vec![("cache-control", "private")]),
        (Override::MustRevalidate, 200, vec![], vec![("cache-control", "must-revalidate")]),
        (Override::Lifetime, 200, vec![], vec![("cache-control", "max-age=0")]),
        (Override::Authorization, 200, vec![("authorization", "x")], vec![]),
        (Override::Status, 302, vec![], vec![]),
    ] {
        let lifted = kept(status, &request, &response, overriding(grace, [one])).unwrap();
        assert_eq!((lifted.fresh_seconds, lifted.stale_if_error_seconds), (100, 30), "{one:?}");
        assert_eq!(lifted.overruled.all().collect::<Vec<_>>(), [one]);
        let others = Override::ALL.into_iter().filter(|other| *other != one).collect();
        let strict = kept(status, &request, &response, Orders { overrides: others, ..grace });
        assert!(
            strict.as_ref().map_or(true, |keep| keep.fresh_seconds == 0 || keep.stale_if_error_seconds == 0),
            "{one:?}: {strict:?}"
        );
        let needless = kept(200, &[], &[], overriding(grace, [one])).unwrap();
        assert!(needless.overruled.is_empty(), "{one:?}");
    }
}

/// An answer to a request with Authorization is kept by what its origin says, and by nothing that makes it last longer.
#[test]
fn orders_do_not_share_what_was_authorised() {
    let authorised = [("authorization", "Basic eA==")];
    let orders = Orders { min_seconds: 50, grace_seconds: Some(9), store: Storing::Shared, ..TTL };
    let orders = overriding(orders, [Override::NoCache, Override::Private, Override::Lifetime, Override::NoStore]);
    for (control, fresh) in [
        ("", Err(NotStorable::Authorization)),
        ("max-age=9", Err(NotStorable::Authorization)),
        ("public, max-age=9", Ok(9)),
        ("s-maxage=0", Ok(0)),
        ("max-age=0, must-revalidate", Ok(0)),
        ("public, private", Err(NotStorable::Forbidden)),
        ("public, no-store", Err(NotStorable::Forbidden)),
    ] {
        let response = [("cache-control", control), ("etag", "\"a\"")];
        let found = kept(200, &authorised, &response, orders).map(|keep| keep.fresh_seconds);
        assert_eq!(found, fresh, "{control}");
    }
    let shorter = Orders { max_seconds: 5, ..TTL };
    let kept = kept(200, &authorised, &[("cache-control", "public, max-age=9")], shorter).unwrap();
    assert_eq!(kept.fresh_seconds, 5);
}

#[test]
fn grace_and_cookies() {
    let grace = Orders { grace_seconds: Some(30), ..PLAIN };
    for (control, orders, windows) in [
        ("max-age=9", grace, (30, 30)),
        ("max-age=9, stale-while-revalidate=99, stale-if-error=1", grace, (30, 30)),
        ("max-age=9, stale-if-error=5", Orders { grace_seconds: Some(0), ..PLAIN }, (0, 0)),
        ("max-age=9, must-revalidate", grace, (0, 0)),
        ("s-maxage=9", grace, (0, 0)),
        ("s-maxage=9", overriding(grace, [Override::MustRevalidate]), (30, 30)),
        ("max-age=9, no-cache=\"x\"", grace, (30, 30)),
    ] {
        let keep = kept(200, &[], &[("cache-control", control)], orders).unwrap();
        let found = (keep.stale_while_revalidate_seconds, keep.stale_if_error_seconds);
        assert_eq!(found, windows, "{control}");
    }
    let cookie = [("set-cookie", "a=b")];
    let cookie_names = |orders| kept(200, &[], &cookie, orders).map(|keep| keep.without.len());
    assert_eq!(cookie_names(TTL), Err(NotStorable::SetCookie));
    assert_eq!(cookie_names(Orders { without_cookies: true, ..TTL }), Ok(1));
    assert_eq!(cookie_names(Orders { store: Storing::Shared, ..TTL }), Ok(0));
    let none = kept(200, &[], &[], Orders { without_cookies: true, ..TTL }).unwrap();
    assert!(none.without.is_empty());
    assert_eq!(
        kept(200, &[], &[("cache-control", "max-age=9")], Orders { store: Storing::Never, ..PLAIN }).err(),
        Some(NotStorable::Rule)
    );
}
