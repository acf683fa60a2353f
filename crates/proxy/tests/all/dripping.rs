//! Clients that send the content of a request a byte now and then.
//!
//! Each byte renewed the time in which a client may send nothing, so one byte every 1.5 seconds held a request, and a connection to
//! its origin, for as long as anybody liked, though `client_stall` was two seconds.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Proxy, eventually};

/// An origin that reads and never answers, and what it has read.
fn origin() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, read) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let count = read.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (count, mut stream) = (count.clone(), stream.unwrap());
            std::thread::spawn(move || {
                let mut bytes = [0; 65536];
                while let Ok(read @ 1..) = stream.read(&mut bytes) {
                    count.fetch_add(read, Ordering::SeqCst);
                }
            });
        }
    });
    (address, read)
}

/// How many times a client can send so many bytes, with this time between them, before it is told that it is too slow; 30 at most.
fn sent(piece: usize, every: Duration, rate: u64) -> usize {
    let (proxy, hand) = Proxy::by_hand(|config| {
        config.limits.client_stall = Duration::from_secs(2);
        config.limits.origin_stall = Duration::from_secs(3600);
        config.limits.body_rate = rate;
    });
    let (origin, read) = origin();
    let mut client = proxy.client();
    client.send(format!("POST http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\nContent-Length: 1000000\r\n\r\n"));
    eventually("the head is there", || read.load(Ordering::SeqCst) > 0);
    for number in 0..30 {
        let before = read.load(Ordering::SeqCst);
        client.send(vec![b'x'; piece]);
        let is_cut =
            || !client.stream().peek(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        client.stream().set_nonblocking(true).unwrap();
        // What came is with the origin before time goes on.
        eventually("it is there", || read.load(Ordering::SeqCst) >= before + piece || is_cut());
        let is_cut = is_cut();
        client.stream().set_nonblocking(false).unwrap();
        if is_cut {
            assert_eq!(client.read("POST").unwrap().status, 408);
            return number;
        }
        hand.advance(every);
    }
    30
}

#[test]
fn a_byte_now_and_then_is_no_progress() {
    let every = Duration::from_millis(1500);
    // Two seconds are its own; the second byte comes within them, the third does not.
    let bytes = sent(1, every, 500);
    assert!((1..=3).contains(&bytes), "{bytes}");
    // 600 bytes a second, and any rate where that is allowed.
    assert_eq!(sent(900, every, 500), 30);
    assert_eq!(sent(1, every, 0), 30);
}
