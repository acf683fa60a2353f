//! Copying both ways between two connections until both sides are done or nothing has moved for too long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tinaja_clock::Clock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes in flight in each direction.
const BUFFER_BYTES: usize = 16 * 1024;

/// Bytes that went each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Relayed {
    pub to_client: u64,
    pub to_origin: u64,
}

/// Copies until both directions have ended, one has failed, or nothing has moved either way for `idle`.
/// An end in one direction is passed on, and the other goes on: half-closed connections work.
pub(super) async fn relay<C, O>(clock: &Clock, client: C, origin: O, idle: Duration) -> Relayed
where
    C: AsyncRead + AsyncWrite,
    O: AsyncRead + AsyncWrite,
{
    let (client_read, client_write) = tokio::io::split(client);
    let (origin_read, origin_write) = tokio::io::split(origin);
    let moved = Moved { clock, since: clock.now(), last_ms: AtomicU64::new(0) };
    let (to_client, to_origin) = (AtomicU64::new(0), AtomicU64::new(0));
    let both = async {
        tokio::try_join!(
            copy(client_read, origin_write, &moved, &to_origin, idle),
            copy(origin_read, client_write, &moved, &to_client, idle),
        )
    };
    tokio::select! {
        _ = both => {}
        () = moved.idle_for(idle) => {}
    }
    Relayed { to_client: to_client.into_inner(), to_origin: to_origin.into_inner() }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: &Moved<'_>,
    count: &AtomicU64,
    idle: Duration,
) -> std::io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        // A receiver that takes nothing holds up only its own direction, but must not hold it for ever.
        let written = moved.clock.timeout(idle, async {
            to.write_all(buffer.get(..read).unwrap_or_default()).await?;
            to.flush().await
        });
        written.await.map_err(|_| std::io::ErrorKind::TimedOut)??;
        moved.now();
        count.fetch_add(read as u64, Ordering::Relaxed);
    }
}

/// When something last moved, either way.
struct Moved<'a> {
    clock: &'a Clock,
    since: Instant,
    last_ms: AtomicU64,
}

impl Moved<'_> {
    fn now(&self) {
        let elapsed = u64::try_from(self.clock.since(self.since).as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(elapsed, Ordering::Relaxed);
    }

    async fn idle_for(&self, idle: Duration) {
        loop {
            let last = self.since + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            if self.clock.since(last) >= idle {
                return;
            }
            self.clock.timer_until(last + idle).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tinaja_clock::ManualClock;

    use super::*;

    #[tokio::test]
    async fn both_ways_and_half_closed() {
        let (client, mut far_client) = tokio::io::duplex(64);
        let (origin, mut far_origin) = tokio::io::duplex(64);
        let task = tokio::spawn(async move { relay(&Clock::system(), client, origin, Duration::from_secs(5)).await });
        far_client.write_all(b"question").await.unwrap();
        far_client.shutdown().await.unwrap();
        let mut question = Vec::new();
        far_origin.read_to_end(&mut question).await.unwrap();
        assert_eq!(question, b"question");
        far_origin.write_all(b"answer").await.unwrap();
        drop(far_origin);
        let mut answer = Vec::new();
        far_client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"answer");
        assert_eq!(task.await.unwrap(), Relayed { to_client: 6, to_origin: 8 });
    }

    #[tokio::test]
    async fn idle_tunnels_end_and_busy_ones_do_not() {
        let (client, mut far_client) = tokio::io::duplex(64);
        let (origin, mut far_origin) = tokio::io::duplex(64);
        let (hand, idle) = (ManualClock::new(), Duration::from_secs(300));
        let clock = hand.clock();
        let task = tokio::spawn(async move { relay(&clock, client, origin, idle).await });
        for _ in 0..5 {
            hand.advance(idle / 2);
            far_client.write_all(b"x").await.unwrap();
            far_origin.read_u8().await.unwrap();
        }
        assert!(!task.is_finished());
        hand.advance(idle);
        assert_eq!(task.await.unwrap().to_origin, 5);
    }
}
