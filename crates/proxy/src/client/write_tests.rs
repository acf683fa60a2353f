//! A client that takes its answer slowly, and never stops, was cut off: a piece of 64 KiB had to be taken within `client_stall`, and the last
//! part of what the system holds went out unseen. Over a thin satellite link that is shared by a school, that is every large answer.

use std::future::poll_fn;
use std::pin::pin;

use tinaja_clock::ManualClock;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use super::*;

const STALL: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

async fn connection() -> (Stream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (Stream::Plain(listener.accept().await.unwrap().0), client)
}

/// What comes of writing once: nothing where it has to wait.
async fn once(filling: &mut Filling<'_>) -> Option<io::Result<usize>> {
    let mut write = pin!(filling.write(&[b'x'; 1024]));
    poll_fn(|cx| match write.as_mut().poll(cx) {
        Poll::Ready(written) => Poll::Ready(Some(written)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Writes until nothing more is taken, now or in a moment.
async fn fill(filling: &mut Filling<'_>) {
    let mut in_a_row = 0;
    while in_a_row < 20 {
        match once(filling).await {
            Some(written) => in_a_row = written.map(|_| 0).unwrap(),
            None => {
                in_a_row += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

#[tokio::test]
async fn who_takes_something_again_and_again_is_waited_for() {
    let (mut stream, mut client) = connection().await;
    let (hand, full) = (ManualClock::new(), AtomicUsize::new(0));
    let clock = hand.clock();
    let mut filling =
        Filling { stream: &mut stream, full: &full, most: None, clock: &clock, stall: STALL, stalled: None };
    fill(&mut filling).await;
    assert!(full.load(Relaxed) > 0);
    // What the system holds already may be much. From then on it says early that something moved.
    let mut taken = vec![0; 64 * 1024];
    let mut moves = 0;
    while moves < 5 {
        hand.advance(STALL - SECOND);
        assert!(once(&mut filling).await.is_none());
        let mut was_taken = 0;
        while once(&mut filling).await.transpose().unwrap().is_none() {
            was_taken += client.read(&mut taken).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The first time until the system has sent most of what it had.
        assert!(moves == 0 || was_taken < 2 << 20, "{was_taken} bytes were taken until that was seen");
        fill(&mut filling).await;
        moves += 1;
    }
    hand.advance(STALL + SECOND);
    let late = once(&mut filling).await.unwrap().unwrap_err();
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
}
