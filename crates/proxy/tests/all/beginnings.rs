//! Fetches that end early, because nobody reads them any more or the origin breaks off, leave what has come: the next request
//! pays for the rest alone. A player that leaves and comes back, or a link that breaks, paid for all of it each time.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::parts::{FRESH, File, LENGTH, STALE, bytes_of, get, part, stored};
use crate::purging::ask;
use crate::streams::Streams;
use crate::support::{Altered, Origin, Proxy, eventually, reply};
use tinaja_proxy::admin::Selector;
use tinaja_proxy::admin::words::{Answer, Ask};
use tinaja_proxy::{Action, Rule};
use tinaja_store::{Cache, CacheOptions, Hint, Key, Store, Updated, block_on};
use tinaja_testkit::client::get as get_page;
use tinaja_testkit::port::free_port;

/// What a client reads before it leaves.
pub const READ: usize = 1_500_000;

/// Asks for an object, leaves when some of it has come, and waits until the fetch has ended. Nothing else is being written meanwhile.
pub fn leave(proxy: &Proxy, origin: &Origin, file: &File, url: &str, fields: &str) {
    let before = proxy.store.stats();
    let slow = file.0.slow.swap(true, SeqCst);
    let mut client = proxy.client();
    client.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", origin.address));
    client.stream().read_exact(&mut vec![0; READ]).unwrap();
    drop(client);
    ended(proxy, before.stored + before.not_stored);
    eventually("the origin sends nothing more", || file.0.sending.load(SeqCst) == 0);
    file.0.slow.store(slow, SeqCst);
}

/// Waits until another write has ended.
pub fn ended(proxy: &Proxy, writes: u64) {
    eventually("the fetch has ended", || {
        let stats = proxy.store.stats();
        stats.stored + stats.not_stored > writes
    });
}

/// The first byte that the origin was last asked for; it was asked for all from there on.
pub fn asked_from(origin: &Origin) -> u64 {
    let range = origin.requests().pop().unwrap().field("range").expect("a request for a part");
    let first = range.strip_prefix("bytes=").and_then(|range| range.strip_suffix("-4999999"));
    first.unwrap_or_else(|| panic!("{range}")).parse().unwrap()
}

/// Gets all of it, sees that it is right, and says what that cost the origin.
pub fn whole(proxy: &Proxy, file: &File, url: &str) -> u64 {
    let before = file.sent();
    let answer = proxy.get(url);
    assert!(answer.status == 200, "{}", answer.head);
    assert!(answer.body == bytes_of(file.0.version.load(SeqCst), 0..LENGTH), "{}", answer.head);
    file.sent() - before
}

