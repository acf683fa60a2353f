//! Copying both ways between two connections until both sides are done or nothing has moved for too long.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tinaja_clock::Clock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use crate::held::Kept;

/// Bytes in flight in each direction.
const BUFFER_BYTES: usize = 16 * 1024;

/// A tunnel in which nothing has moved for so long may be let go for others.
const QUIET: Duration = Duration::from_secs(1);

/// Bytes that went each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Relayed {
    pub to_client: u64,
    pub to_origin: u64,
    /// It was closed since others needed what it held.
    pub let_go: bool,
}

impl Relayed {
    /// Why it ended, where that is worth a word.
    pub fn why(&self) -> Option<String> {
        let why = "the tunnel was closed: nothing moved in it, and clients hold as much as limits.client_memory allows";
        self.let_go.then(|| why.to_owned())
    }
}

/// Copies until both directions have ended, one has failed, or nothing has moved either way for `idle`.
/// An end in one direction is passed on, and the other goes on: half-closed connections work. While nothing moves, it may be let go.
pub(super) async fn relay<C, O>(clock: &Clock, client: C, origin: O, idle: Duration, kept: &mut Kept) -> Relayed
where
    C: AsyncRead + AsyncWrite,
    O: AsyncRead + AsyncWrite,
{
    let (client_read, client_write) = tokio::io::split(client);
    let (origin_read, origin_write) = tokio::io::split(origin);
    let moved = Moved { clock, since: clock.now(), last_ms: AtomicU64::new(0), again: Notify::new() };
    let (to_client, to_origin) = (AtomicU64::new(0), AtomicU64::new(0));
    let both = async {
        tokio::try_join!(
            copy(client_read, origin_write, &moved, &to_origin, idle),
            copy(origin_read, client_write, &moved, &to_client, idle),
        )
    };
    let mut ends = pin!(async {
        tokio::select! {
            _ = both => {}
            () = moved.idle_for(idle) => {}
        }
    });
    let let_go = loop {
        tokio::select! {
            biased;
            () = &mut ends => break false,
            () = moved.idle_for(QUIET) => {}
        }
        let has_ended = kept.quiet(async {
            tokio::select! {
                biased;
                () = &mut ends => true,
                () = moved.again.notified() => false,
            }
        });
        match has_ended.await {
            Ok(false) => {}
            ended => break ended.is_err(),
        }
    };
    let bytes = |count: &AtomicU64| count.load(Ordering::Relaxed);
    Relayed { to_client: bytes(&to_client), to_origin: bytes(&to_origin), let_go }
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
    /// Tells whoever waits for the next move.
    again: Notify,
}

impl Moved<'_> {
    fn now(&self) {
        let elapsed = u64::try_from(self.clock.since(self.since).as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(elapsed, Ordering::Relaxed);
        self.again.notify_one();
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
    use crate::held::Held;

    #[tokio::test]
    async fn both_ways_and_half_closed() {
        let (client, mut far_client) = tokio::io::duplex(64);
        let (origin, mut far_origin) = tokio::io::duplex(64);
        let task = tokio::spawn(async move {
            let mut kept = Held::new(0).nothing();
            relay(&Clock::system(), client, origin, Duration::from_secs(5), &mut kept).await
        });
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
        assert_eq!(task.await.unwrap(), Relayed { to_client: 6, to_origin: 8, let_go: false });
    }

    #[tokio::test]
    async fn idle_tunnels_end_and_busy_ones_do_not() {
        let (client, mut far_client) = tokio::io::duplex(64);
        let (origin, mut far_origin) = tokio::io::duplex(64);
        let (hand, idle) = (ManualClock::new(), Duration::from_secs(300));
        let clock = hand.clock();
        let task = tokio::spawn(async move {
            let mut kept = Held::new(0).nothing();
            relay(&clock, client, origin, idle, &mut kept).await
        });
        for _ in 0..5 {
            hand.advance(idle / 2);
            far_client.write_all(b"x").await.unwrap();
            far_origin.read_u8().await.unwrap();
        }
        assert!(!task.is_finished());
        hand.advance(idle);
        assert_eq!(task.await.unwrap().to_origin, 5);
    }

    /// Of tunnels the one goes first in which nothing has moved for longest.
    #[tokio::test]
    async fn the_quietest_goes_when_there_is_no_room() {
        let (hand, held) = (ManualClock::new(), Held::new(100));
        let (mut far, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let ((client, far_client), (origin, far_origin)) = (tokio::io::duplex(64), tokio::io::duplex(64));
            let (clock, mut kept) = (hand.clock(), held.keep(30).unwrap());
            tasks.push(tokio::spawn(async move {
                relay(&clock, client, origin, Duration::from_secs(300), &mut kept).await
            }));
            far.push((far_client, far_origin));
        }
        let move_in = async |far: &mut Vec<(tokio::io::DuplexStream, tokio::io::DuplexStream)>, which: usize| {
            far[which].0.write_all(b"x").await.unwrap();
            far[which].1.read_u8().await.unwrap();
        };
        let quiet = async |wanted: usize| {
            while held.quiet_tunnels() != wanted {
                tokio::task::yield_now().await;
            }
        };
        // All of them have begun.
        for which in 0..3 {
            move_in(&mut far, which).await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        hand.advance(QUIET);
        quiet(3).await;
        // The second has been silent for longest then, and the third for the shortest time.
        for which in [0, 2] {
            move_in(&mut far, which).await;
            quiet(2).await;
            hand.advance(QUIET);
            quiet(3).await;
        }
        let more = held.keep(40).unwrap();
        assert!(tasks.remove(1).await.unwrap().let_go);
        assert_eq!((tasks[0].is_finished(), held.tunnels_let_go()), (false, 1));
        let again = held.keep(30).unwrap();
        assert!(tasks.remove(0).await.unwrap().let_go);
        assert_eq!((tasks[0].is_finished(), held.tunnels_let_go(), held.bytes()), (false, 2, 100));
        drop((more, again));
    }
}
