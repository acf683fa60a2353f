//! Origins with TLS: cached like any other when their certificates are good; told from impostors when not.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tinaja_logs::CacheResult;

use crate::support::tinaja::{Setup, Tinaja};
use tinaja_testkit::body::body;
use tinaja_testkit::nginx::{Certificates, Nginx, date_back, make_certificates, make_certificates_for};
use tinaja_testkit::tools::run;
use tinaja_testkit::wait::eventually;

const LEN: usize = 100_000;

/// nginx with one file that may be cached.
fn serve_tls(certificates: &Certificates) -> Nginx {
    Nginx::start_tls(certificates, |root| {
        fs::write(root.join("file"), body("file", LEN)).unwrap();
        date_back(root, 30);
    })
}

/// The same server by its name.
fn by_name(origin: &Nginx, path: &str) -> String {
    format!("https://localhost:{}{path}", origin.address().port())
}

/// The first answer comes from the origin, the second from the cache.
fn assert_miss_then_hit(proxy: &Tinaja, target: &str) {
    for hit in [false, true] {
        let response = proxy.get(target).unwrap();
        let said = String::from_utf8_lossy(&response.body);
        assert_eq!((response.status, response.is_hit()), (200, hit), "{target}: {}", said.lines().nth(2).unwrap_or(""));
        assert!(response.body == body("file", LEN), "{target}");
    }
}

/// A page, each time, and never from the cache; the log says why, by the page's id.
fn assert_refused(proxy: &Tinaja, target: &str, why: &str) {
    for _ in 0..2 {
        let response = proxy.get(target).unwrap();
        let page = String::from_utf8_lossy(&response.body);
        assert_eq!((response.status, response.is_hit()), (502, false), "{target}: {page}");
        assert!(page.contains("cannot connect to the origin by TLS") && !page.contains(why), "{target}: {page}");
        let id = response.request_id();
        assert!(!id.is_empty(), "{page}");
        let is_it = |line: &str| line.contains(&id) && line.contains("TLS with ") && line.contains(why);
        eventually("it is logged by its id", || proxy.process.output().lines().any(is_it));
        assert!(!response.cache_status().contains("stored"), "{}", response.cache_status());
    }
}

#[test]
fn a_reverse_proxy_caches_what_a_trusted_origin_sends() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let origin = serve_tls(&certificates);
    for url in [by_name(&origin, ""), origin.url("")] {
        let setup = Setup::reverse_url(&url).trusting(&certificates.authority);
        let asked = origin.log().len();
        assert_miss_then_hit(&setup.start(), "/file");
        assert_eq!(origin.log().len(), asked + 1, "{url}");
    }
}

#[test]
fn a_forward_proxy_caches_what_it_is_asked_by_an_absolute_target() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let origin = serve_tls(&certificates);
    let setup = Setup::forward().trusting(&certificates.authority);
    let mut proxy = setup.start();
    let url = by_name(&origin, "/file");
    assert_miss_then_hit(&proxy, &url);
    assert_eq!(origin.log().len(), 1);
    // The same URL without TLS is another object, which here does not exist.
    let plain = proxy.get(&url.replace("https:", "http:")).unwrap();
    assert_eq!((plain.status, plain.is_hit()), (400, false));
    // Each on a connection of its own, so that either line may be the first: this failed once in hundreds of runs.
    assert!(proxy.process.terminate().success());
    let count =
        |result| setup.access_log().iter().filter(|record| record.url == url && record.result == result).count();
    assert_eq!((count(CacheResult::Miss), count(CacheResult::Hit)), (1, 1), "{:?}", setup.access_log());
}

#[test]
fn an_untrusted_certificate() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let origin = serve_tls(&certificates);
    for (setup, target) in [
        (Setup::reverse_url(&by_name(&origin, "")), "/file"),
        (Setup::forward(), by_name(&origin, "/file").as_str()),
        (Setup::forward(), origin.url("/file").as_str()),
    ] {
        let asked = origin.log().len();
        let mut proxy = setup.start();
        assert_refused(&proxy, target, "no authority that this proxy trusts");
        assert_eq!(origin.log().len(), asked, "a request went to an impostor");
        proxy.process.terminate();
        // Nothing was stored: with the authority trusted, the same cache begins with a miss.
        assert_miss_then_hit(&setup.trusting(&certificates.authority).start(), target);
    }
}

#[test]
fn a_certificate_for_another_name() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates_for(dir.path(), "DNS:example.test,IP:127.0.0.2");
    let origin = serve_tls(&certificates);
    for (setup, target) in [
        (Setup::reverse_url(&by_name(&origin, "")), "/file"),
        (Setup::forward(), by_name(&origin, "/file").as_str()),
        (Setup::forward(), origin.url("/file").as_str()),
    ] {
        assert_refused(&setup.trusting(&certificates.authority).start(), target, "for another name");
    }
    assert_eq!(origin.log(), []);
}

#[test]
fn a_kept_connection_serves_only_the_name_it_was_checked_for() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates_for(dir.path(), "DNS:localhost");
    let origin = serve_tls(&certificates);
    let setup = Setup::forward().trusting(&certificates.authority);
    let proxy = setup.start();
    assert_miss_then_hit(&proxy, &by_name(&origin, "/file"));
    assert_refused(&proxy, &origin.url("/file"), "for another name");
    assert_eq!(origin.log().len(), 1);
}

/// A certificate that signs itself, as openssl makes it unless told otherwise, or for a server.
fn sign_itself(dir: &Path, authority: bool) -> Certificates {
    let (key, certificate) = (dir.join("self.key"), dir.join("self.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
    openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
    if !authority {
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    }
    run(openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate));
    Certificates { authority: certificate.clone(), certificate, key }
}

#[test]
fn a_certificate_that_signs_itself() {
    for authority in [false, true] {
        let dir = TempDir::new().unwrap();
        let certificates = sign_itself(dir.path(), authority);
        let origin = serve_tls(&certificates);
        let setup = Setup::reverse_url(&by_name(&origin, "")).trusting(&certificates.authority);
        let proxy = setup.start();
        if authority {
            // Trusting it would let it speak for every name; Rustls takes it for no server's.
            assert_refused(&proxy, "/file", "must say CA:FALSE");
        } else {
            assert_miss_then_hit(&proxy, "/file");
        }
    }
}

#[test]
fn an_origin_without_tls() {
    let origin = Nginx::start(|_| ());
    let url = origin.url("/file").replace("http:", "https:");
    assert_refused(&Setup::forward().start(), &url, "not TLS");
}