#[test]
fn whoever_comes_after_one_that_left_pays_for_the_rest() {
    for asks in ["", "Range: bytes=0-\r\n"] {
        let file = File::new(FRESH);
        let (origin, dir) = (file.origin(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
        let open =
            || -> Arc<dyn Store> { Arc::new(Cache::open(CacheOptions::new(dir.path()).disk_bytes(64 << 20)).unwrap()) };
        let url = origin.url("/film");
        {
            let mut proxy = Proxy::over(open(), |_| {});
            leave(&proxy, &origin, &file, &url, asks);
            assert!(file.sent() < 4_000_000, "the rest is not fetched for nobody: {}", file.sent());
            // What has come is there, as any part is.
            let (hit, moved) = part(&proxy, &file, &url, 0..READ as u64);
            assert!(hit.is_hit() && moved == 0, "{}", hit.head);
            let head = proxy.request("HEAD", &url, "");
            assert_eq!((head.status, head.field("content-length").as_str()), (200, "5000000"));
            assert_eq!(proxy.get_with(&url, "Cache-Control: only-if-cached\r\n").status, 504, "not all of it is");
            proxy.stop();
            block_on(proxy.store.close()).unwrap();
        }
        // A restart takes nothing from it. Ten come at once, and the origin is asked once.
        let proxy = Proxy::over(open(), |_| {});
        let before = (origin.count(), file.sent());
        let answers: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..10).map(|_| scope.spawn(|| proxy.get_with(&url, asks))).collect();
            all.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let status = if asks.is_empty() { 200 } else { 206 };
        for answer in answers {
            assert!(answer.status == status && answer.body == bytes_of(0, 0..LENGTH), "{}", answer.head);
        }
        let (first, last) = (asked_from(&origin), origin.requests().pop().unwrap());
        assert!(first >= READ as u64, "{first}");
        assert_eq!(last.field("if-range"), Some(file.tag()));
        assert_eq!((origin.count() - before.0, file.sent() - before.1), (1, LENGTH - first));
        eventually("it is stored", || proxy.get(&url).is_hit());
        assert_eq!(whole(&proxy, &file, &url), 0);
    }
}

#[test]
fn each_that_leaves_brings_it_further() {
    let file = File::new(FRESH);
    let (origin, proxy) = (file.origin(), Proxy::forward());
    let url = origin.url("/film");
    leave(&proxy, &origin, &file, &url, "");
    // A part from its end, which is kept beside it.
    part(&proxy, &file, &url, 4_900_000..LENGTH);
    stored(&proxy, &url, 4_900_000..LENGTH);
    // It leaves with less than there was, and then with more: what there was is not lost.
    let writes = proxy.store.stats();
    let mut client = proxy.client();
    client.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address));
    client.stream().read_exact(&mut vec![0; 100_000]).unwrap();
    drop(client);
    ended(&proxy, writes.stored + writes.not_stored);
    let range = origin.requests().pop().unwrap().field("range").unwrap();
    let first: u64 = range.strip_prefix("bytes=").unwrap().strip_suffix("-4899999").unwrap().parse().unwrap();
    assert!(first >= READ as u64, "{range}");
    eventually("it has ended", || {
        let fields = "Range: bytes=0-1499999\r\nCache-Control: only-if-cached\r\n";
        proxy.get_with(&url, fields).status == 206
    });
    let (_, moved) = part(&proxy, &file, &url, 4_900_000..LENGTH);
    assert_eq!(moved, 0, "the other part is still there");
    let moved = whole(&proxy, &file, &url);
    assert!(moved <= 4_900_000 - first, "{moved}");
}

#[test]
fn an_origin_that_breaks_off_is_asked_for_the_rest_by_the_next() {
    let file = File::new(FRESH);
    let origin = file.origin();
    for url in [origin.url("/iso"), origin.url("/with-a-rule")] {
        let proxy = Proxy::forward();
        file.0.breaks_after.store(2_000_000, SeqCst);
        file.0.slow.store(true, SeqCst);
        let mut client = proxy.client();
        client.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address));
        client.stream().read_exact(&mut vec![0; 1_000_000]).unwrap();
        file.0.dead.store(true, SeqCst);
        let mut rest = Vec::new();
        let _ = client.stream().read_to_end(&mut rest);
        assert!(rest.len() < 3_000_000, "the client sees that it is not whole: {}", rest.len());
        eventually("what came is kept", || proxy.store.stats().stored == 1);
        file.0.dead.store(false, SeqCst);
        file.0.slow.store(false, SeqCst);
        file.0.breaks_after.store(0, SeqCst);
        assert_eq!(whole(&proxy, &file, &url), 3_000_000);
        assert_eq!(asked_from(&origin), 2_000_000);
    }
}

#[test]
fn versions_are_never_mixed() {
    for ignores in ["nothing", "If-Range", "Range"] {
        let file = File::new(FRESH);
        let (origin, proxy) = (file.origin(), Proxy::forward());
        let url = origin.url("/x");
        leave(&proxy, &origin, &file, &url, "");
        file.0.ignores_if_range.store(ignores == "If-Range", SeqCst);
        file.0.ignores_range.store(ignores == "Range", SeqCst);
        file.change();
        whole(&proxy, &file, &url);
        // It is the new one that is stored.
        eventually("it is stored", || proxy.get(&url).is_hit());
        assert_eq!(whole(&proxy, &file, &url), 0, "{ignores}");
        // One that ignores Range and has not changed costs all of it, once.
        let other = origin.url("/y");
        leave(&proxy, &origin, &file, &other, "");
        let moved = whole(&proxy, &file, &other);
        assert_eq!(moved == LENGTH, ignores == "Range", "{ignores} {moved}");
    }
}

