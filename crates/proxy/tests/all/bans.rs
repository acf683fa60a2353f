//! What is taken back by more than its URL: by whom, what becomes of it, and that nothing that was on its way comes back.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tinaja_clock::ManualClock;
use tinaja_proxy::admin::Selector;
use tinaja_proxy::admin::words::{Answer, Ask, Verdict};
use tinaja_proxy::{Action, Config, Listener, Mode, Routes, Rule};
use tinaja_store::{Reference, Store};

use crate::purging::ask;
use crate::streams::Streams;
use crate::support::{Origin, Proxy, Response, eventually, reply};

/// A reverse proxy for `origin` whose bans are written down, and its clock.
struct Front {
    /// The first to go: with its clock at a stand a proxy would not end.
    hand: ManualClock,
    proxy: Proxy,
    dir: TempDir,
}

fn front(origin: &Origin, change: impl FnOnce(&mut Config)) -> Front {
    let (hand, dir) = (ManualClock::new(), TempDir::new().unwrap());
    let store: Arc<dyn Store> = Arc::new(Reference::by(hand.clock()));
    let proxy = over(&store, dir.path(), origin, change);
    Front { hand, proxy, dir }
}

fn over(store: &Arc<dyn Store>, dir: &Path, origin: &Origin, change: impl FnOnce(&mut Config)) -> Proxy {
    let url = origin.url("").parse().unwrap();
    Proxy::over(store.clone(), |config| {
        config.control = Some(dir.to_owned());
        config.listeners[0].mode = Mode::Reverse(Routes::to(url));
        config.listeners[0].rules.push(Rule { methods: vec!["PURGE".into()], ..Rule::new(Action::Allow) });
        config.limits.fill_range_below = 0;
        change(config);
    })
}

impl Front {
    fn ask(&self, method: &str, path: &str, fields: &str) -> Response {
        at(&self.proxy, method, path, fields)
    }

    fn get(&self, path: &str) -> Response {
        self.ask("GET", path, "")
    }

    fn purge(&self, what: Selector, soft: bool) {
        let answer = ask(self.dir.path(), &Ask::PurgeBy { what: vec![what], soft });
        assert_eq!(answer, Answer::PurgedBy);
    }
}

fn at(proxy: &Proxy, method: &str, path: &str, fields: &str) -> Response {
    let mut client = proxy.client();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n{fields}Connection: close\r\n\r\n"));
    client.read(method).unwrap()
}

fn tag(tag: &str) -> Selector {
    Selector::Tag { tag: tag.into(), host: None }
}

fn host() -> Selector {
    Selector::Host { host: "a.example".into() }
}

/// Something that is waited for.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub fn wait(&self) {
        let open = self.0.0.lock().unwrap();
        let waited = self.0.1.wait_timeout_while(open, Duration::from_secs(60), |open| !*open).unwrap();
        assert!(!waited.1.timed_out(), "nobody opened it");
    }
}

