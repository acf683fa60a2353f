//! Parts of objects: stored as they come, combined, and only what is missing is fetched (RFC 9111 3.3 and 3.4).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tinaja_testkit::halting::Halting;

use crate::support::{Altered, Origin, Proxy, Request, Response, eventually, reply};
use tinaja_proxy::{Action, Rule};
use tinaja_store::{Cache, CacheOptions, Store, block_on};

pub const FRESH: &str = "Cache-Control: max-age=60\r\n";
pub const STALE: &str = "Cache-Control: max-age=0\r\n";
pub const LENGTH: u64 = 5_000_000;

/// A file: each version has other bytes.
#[derive(Clone, Default)]
pub struct File(pub Arc<Inside>);

#[derive(Default)]
pub struct Inside {
    pub version: AtomicU64,
    pub sent: AtomicU64,
    fields: Mutex<String>,
    /// Answers with the part that was asked for, whatever If-Range says.
    pub ignores_if_range: AtomicBool,
    /// Answers with all of it, whatever Range says.
    pub ignores_range: AtomicBool,
    /// Closes each connection without an answer.
    pub dead: AtomicBool,
    /// Takes its time: 50 kB in 20 ms.
    pub slow: AtomicBool,
    /// Breaks each answer off after so many bytes, if not 0.
    pub breaks_after: AtomicU64,
    /// Answers that are being sent.
    pub sending: AtomicU64,
}

pub fn bytes_of(version: u64, range: Range<u64>) -> Vec<u8> {
    range.map(|at| (at % 251 + at / 997 + version * 13) as u8).collect()
}

/// The one range that was asked for.
fn asked(request: &Request) -> Option<Range<u64>> {
    let range = request.field("range")?;
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let end = last.parse::<u64>().map_or(LENGTH, |last| (last + 1).min(LENGTH));
    Some(match first.parse::<u64>() {
        Ok(first) => first..end,
        Err(_) => LENGTH - last.parse::<u64>().unwrap()..LENGTH,
    })
}

impl File {
    pub fn new(fields: &str) -> File {
        let file = File::default();
        *file.0.fields.lock().unwrap() = fields.to_owned();
        file
    }

    pub fn origin(&self) -> Origin {
        let file = self.clone();
        Origin::start(move |request, stream| {
            file.0.sending.fetch_add(1, Ordering::SeqCst);
            let goes_on = file.answer(request, stream);
            file.0.sending.fetch_sub(1, Ordering::SeqCst);
            goes_on
        })
    }

    pub fn tag(&self) -> String {
        format!("\"v{}\"", self.0.version.load(Ordering::SeqCst))
    }

    pub fn sent(&self) -> u64 {
        self.0.sent.load(Ordering::SeqCst)
    }

    pub fn change(&self) {
        self.0.version.fetch_add(1, Ordering::SeqCst);
    }

    pub fn set(&self, fields: &str) {
        *self.0.fields.lock().unwrap() = fields.to_owned();
    }

