//! Encoded forms over real sockets: which rule decides, and what becomes of forms in long answers, on disks and in crowds.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tinaja_proxy::cache_rules::{CacheRule, CacheRules, Orders};
use tinaja_proxy::{Action, Mode, Routes, Rule};
use tinaja_store::{Cache, CacheOptions, Store, block_on};

use crate::encodings::{
    ask, before, before_with, decoded, encoded, encoding, get, has_stored, lasting, origin_of, text,
};
use crate::support::{Altered, Origin, Proxy, eventually, reply};

/// A rule above that fits whatever comes keeps its paths from the one that encodes, at the origin too. One that goes by the type does not, since that is known
/// only afterwards; and where a type is named, it need not be text.
#[test]
fn the_first_rule_that_fits_decides() {
    let origin = Origin::start(|request, stream| {
        let media_type = if request.path.ends_with(".own") { "application/x-own" } else { "text/html" };
        let fields = format!("Content-Type: {media_type}\r\nCache-Control: max-age=60\r\n");
        reply(stream, request, 200, &fields, &text(1))
    });
    let account = CacheRule { paths: vec!["/account/*".parse().unwrap()], ..CacheRule::new(Orders::default()) };
    let own = CacheRule { types: vec!["application/x-own".parse().unwrap()], ..encoding() };
    let images = CacheRule { types: vec!["image/*".parse().unwrap()], ..CacheRule::new(Orders::default()) };
    let (proxy, _) = before_with(&origin, vec![account, images, own, encoding()], |_| {});
    for (number, (path, asked, coding)) in [
        ("/account/x", "gzip", ""),
        ("/account/x.own", "gzip", ""),
        ("/x", "identity", "gzip"),
        ("/x.own", "identity", "gzip"),
    ]
    .into_iter()
    .enumerate()
    {
        get(&proxy, path, "gzip");
        assert_eq!(origin.requests()[number].field("accept-encoding").as_deref(), Some(asked), "{path}");
        assert!(decoded(&encoded(&proxy, path, "gzip", coding)) == text(1));
    }
    eventually("four answers and two forms are stored", || proxy.store.stats().live_objects == 6);
    assert_eq!(origin.count(), 4);
}

