//! Ports for servers that are told where to listen.

use std::fs::File;
use std::net::TcpStream;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 10_000;
const BLOCKS: u32 = 40;
const BLOCK: u16 = 500;

/// A port on loopback that nothing listens on.
///
/// Taken from below the range that outgoing connections use, so that none of them takes it before the server does. Each process has a block of its own,
/// by a lock on a file that ends with it: while blocks went by the number of the process, two programs at once could have the same. A block has more
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

/// The first port of this process's block, and the lock on it.
static OWN: LazyLock<(u16, File)> = LazyLock::new(|| {
    let from = std::process::id();
    let lock = |number: u32| {
        let path = std::env::temp_dir().join(format!("tinaja-test-ports-{number}"));
        let file = File::options().create(true).truncate(false).write(true).open(path).ok()?;
        file.try_lock().is_ok().then_some((FIRST + number as u16 * BLOCK, file))
    };
    let own = (from..from.saturating_add(BLOCKS)).find_map(|number| lock(number % BLOCKS));
    own.expect("no free block of ports on loopback: too many test programs run at once")
});