#[test]
fn what_cannot_be_told_apart_or_has_no_known_length_is_thrown_away() {
    for fields in ["ETag: W/\"1\"\r\n", "ETag: none\r\n"] {
        let file = File::new(&format!("{FRESH}{fields}"));
        let (origin, proxy) = (file.origin(), Proxy::forward());
        let url = origin.url("/x");
        leave(&proxy, &origin, &file, &url, "");
        assert_eq!((proxy.store.stats().stored, whole(&proxy, &file, &url)), (0, LENGTH), "{fields}");
        assert_eq!(origin.requests().pop().unwrap().field("range"), None);
    }
}

/// Where there is no entity tag, a Last-Modified that is old enough tells as well. Origins that sent a part because it is still what
/// they were asked for by leave it out of that, as RFC 9110 15.3.7 has it: all of the object was fetched again.
#[test]
fn a_date_that_is_a_strong_validator_will_do() {
    for says in ["Dated", "Dated, Brief"] {
        let file = File::new(&format!("{FRESH}X-Says: {says}\r\n"));
        let (origin, proxy) = (file.origin(), Proxy::forward());
        let url = origin.url("/x");
        leave(&proxy, &origin, &file, &url, "");
        let moved = whole(&proxy, &file, &url);
        assert_eq!(moved, LENGTH - asked_from(&origin), "{says}");
        let asked = origin.requests().pop().unwrap().field("if-range");
        assert_eq!(asked.as_deref(), Some("Wed, 01 Jan 2000 00:00:00 GMT"));
        eventually("it is stored", || proxy.get(&url).is_hit());
        assert_eq!(proxy.get(&url).field("last-modified"), "Wed, 01 Jan 2000 00:00:00 GMT", "{says}");
        // Parts as well, and not of two versions.
        let other = origin.url("/y");
        part(&proxy, &file, &other, 0..100_000);
        stored(&proxy, &other, 0..100_000);
        assert_eq!(part(&proxy, &file, &other, 50_000..150_000).1, 50_000, "{says}");
        stored(&proxy, &other, 0..150_000);
        // One that breaks off is asked for the rest at once.
        file.0.breaks_after.store(3_000_000, SeqCst);
        assert_eq!(whole(&proxy, &file, &origin.url("/w")), LENGTH, "{says}");
        file.0.breaks_after.store(0, SeqCst);
        leave(&proxy, &origin, &file, &origin.url("/z"), "");
        file.change();
        assert_eq!(whole(&proxy, &file, &origin.url("/z")), LENGTH, "{says}");
    }
}

#[test]
fn what_is_stale_is_validated_by_the_same_request() {
    let file = File::new(STALE);
    let (origin, proxy) = (file.origin(), Proxy::forward());
    let url = origin.url("/x");
    leave(&proxy, &origin, &file, &url, "");
    let moved = whole(&proxy, &file, &url);
    assert_eq!(moved, LENGTH - asked_from(&origin));
}

#[test]
fn what_is_purged_or_changed_does_not_come_back() {
    for (method, fields) in [("PURGE", ""), ("PUT", "Content-Length: 0\r\n")] {
        for early in [true, false] {
            let file = File::new(FRESH);
            let origin = file.origin();
            let proxy = Proxy::with(|config| {
                config.listeners[0].rules.push(Rule { methods: vec!["PURGE".into()], ..Rule::new(Action::Allow) });
            });
            let url = origin.url("/x");
            if early {
                // While it is on its way.
                file.0.slow.store(true, SeqCst);
                let mut client = proxy.client();
                client.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address));
                client.stream().read_exact(&mut vec![0; READ]).unwrap();
                assert_eq!(proxy.request(method, &url, fields).status, 200);
                drop(client);
                ended(&proxy, 0);
                eventually("the origin sends nothing more", || file.0.sending.load(SeqCst) == 0);
                file.0.slow.store(false, SeqCst);
                assert_eq!(proxy.store.stats().stored, 0);
            } else {
                leave(&proxy, &origin, &file, &url, "");
                assert_eq!(proxy.request(method, &url, fields).status, 200);
            }
            assert_eq!(get(&proxy, &url, "0-99\r\nCache-Control: only-if-cached").status, 504, "{method} {early}");
            file.change();
            assert_eq!(whole(&proxy, &file, &url), LENGTH, "{method} {early}");
        }
    }
}

