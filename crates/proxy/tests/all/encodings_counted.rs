//! Encoded forms as their figures say it, in which order they are made, and what their lengths tell.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tinaja_proxy::cache_rules::CacheRules;
use tinaja_proxy::{Mode, Routes};
use tinaja_store::Store as _;
use tinaja_testkit::client;
use tinaja_testkit::port::free_port;
use tokio::sync::watch;

use crate::encodings::{ask, before_with, decoded, encoded, encoding, get, has_stored, origin_of, text};
use crate::support::{Altered, Origin, Proxy, eventually, reply};

/// How often forms in this coding were sent, as the metrics say.
fn hits(metrics: SocketAddr, coding: &str) -> u64 {
    let series = format!("tinaja_encoded_hits_total{{coding=\"{coding}\"}} ");
    let page = client::get(metrics, "/metrics").unwrap().text();
    page.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).unwrap_or_else(|| panic!("{series}{page}"))
}

/// Each form that a client got to its end counts once, under its coding: over HTTP/1.1, whether it was answered at once or not. What has no content, what is
/// not encoded, and what its client did not take do not count.
#[test]
fn each_form_that_was_sent_counts_once() {
    let (origin, metrics) = (origin_of(""), SocketAddr::from(([127, 0, 0, 1], free_port())));
    let (proxy, _) = before_with(&origin, vec![encoding()], |config| config.metrics = Some(metrics));
    get(&proxy, "/", "gzip");
    // One form is made behind the fetch, and the others behind the first that wants them: these get the text.
    has_stored(&proxy, 2);
    for (number, coding) in [(3, "br"), (4, "zstd")] {
        assert_eq!(get(&proxy, "/", coding).field("content-encoding"), "");
        has_stored(&proxy, number);
    }
    assert_eq!(["gzip", "br", "zstd"].map(|coding| hits(metrics, coding)), [0, 0, 0], "all got the text");
    for (coding, times) in [("gzip", 1), ("br", 2), ("zstd", 3)] {
        for number in 0..times {
            // Every other one has a condition, and goes the long way.
            let condition = ["", "If-None-Match: \"other\"\r\n"][number % 2];
            let answer = ask(&proxy, "GET", "/", &format!("Accept-Encoding: {coding}\r\n{condition}"));
            assert!(answer.field("content-encoding") == coding && decoded(&answer) == text(1), "{answer:?}");
        }
        // No content: a HEAD, and a 304. Content that is in no coding: a part, and the whole for who wants no other.
        assert_eq!(
            ask(&proxy, "HEAD", "/", &format!("Accept-Encoding: {coding}\r\n")).field("content-encoding"),
            coding
        );
        let condition = format!("Accept-Encoding: {coding}\r\nIf-None-Match: W/\"one--{coding}\"\r\n");
        assert_eq!(ask(&proxy, "GET", "/", &condition).status, 304);
        assert_eq!(ask(&proxy, "GET", "/", &format!("Accept-Encoding: {coding}\r\nRange: bytes=0-9\r\n")).status, 206);
        assert_eq!(get(&proxy, "/", "identity").field("content-encoding"), "");
        // A form is counted when its last byte has been sent, which its client may have before that.
        eventually("it is counted", || hits(metrics, coding) == times as u64);
    }
    assert_eq!(["gzip", "br", "zstd"].map(|coding| hits(metrics, coding)), [1, 2, 3]);
    assert_eq!(origin.count(), 1);
}