    fn answer(&self, request: &Request, stream: &mut TcpStream) -> bool {
        if self.0.dead.load(Ordering::SeqCst) {
            return false;
        }
        let (tag, mut fields) = (self.tag(), self.0.fields.lock().unwrap().clone());
        // Each version in another year.
        let modified = format!("Wed, 01 Jan {} 00:00:00 GMT", 2000 + self.0.version.load(Ordering::SeqCst));
        let dated = fields.contains("Dated");
        if dated {
            let now = httpdate::fmt_http_date(std::time::SystemTime::now());
            fields += &format!("Date: {now}\r\n");
            // A part need not say what it was asked for by.
            let asked_by = request.field("range").and(request.field("if-range"));
            if !(fields.contains("Brief") && asked_by.as_ref() == Some(&modified)) {
                fields += &format!("Last-Modified: {modified}\r\n");
            }
        } else if !fields.contains("ETag") {
            fields += &format!("ETag: {tag}\r\n");
        }
        if request.method != "GET" && request.method != "HEAD" {
            return reply(stream, request, 200, "", b"done");
        }
        if request.field("if-none-match").as_ref() == Some(&tag) {
            return reply(stream, request, 304, &fields, b"");
        }
        let now = if dated { &modified } else { &tag };
        let same = request.field("if-range").is_none_or(|expected| expected == *now);
        let same = same || self.0.ignores_if_range.load(Ordering::SeqCst);
        let ignored = self.0.ignores_range.load(Ordering::SeqCst);
        let range = asked(request).filter(|_| same && !ignored);
        let (status, Range { start, end }) = range.clone().map_or((200, 0..LENGTH), |range| (206, range));
        let mut head = format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n{fields}", end - start);
        if range.is_some() {
            head += &format!("Content-Range: bytes {start}-{}/{LENGTH}\r\n", end - 1);
        }
        let mut written = stream.write_all(format!("{head}\r\n").as_bytes());
        let mut at = start;
        let most = self.0.breaks_after.load(Ordering::SeqCst);
        while request.method == "GET" && at < end && written.is_ok() {
            if most > 0 && at - start >= most {
                return false;
            }
            let to = (at + 50_000).min(end);
            // Counted first: the client may look as soon as it has them.
            self.0.sent.fetch_add(to - at, Ordering::SeqCst);
            written = stream.write_all(&bytes_of(self.0.version.load(Ordering::SeqCst), at..to));
            at = to;
            if self.0.slow.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        written.is_ok()
    }
}

pub fn get(proxy: &Proxy, url: &str, range: &str) -> Response {
    proxy.get_with(url, &format!("Range: bytes={range}\r\n"))
}

/// Asks for a part, sees that it is right, and says how many bytes the origin sent for it.
pub fn part(proxy: &Proxy, file: &File, url: &str, range: Range<u64>) -> (Response, u64) {
    let before = file.sent();
    let part = get(proxy, url, &format!("{}-{}", range.start, range.end - 1));
    assert_eq!(part.status, 206, "{}", part.head);
    let version = file.0.version.load(Ordering::SeqCst);
    assert!(part.body == bytes_of(version, range.clone()), "{range:?} {}", part.head);
    assert_eq!(part.field("content-range"), format!("bytes {}-{}/{LENGTH}", range.start, range.end - 1));
    assert_eq!(part.field("content-length"), (range.end - range.start).to_string());
    (part, file.sent() - before)
}

/// Waits until what was asked for is stored: a part is stored behind its answer.
pub fn stored(proxy: &Proxy, url: &str, range: Range<u64>) {
    let fields = format!("Range: bytes={}-{}\r\nCache-Control: only-if-cached\r\n", range.start, range.end - 1);
    eventually("the part is stored", || proxy.get_with(url, &fields).status == 206);
}

#[test]
fn a_part_is_asked_for_once() {
    let file = File::new(FRESH);
    let origin = file.origin();
    for proxy in [Proxy::forward(), Proxy::reverse(&origin)] {
        let url = origin.url("/video");
        let before = origin.count();
        let (first, moved) = part(&proxy, &file, &url, 1_000_000..1_500_000);
        assert_eq!((moved, first.is_hit()), (500_000, false), "{}", first.head);
        assert!(first.field("cache-status").ends_with("fwd=uri-miss; fwd-status=206; stored"), "{}", first.head);
        stored(&proxy, &url, 1_000_000..1_500_000);
        for range in [1_000_000..1_500_000, 1_000_001..1_000_002, 1_200_000..1_500_000] {
            let (again, moved) = part(&proxy, &file, &url, range);
            assert!(again.is_hit() && moved == 0, "{}", again.head);
            assert!(!again.field("age").is_empty() && again.field("cache-status").contains("ttl="), "{}", again.head);
        }
        // Its head, a condition, several parts, and what no object of that length has.
        let head = proxy.request("HEAD", &url, "");
        assert_eq!((head.status, head.field("content-length").as_str()), (200, "5000000"));
        let tag = format!("If-None-Match: {}\r\n", file.tag());
        assert_eq!(proxy.get_with(&url, &tag).status, 304);
        let parts = get(&proxy, &url, "1000000-1000009,1400000-1400009");
        assert!(parts.is_hit() && parts.status == 206, "{}", parts.head);
        for range in [1_000_000..1_000_010, 1_400_000..1_400_010] {
            let wanted = bytes_of(0, range);
            assert!(parts.body.windows(10).any(|window| window == wanted), "{}", parts.head);
        }
        assert_eq!(get(&proxy, &url, "9000000-").status, 416);
        let matching = format!("Range: bytes=1000000-1000009\r\nIf-Range: {}\r\n", file.tag());
        assert!(proxy.get_with(&url, &matching).is_hit());
        assert_eq!(origin.count() - before, 1);
    }
}

#[test]
fn only_what_is_missing_is_fetched() {
    let file = File::new(FRESH);
    let (origin, proxy) = (file.origin(), Proxy::forward());
    let url = origin.url("/image");
    for (range, expected) in [
        (0..100_000, 100_000),
        (200_000..300_000, 100_000),
        // Between two pieces, with both of their ends.
        (50_000..250_000, 100_000),
        // Before, behind, and around.
        (250_000..350_000, 50_000),
        (600_000..700_000, 100_000),
        (550_000..650_000, 50_000),
        (340_000..710_000, 360_000),
        (0..710_000, 0),
    ] {
        let (answer, moved) = part(&proxy, &file, &url, range.clone());
        assert_eq!(moved, expected, "{range:?} {}", answer.head);
        if range.start > 0 && expected > 0 && expected < range.end - range.start {
            let status = answer.field("cache-status");
            assert!(status.ends_with("fwd=partial; fwd-status=206; stored"), "{status}");
        }
        stored(&proxy, &url, range);
    }
    let last = origin.requests().pop().unwrap();
    assert_eq!(last.field("range").as_deref(), Some("bytes=350000-709999"));
    assert_eq!(last.field("if-range"), Some(file.tag()));
}

#[test]
fn the_whole_comes_from_its_parts_and_the_rest() {
    let file = File::new(FRESH);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let open = || {
        let options = CacheOptions::new(dir.path()).disk_bytes(64 << 20);
        Arc::new(Cache::open(options).unwrap()) as Arc<dyn Store>
    };
    let origin = file.origin();
    let url = origin.url("/iso");
    {
        let mut proxy = Proxy::over(open(), |_| {});
        part(&proxy, &file, &url, 0..1_000_000);
        part(&proxy, &file, &url, 3_000_000..4_000_000);
        stored(&proxy, &url, 3_000_000..4_000_000);
        proxy.stop();
        block_on(proxy.store.close()).unwrap();
    }
    // A restart takes nothing from it.
    let proxy = Proxy::over(open(), |_| {});
    let (_, moved) = part(&proxy, &file, &url, 500_000..1_000_000);
    assert_eq!(moved, 0);
    let before = (origin.count(), file.sent());
    let clients: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..10).map(|_| scope.spawn(|| proxy.get(&url))).collect();
        all.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let whole = bytes_of(0, 0..LENGTH);
    for client in &clients {
        assert!(client.status == 200 && client.body == whole, "{}", client.head);
    }
    assert_eq!((origin.count() - before.0, file.sent() - before.1), (1, 4_000_000), "one request for them all");
    let request = origin.requests().pop().unwrap();
    assert_eq!(request.field("range").as_deref(), Some("bytes=1000000-4999999"));
    let again = proxy.get(&url);
    assert!(again.is_hit() && again.body == whole, "{}", again.head);
    assert_eq!(origin.count() - before.0, 1);
}

