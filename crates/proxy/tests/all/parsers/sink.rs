//! Where those servers that are proxies send what they have read: it answers with it.

use std::net::{SocketAddr, TcpListener, TcpStream};

use super::Parsed;
use crate::script::message::Message;
use crate::script::wire::Wire;

/// A server on loopback that answers each request with X-Parsed. Its threads end with their connections.
pub struct Sink {
    pub address: SocketAddr,
}

impl Sink {
    pub fn start() -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                std::thread::spawn(move || serve(stream));
            }
        });
        Sink { address }
    }
}

fn serve(stream: TcpStream) {
    let mut wire = Wire::new(stream);
    if let Ok(Some(request)) = Message::read(&mut wire, None) {
        let parsed = Parsed::of(&request).field();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\nX-Parsed: {parsed}\r\n\r\n");
        wire.send(answer.into_bytes(), None);
    }
    wire.leave();
}