/// One that loads it anew brings all of it while another is still being fetched, whose client then leaves: that is not undone.
#[test]
fn what_came_whole_meanwhile_stays() {
    let (may_end, asked) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let ends = may_end.clone();
    let origin = Origin::start(move |request, stream| {
        let number = asked.fetch_add(1, SeqCst);
        let fields = format!("{FRESH}ETag: \"{number}\"\r\n");
        if number > 0 {
            return reply(stream, request, 200, &fields, &bytes_of(number, 0..LENGTH));
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n{fields}\r\n");
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&bytes_of(0, 0..READ as u64)));
        eventually("the test is over", || ends.load(SeqCst));
        false
    });
    let proxy = Proxy::forward();
    let url = origin.url("/x");
    let mut client = proxy.client();
    client.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address));
    client.stream().read_exact(&mut vec![0; READ]).unwrap();
    let again = proxy.get_with(&url, "Cache-Control: no-cache\r\n");
    assert!(again.body == bytes_of(1, 0..LENGTH), "{}", again.head);
    proxy.has_stored(1);
    drop(client);
    ended(&proxy, 1);
    let hit = proxy.get(&url);
    assert!(hit.is_hit() && hit.body == bytes_of(1, 0..LENGTH), "{}", hit.head);
    may_end.store(true, SeqCst);
}

/// The beginning's bytes were evicted or damaged, though the list says that they are there.
#[test]
fn a_beginning_that_is_gone_comes_from_the_origin() {
    let file = File::new(FRESH);
    let (origin, proxy) = (file.origin(), Proxy::forward());
    let url = origin.url("/x");
    leave(&proxy, &origin, &file, &url, "");
    // The same head over another body.
    let entry = block_on(proxy.store.scan(Default::default(), 9)).unwrap().entries.remove(0);
    // Its name stands in its head, and where it stands is a digest of that.
    let bytes = u32::from_le_bytes(entry.head[28..32].try_into().unwrap()) as usize;
    let at = entry.head.windows(7).position(|bytes| bytes == b"4:http,").unwrap();
    let mut digest = [0; 16];
    blake3::Hasher::new().update(&entry.head[at..at + bytes]).finalize_xof().fill(&mut digest);
    let key = Key::from_digest(digest);
    for wrong in [0, 1000, entry.body_bytes as usize + 1] {
        let mut writer = proxy.store.put(&key, entry.head.clone(), Hint::default());
        block_on(writer.write(vec![7; wrong].into()));
        assert!(matches!(block_on(writer.commit()), tinaja_store::Commit::Stored { .. }));
        part(&proxy, &file, &url, 0..1000);
    }
    whole(&proxy, &file, &url);
    eventually("it is stored", || proxy.get(&url).is_hit());
    assert_eq!(whole(&proxy, &file, &url), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http2_too() {
    let file = File::new(FRESH);
    let (origin, metrics) = (file.origin(), SocketAddr::from(([127, 0, 0, 1], free_port())));
    let proxy = Proxy::with(|config| config.metrics = Some(metrics));
    let url = origin.url("/film");
    let streams = Streams::connect(proxy.address).await;
    file.0.slow.store(true, SeqCst);
    tokio::select! {
        _ = streams.ask("GET", &url, &[("range", "bytes=0-")], &[]) => panic!("all of it came"),
        () = async { while file.sent() < READ as u64 { tokio::time::sleep(Duration::from_millis(5)).await } } => {}
    }
    eventually("what came is kept", || proxy.store.stats().stored == 1 && file.0.sending.load(SeqCst) == 0);
    file.0.slow.store(false, SeqCst);
    let before = file.sent();
    let answer = streams.get(&url).await;
    assert!(answer.status == 200 && answer.body == bytes_of(0, 0..LENGTH), "{answer:?}");
    let first = asked_from(&origin);
    assert_eq!(file.sent() - before, LENGTH - first);
    // All that came was kept, and that is counted.
    let page = get_page(metrics, "/metrics").unwrap().text();
    for line in ["tinaja_kept_fetches_total 1\n".into(), format!("tinaja_kept_fetch_bytes_total {first}\n")] {
        assert!(page.contains(&line), "{line}");
    }
}

/// What a completed object is called: what each of its parts was.
#[test]
fn a_completed_object_is_purged_by_the_tags_of_each_part() {
    for (purged, gone) in [("beginning", true), ("rest", true), ("other", false)] {
        let file = File::new(&format!("{FRESH}xkey: beginning\r\n"));
        let (origin, dir) = (file.origin(), tempfile::tempdir().unwrap());
        let proxy = Proxy::with(|config| config.control = Some(dir.path().to_owned()));
        let url = origin.url("/x");
        leave(&proxy, &origin, &file, &url, "");
        file.set(&format!("{FRESH}xkey: rest\r\n"));
        assert!(whole(&proxy, &file, &url) < LENGTH - READ as u64);
        eventually("it is stored", || proxy.get(&url).is_hit());
        let what = vec![Selector::Tag { tag: purged.into(), host: None }];
        assert_eq!(ask(dir.path(), &Ask::PurgeBy { what, soft: false }), Answer::PurgedBy);
        assert_eq!(proxy.get(&url).is_hit(), !gone, "{purged}");
    }
}

/// A purge of what it is called, while it is on its way and after it was kept: neither the beginning nor what completes it
/// comes back.
#[test]
fn a_beginning_is_purged_by_its_tags() {
    for while_it_comes in [true, false] {
        let file = File::new(&format!("{FRESH}xkey: a\r\n"));
        let (origin, dir) = (file.origin(), tempfile::tempdir().unwrap());
        let proxy = Proxy::with(|config| config.control = Some(dir.path().to_owned()));
        let url = origin.url("/x");
        let purge = || {
            let what = vec![Selector::Tag { tag: "a".into(), host: None }];
            assert_eq!(ask(dir.path(), &Ask::PurgeBy { what, soft: false }), Answer::PurgedBy);
        };
        if while_it_comes {
            file.0.slow.store(true, SeqCst);
            let mut client = proxy.client();
            client.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address));
            client.stream().read_exact(&mut vec![0; READ]).unwrap();
            purge();
            drop(client);
            ended(&proxy, 0);
            eventually("the origin sends nothing more", || file.0.sending.load(SeqCst) == 0);
            file.0.slow.store(false, SeqCst);
        } else {
            leave(&proxy, &origin, &file, &url, "");
            purge();
        }
        assert_eq!(get(&proxy, &url, "0-99\r\nCache-Control: only-if-cached").status, 504, "{while_it_comes}");
        assert_eq!(whole(&proxy, &file, &url), LENGTH, "{while_it_comes}");
    }
}

