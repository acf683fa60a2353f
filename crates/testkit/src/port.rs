//! Ports for servers that are told where to listen.

use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 10_000;
const BLOCKS: u32 = 40;
const BLOCK: u16 = 500;

/// A port on loopback that nothing listens on.
///
/// Taken from below the range that outgoing connections use, so that none of them takes it before the server does. Each process has a block of its own,
/// by a name that it holds until it ends: while blocks went by the number of the process, two programs at once could have the same. A block has more
/// ports than a program's tests ask for, so that none is given out twice: a server that was stopped may start again at its own. Looked at by connecting: a
/// listener, however short-lived, would stay open in whatever process another test is just starting.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    for _ in 0..BLOCK {
        let port = OWN.0 + NEXT.fetch_add(1, Ordering::Relaxed) % BLOCK;
        if TcpStream::connect(("127.0.0.1", port)).is_err() {
            return port;
        }
    }
    panic!("no free port on loopback");
}

/// The first port of this process's block, and what holds it.
static OWN: LazyLock<(u16, UnixListener)> = LazyLock::new(|| {
    let from = std::process::id();
    let numbers = (from..from.saturating_add(BLOCKS)).map(|number| number % BLOCKS);
    let mut held = numbers.filter_map(|number| Some((number, hold(&format!("tinaja-test-ports-{number}"))?)));
    let (number, held) = held.next().expect("no free block of ports on loopback: too many test programs run at once");
    (FIRST + number as u16 * BLOCK, held)
});

/// Hold a name among all programs on the machine, whoever runs them, until the result is dropped or this process ends; `None` while another one has it.
/// It is an abstract socket's name, so that nothing is left of it on a disk.
pub fn hold(name: &str) -> Option<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).ok()?).ok()
}