#[test]
fn by_tags_and_what_clients_and_operators_are_told() {
    let origin = Origin::start(|request, stream| {
        let tags = match request.path.as_str() {
            "/fastly" => "Surrogate-Key: product-1 all-products\r\n",
            "/varnish" => "xkey: product-2\r\nxkey: all-products\r\n",
            "/cloudflare" => "Cache-Tag: product-3,all-products\r\n",
            _ => "",
        };
        reply(stream, request, 200, &format!("Cache-Control: max-age=60\r\n{tags}"), b"x")
    });
    let front = front(&origin, |_| {});
    let paths = ["/fastly", "/varnish", "/cloudflare", "/none"];
    let hits = |front: &Front| paths.map(|path| front.get(path).is_hit());
    for path in paths {
        for answer in [front.get(path), front.get(path), front.ask("GET", path, "If-None-Match: \"x\"\r\n")] {
            for name in ["surrogate-key", "xkey", "cache-tag"] {
                assert_eq!(answer.header(name), None, "{answer:?}");
            }
        }
    }
    assert_eq!(hits(&front), [true; 4]);
    front.purge(tag("product-2"), false);
    let explained = ask(front.dir.path(), &Ask::Explain { url: "http://a.example/varnish".into(), fields: Vec::new() });
    let Answer::Explained { ways } = explained else { panic!("{explained:?}") };
    assert!(ways[0].verdict == Verdict::Miss && ways[0].why.contains("purged by a tag"), "{ways:?}");
    let missed = front.get("/varnish");
    assert!(
        missed.cache_status().contains("fwd=uri-miss") && missed.cache_status().contains("detail=PURGED"),
        "{missed:?}"
    );
    assert_eq!(hits(&front), [true; 4]);
    front.purge(tag("all-products"), false);
    assert_eq!(hits(&front), [false, false, false, true]);
    assert_eq!(hits(&front), [true; 4]);
    front.purge(Selector::All, false);
    assert_eq!(hits(&front), [false; 4]);
    // By PURGE, over HTTP/1.1 and HTTP/2; only at its host.
    for (fields, expected) in [
        ("Surrogate-Key: product-1 product-3\r\n", [false, true, false, true]),
        ("xkey: all-products\r\n", [false, false, false, true]),
        ("Tinaja-Purge: prefix\r\n", [false, true, true, true]),
        ("Tinaja-Purge: host\r\n", [false; 4]),
    ] {
        assert_eq!(hits(&front), [true; 4], "{fields}");
        let answer = front.ask("PURGE", "/fastly", fields);
        assert_eq!((answer.status, answer.text().as_str()), (200, "Purged.\n"), "{answer:?}");
        assert_eq!(hits(&front), expected, "{fields}");
    }
    let mut client = front.proxy.client();
    client.send("PURGE /x HTTP/1.1\r\nHost: b.example\r\nxkey: all-products\r\n\r\n");
    assert_eq!(client.read("PURGE").unwrap().status, 200);
    assert_eq!(hits(&front), [true; 4], "another host's");
    for fields in ["Tinaja-Purge: everything\r\n", "Tinaja-Purge: host\r\nxkey: a\r\n"] {
        assert_eq!(front.ask("PURGE", "/fastly", fields).status, 400, "{fields}");
    }
    assert_eq!(hits(&front), [true; 4]);
    assert!(origin.requests().iter().all(|request| request.method == "GET"));
    for (what, word) in [(vec![], "nothing was named"), (vec![tag("a b")], "is no tag")] {
        let answer = ask(front.dir.path(), &Ask::PurgeBy { what, soft: false });
        assert!(matches!(&answer, Answer::Failed { why } if why.contains(word)), "{answer:?}");
    }
}

/// BAN is PURGE that does not look for what is stored: by a rule of its own.
#[test]
fn by_the_method_ban() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\nETag: \"1\"\r\nxkey: a\r\n", "x");
    let front = front(&origin, |config| {
        config.listeners[0].rules.push(Rule { methods: vec!["BAN".into()], ..Rule::new(Action::Allow) });
        config.listeners.push(Listener::reverse("127.0.0.1:0".parse().unwrap(), origin.url("").parse().unwrap()));
        let only_purge = Rule { methods: vec!["PURGE".into()], ..Rule::new(Action::Allow) };
        config.listeners[1].rules.push(only_purge);
    });
    let paths = ["/a/1", "/a/2", "/b"];
    let hits = || paths.map(|path| front.get(path).is_hit());
    assert_eq!(hits(), [false; 3]);
    for (path, fields, expected) in [
        ("/a/1", "", [false, true, true]),
        ("/a/", "Tinaja-Purge: prefix\r\n", [false, false, true]),
        ("/", "Tinaja-Purge: host\r\n", [false; 3]),
        ("/", "xkey: a\r\n", [false; 3]),
        ("/no-such", "", [true; 3]),
    ] {
        assert_eq!(hits(), [true; 3], "{fields}");
        let answer = front.ask("BAN", path, fields);
        assert_eq!((answer.status, answer.text().as_str()), (200, "Purged.\n"), "{answer:?}");
        assert_eq!(hits(), expected, "{path} {fields}");
    }
    assert_eq!(front.ask("BAN", "/b", "Tinaja-Purge: soft\r\n").status, 200);
    assert!(front.get("/b").cache_status().contains("fwd=stale"), "softly");
    assert_eq!(front.ask("BAN", "/b", "Tinaja-Purge: everything\r\n").status, 400);
    // A rule for PURGE is none for BAN, and what is refused does not reach the origin.
    let mut client = crate::support::Client::connect(front.proxy.addresses[1]);
    client.send("BAN /b HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(client.read("BAN").unwrap().status, 403);
    assert!(front.get("/b").is_hit());
    assert!(origin.requests().iter().all(|request| request.method == "GET"));
}

