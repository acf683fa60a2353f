//! Tests of the load.

use super::*;
use crate::peers::Origin;

fn some(count: u64, bytes: u64) -> impl Iterator<Item = Wanted> {
    (0..count).map(move |object| Wanted { object, bytes })
}

#[test]
fn all_is_asked_for_over_many_connections() {
    let origin = Origin::begin().unwrap();
    let mut connections = Connections::open(origin.address(), 40).unwrap();
    for bytes in [0, 300, 8192, 1 << 20] {
        let before = origin.given();
        let tally = connections.run(some(200, bytes), Pace::Closed).unwrap();
        assert_eq!((tally.miss_times.len(), tally.hit_times.len(), tally.failed), (200, 0, 0));
        assert_eq!((tally.bytes, origin.given()), (200 * bytes, (before.0 + 200, before.1 + 200 * bytes)));
    }
}

#[test]
fn at_a_rate_requests_take_their_time_and_waiting_counts() {
    let origin = Origin::at(std::net::Ipv4Addr::LOCALHOST, Duration::from_millis(20)).unwrap();
    let mut connections = Connections::open(origin.address(), 1).unwrap();
    // One connection takes 20 ms for each, and one is due every 10.
    let tally = connections.run(some(20, 100), Pace::Open(100.0)).unwrap();
    assert!(tally.span >= Duration::from_millis(400));
    assert!(*tally.miss_times.last().unwrap() >= Duration::from_millis(200), "{:?}", tally.miss_times);
    let tally = Connections::open(origin.address(), 8).unwrap().run(some(20, 100), Pace::Open(100.0)).unwrap();
    assert!(tally.span >= Duration::from_millis(190 + 20));
}

#[test]
fn whoever_closes_each_connection_is_asked_over_new_ones() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let std::net::SocketAddr::V4(address) = listener.local_addr().unwrap() else { panic!() };
    let closing = std::thread::spawn(move || {
        for (number, says) in ["", "Connection: close\r\n", ""].into_iter().enumerate() {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 4096];
            assert!(stream.read(&mut asked).unwrap() > 0, "{number}");
            let head =
                format!("HTTP/1.1 200 OK\r\n{says}Content-Length: 0\r\nX-Turn: 1\r\nX-Object: {number:x}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
        }
    });
    let tally = Connections::open(address, 1).unwrap().run(some(3, 0), Pace::Closed).unwrap();
    assert_eq!((tally.requests(), tally.failed), (3, 0));
    closing.join().unwrap();
}

#[test]
fn a_wrong_answer_ends_it_and_a_refusal_is_counted() {
    let origin = Origin::begin().unwrap();
    let mut connections = Connections::open(origin.address(), 1).unwrap();
    assert_eq!(connections.run(some(1, 10), Pace::Closed).unwrap().failed, 0);
    drop(origin);
    let nobody = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 1);
    assert!(Connections::open(nobody, 1).is_err());
}
