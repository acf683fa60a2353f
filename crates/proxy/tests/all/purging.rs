//! Forgetting URLs, by PURGE and through the control socket, what that explains, and what it does with bad clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::bans::Gate;
use crate::support::{Log, Origin, Proxy, Response, eventually, reply};
use tempfile::TempDir;
use tinaja_proxy::admin::socket::{NAME, connect};
use tinaja_proxy::admin::words::{Answer, Ask, Verdict};
use tinaja_proxy::{Action, Listener, Rule};

/// Cacheable, and different for each language.
fn varying() -> Origin {
    Origin::start(|request, stream| {
        let language = request.field("accept-language").unwrap_or_default();
        reply(stream, request, 200, "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n", language.as_bytes())
    })
}

fn purging() -> Rule {
    Rule { methods: vec!["PURGE".into()], ..Rule::new(Action::Allow) }
}

fn in_language(proxy: &Proxy, url: &str, language: &str) -> Response {
    let response = proxy.get_with(url, &format!("Accept-Language: {language}\r\n"));
    assert_eq!((response.status, response.text().as_str()), (200, language));
    response
}

/// Both languages are hits from now on.
fn fill(proxy: &Proxy, url: &str) {
    for hit in [false, true] {
        for language in ["en", "sw"] {
            assert_eq!(in_language(proxy, url, language).is_hit(), hit, "{language}");
        }
    }
}

/// Neither is in the cache any more, and fetching one does not bring the other back.
fn assert_all_gone(proxy: &Proxy, url: &str) {
    assert!(!in_language(proxy, url, "sw").is_hit());
    assert!(!in_language(proxy, url, "en").is_hit());
    assert!(in_language(proxy, url, "sw").is_hit() && in_language(proxy, url, "en").is_hit());
}

#[test]
fn purge_is_refused_unless_a_rule_names_it() {
    let origin = varying();
    for rules in [vec![], vec![Rule::new(Action::Allow)]] {
        let log = Log::new();
        let proxy = Proxy::with(|config| {
            rules.into_iter().for_each(|rule| config.listeners[0].rules.push(rule));
            log.of(config);
        });
        let url = origin.url("/a");
        in_language(&proxy, &url, "en");
        let refused = proxy.request("PURGE", &url, "");
        assert!(refused.status == 403 && log.why(&refused).contains("method PURGE"), "{refused:?}");
        assert!(in_language(&proxy, &url, "en").is_hit());
    }
    let reverse = Proxy::reverse(&origin);
    assert_eq!(reverse.request("PURGE", &origin.url("/a"), "").status, 403);
    assert!(origin.requests().iter().all(|request| request.method == "GET"));
}

#[test]
fn purge_forgets_all_variants_and_nothing_else() {
    let origin = varying();
    let proxy = Proxy::with(|config| config.listeners[0].rules.push(purging()));
    let (url, other) = (origin.url("/a?b"), origin.url("/a"));
    fill(&proxy, &url);
    fill(&proxy, &other);
    let purged = proxy.request("PURGE", &url, "");
    assert_eq!((purged.status, purged.text().as_str()), (200, "Purged.\n"), "{purged:?}");
    assert_eq!(purged.field("connection"), "close");
    assert_all_gone(&proxy, &url);
    assert!(in_language(&proxy, &other, "en").is_hit());
    let missing = proxy.request("PURGE", &origin.url("/never"), "");
    assert_eq!((missing.status, missing.text().as_str()), (404, "It was not in the cache.\n"));
    assert!(origin.requests().iter().all(|request| request.method == "GET"));
}