#[tokio::test]
async fn by_ban_over_http2() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "x");
    let front = front(&origin, |config| {
        config.listeners[0].rules.push(Rule { methods: vec!["BAN".into()], ..Rule::new(Action::Allow) });
    });
    let streams = Streams::connect(front.proxy.address).await;
    let url = "http://a.example/x";
    streams.get(url).await;
    assert!(streams.get(url).await.is_hit());
    assert_eq!(streams.ask("BAN", url, &[], &[]).await.unwrap().status, 200);
    assert!(!streams.get(url).await.is_hit() && streams.get(url).await.is_hit());
}

#[tokio::test]
async fn by_purge_over_http2() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\nSurrogate-Key: a\r\n", "x");
    let front = front(&origin, |_| {});
    let streams = Streams::connect(front.proxy.address).await;
    let url = "http://a.example/x";
    streams.get(url).await;
    assert!(streams.get(url).await.is_hit());
    let purged = streams.ask("PURGE", url, &[("surrogate-key", "a")], &[]).await.unwrap();
    assert_eq!(purged.status, 200);
    assert!(!streams.get(url).await.is_hit() && streams.get(url).await.is_hit());
}

#[test]
fn nobody_may_unless_a_rule_says_so() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\nxkey: a\r\n", "x");
    let front = front(&origin, |config| {
        let url = origin.url("").parse().unwrap();
        config.listeners.push(Listener::reverse("127.0.0.1:0".parse().unwrap(), url));
    });
    front.get("/x");
    let mut client = crate::support::Client::connect(front.proxy.addresses[1]);
    client.send("PURGE /x HTTP/1.1\r\nHost: a.example\r\nxkey: a\r\n\r\n");
    assert_eq!(client.read("PURGE").unwrap().status, 403);
    assert!(front.get("/x").is_hit());
}

/// Where another cache stands before this one, it is told the tags.
#[test]
fn a_reverse_proxy_passes_tags_on_if_it_is_told_to() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\nSurrogate-Key: a\r\n", "x");
    let front = front(&origin, |config| config.listeners[0].pass_tags = true);
    for hit in [false, true] {
        let answer = front.get("/x");
        assert_eq!((answer.is_hit(), answer.field("surrogate-key")), (hit, "a".into()));
    }
    front.purge(tag("a"), false);
    assert!(!front.get("/x").is_hit());
}

/// In front of origins their tags are between them and us; a forward proxy's clients get what the origin sent.
#[test]
fn a_forward_proxy_leaves_the_fields_alone_and_purges_by_them() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\nSurrogate-Key: a\r\nCache-Tag: b\r\n", "x");
    let dir = TempDir::new().unwrap();
    let proxy = Proxy::with(|config| config.control = Some(dir.path().to_owned()));
    for purged in ["a", "b"] {
        for hit in [false, true] {
            let answer = proxy.get(&origin.url("/x"));
            assert_eq!(
                (answer.is_hit(), answer.field("surrogate-key"), answer.field("cache-tag")),
                (hit, "a".into(), "b".into())
            );
        }
        assert_eq!(ask(dir.path(), &Ask::PurgeBy { what: vec![tag(purged)], soft: false }), Answer::PurgedBy);
    }
    assert!(!proxy.get(&origin.url("/x")).is_hit());
    // Where bans are written nowhere there are none.
    let homeless = Proxy::with(|config| {
        config.listeners[0].rules.push(Rule { methods: vec!["PURGE".into()], ..Rule::new(Action::Allow) })
    });
    let refused = homeless.request("PURGE", &origin.url("/x"), "Tinaja-Purge: host\r\n");
    assert_eq!((refused.status, refused.text().starts_with("Not purged.")), (500, true), "{refused:?}");
    assert_eq!(homeless.request("PURGE", &origin.url("/x"), "").status, 404);
}

