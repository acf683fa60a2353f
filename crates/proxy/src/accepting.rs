//! What to do when a connection cannot be accepted, whoever it is for.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tinaja_clock::Clock;

/// The system may have no open file left for one more; it is asked again after so long.
pub(crate) const NO_FILES: Duration = Duration::from_millis(100);
/// That is said so often.
const SAID_EVERY: Duration = Duration::from_secs(1);

/// Failures that are one connection's own, and over with it (accept(2)).
const OWN: [Errno; 11] = [
    Errno::CONNABORTED,
    Errno::CONNRESET,
    Errno::INTR,
    Errno::NETDOWN,
    Errno::PROTO,
    Errno::NOPROTOOPT,
    Errno::HOSTDOWN,
    Errno::NONET,
    Errno::HOSTUNREACH,
    Errno::OPNOTSUPP,
    Errno::NETUNREACH,
];

/// How one listener gets over failures.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    said: Option<Instant>,
}

impl Recovery {
    /// Returns when the next connection may be accepted. A failure that is one connection's own is over already. Any other, such
    /// as too many open files, does not end by asking again at once.
    pub async fn after(&mut self, clock: &Clock, error: io::Error) {
        if Errno::from_io_error(&error).is_some_and(|error| OWN.contains(&error)) {
            return tracing::debug!(%error, "a connection was lost before it was accepted");
        }
        if self.said.is_none_or(|said| clock.since(said) >= SAID_EVERY) {
            tracing::warn!(%error, "connections cannot be accepted; it is tried again");
            self.said = Some(clock.now());
        }
        clock.timer(NO_FILES).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use tinaja_clock::ManualClock;

    use super::*;

    #[tokio::test]
    async fn too_many_files_take_a_while_and_are_said_once_a_second() {
        let hand = ManualClock::new();
        let (clock, mut recovery, mut said) = (hand.clock(), Recovery::default(), Vec::new());
        for errno in [Errno::MFILE, Errno::NFILE, Errno::CONNABORTED].repeat(10) {
            {
                let mut wait = pin!(recovery.after(&clock, errno.into()));
                let is_over = poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx).is_ready())).await;
                assert_eq!(is_over, errno == Errno::CONNABORTED, "{errno}");
                if !is_over {
                    hand.advance(NO_FILES);
                    wait.await;
                }
            }
            said.extend(recovery.said);
        }
        said.dedup();
        assert_eq!(said.len(), 2, "in two seconds");
    }
}
