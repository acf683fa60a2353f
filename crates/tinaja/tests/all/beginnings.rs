//! A fetch whose client left, and then the process is killed: what had come is there, and the rest alone is asked for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rustix::process::Signal;

use crate::support::tinaja::{Setup, Tinaja};
use tinaja_testkit::body::body;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::process::kill_now;
use tinaja_testkit::wait::eventually;

const LENGTH: usize = 8_000_000;
const READ: usize = LENGTH * 3 / 10;

/// An origin of one long object with a tag, which sends its whole with so long a pause behind each piece, and parts of it at once. `sending` says how many answers it
/// is about.
fn film(pause: Duration, sending: &Arc<AtomicU64>) -> Origin {
    let now = sending.clone();
    Origin::closing(move |request, stream| {
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
                std::thread::sleep(pause);
            }
        }
        now.fetch_sub(1, SeqCst);
        sent
    })
}

/// The rest is asked for, and no more than that.
fn ask_for_the_rest(proxy: &Tinaja, origin: &Origin) -> usize {
    let answer = proxy.get("/film").unwrap();
    assert!(answer.status == 200 && answer.body == body("film", LENGTH), "{}", answer.head);
    let range = origin.requests().pop().unwrap().field("range").expect("a request for the rest");
    range.strip_prefix("bytes=").unwrap().split('-').next().unwrap().parse().unwrap()
}

/// A client that has read so many bytes of the answer.
fn reader(proxy: &Tinaja, bytes: usize) -> TcpStream {
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    write!(client, "GET /film HTTP/1.1\r\nHost: {}\r\n\r\n", proxy.address()).unwrap();
    client.read_exact(&mut vec![0; bytes]).unwrap();
    client
}

#[test]
fn what_had_come_outlives_a_kill() {
    let sending = Arc::new(AtomicU64::new(0));
    let origin = film(Duration::from_millis(5), &sending);
    let setup = Setup::reverse(origin.address);
    let mut proxy = setup.start();
    let client = reader(&proxy, READ);
    drop(client);
    eventually("the origin sends nothing more", || sending.load(SeqCst) == 0);
    // What is stored is in the file after half a second.
    std::thread::sleep(Duration::from_secs(1));
    kill_now(proxy.process.pid());
    proxy.process.wait();
    proxy = setup.start();
    let first = ask_for_the_rest(&proxy, &origin);
    // What was read had the head in front.
    assert!(first + 1000 >= READ, "{first}");
    println!("of {LENGTH} bytes {READ} were read before the kill; the next request moved {}", LENGTH - first);
}

/// A fetch that is under way when the process is stopped, and does not end in time: it was lost with all that had come, though the client had waited for it.
#[test]
fn what_had_come_outlives_a_stop() {
    let sending = Arc::new(AtomicU64::new(0));
    let origin = film(Duration::from_millis(100), &sending);
    let setup = Setup::reverse(origin.address);
    let mut proxy = setup.start();
    // It stays, and would read on.
    let _client = reader(&proxy, 1_000_000);
    proxy.process.signal(Signal::TERM);
    eventually("the first signal", || TcpStream::connect(proxy.address()).is_err());
    proxy.process.signal(Signal::INT);
    assert_eq!(proxy.process.wait().code(), Some(0));
    let asked = origin.count();
    proxy = setup.start();
    let first = ask_for_the_rest(&proxy, &origin);
    assert!(first + 1000 >= 1_000_000, "{first}");
    assert_eq!((asked, origin.count()), (1, 2), "nobody asked for the rest at the end of the process");
}