/// Whoever reads along a fetch that breaks goes on at the origin at once, behind what has come. They waited until the disk had kept what
/// had come, for as long as that took; then they went on at once, but what they had not read by then was lost to them and
/// asked for again, which failed here on a busy machine.
#[test]
fn those_who_follow_do_not_wait_for_the_disk() {
    /// The disk is waited for no more.
    struct GivenUp(Arc<AtomicBool>);
    impl Drop for GivenUp {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    // So short that its fetch asks for the rest by itself no more: each client that follows does.
    const SHORT: u64 = 200_000;
    let (given_up, at_the_disk, too_late) = <(Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicBool>)>::default();
    let (is_given_up, is_at_the_disk, late) = (given_up.clone(), at_the_disk.clone(), too_late.clone());
    let origin = Origin::start(move |request, stream| {
        let fields = format!("{FRESH}ETag: \"a\"\r\n");
        if request.field("range").is_some() {
            eventually("what came is being kept", || is_at_the_disk.load(SeqCst));
            late.store(is_given_up.load(SeqCst), SeqCst);
            let fields = format!("{fields}Content-Range: bytes 100000-199999/{SHORT}\r\n");
            return reply(stream, request, 206, &fields, &bytes_of(0, 100_000..SHORT));
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {SHORT}\r\n{fields}\r\n");
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&bytes_of(0, 0..100_000)));
        false
    });
    let disk = at_the_disk.clone();
    let store = Altered::updating(move || {
        disk.store(true, SeqCst);
        let given_up = GivenUp(given_up.clone());
        Some(Box::pin(async move {
            std::future::pending::<()>().await;
            drop(given_up);
            Ok(Updated::Absent)
        }))
    });
    let proxy = Proxy::over(Arc::new(store), |_| {});
    let answer = proxy.get(&origin.url("/x"));
    assert!(answer.body == bytes_of(0, 0..SHORT), "{} {}", answer.head, answer.body.len());
    assert_eq!(origin.count(), 2);
    assert!(at_the_disk.load(SeqCst) && !too_late.load(SeqCst), "the client waited for the disk");
}
