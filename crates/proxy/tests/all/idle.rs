//! Connections without a request: closed when their time is over, and in nobody's way until then.

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{Origin, Proxy};

#[test]
fn hundreds_of_idle_connections_are_closed() {
    let origin = Origin::fixed("Cache-Control: max-age=60\r\n", "hello");
    let proxy = Proxy::with(|config| config.limits.idle = Duration::from_secs(2));
    let idle: Vec<_> = (0..400).map(|_| TcpStream::connect(proxy.address).unwrap()).collect();
    // Some have had an answer before they fell idle.
    let mut used: Vec<_> = (0..50).map(|_| proxy.client()).collect();
    for client in &mut used {
        assert_eq!(client.request("GET", &origin.url("/"), "").text(), "hello");
    }
    assert!(proxy.get(&origin.url("/")).is_hit());
    for mut stream in idle {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "closed without a word");
    }
    assert!(used.iter_mut().all(crate::support::Client::is_closed));
    assert!(proxy.get(&origin.url("/")).is_hit());
}