/// A fetch that began before a purge and ended after it: its client gets it, and nobody else does.
#[test]
fn what_was_on_its_way_is_purged_with_the_rest() {
    for length in [3_usize, 300_000] {
        let (version, asked, gate) = (Arc::new(AtomicU64::new(1)), Gate::default(), Gate::default());
        let (now, heard, go) = (version.clone(), asked.clone(), gate.clone());
        let origin = Origin::start(move |request, stream| {
            let version = now.load(Ordering::SeqCst);
            heard.open();
            go.wait();
            reply(
                stream,
                request,
                200,
                "Cache-Control: max-age=60\r\nxkey: a\r\n",
                version.to_string().repeat(length).as_bytes(),
            )
        });
        let front = front(&origin, |_| {});
        thread::scope(|scope| {
            let first = scope.spawn(|| front.get("/x"));
            asked.wait();
            // The deploy, and its purge. Who comes now waits for the one that is on its way, and gets a newer one.
            version.store(2, Ordering::SeqCst);
            front.purge(tag("a"), false);
            front.purge(host(), false);
            let second = scope.spawn(|| front.get("/x"));
            gate.open();
            assert_eq!(first.join().unwrap().text(), "1".repeat(length));
            assert_eq!(second.join().unwrap().text(), "2".repeat(length));
        });
        // Of the two that were stored the last one wins, and the older one counts for nobody.
        eventually("the newer one is stored", || {
            let third = front.get("/x");
            assert_eq!(third.text(), "2".repeat(length));
            third.is_hit()
        });
    }
}

/// The origin says that what is stored still holds, of what was purged while it was asked.
#[test]
fn a_validation_does_not_bring_back_what_was_purged_meanwhile() {
    // That it is called something else from now on does not bring it back either.
    for (method, renamed) in [("GET", false), ("HEAD", false), ("GET", true), ("HEAD", true)] {
        let (asked, gate) = (Gate::default(), Gate::default());
        let (heard, go) = (asked.clone(), gate.clone());
        let origin = Origin::start(move |request, stream| {
            let conditional = request.field("if-none-match").is_some();
            let later = conditional || request.method == "HEAD";
            let tag = if later && renamed { "b" } else { "a" };
            let fields = &format!("Cache-Control: max-age=60\r\nETag: \"1\"\r\nxkey: {tag}\r\n");
            if conditional || request.method == "HEAD" {
                heard.open();
                go.wait();
            }
            let status = if conditional { 304 } else { 200 };
            reply(stream, request, status, fields, if conditional { b"" } else { b"1" })
        });
        let front = front(&origin, |_| {});
        front.get("/x");
        front.hand.advance(Duration::from_secs(61));
        thread::scope(|scope| {
            let first = scope.spawn(|| front.ask(method, "/x", "Cache-Control: no-cache\r\n"));
            asked.wait();
            front.purge(tag("a"), false);
            gate.open();
            assert_eq!(first.join().unwrap().status, 200);
        });
        let next = front.get("/x");
        assert!(next.cache_status().contains("detail=PURGED") && !next.is_hit(), "{next:?}");
        assert!(front.get("/x").is_hit());
        // And one that was asked for afterwards does hold.
        front.purge(tag("a"), true);
        let validated = front.get("/x");
        assert!(validated.cache_status().contains("fwd=stale; fwd-status=304"), "{validated:?}");
        assert!(front.get("/x").is_hit());
    }
}

#[test]
fn every_variant_and_every_piece() {
    let origin = Origin::start(|request, stream| {
        let fields = "Cache-Control: max-age=60\r\nETag: \"1\"\r\nxkey: a\r\n";
        match (request.path.as_str(), request.field("range").as_deref()) {
            ("/pieces", Some("bytes=0-3")) => {
                reply(stream, request, 206, &format!("Content-Range: bytes 0-3/10\r\n{fields}"), b"0123")
            }
            ("/pieces", Some("bytes=4-7")) => {
                reply(stream, request, 206, &format!("Content-Range: bytes 4-7/10\r\n{fields}"), b"4567")
            }
            _ => reply(stream, request, 200, &format!("Vary: Accept-Language\r\n{fields}"), b"x"),
        }
    });
    let front = front(&origin, |_| {});
    let languages = ["de", "en"].map(|language| format!("Accept-Language: {language}\r\n"));
    let ranges = ["Range: bytes=0-3\r\n", "Range: bytes=4-7\r\n"];
    let hits = || {
        let variants = languages.each_ref().map(|fields| front.ask("GET", "/varies", fields).is_hit());
        let pieces = ranges.map(|fields| {
            let answer = front.ask("GET", "/pieces", fields);
            assert_eq!(answer.status, 206);
            answer.is_hit()
        });
        [variants, pieces]
    };
    let all_hits = || eventually("all of it is a hit", || hits() == [[true; 2]; 2]);
    assert_eq!(hits(), [[false; 2]; 2]);
    all_hits();
    front.purge(host(), false);
    assert_eq!(hits(), [[false; 2]; 2]);
    all_hits();
    // Of one that was fetched anew the other piece stays purged.
    front.purge(tag("a"), false);
    assert!(!front.ask("GET", "/pieces", ranges[0]).is_hit());
    eventually("a piece is stored", || front.ask("GET", "/pieces", ranges[0]).is_hit());
    let count = origin.count();
    assert!(!front.ask("GET", "/pieces", ranges[1]).is_hit());
    assert_eq!(origin.count(), count + 1);
}

