//! What holds in forward and in reverse mode, played once in each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Client, Origin, Proxy, Request, Response, eventually};

/// An origin, and a proxy of either kind before it.
pub struct Both {
    pub origin: Origin,
    pub proxy: Proxy,
    pub reverse: bool,
}

impl Both {
    pub fn ask(&self, method: &str, path: &str, fields: &str) -> Response {
        if !self.reverse {
            return self.proxy.request(method, &self.origin.url(path), fields);
        }
        let mut client = Client::connect(self.proxy.address);
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: www.example\r\n{fields}\r\n"));
        client.read(method).unwrap()
    }

    pub fn get(&self, path: &str, fields: &str) -> Response {
        self.ask("GET", path, fields)
    }

    /// Waits until what was just fetched is stored whole.
    pub fn settled(&self, objects: u64) {
        eventually("it is stored", || self.proxy.store.stats().live_objects >= objects);
    }
}

/// Plays `play` with a proxy of each kind before an origin that answers so. The number counts requests from 1.
pub fn in_both(
    answer: impl Fn(usize, &Request, &mut std::net::TcpStream) -> bool + Send + Sync + 'static,
    play: impl Fn(&Both),
) {
    let answer = Arc::new(answer);
    for reverse in [false, true] {
        let (answer, count) = (answer.clone(), AtomicUsize::new(0));
        let origin =
            Origin::start(move |request, stream| answer(count.fetch_add(1, Ordering::SeqCst) + 1, request, stream));
        let proxy = if reverse { Proxy::reverse(&origin) } else { Proxy::forward() };
        play(&Both { origin, proxy, reverse });
    }
}