#[test]
fn versions_are_never_mixed() {
    for ignores_if_range in [false, true] {
        let file = File::new(FRESH);
        file.0.ignores_if_range.store(ignores_if_range, Ordering::SeqCst);
        let (origin, proxy) = (file.origin(), Proxy::forward());
        let url = origin.url("/x");
        part(&proxy, &file, &url, 0..100_000);
        stored(&proxy, &url, 0..100_000);
        file.change();
        let new = get(&proxy, &url, "50000-149999");
        match new.status {
            200 => assert!(new.body == bytes_of(1, 0..LENGTH), "{}", new.head),
            206 => assert!(new.body == bytes_of(1, 50_000..150_000), "{}", new.head),
            _ => panic!("{}", new.head),
        }
        // What is still fresh may be served, or what is new; each in one piece.
        for _ in 0..3 {
            let one = get(&proxy, &url, "0-199999");
            let all = proxy.get(&url);
            assert!(all.body == bytes_of(1, 0..LENGTH), "{}", all.head);
            let new = one.status == 200 && one.body == bytes_of(1, 0..LENGTH)
                || one.status == 206 && one.body == bytes_of(1, 0..200_000);
            assert!(new, "{}", one.head);
        }
    }
}

#[test]
fn stale_parts_are_validated() {
    let file = File::new(STALE);
    let (origin, proxy) = (file.origin(), Proxy::forward());
    let url = origin.url("/x");
    part(&proxy, &file, &url, 0..100_000);
    eventually("the part is stored", || proxy.store.stats().stored >= 2);
    std::thread::sleep(Duration::from_millis(100));
    file.set(FRESH);
    let (validated, moved) = part(&proxy, &file, &url, 10_000..20_000);
    assert_eq!(moved, 0, "{}", validated.head);
    assert!(validated.field("cache-status").contains("fwd=stale; fwd-status=304"), "{}", validated.head);
    let (hit, moved) = part(&proxy, &file, &url, 10_000..20_000);
    assert!(hit.is_hit() && moved == 0, "the validation made it fresh: {}", hit.head);
    // A whole object that is stale is validated for a part too, and its bytes do not move again.
    file.set(STALE);
    let other = origin.url("/other");
    assert_eq!(proxy.get(&other).status, 200);
    let (_, moved) = part(&proxy, &file, &other, 10_000..20_000);
    assert_eq!(moved, 0);
    // Changed: the new part comes, and no more.
    file.change();
    let (changed, moved) = part(&proxy, &file, &other, 10_000..20_000);
    assert_eq!(moved, 10_000, "{}", changed.head);
}

