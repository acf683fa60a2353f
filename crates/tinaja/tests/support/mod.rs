//! What the end-to-end tests share: processes that die with the test, real nginx, a hand-made origin, a plain client.
//!
//! Every test owns a scratch directory and its ports; nothing outside loopback is asked for anything.

// Each test program is a crate of its own and uses a part of this.
#![allow(dead_code)]

pub mod body;
pub mod client;
pub mod halting;
pub mod home;
pub mod load;
pub mod name_server;
pub mod nginx;
pub mod origin;
pub mod process;
pub mod small_disk;
pub mod tinaja;
pub mod tools;

use std::net::TcpStream;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

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

/// Wait until `ready` gives something, or panic with what was waited for.
pub fn wait_for<T>(what: &str, limit: Duration, mut ready: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(began.elapsed() < limit, "waited {limit:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
