//! Ports for servers that are told where to listen.

use std::net::TcpStream;
use std::sync::atomic::{AtomicU16, Ordering};

/// A port on loopback that nothing listens on.
///
/// Taken from below the range that outgoing connections use, so that none of them takes it before the server does;
/// each process has a block of its own, so that test programs running at once do not meet. A block has more ports than a
/// program's tests ask for, so that none is given out twice: a server that was stopped may start again at its own. Looked
/// at by connecting: a listener, however short-lived, would stay open in whatever process another test is just starting.
pub fn free_port() -> u16 {
    const FIRST: u16 = 10_000;
    const BLOCKS: u32 = 40;
    const BLOCK: u16 = 500;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let block = FIRST + (std::process::id() % BLOCKS) as u16 * BLOCK;
    for _ in 0..BLOCK {
        let port = block + NEXT.fetch_add(1, Ordering::Relaxed) % BLOCK;
        if TcpStream::connect(("127.0.0.1", port)).is_err() {
            return port;
        }
    }
    panic!("no free port on loopback");
}
