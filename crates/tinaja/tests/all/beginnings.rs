//! A fetch whose client left, and then the process is killed: what had come is there, and the rest alone is asked for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::support::tinaja::Setup;
use tinaja_testkit::body::body;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::process::kill_now;
use tinaja_testkit::wait::eventually;

const LENGTH: usize = 8_000_000;
const READ: usize = LENGTH * 3 / 10;

#[test]
fn what_had_come_outlives_a_kill() {
    let sending = Arc::new(AtomicU64::new(0));
    let now = sending.clone();
    let origin = Origin::closing(move |request, stream| {
        now.fetch_add(1, SeqCst);
        let all = body("film", LENGTH);
        let range = request.field("range");
        let first = range.as_deref().and_then(|range| range.strip_prefix("bytes=")?.split('-').next()?.parse().ok());
        let (status, first) = first.map_or((200, 0), |first: usize| (206, first));
        let of_part = match status {
            206 => format!("Content-Range: bytes {first}-{}/{LENGTH}\r\n", LENGTH - 1),
            _ => String::new(),
        };
        let mut sent = write!(
            stream,
            "HTTP/1.1 {status} Status\r\nETag: \"1\"\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\
             {of_part}Connection: close\r\n\r\n",
            LENGTH - first
        );
        for piece in all[first..].chunks(50_000) {
            sent = sent.and_then(|()| stream.write_all(piece));
            if status == 200 && sent.is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        now.fetch_sub(1, SeqCst);
        sent
    });
    let setup = Setup::reverse(origin.address);
    let mut proxy = setup.start();
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    write!(client, "GET /film HTTP/1.1\r\nHost: {}\r\n\r\n", proxy.address()).unwrap();
    client.read_exact(&mut vec![0; READ]).unwrap();
    drop(client);
    eventually("the origin sends nothing more", || sending.load(SeqCst) == 0);
    // What is stored is in the file after a tenth of a second.
    std::thread::sleep(Duration::from_secs(1));
    kill_now(proxy.process.pid());
    proxy.process.wait();
    proxy = setup.start();
    let answer = proxy.get("/film").unwrap();
    assert!(answer.status == 200 && answer.body == body("film", LENGTH), "{}", answer.head);
    let range = origin.requests().pop().unwrap().field("range").expect("a request for the rest");
    let first: usize = range.strip_prefix("bytes=").unwrap().split('-').next().unwrap().parse().unwrap();
    // What was read had the head in front.
    assert!(first + 1000 >= READ, "{range}");
    println!("of {LENGTH} bytes {READ} were read before the kill; the next request moved {}", LENGTH - first);
}
