//! An origin that stops half-way until it is told to go on.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::body::Pattern;
use crate::origin::Origin;

/// Serves bodies of one length, and halts in the middle of each until [`Halting::go_on`].
pub struct Halting {
    /// What is asked.
    pub origin: Origin,
    sent: Arc<AtomicU64>,
    go_on: Arc<AtomicBool>,
}

impl Halting {
    /// An origin of bodies of `length` bytes that belong to their paths.
    pub fn start(length: u64) -> Self {
        let (sent, go_on) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, may) = (sent.clone(), go_on.clone());
        let origin = Origin::closing(move |request, stream| {
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=86400\r\nConnection: close\r\n";
            write!(stream, "{head}Content-Length: {length}\r\n\r\n")?;
            let (mut pattern, mut piece, mut left) = (Pattern::of(&request.path), vec![0; 250_000], length);
            while left > 0 {
                while left <= length / 2 && !may.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let now = left.min(piece.len() as u64) as usize;
                pattern.fill(&mut piece[..now]);
                stream.write_all(&piece[..now])?;
                left -= now as u64;
                count.store(length - left, Ordering::SeqCst);
            }
            Ok(())
        });
        Halting { origin, sent, go_on }
    }

    /// Bytes of body sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Send the rest, too.
    pub fn go_on(&self) {
        self.go_on.store(true, Ordering::SeqCst);
    }
}
