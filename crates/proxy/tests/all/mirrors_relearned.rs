//! What is stored is held to what its index says by now: a file that was replaced at its source, a cache that was filled before the
//! index was known, a restart.

use std::sync::Arc;

use tinaja_proxy::mirrors::Kind;
use tinaja_store::{Reference, Store};
use tinaja_testkit::client::{get, get_with};

use crate::mirrors_learned::{Source, elsewhere, fetched, mirrors, page};
use crate::parts::bytes_of;
use crate::support::{Origin, Proxy, eventually};

fn proxy(store: &Arc<dyn Store>, kind: Kind, origin: &Origin) -> Proxy {
    Proxy::over(store.clone(), mirrors(kind, origin, &[origin], &["/m/"]))
}

fn is_hit(proxy: &Proxy, path: &str) -> bool {
    get(proxy.address, path).is_ok_and(|answer| answer.is_hit())
}

const PAGE: &str = "/m/simple/x/";

#[test]
fn a_file_that_was_replaced_at_its_source_is_fetched_anew() {
    for length in [1000, 3_000_000] {
        let (source, store): (_, Arc<dyn Store>) = (Source::default(), Arc::new(Reference::new()));
        let origin = source.origin();
        let versions = [0, 1].map(|version| bytes_of(version, 0..length));
        let proxy = proxy(&store, Kind::Pip, &origin);
        let path = elsewhere(&origin, "/x-1.whl");
        for bytes in &versions {
            source.put("/index/simple/x/", "text/html", page(&origin.url("/x-1.whl"), bytes));
            source.put("/x-1.whl", "application/zip", bytes);
            assert_eq!(get(proxy.address, PAGE).unwrap().status, 200);
            // The one that is stored is fresh for a year, and no client gets it any more.
            assert!(fetched(&proxy, &path).as_ref() == Some(bytes));
            eventually("it is stored", || is_hit(&proxy, &path));
            assert!(fetched(&proxy, &path).as_ref() == Some(bytes));
        }
        // An index that is ahead of its files: nothing is given until they are there.
        source.put("/index/simple/x/", "text/html", page(&origin.url("/x-1.whl"), b"the third"));
        get(proxy.address, PAGE).unwrap();
        for _ in 0..2 {
            assert_eq!(fetched(&proxy, &path), None);
        }
        source.put("/x-1.whl", "application/zip", "the third");
        assert_eq!(fetched(&proxy, &path).unwrap(), b"the third");
    }
}

/// The file was stored while nothing was known of it. A short one is fetched anew before anybody notices; of a long one the beginning is
/// on its way, so one answer breaks off.
#[test]
fn what_was_stored_before_its_index_was_known_is_checked_when_it_is_served() {
    for (length, breaks) in [(1000, false), (3_000_000, true)] {
        let (source, store): (_, Arc<dyn Store>) = (Source::default(), Arc::new(Reference::new()));
        let origin = source.origin();
        let [wrong, right] = [0, 1].map(|version| bytes_of(version, 0..length));
        let path = elsewhere(&origin, "/x-1.whl");
        source.put("/index/simple/x/", "text/html", page(&origin.url("/x-1.whl"), &right));
        source.put("/x-1.whl", "application/zip", &wrong);
        let proxy = proxy(&store, Kind::Pip, &origin);
        assert!(fetched(&proxy, &path).as_ref() == Some(&wrong), "nothing is known");
        eventually("it is stored", || is_hit(&proxy, &path));
        source.put("/x-1.whl", "application/zip", &right);
        get(proxy.address, PAGE).unwrap();
        if breaks {
            assert!(fetched(&proxy, &path).is_none());
        }
        assert!(fetched(&proxy, &path).as_ref() == Some(&right));
        eventually("it is stored", || is_hit(&proxy, &path));
        assert!(fetched(&proxy, &path).as_ref() == Some(&right));
    }
}

/// After a restart the index comes from the cache, or not at all to a client that has it: it teaches all the same.
#[test]
fn a_restart_learns_from_what_the_cache_has_and_what_clients_have() {
    let text = |bytes: &[u8]| {
        let hex = crate::mirrors_learned::hex(&ring::digest::SHA256, bytes);
        format!("Package: x\nFilename: pool/x.deb\nSHA256: {hex}\n\n")
    };
    let packages = "dists/stable/main/binary-all/Packages";
    for (kind, index, media_type, file) in [
        (Kind::Pip, "simple/x/", "text/html", "x-1.whl"),
        (Kind::Apt, packages, "application/octet-stream", "pool/x.deb"),
    ] {
        let (source, store): (_, Arc<dyn Store>) = (Source::default(), Arc::new(Reference::new()));
        let origin = source.origin();
        let body = if kind == Kind::Pip { page("/index/x-1.whl", b"right") } else { text(b"right") };
        source.put(&format!("/index/{index}"), media_type, &body);
        source.put(&format!("/index/{file}"), "application/zip", "wrong");
        let (index, file) = (format!("/m/{index}"), format!("/m/{file}"));
        let first = proxy(&store, kind, &origin);
        let tag = get(first.address, &index).unwrap().field("etag");
        assert_eq!(fetched(&first, &file), None, "{kind:?}");
        eventually("the index is stored", || first.store.stats().stored > 0);
        drop(first);
        for (fields, status) in [(String::new(), 200), (format!("If-None-Match: {tag}\r\n"), 304)] {
            let again = proxy(&store, kind, &origin);
            assert_eq!(get_with(again.address, &index, &fields).unwrap().status, status, "{kind:?}");
            let last = origin.requests().pop().unwrap();
            assert!(last.field("if-none-match").is_some(), "it is validated, and comes from the cache: {}", last.head);
            assert_eq!(fetched(&again, &file), None, "{kind:?} {status}");
        }
        // Who has asked for no index is told nothing.
        let again = proxy(&store, kind, &origin);
        assert_eq!(fetched(&again, &file).unwrap(), b"wrong", "{kind:?}");
    }
}