#[test]
fn softly_it_becomes_stale_and_is_served_where_stale_is_allowed() {
    let broken = Arc::new(AtomicBool::new(false));
    let is_broken = broken.clone();
    let origin = Origin::start(move |request, stream| {
        let more = match request.path.as_str() {
            "/swr" => ", stale-while-revalidate=100",
            "/sie" => ", stale-if-error=100",
            _ => "",
        };
        let fields = format!("Cache-Control: max-age=60{more}\r\nxkey: a\r\nETag: \"1\"\r\n");
        match (is_broken.load(Ordering::SeqCst), request.field("if-none-match")) {
            (true, _) => reply(stream, request, 500, "", b"broken"),
            (false, Some(_)) => reply(stream, request, 304, &fields, b""),
            (false, None) => reply(stream, request, 200, &fields, b"x"),
        }
    });
    let front = front(&origin, |_| {});
    let paths = ["/plain", "/swr", "/sie"];
    paths.iter().for_each(|path| assert_eq!(front.get(path).status, 200));
    front.hand.advance(Duration::from_secs(10));
    front.purge(tag("a"), true);
    front.hand.advance(Duration::from_secs(10));
    let explained = ask(front.dir.path(), &Ask::Explain { url: "http://a.example/plain".into(), fields: Vec::new() });
    let Answer::Explained { ways } = explained else { panic!("{explained:?}") };
    assert!(ways[0].verdict == Verdict::Validation && ways[0].why.contains("purged softly by a tag"), "{ways:?}");
    // Stale since it was purged, and validated behind its client.
    let served = front.get("/swr");
    assert!(served.cache_status().contains("hit; ttl=-10"), "{served:?}");
    eventually("it is validated", || front.get("/swr").cache_status().contains("hit; ttl=60"));
    assert!(front.get("/plain").cache_status().contains("fwd=stale; fwd-status=304"));
    assert!(front.get("/plain").is_hit());
    broken.store(true, Ordering::SeqCst);
    let instead = front.get("/sie");
    assert_eq!((instead.status, instead.text().as_str()), (200, "x"), "{instead:?}");
    let fields = "Tinaja-Purge: soft\r\n";
    assert_eq!(front.ask("PURGE", "/plain", fields).status, 200);
    assert_eq!(front.get("/plain").status, 500, "it may not be served stale");
    // What is gone is not served to anybody.
    front.purge(tag("a"), false);
    paths.iter().for_each(|path| assert_eq!(front.get(path).status, 500, "{path}"));
}

/// Something is purged softly, and then the clock is put back to before that. It was stale since "now" as long as the clock was behind, and so it was served as
/// if it had been purged this very moment: the simulation found that.
#[test]
fn softly_and_then_the_clock_is_put_back() {
    let broken = Arc::new(AtomicBool::new(false));
    let is_broken = broken.clone();
    let origin = Origin::start(move |request, stream| {
        let fields = "Cache-Control: max-age=600, stale-while-revalidate=15\r\nxkey: a\r\n";
        let status = if is_broken.load(Ordering::SeqCst) { 500 } else { 200 };
        reply(stream, request, status, fields, b"x")
    });
    let (hand, dir) = (ManualClock::new(), TempDir::new().unwrap());
    let right = hand.clock().wall();
    let store: Arc<dyn Store> = Arc::new(Reference::by(hand.clock().noting(Some(right - Duration::from_secs(600)))));
    let proxy = over(&store, dir.path(), &origin, |_| {});
    let front = Front { hand, proxy, dir };
    assert_eq!(front.get("/").status, 200);
    front.hand.advance(Duration::from_secs(50));
    front.purge(tag("a"), true);
    broken.store(true, Ordering::SeqCst);
    front.hand.set_wall(right + Duration::from_secs(10));
    front.hand.advance(Duration::from_secs(10));
    let served = front.get("/");
    assert!(served.cache_status().contains("hit; ttl=-10"), "it was purged 10 seconds ago: {served:?}");
    front.hand.advance(Duration::from_secs(10));
    assert_eq!(front.get("/").status, 500, "and now 20");
}