/// A long body in pieces whose length is not announced.
#[test]
fn what_comes_in_chunks() {
    let origin = Origin::start(|_, stream| {
        use std::io::Write as _;
        let body = text(1).repeat(40);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunks =
            body.chunks(60_000).map(|piece| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
        let all = [head.as_bytes(), &chunks.collect::<Vec<_>>().concat(), b"0\r\n\r\n"].concat();
        stream.write_all(&all).is_ok()
    });
    let (proxy, _) = before(&origin);
    let first = get(&proxy, "/", "");
    assert_eq!(first.body.len(), text(1).len() * 40);
    for coding in ["zstd", "br", "gzip"] {
        let answer = encoded(&proxy, "/", coding, coding);
        assert!(decoded(&answer) == text(1).repeat(40), "{coding}");
    }
    assert_eq!(origin.count(), 1);
}

/// An object that was replaced, purged or changed leaves no form of it that anybody gets.
#[test]
fn no_form_outlives_its_object() {
    let version = Arc::new(AtomicUsize::new(1));
    let now = version.clone();
    let origin = Origin::start(move |request, stream| {
        let version = now.load(Ordering::SeqCst);
        let fields = format!("Content-Type: text/html\r\nCache-Control: max-age=600\r\nETag: \"{version}\"\r\n");
        reply(stream, request, 200, &fields, &text(version))
    });
    let rule = Rule { methods: vec!["PURGE".into()], ..Rule::new(Action::Allow) };
    let (proxy, _) = before_with(&origin, vec![encoding()], |config| config.listeners[0].rules.push(rule));
    get(&proxy, "/", "br");
    encoded(&proxy, "/", "br", "br");
    let changes: [(&str, &str); 3] =
        [("GET", "Cache-Control: no-cache\r\n"), ("PURGE", ""), ("POST", "Content-Length: 0\r\n")];
    for (number, (method, fields)) in (2..).zip(changes) {
        version.store(number, Ordering::SeqCst);
        let changed = ask(&proxy, method, "/", fields);
        assert_eq!(changed.status, 200, "{changed:?}");
        let answer = get(&proxy, "/", "br");
        assert!(decoded(&answer) == text(number), "{method}: {:?}", answer.field("etag"));
        assert!(decoded(&encoded(&proxy, "/", "br", "br")) == text(number), "{method}");
    }
}

/// A purge leaves no bytes of a form in the store either.
#[test]
fn a_purge_removes_the_forms() {
    let origin = origin_of("");
    let rule = Rule { methods: vec!["PURGE".into()], ..Rule::new(Action::Allow) };
    let (proxy, _) = before_with(&origin, vec![encoding()], |config| config.listeners[0].rules.push(rule));
    get(&proxy, "/", "gzip");
    encoded(&proxy, "/", "gzip", "gzip");
    encoded(&proxy, "/", "br", "br");
    assert_eq!(ask(&proxy, "PURGE", "/", "").status, 200);
    assert_eq!(proxy.store.stats().live_objects, 0);
}

/// A cache in a directory.
fn cache(dir: &Path) -> Arc<dyn Store> {
    let options = CacheOptions::new(dir.join("cache")).disk_bytes(64 << 20).memory_bytes(0);
    Arc::new(Cache::open(options).unwrap())
}

/// A reverse proxy before this origin over that cache, which encodes.
pub fn over(store: Arc<dyn Store>, origin: &Origin) -> Proxy {
    let url = format!("http://{}", origin.address).parse().unwrap();
    Proxy::over(store, |config| {
        config.listeners[0].mode = Mode::Reverse(Routes::to(url));
        config.listeners[0].cache_rules = CacheRules::new(vec![encoding()]).unwrap();
    })
}

/// Forms are there after a restart, and nothing is fetched or made for them.
#[test]
fn forms_survive_a_restart() {
    let (dir, mut origin) = (tempfile::tempdir().unwrap(), lasting(6000, ""));
    {
        let store = cache(dir.path());
        let proxy = over(store.clone(), &origin);
        get(&proxy, "/", "gzip");
        encoded(&proxy, "/", "gzip", "gzip");
        encoded(&proxy, "/", "br", "br");
        drop(proxy);
        block_on(store.close()).unwrap();
    }
    origin.stop();
    let store = cache(dir.path());
    let proxy = over(store.clone(), &origin);
    for coding in ["gzip", "br"] {
        let answer = get(&proxy, "/", coding);
        assert!(answer.is_hit() && answer.field("content-encoding") == coding, "{answer:?}");
        assert!(decoded(&answer) == text(1));
    }
    assert_eq!(store.stats().stored, 0);
}

/// The rest of what is lost while it is sent comes from the origin, by its tag or its date. Of a form the origin has no rest: its client is cut off, and gets
/// no byte of the text behind the beginning of the form.
#[test]
fn a_form_that_is_lost_amid_an_answer_is_not_taken_up_at_the_origin() {
    // A date that tells versions apart, but not forms of one.
    let origin = lasting(6000, "Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n");
    let proxy = over(Arc::new(Altered::losing_forms(1000)), &origin);
    get(&proxy, "/", "gzip");
    // One that is answered at once, and one with a condition.
    for condition in ["", "If-None-Match: \"other\"\r\n"] {
        let mut answer = None;
        eventually("it comes encoded", || {
            let got = ask(&proxy, "GET", "/", &format!("Accept-Encoding: gzip\r\n{condition}"));
            let is_encoded = got.field("content-encoding") == "gzip";
            answer = Some(got);
            is_encoded
        });
        let answer = answer.unwrap();
        assert_eq!((answer.whole, answer.body.len()), (false, 1000), "{condition}");
    }
    assert_eq!(origin.count(), 1);
}

/// Bits that flip on the disk cost a request at the origin at the most, and nobody gets them.
#[test]
fn what_is_damaged_is_never_sent() {
    let (dir, origin) = (tempfile::tempdir().unwrap(), lasting(6000, ""));
    let paths: Vec<String> = (0..60).map(|number| format!("/{number}")).collect();
    {
        let store = cache(dir.path());
        let proxy = over(store.clone(), &origin);
        for path in &paths {
            get(&proxy, path, "gzip");
            encoded(&proxy, path, "gzip", "gzip");
        }
        drop(proxy);
        block_on(store.close()).unwrap();
    }
    for file in std::fs::read_dir(dir.path().join("cache")).unwrap() {
        let file = std::fs::File::options().read(true).write(true).open(file.unwrap().path()).unwrap();
        let length = file.metadata().unwrap().len();
        // What must be whole for the cache to open lies in the first bytes.
        for at in ((64 << 10)..length).step_by(100_003) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        }
    }
    let before = origin.count();
    let proxy = over(cache(dir.path()), &origin);
    let mut hits = 0;
    for path in paths.iter().chain(&paths) {
        let answer = get(&proxy, path, "gzip");
        assert!(answer.status == 200 && decoded(&answer) == text(1), "{path}");
        hits += usize::from(answer.is_hit());
    }
    let fetched = origin.count() - before;
    assert!(
        fetched > 0 && fetched < paths.len() && hits + fetched == 2 * paths.len(),
        "{fetched} fetched, {hits} hits"
    );
}

/// Many clients want many forms at once: each is made once, and nobody waits or gets anything else than the text.
#[test]
fn a_crowd_has_each_form_made_once() {
    let origin = origin_of("");
    let (proxy, _) = before(&origin);
    get(&proxy, "/", "");
    std::thread::scope(|scope| {
        for number in 0..24 {
            let (proxy, accepted) = (&proxy, ["gzip", "br", "zstd", ""][number % 4]);
            scope.spawn(move || {
                for _ in 0..20 {
                    let answer = get(proxy, "/", accepted);
                    assert!(answer.is_hit() && decoded(&answer) == text(1), "{accepted}");
                    assert!(["", accepted].contains(&answer.field("content-encoding").as_str()));
                }
            });
        }
    });
    for coding in ["gzip", "br", "zstd"] {
        encoded(&proxy, "/", coding, coding);
    }
    has_stored(&proxy, 4);
    assert_eq!(origin.count(), 1);
}
