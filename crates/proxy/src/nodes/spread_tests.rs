use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::UNIX_EPOCH;

use parking_lot::Mutex;
use tempfile::TempDir;
use tinaja_clock::ManualClock;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::yield_now;

use super::super::Others;
use super::*;

fn node(id: u64) -> OtherNode {
    OtherNode { id, name: format!("box-{id}") }
}

fn bans() -> (TempDir, Arc<Bans>) {
    let dir = tempfile::tempdir().unwrap();
    let bans = Bans::away(Some(dir.path()), true);
    bans.take(UNIX_EPOCH, 0);
    (dir, Arc::new(bans))
}

fn rules() -> Vec<Rule> {
    vec![Rule::All]
}

/// Those that are there, as `there` is at the moment, who answer with what `ask` says.
fn nodes(
    there: &Arc<Mutex<Vec<OtherNode>>>,
    ask: impl Fn(u64, Bytes) -> Option<Bytes> + Send + Sync + 'static,
) -> Arc<Nodes> {
    let there = there.clone();
    let others = move || Others { nodes: there.lock().clone(), is_young: false };
    let ask = move |id, said| -> tinaja_store::Pending<_> { Box::pin(ready(ask(id, said))) };
    Arc::new(Nodes::new(Box::new(others), Box::new(ask), mpsc::channel(1).1))
}

/// Whoever comes while others are told is told too, before the ban is answered; if no end of them comes, the last ones are named.
#[tokio::test]
async fn who_comes_meanwhile_is_told_before_the_answer() {
    for most in [3, 1000] {
        let (_dirs, own): (TempDir, _) = bans();
        let (_others, other) = bans();
        let there = Arc::new(Mutex::new(vec![node(1)]));
        let heard: Arc<Mutex<Vec<u64>>> = Arc::default();
        let (coming, hearing) = (there.clone(), heard.clone());
        let ask = move |id, said: Bytes| {
            hearing.lock().push(id);
            if id < most {
                coming.lock().push(node(id + 1));
            }
            Some(answer_bytes(&other.hear(&said, UNIX_EPOCH)))
        };
        let done = ban_everywhere(&own, Some(&nodes(&there, ask)), &Clock::system(), rules(), false).await;
        match most {
            3 => assert_eq!((done, &heard.lock()[..]), (Ok(()), &[1, 2, 3][..])),
            _ => {
                assert!(heard.lock().len() == MOST_ROUNDS, "{:?}", heard.lock());
                assert!(done.is_err_and(|why| why.to_string().contains("box-9, as it has only just come")));
            }
        }
    }
}

/// Whoever asked for it may leave: all are told all the same.
#[tokio::test]
async fn a_client_that_leaves_does_not_keep_others_from_hearing() {
    let ((_dir, own), (_also, other)) = (bans(), bans());
    let there = Arc::new(Mutex::new((1..=5).map(node).collect()));
    let heard = Arc::new(Semaphore::new(0));
    let hearing = heard.clone();
    let nodes = nodes(&there, move |_, said| {
        let answer = answer_bytes(&other.hear(&said, UNIX_EPOCH));
        hearing.add_permits(1);
        Some(answer)
    });
    let clock = Clock::system();
    {
        let mut asking = std::pin::pin!(ban_everywhere(&own, Some(&nodes), &clock, rules(), false));
        // It begins, and is waited for no longer.
        assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(asking.as_mut().poll(cx))).await.is_pending());
    }
    let _all = heard.acquire_many(5).await.unwrap();
}

/// A node that does not meet is met again after a rest, and not at once and for ever.
#[tokio::test]
async fn a_meeting_that_fails_is_not_begun_again_at_once() {
    let (_dir, own) = bans();
    own.ban(rules(), false, UNIX_EPOCH).unwrap();
    let there = Arc::new(Mutex::new(vec![node(1)]));
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let nodes = nodes(&there, move |_, _| {
        counted.fetch_add(1, SeqCst);
        Some(answer_bytes(&Err("it is full".to_owned())))
    });
    let manual = ManualClock::new();
    let meeting = tokio::spawn(keep_meeting(nodes, own, manual.clock()));
    for (round, rest) in [250, 500, 1000, 2000, 4000, 4000].into_iter().enumerate() {
        while asked.load(SeqCst) == round {
            yield_now().await;
        }
        // As far as it goes without time.
        for _ in 0..1000 {
            yield_now().await;
        }
        assert_eq!(asked.load(SeqCst), round + 1);
        manual.advance(Duration::from_millis(rest));
    }
    meeting.abort();
}
