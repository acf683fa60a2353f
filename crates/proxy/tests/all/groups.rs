//! The objects of a page are written together and read together, whatever other pages came at the same time.

use std::io::Write;
use std::sync::Arc;

use crate::support::{Origin, Proxy};
use tinaja_store::{Cache, CacheOptions, Settings, Store, block_on, engines};

const PAGES: usize = 6;
const IMAGES: usize = 9;

fn cold_store(dir: &std::path::Path, prefetch: bool) -> Arc<Cache> {
    let settings = Settings::new().with(&engines::PREFETCH, prefetch.into());
    let options =
        CacheOptions::new(dir).disk_bytes(256 << 20).memory_bytes(0).engine(engines::HASHCACHE_LOG).settings(settings);
    Arc::new(Cache::open(options).unwrap())
}

/// Reads of the disk for all objects of all pages, page by page, after a restart.
fn reads(prefetch: bool) -> u64 {
    let origin = Origin::start(|request, stream| {
        let kind = if request.path.ends_with("page") { "text/html" } else { "image/png" };
        let fields = format!("Content-Length: 5000\r\nCache-Control: max-age=600\r\nContent-Type: {kind}\r\n");
        // In one piece: a second one would wait for an acknowledgment of the first, 40 ms each time.
        stream.write_all(&[format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes(), &[b'x'; 5000]].concat()).is_ok()
    });
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let page = |page: usize| origin.url(&format!("/{page}/page"));
    let image = |page: usize, image: usize| origin.url(&format!("/{page}/{image}.png"));
    let store = cold_store(dir.path(), prefetch);
    {
        let proxy = Proxy::over(store.clone(), |_| {});
        let mut client = proxy.client();
        (0..PAGES).for_each(|n| assert_eq!(client.request("GET", &page(n), "").status, 200));
        for of in 0..IMAGES {
            for n in 0..PAGES {
                let got = client.request("GET", &image(n, of), &format!("Referer: {}\r\n", page(n)));
                assert_eq!((got.status, got.is_hit()), (200, false));
            }
        }
    }
    block_on(store.close()).unwrap();
    drop(store);
    let store = cold_store(dir.path(), prefetch);
    let proxy = Proxy::over(store.clone(), |_| {});
    let before = store.stats().reads;
    for n in 0..PAGES {
        assert!(proxy.get(&page(n)).is_hit());
        (0..IMAGES).for_each(|of| assert!(proxy.get(&image(n, of)).is_hit()));
    }
    assert_eq!(origin.count(), PAGES * (IMAGES + 1));
    store.stats().reads - before
}

#[test]
fn a_page_is_one_request_to_the_disk() {
    let (with, without) = (reads(true), reads(false));
    println!("{with} reads for {PAGES} pages, {without} one by one");
    assert_eq!(without, (PAGES * (IMAGES + 1)) as u64);
    // On a machine so busy that a page takes longer than a group is waited for, it may come in pieces.
    assert!((PAGES as u64..=3 * PAGES as u64).contains(&with), "{with}");
}