#[test]
fn purge_at_a_reverse_proxy_names_the_site() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "kept");
    let proxy = Proxy::with(|config| {
        config.listeners[0] = Listener::reverse("127.0.0.1:0".parse().unwrap(), origin.url("").parse().unwrap());
        config.listeners[0].rules.push(purging());
    });
    let ask = |method: &str, host: &str| {
        let mut client = proxy.client();
        client.send(format!("{method} /x HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.read(method).unwrap()
    };
    for host in ["a.example", "b.example"] {
        ask("GET", host);
    }
    assert_eq!(ask("PURGE", "a.example").status, 200);
    assert!(!ask("GET", "a.example").is_hit() && ask("GET", "b.example").is_hit());
}

/// One line through the socket, and the one that comes back.
fn say(dir: &Path, line: &[u8]) -> Answer {
    let mut stream = connect(dir).unwrap().expect("nobody listens");
    // Refused early, the rest of a line that is too long finds nobody.
    let _ = stream.write_all(line);
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

pub fn ask(dir: &Path, ask: &Ask) -> Answer {
    say(dir, format!("{}\n", serde_json::to_string(ask).unwrap()).as_bytes())
}

fn purge(dir: &Path, url: &str) -> Answer {
    ask(dir, &Ask::Purge { url: url.into() })
}

#[test]
fn the_socket_purges_and_counts() {
    let origin = varying();
    let dir = TempDir::new().unwrap();
    let mut proxy = Proxy::with(|config| {
        config.control = Some(dir.path().into());
        config.listeners.push(Listener::reverse("127.0.0.1:0".parse().unwrap(), origin.url("").parse().unwrap()));
    });
    let mode = std::fs::metadata(dir.path().join(NAME)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (url, other) = (origin.url("/a"), origin.url("/b"));
    fill(&proxy, &url);
    in_language(&proxy, &other, "en");
    // The same, asked of the reverse proxy: another object, which the same purge forgets.
    let host = origin.address.to_string();
    let reversed = || {
        let mut client = crate::support::Client::connect(proxy.addresses[1]);
        client.send(format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.read("GET").unwrap()
    };
    assert!(!reversed().is_hit() && reversed().is_hit());

    // The last of them is stored behind its answer.
    eventually("all are stored", || {
        matches!(
            ask(dir.path(), &Ask::Inspect { top: 1 }), Answer::Inspected { top: Some(top), .. } if top.objects == 4
        )
    });
    let Answer::Inspected { figures, top: Some(top) } = ask(dir.path(), &Ask::Inspect { top: 10 }) else { panic!() };
    assert_eq!((figures.corrupt, top.complete, top.by_objects.len()), (0, true, 1));
    // Two variants, one of them at the URL itself; the other URL; the reverse proxy's.
    assert_eq!((top.by_objects[0].host.as_str(), top.by_objects[0].objects, top.objects), (host.as_str(), 4, 4));
    assert_eq!((top.by_bytes.clone(), top.by_bytes[0].bytes), (top.by_objects.clone(), top.bytes));
    assert!(matches!(ask(dir.path(), &Ask::Inspect { top: 0 }), Answer::Inspected { top: None, .. }));

    assert_eq!(purge(dir.path(), &url), Answer::Purged { objects: 2 });
    assert_all_gone(&proxy, &url);
    assert!(!reversed().is_hit());
    assert!(in_language(&proxy, &other, "en").is_hit());
    assert_eq!(purge(dir.path(), &origin.url("/never")), Answer::Purged { objects: 0 });
    assert!(matches!(purge(dir.path(), "/a"), Answer::Failed { why } if why.contains("no URL")));

    proxy.stop();
    assert!(!dir.path().join(NAME).exists() && connect(dir.path()).unwrap().is_none());
}

/// Each listener that gives a URL another name is told of once.
#[test]
fn explaining_at_several_listeners() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "kept");
    let dir = TempDir::new().unwrap();
    let proxy = Proxy::with(|config| {
        config.control = Some(dir.path().into());
        let reverse = Listener::reverse("127.0.0.1:0".parse().unwrap(), origin.url("").parse().unwrap());
        config.listeners.extend([config.listeners[0].clone(), reverse]);
    });
    let explain = |fields| ask(dir.path(), &Ask::Explain { url: origin.url("/"), fields });
    proxy.get(&origin.url("/"));
    let Answer::Explained { ways } = explain(Vec::new()) else { panic!() };
    let said = |verdict: Verdict| ways.iter().filter(|way| way.verdict == verdict).count();
    assert_eq!((ways.len(), said(Verdict::Hit), said(Verdict::Miss)), (2, 1, 1), "{ways:?}");
    assert!(ways[0].listener.starts_with("forward") && ways[1].listener.starts_with("reverse"), "{ways:?}");
    for (fields, verdict) in [("max-age=0", Verdict::Miss), ("only-if-cached, no-cache", Verdict::Refused)] {
        let fields = vec![("Cache-Control".to_owned(), fields.to_owned())];
        let Answer::Explained { ways } = explain(fields) else { panic!() };
        assert_eq!(ways[0].verdict, verdict, "{ways:?}");
    }
    let smuggled = vec![("X".to_owned(), "y\r\nZ: z".to_owned())];
    assert!(matches!(explain(smuggled), Answer::Failed { why } if why.contains("one line")));
    assert_eq!(origin.count(), 1);
}

#[test]
fn bad_clients_of_the_socket_hurt_nobody() {
    let origin = varying();
    let dir = TempDir::new().unwrap();
    let proxy = Proxy::with(|config| config.control = Some(dir.path().into()));
    let failed = |line: &[u8], word: &str| {
        let answer = say(dir.path(), line);
        assert!(matches!(&answer, Answer::Failed { why } if why.contains(word)), "{word:?}: {answer:?}");
    };
    failed(b"GET / HTTP/1.1\r\n\r\n", "does not know");
    failed(b"\n", "does not know");
    failed(b"{\"ask\":\"dance\"}\n", "does not know");
    failed(b"{\"ask\":\"purge\",\"url\":\"http://a/\",\"more\":1}\n", "does not know");
    failed(b"{\"ask\":\"inspect\",\"top\":-1}\n", "does not know");
    failed(b"\xff\xfe\n", "cannot be read");
    failed(&[b'x'; 100_000], "one line");
    let deep = [b"[".repeat(60_000), b"\n".to_vec()].concat();
    failed(&deep, "does not know");
    for _ in 0..50 {
        // Gone before the answer.
        let mut stream = connect(dir.path()).unwrap().unwrap();
        stream.write_all(b"{\"ask\":\"inspect\",\"top\":10}\n").unwrap();
    }
    // Two that say nothing, and one that takes nothing.
    let _silent = [connect(dir.path()).unwrap(), connect(dir.path()).unwrap()];
    assert!(matches!(ask(dir.path(), &Ask::Inspect { top: 1 }), Answer::Inspected { .. }));
    assert_eq!(proxy.get(&origin.url("/a")).status, 200);
    // More at once than are answered at once: the others wait for a place, and get one when the silent are given up.
    let mut crowd: Vec<_> = (0..10).map(|_| connect(dir.path()).unwrap().unwrap()).collect();
    let mut said = String::new();
    crowd[0].read_to_string(&mut said).unwrap();
    assert!(said.contains("no request came in time"), "{said}");
    drop(crowd);
    assert!(matches!(ask(dir.path(), &Ask::Inspect { top: 1 }), Answer::Inspected { .. }));
}

#[test]
fn without_its_socket_the_proxy_serves_all_the_same() {
    let origin = varying();
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join(NAME), "mine").unwrap();
    for control in [dir.path().to_path_buf(), dir.path().join("missing")] {
        let proxy = Proxy::with(|config| config.control = Some(control));
        assert_eq!(proxy.get(&origin.url("/a")).status, 200);
    }
    assert_eq!(std::fs::read(dir.path().join(NAME)).unwrap(), b"mine");
}

/// What the origin has been asked for when a URL is purged does not come back, though its head comes later: it is nobody's but of those who asked
/// before. So it is for wholes, variants and parts, and for whoever waits for the same.
#[test]
fn what_is_on_its_way_when_its_url_is_purged_is_not_stored() {
    for (fields, status) in [("", 200), ("Accept-Language: en\r\n", 200), ("Range: bytes=0-0\r\n", 206)] {
        let (version, asked, go) = (Arc::new(AtomicU64::new(1)), Gate::default(), Gate::default());
        let (now, heard, may) = (version.clone(), asked.clone(), go.clone());
        let origin = Origin::start(move |request, stream| {
            let body = now.load(Ordering::SeqCst).to_string();
            heard.open();
            may.wait();
            let vary = if request.field("accept-language").is_some() { "Vary: Accept-Language\r\n" } else { "" };
            let is_part = request.field("range").is_some();
            let part = if is_part { "Content-Range: bytes 0-0/3\r\n" } else { "" };
            let fields = format!("Cache-Control: max-age=60\r\nETag: \"{body}\"\r\n{vary}{part}");
            let body = if is_part { body } else { body.repeat(3) };
            reply(stream, request, if is_part { 206 } else { 200 }, &fields, body.as_bytes())
        });
        let proxy = Proxy::with(|config| {
            config.listeners[0].rules.push(purging());
            config.limits.fill_range_below = 0;
        });
        let url = origin.url("/x");
        thread::scope(|scope| {
            let first = scope.spawn(|| proxy.get_with(&url, fields));
            asked.wait();
            version.store(2, Ordering::SeqCst);
            assert_eq!(proxy.request("PURGE", &url, "").status, 404, "nothing of it is there yet");
            let second = scope.spawn(|| proxy.get_with(&url, fields));
            go.open();
            let (first, second) = (first.join().unwrap(), second.join().unwrap());
            assert_eq!((first.status, &first.text()[..1]), (status, "1"), "{fields}");
            assert_eq!((second.status, &second.text()[..1]), (status, "2"), "{fields}");
        });
        for _ in 0..3 {
            assert_eq!(&proxy.get_with(&url, fields).text()[..1], "2", "{fields}");
        }
        eventually("the newer one is stored", || proxy.get_with(&url, fields).is_hit());
    }
}