/// The hit after it seemed to move bytes, 2 times in 40: the origin had not noticed yet that nobody takes the rest, and what it
/// sent of that was counted.
#[test]
fn what_a_client_got_before_it_left_is_kept() {
    let file = File::new(FRESH);
    let (origin, proxy) = (file.origin(), Proxy::forward());
    let url = origin.url("/film");
    file.0.slow.store(true, Ordering::SeqCst);
    {
        let mut client = proxy.client();
        client.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\nRange: bytes=1000000-\r\n\r\n", origin.address));
        let mut stream = client.stream();
        let mut some = vec![0; 300_000];
        stream.read_exact(&mut some).unwrap();
    }
    stored(&proxy, &url, 1_000_000..1_200_000);
    eventually("the origin sends nothing more", || file.0.sending.load(Ordering::SeqCst) == 0);
    let before = file.sent();
    assert!(before < 4_000_000, "the rest is not fetched for nobody: {before}");
    let (hit, moved) = part(&proxy, &file, &url, 1_000_000..1_200_000);
    assert!(hit.is_hit() && moved == 0, "{}", hit.head);
}

#[test]
fn what_is_purged_or_changed_is_not_found_again() {
    for (method, fields) in [("PURGE", ""), ("PUT", "Content-Length: 0\r\n")] {
        let file = File::new(FRESH);
        let origin = file.origin();
        let proxy = Proxy::with(|config| {
            config.listeners[0].rules.push(Rule { methods: vec!["PURGE".into()], ..Rule::new(Action::Allow) });
        });
        let url = origin.url("/x");
        part(&proxy, &file, &url, 0..100_000);
        stored(&proxy, &url, 0..100_000);
        // One that is under way meanwhile is not stored either.
        let mut client = proxy.client();
        client.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\nRange: bytes=200000-\r\n\r\n", origin.address));
        let mut some = vec![0; 100_000];
        client.stream().read_exact(&mut some).unwrap();
        assert_eq!(proxy.request(method, &url, fields).status, 200);
        drop(client);
        std::thread::sleep(Duration::from_millis(300));
        for range in ["0-99999", "200000-200009"] {
            let fields = format!("Range: bytes={range}\r\nCache-Control: only-if-cached\r\n");
            assert_eq!(proxy.get_with(&url, &fields).status, 504, "{method}");
        }
        file.change();
        part(&proxy, &file, &url, 0..100_000);
        part(&proxy, &file, &url, 200_000..200_010);
    }
}

