//! Many clients, one object, one request to the origin.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod support;

use std::io::Write;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use support::{Client, Origin, Proxy, Response, reply};

/// So many clients ask at once.
fn ask_at_once(proxy: &Proxy, url: &str, clients: usize) -> Vec<Response> {
    let barrier = Arc::new(Barrier::new(clients));
    let threads: Vec<_> = (0..clients)
        .map(|_| {
            let (barrier, url, address) = (barrier.clone(), url.to_owned(), proxy.address);
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                barrier.wait();
                client.request("GET", &url, "")
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn fifty_clients_one_request() {
    for chunked in [false, true] {
        let origin = Origin::start(move |request, stream| {
            std::thread::sleep(Duration::from_millis(300));
            let fields = "Cache-Control: max-age=60\r\n";
            if !chunked {
                return reply(stream, request, 200, fields, &[b'x'; 100_000]);
            }
            let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{fields}\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            for _ in 0..10 {
                stream.write_all(b"2710\r\n").unwrap();
                stream.write_all(&[b'x'; 10_000]).unwrap();
                stream.write_all(b"\r\n").unwrap();
                std::thread::sleep(Duration::from_millis(30));
            }
            stream.write_all(b"0\r\n\r\n").is_ok()
        });
        let proxy = Proxy::forward();
        let responses = ask_at_once(&proxy, &origin.url("/new"), 50);
        for response in &responses {
            assert!(response.status == 200 && response.whole && response.body == [b'x'; 100_000], "{}", response.head);
        }
        assert_eq!(origin.count(), 1, "chunked: {chunked}");
        let collapsed = responses.iter().filter(|response| response.field("cache-status").contains("collapsed"));
        assert!(collapsed.count() > 40, "the others waited");
    }
}

#[test]
fn followers_read_along() {
    // The body takes two seconds; whoever comes in the middle gets its first bytes before it has ended.
    let origin = Origin::start(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 400000\r\nCache-Control: max-age=60\r\n\r\n").unwrap();
        for _ in 0..20 {
            stream.write_all(&[b'x'; 20_000]).unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
        true
    });
    let proxy = Proxy::forward();
    let url = origin.url("/slow");
    let (address, first_url) = (proxy.address, url.clone());
    let first = std::thread::spawn(move || Client::connect(address).request("GET", &first_url, ""));
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    let mut client = proxy.client();
    let host = url.split('/').nth(2).unwrap();
    client.send(format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.read_bytes(10_000);
    assert!(began.elapsed() < Duration::from_millis(1000), "{:?}", began.elapsed());
    assert!(first.join().unwrap().whole);
    assert_eq!(origin.count(), 1);
}

#[test]
fn private_answers_reach_their_client_only() {
    let origin = Origin::start(|request, stream| {
        std::thread::sleep(Duration::from_millis(200));
        let cookie = request.field("x-client").unwrap_or_default();
        reply(stream, request, 200, "Cache-Control: private\r\n", cookie.as_bytes())
    });
    let proxy = Proxy::forward();
    let url = origin.url("/me");
    let threads: Vec<_> = (0..20)
        .map(|number| {
            let (address, url) = (proxy.address, url.clone());
            std::thread::spawn(move || {
                let response = Client::connect(address).request("GET", &url, &format!("X-Client: {number}\r\n"));
                assert_eq!(response.text(), number.to_string());
            })
        })
        .collect();
    let began = Instant::now();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(origin.count(), 20);
    assert!(began.elapsed() < Duration::from_secs(3), "they waited in a row: {:?}", began.elapsed());
}

#[test]
fn a_client_that_leaves_takes_nobody_along() {
    let origin = Origin::start(|request, stream| {
        std::thread::sleep(Duration::from_millis(400));
        reply(stream, request, 200, "Cache-Control: max-age=60\r\n", &[b'x'; 50_000])
    });
    let proxy = Proxy::forward();
    let url = origin.url("/left");
    let mut leader = proxy.client();
    leader.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address));
    std::thread::sleep(Duration::from_millis(100));
    let address = proxy.address;
    let follower = std::thread::spawn(move || Client::connect(address).request("GET", &url, ""));
    std::thread::sleep(Duration::from_millis(100));
    drop(leader);
    let response = follower.join().unwrap();
    assert!(response.whole && response.body.len() == 50_000, "{}", response.head);
    assert!(origin.count() <= 2, "{}", origin.count());
}
