//! A mirror of a container registry: tokens, manifests that no byte may be changed of, and blobs that lie elsewhere.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::home::Home;
use tinaja_testkit::client::{get, says_hit};
use tinaja_testkit::origin::{Origin, Request, reply};
use tinaja_testkit::wait::eventually;

const FORWARD: &str = "allow_destination = \"127.0.0.0/8\"";
const BLOB: &str = "/v2/a/b/blobs/sha256:fa2c8cc4f28176bbeed4b736df569a34c79cd3723e9ec42f9674b4d46ac6b8b8";
/// Named after other bytes than those that come.
const WRONG: &str = "/v2/a/b/blobs/sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// What a registry needs: who gives tokens, and where blobs lie.
struct Registry {
    registry: Origin,
    tokens: Origin,
    blobs: Origin,
}

impl Registry {
    /// Tokens for those who say `user`, or for all.
    fn new(user: Option<&'static str>) -> Registry {
        let says =
            move |request: &Request| user.is_none_or(|user| request.field("authorization").as_deref() == Some(user));
        let tokens = Origin::start(move |request, stream| {
            let is_right = request.path == "/token?service=registry&scope=repository:a/b:pull" && says(request);
            let (status, body) = if is_right { (200, r#"{"token":"t0ken","expires_in":300}"#) } else { (401, "no") };
            reply(stream, request, status, "Content-Type: application/json\r\n", body.as_bytes())
        });
        let blobs = Origin::fixed("Content-Type: application/octet-stream\r\nETag: \"blob\"\r\n", "blob");
        let (realm, to) = (tokens.url("/token"), blobs.url("/store?signature="));
        let signatures = AtomicUsize::new(0);
        let registry = Origin::start(move |request, stream| {
            if request.field("authorization").as_deref() != Some("Bearer t0ken") {
                let scope = "scope=\"repository:a/b:pull\"";
                let field = format!("WWW-Authenticate: Bearer realm=\"{realm}\",service=\"registry\",{scope}\r\n");
                return reply(stream, request, 401, &field, b"{}");
            }
            if request.path.contains("/blobs/") {
                // Signed anew each time.
                let to = format!("{to}{}", signatures.fetch_add(1, Ordering::Relaxed));
                return reply(stream, request, 307, &format!("Location: {to}\r\nCache-Control: max-age=60\r\n"), b"");
            }
            let body = format!("{{\"urls\":[\"{to}\"]}}");
            let fields = "Content-Type: application/vnd.oci.image.manifest.v1+json\r\nETag: \"m\"\r\n";
            let same = request.field("if-none-match").is_some_and(|tag| tag.contains("\"m\""));
            reply(stream, request, if same { 304 } else { 200 }, fields, if same { b"" } else { body.as_bytes() })
        });
        Registry { registry, tokens, blobs }
    }

    fn mirror(&self, more: &str) -> String {
        format!(
            "[[mirror]]\npath = \"/v2/\"\norigin = \"{}\"\nhosts = [\"{}\"]\nkind = \"oci\"\n{more}",
            self.registry.url("/v2/"),
            self.blobs.url("")
        )
    }

    fn token_hosts(&self) -> String {
        format!("token_hosts = [\"{}\"]\n", self.tokens.url(""))
    }
}

#[test]
fn clients_need_no_token_and_what_they_pull_is_kept() {
    let with = Registry::new(Some("Basic dXNlcjpwYXNzd29yZA=="));
    let without = Registry::new(None);
    for (registry, has_credentials) in [(&with, true), (&without, false)] {
        let mut home = Home::new();
        home.top = registry.mirror(&registry.token_hosts());
        if has_credentials {
            let file = home.path("credentials");
            fs::write(&file, "basic user:password\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            home.top += &format!("credentials = \"{}\"\nclients = \"127.0.0.1\"\n", file.display());
        }
        let tinaja = home.start(FORWARD);
        for round in 0..2 {
            let manifest = get(home.listen, "/v2/a/b/manifests/latest").unwrap();
            assert_eq!((manifest.status, manifest.header("etag")), (200, Some("\"m\"")), "round {round}");
            assert!(
                manifest.text().contains(&registry.blobs.url("/store")),
                "not a byte is changed: {}",
                manifest.text()
            );
            let blob = get(home.listen, BLOB).unwrap();
            assert_eq!((blob.status, blob.text()), (200, "blob".to_owned()), "round {round}");
        }
        assert_eq!(registry.tokens.count(), 1, "one token for the repository");
        assert!(registry.blobs.requests().iter().all(|request| request.field("authorization").is_none()));
        let asked = registry.registry.requests().iter().filter(|request| request.path == BLOB).count();
        // The first time without a token, or with it: it came with the manifest.
        assert_eq!((asked, registry.blobs.count()), (1, 1), "the blob is found by its digest, wherever it came from");
        assert!(!tinaja.output().contains("t0ken"));
    }
}

#[test]
fn what_is_not_what_its_name_says_is_never_stored() {
    let registry = Registry::new(None);
    let mut home = Home::new();
    home.top = registry.mirror(&registry.token_hosts());
    let tinaja = home.start(FORWARD);
    for round in 1..3 {
        // The last bytes are held back, so the client sees that it is not whole.
        let answer = get(home.listen, WRONG);
        assert!(answer.as_ref().map_or(true, |answer| answer.text() != "blob"), "round {round}: {answer:?}");
        assert!(answer.map_or(true, |answer| !says_hit(answer.cache_status())), "round {round}");
        eventually("the log says why", || {
            tinaja.output().lines().filter(|line| line.contains("nothing of it is stored")).count() == round
        });
    }
    assert_eq!(registry.blobs.count(), 2, "it was asked for again");
}

#[test]
fn a_host_that_is_not_listed_for_it_is_asked_for_no_token() {
    let registry = Registry::new(None);
    let mut home = Home::new();
    home.top = registry.mirror("");
    let _tinaja = home.start(FORWARD);
    let answer = get(home.listen, "/v2/a/b/manifests/latest").unwrap();
    assert_eq!(answer.status, 401);
    assert!(answer.header("www-authenticate").unwrap().contains(&registry.tokens.url("/token")));
    assert_eq!(registry.tokens.count(), 0);
}