#[test]
fn offline_what_was_purged_softly_is_served_and_nothing_else() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\nxkey: a\r\n", "x");
    let (store, temp): (Arc<dyn Store>, _) = (Arc::new(Reference::new()), TempDir::new().unwrap());
    let dir = temp.path();
    let online = over(&store, dir, &origin, |_| {});
    at(&online, "GET", "/x", "");
    online.has_stored(1);
    assert_eq!(ask(dir, &Ask::PurgeBy { what: vec![tag("a")], soft: true }), Answer::PurgedBy);
    drop(online);
    let offline = over(&store, dir, &origin, |config| config.listeners[0].offline = true);
    let told = at(&offline, "GET", "/x", "").cache_status().to_owned();
    let ttl = told.split("ttl=").nth(1).and_then(|rest| rest.split(';').next()?.parse::<i64>().ok());
    assert!(told.contains("hit;") && ttl.is_some_and(|ttl| ttl <= 0), "{told}");
    assert_eq!(ask(dir, &Ask::PurgeBy { what: vec![tag("a")], soft: false }), Answer::PurgedBy);
    assert_eq!(at(&offline, "GET", "/x", "").status, 504);
}

#[test]
fn after_a_restart_and_after_the_file_is_lost() {
    // What it allows to be served stale does not hold where nobody knows whether that was purged.
    let fields = "Cache-Control: max-age=60, stale-while-revalidate=600\r\nETag: \"1\"\r\nxkey: a\r\n";
    let origin = Origin::fixed(fields, "x");
    let (store, temp): (Arc<dyn Store>, _) = (Arc::new(Reference::new()), TempDir::new().unwrap());
    let dir = temp.path();
    let proxy = over(&store, dir, &origin, |_| {});
    at(&proxy, "GET", "/before", "");
    assert_eq!(ask(dir, &Ask::PurgeBy { what: vec![tag("a")], soft: false }), Answer::PurgedBy);
    at(&proxy, "GET", "/after", "");
    proxy.has_stored(2);
    drop(proxy);
    let again = over(&store, dir, &origin, |_| {});
    assert!(at(&again, "GET", "/after", "").is_hit());
    assert!(at(&again, "GET", "/before", "").cache_status().contains("detail=PURGED"));
    drop(again);
    std::fs::remove_file(dir.join("tinaja.bans")).unwrap();
    let again = over(&store, dir, &origin, |_| {});
    let told = at(&again, "GET", "/after", "").cache_status().to_owned();
    assert!(told.contains("fwd=stale"), "nobody knows what was purged: {told}");
}

/// Tags without number or end are bounded, and what is not kept counts as every tag.
#[test]
fn an_origin_with_a_million_tags() {
    let origin = Origin::start(|request, stream| {
        let tags = match request.path.as_str() {
            "/many" => (0..8000).map(|n| format!("t{n} ")).collect::<String>(),
            "/long" => "x".repeat(50_000),
            "/million" => "t ".repeat(1_000_000),
            "/huge" => "x".repeat(1 << 20),
            _ => String::new(),
        };
        reply(stream, request, 200, &format!("Cache-Control: max-age=60\r\nxkey: {tags}\r\n"), b"x")
    });
    let front = front(&origin, |_| {});
    for path in ["/many", "/long", "/few"] {
        assert_eq!(front.get(path).status, 200, "{path}");
        assert!(front.get(path).is_hit(), "{path}");
    }
    front.purge(tag("no-such"), false);
    assert!(!front.get("/many").is_hit() && front.get("/long").is_hit() && front.get("/few").is_hit());
    // A head as large as that is no answer at all.
    for path in ["/million", "/huge"] {
        assert_eq!(front.get(path).status, 502, "{path}");
    }
}