#[test]
fn what_cannot_be_told_apart_or_may_not_be_shared_is_not_stored() {
    for fields in [
        "Cache-Control: max-age=60\r\nETag: W/\"1\"\r\n",
        "Cache-Control: max-age=60\r\nETag: none\r\n",
        "Cache-Control: no-store\r\n",
        "Cache-Control: private, max-age=60\r\n",
        "Cache-Control: max-age=60\r\nSet-Cookie: a=1\r\n",
        "Cache-Control: max-age=60\r\nVary: *\r\n",
    ] {
        let file = File::new(fields);
        let (origin, proxy) = (file.origin(), Proxy::forward());
        for _ in 0..2 {
            let (answer, moved) = part(&proxy, &file, &origin.url("/x"), 0..1000);
            assert_eq!(moved, 1000, "{}", answer.head);
            assert!(!answer.field("cache-status").contains("stored"), "{}", answer.head);
        }
        assert_eq!(proxy.store.stats().stored, 0, "{fields}");
    }
}

#[test]
fn parts_of_variants_are_kept_apart() {
    let file = File::new("Cache-Control: max-age=60\r\nVary: X-Kind\r\n");
    let (origin, proxy) = (file.origin(), Proxy::forward());
    let url = origin.url("/x");
    let ask = |kind: &str, more: &str| proxy.get_with(&url, &format!("Range: bytes=0-999\r\nX-Kind: {kind}\r\n{more}"));
    for kind in ["a", "b"] {
        assert!(!ask(kind, "").is_hit());
        eventually("it is stored", || ask(kind, "Cache-Control: only-if-cached\r\n").is_hit());
    }
    assert!(ask("a", "").is_hit());
    assert_eq!(ask("c", "Cache-Control: only-if-cached\r\n").status, 504);
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_fetch_that_breaks_off_is_taken_up_for_all_who_wait() {
    let file = File::new(FRESH);
    file.0.breaks_after.store(1_500_000, Ordering::SeqCst);
    let (origin, proxy) = (file.origin(), Proxy::forward());
    let url = origin.url("/iso");
    let answers: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..5).map(|_| scope.spawn(|| proxy.get(&url))).collect();
        all.into_iter().map(|client| client.join().unwrap()).collect()
    });
    for answer in answers {
        assert!(answer.status == 200 && answer.body == bytes_of(0, 0..LENGTH), "{}", answer.head);
    }
    let asked: Vec<_> = origin.requests().iter().map(|request| request.field("range")).collect();
    let range = |first: u64| Some(format!("bytes={first}-4999999"));
    assert_eq!(asked, [None, range(1_500_000), range(3_000_000), range(4_500_000)]);
    eventually("it is stored", || proxy.get(&url).is_hit());
    assert_eq!(file.sent(), LENGTH);
    // One that has changed meanwhile is not put together.
    let other = origin.url("/changing");
    file.0.slow.store(true, Ordering::SeqCst);
    let mut client = proxy.client();
    client.send(format!("GET {other} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address));
    let mut some = vec![0; 100_000];
    client.stream().read_exact(&mut some).unwrap();
    file.set(&format!("{FRESH}ETag: \"other\"\r\n"));
    let mut rest = Vec::new();
    let _ = client.stream().read_to_end(&mut rest);
    assert!(rest.len() < 2_000_000, "the client sees that it is not whole: {}", rest.len());
    let fields = "Cache-Control: only-if-cached\r\n";
    assert_eq!(proxy.get_with(&other, fields).status, 504);
}

/// A store that has lost all pieces, but not what says that they are there: as after their eviction.
fn lossy(lost: Arc<AtomicBool>) -> Altered {
    Altered::finding(move |store, key| {
        let (found, lost) = (store.find(key), lost.load(Ordering::SeqCst));
        // The second byte of a head is its kind; 3 is a piece.
        Box::pin(async move { found.await.filter(|hit| !lost || hit.head.get(1) != Some(&3)) })
    })
}

#[test]
fn pieces_that_were_evicted_come_from_the_origin() {
    let file = File::new(FRESH);
    let origin = file.origin();
    let lost = Arc::new(AtomicBool::new(false));
    let proxy = Proxy::over(Arc::new(lossy(lost.clone())), |_| {});
    let url = origin.url("/x");
    part(&proxy, &file, &url, 0..100_000);
    part(&proxy, &file, &url, 200_000..300_000);
    stored(&proxy, &url, 200_000..300_000);
    lost.store(true, Ordering::SeqCst);
    // All of it, the beginning, the end; and as a whole, which is stored then.
    for range in [10_000..20_000, 50_000..150_000, 150_000..250_000] {
        part(&proxy, &file, &url, range);
    }
    let whole = proxy.get(&url);
    assert!(whole.status == 200 && whole.body == bytes_of(0, 0..LENGTH), "{}", whole.head);
    eventually("the whole is stored", || proxy.get(&url).is_hit());
    // An origin that is gone cannot help: nothing wrong is sent.
    let url = origin.url("/y");
    lost.store(false, Ordering::SeqCst);
    part(&proxy, &file, &url, 0..100_000);
    stored(&proxy, &url, 0..100_000);
    lost.store(true, Ordering::SeqCst);
    file.0.dead.store(true, Ordering::SeqCst);
    let failed = get(&proxy, &url, "0-9");
    assert!(failed.status == 502, "{}", failed.head);
}

/// A client that has as many fetches as it may is refused further ones, and not the rest of an answer that it has the beginning of.
#[test]
fn a_client_at_its_limit_gets_the_rest_of_what_it_is_given() {
    let (file, halting) = (File::new(FRESH), Halting::start(1_000_000));
    let origin = file.origin();
    let lost = Arc::new(AtomicBool::new(false));
    let proxy = Proxy::over(Arc::new(lossy(lost.clone())), |config| config.limits.client_fetches = 1);
    let url = origin.url("/x");
    part(&proxy, &file, &url, 0..100_000);
    stored(&proxy, &url, 0..100_000);
    let mut held = proxy.client();
    held.send(format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", halting.origin.url("/held"), halting.origin.address));
    eventually("it is fetched", || halting.origin.count() == 1);
    assert_eq!(get(&proxy, &url, "2000000-2000009").status, 429);
    lost.store(true, Ordering::SeqCst);
    let answer = get(&proxy, &url, "10000-19999");
    assert!(answer.status == 206 && answer.body == bytes_of(0, 10_000..20_000), "{}", answer.head);
    halting.go_on();
    assert_eq!(held.read("GET").unwrap().body.len(), 1_000_000);
}