/// Long texts are compressed one at a time, and nothing waits for them but each other: not their clients, who get the text, and not short texts. All were in
/// one line once, and a page waited for its form until a film's subtitles had theirs.
#[test]
fn long_texts_wait_for_each_other_and_nothing_waits_for_them() {
    let long = || text(1).repeat(40);
    let origin = Origin::start(move |request, stream| {
        let body = if request.path == "/short" { text(1) } else { text(1).repeat(40) };
        reply(stream, request, 200, "Content-Type: text/plain\r\nCache-Control: max-age=6000\r\n", &body)
    });
    // Whoever makes the form of a long text looks for it twice: whether it is long, and again when it is its turn. Then it waits here.
    let (open, gate) = watch::channel(false);
    let looks = Arc::new(AtomicUsize::new(0));
    let looked = looks.clone();
    let store = Altered::finding_behind(move |store, key| {
        let (pending, mut gate, looks) = (store.find(key), gate.clone(), looks.clone());
        Box::pin(async move {
            let hit = pending.await?;
            if hit.body.len().is_some_and(|length| length > 1 << 20) {
                // The third look is the first of the other text.
                let number = looks.fetch_add(1, Ordering::SeqCst) + 1;
                if number != 1 && number != 3 {
                    gate.wait_for(|open| *open).await.ok()?;
                }
            }
            Some(hit)
        })
    });
    let url = format!("http://{}", origin.address).parse().unwrap();
    let proxy = Proxy::over(Arc::new(store), |config| {
        // Enough for two that compress.
        config.workers = 4;
        config.listeners[0].mode = Mode::Reverse(Routes::to(url));
        config.listeners[0].cache_rules = CacheRules::new(vec![encoding()]).unwrap();
    });
    assert!(get(&proxy, "/long", "gzip").body == long());
    eventually("the first has its turn", || looked.load(Ordering::SeqCst) == 2);
    assert!(get(&proxy, "/longer", "gzip").body == long());
    eventually("the second is known to be long", || looked.load(Ordering::SeqCst) == 3);
    get(&proxy, "/short", "gzip");
    assert!(decoded(&encoded(&proxy, "/short", "gzip", "gzip")) == text(1));
    for path in ["/long", "/longer"] {
        let answer = get(&proxy, path, "gzip");
        assert!(answer.is_hit() && answer.body == long(), "{path}: nobody waits");
    }
    assert_eq!(looked.load(Ordering::SeqCst), 3, "the second waits for the first");
    assert_eq!(proxy.store.stats().stored, 4, "three texts and one form");
    open.send_replace(true);
    for path in ["/long", "/longer"] {
        assert!(decoded(&encoded(&proxy, path, "gzip", "gzip")) == long(), "{path}");
    }
    assert_eq!(origin.count(), 3);
}

/// A page with the secret of its client and with whatever stands in its URL, as many search pages are.
fn reflecting() -> Origin {
    Origin::start(|request, stream| {
        let (path, guess) = request.path.split_once('?').unwrap();
        let control = match path {
            "/private" => "private, max-age=60",
            "/no-transform" => "max-age=60, no-transform",
            "/for-all" => "public, max-age=60",
            _ => "max-age=60",
        };
        let page = format!("{}token=7f3a91c2e8 you asked for {guess}\n", ".".repeat(600));
        let fields = format!("Content-Type: text/html\r\nCache-Control: {control}\r\n");
        reply(stream, request, 200, &fields, page.as_bytes())
    })
}

/// BREACH: whoever can have a client ask for pages with a text of his choice, and sees how long they are, guesses the secret byte by byte. Where the page may be
/// of one client, a guess that is right is as long as one that is wrong. (A page that says `public` is for all by its origin's word, secret or not: there it
/// shows what the others would tell.)
#[test]
fn lengths_tell_no_secret_of_a_client() {
    const GUESSES: [&str; 2] = ["token=7f3a91c2e8", "token=d40b65b19d"];
    let origin = reflecting();
    let (proxy, _) = before_with(&origin, vec![encoding()], |_| {});
    let lengths = |path: &str, fields: &str| {
        GUESSES.map(|guess| {
            let fields = format!("Accept-Encoding: br, gzip, zstd\r\n{fields}");
            // As often as it takes for a form to be there, were there one.
            let answers = [(); 3].map(|()| ask(&proxy, "GET", &format!("{path}?{guess}"), &fields));
            for answer in &answers {
                assert_eq!(
                    (answer.header("content-encoding"), answer.header("vary")),
                    (None, None),
                    "{path}: {answer:?}"
                );
            }
            answers[2].body.len()
        })
    };
    let cookie = "Cookie: session=1\r\n";
    for (path, fields) in [("/own", cookie), ("/private", ""), ("/private", cookie), ("/no-transform", "")] {
        let [right, wrong] = lengths(path, fields);
        assert_eq!(right, wrong, "{path}");
    }
    let forms = GUESSES.map(|guess| encoded(&proxy, &format!("/for-all?{guess}"), "br, gzip", "br").body.len());
    assert!(forms[0] < forms[1], "this page's length tells: {forms:?}");
    eventually("two forms are stored, and what they are made of, and two pages of each of two kinds", || {
        proxy.store.stats().live_objects == 2 + 2 + 4
    });
}
