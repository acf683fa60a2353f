use std::future::pending;

use tokio::task::JoinHandle;

use super::*;

/// Somebody who waits for ever with so many bytes.
fn stalled(held: &Arc<Held>, bytes: usize) -> JoinHandle<Result<(), LetGo>> {
    let held = held.clone();
    tokio::spawn(async move { held.hold(move || bytes, pending()).await })
}

/// A connection without a request.
fn idle(held: &Arc<Held>, bytes: usize) -> Option<JoinHandle<Result<(), LetGo>>> {
    let mut kept = held.keep(bytes)?;
    Some(tokio::spawn(async move { kept.idle(pending()).await }))
}

/// Gives every task its turn.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

fn finished(tasks: &[JoinHandle<Result<(), LetGo>>]) -> Vec<bool> {
    tasks.iter().map(JoinHandle::is_finished).collect()
}

#[tokio::test]
async fn what_is_ready_at_once_holds_nothing() {
    let held = Held::new(10);
    assert_eq!(held.hold(|| 1000, async { 5 }).await, Ok(5));
    assert_eq!((held.bytes(), held.let_go()), (0, 0));
}

#[tokio::test]
async fn the_one_that_has_waited_longest_goes() {
    let held = Held::new(100);
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(stalled(&held, 25));
        settle().await;
    }
    assert_eq!((held.bytes(), finished(&tasks)), (100, vec![false; 4]));
    tasks.push(stalled(&held, 30));
    settle().await;
    assert_eq!(finished(&tasks), [true, true, false, false, false]);
    assert_eq!((held.bytes(), held.let_go()), (80, 2));
    // One that ends by itself takes its bytes along.
    tasks[2].abort();
    settle().await;
    assert_eq!(held.bytes(), 55);
    // More than there is for all: it lets everybody go, and goes too.
    tasks.push(stalled(&held, 101));
    settle().await;
    assert!(finished(&tasks).iter().all(|finished| *finished));
    assert_eq!(held.bytes(), 0);
}

#[tokio::test]
async fn idle_connections_go_first_and_busy_ones_stay() {
    let held = Held::new(100);
    let busy = held.keep(20).unwrap();
    let amid = stalled(&held, 20);
    settle().await;
    let waiting = [idle(&held, 20).unwrap(), idle(&held, 20).unwrap()];
    settle().await;
    assert_eq!(held.bytes(), 80);
    let next = held.keep(40).unwrap();
    settle().await;
    assert_eq!((finished(&waiting), amid.is_finished()), (vec![true, false], false));
    assert_eq!(held.bytes(), 100);
    let last = held.keep(20).unwrap();
    assert_eq!(held.bytes(), 100);
    settle().await;
    assert_eq!((finished(&waiting), amid.is_finished()), (vec![true, true], false));
    // What is left is amid its request, or has only begun.
    let after = held.keep(20).unwrap();
    settle().await;
    assert!(amid.is_finished());
    assert_eq!((held.keep(1).is_none(), held.refused(), held.bytes()), (true, 1, 100));
    drop((busy, next, last, after));
    assert_eq!(held.bytes(), 0);
}

#[tokio::test]
async fn a_connection_that_is_no_longer_idle_keeps_its_room() {
    let held = Held::new(100);
    let mut kept = held.keep(30).unwrap();
    assert_eq!(kept.idle(async { 7 }).await, Ok(7));
    assert!(kept.more(30));
    assert!(!kept.more(50), "nobody is idle");
    assert_eq!((held.bytes(), held.inside.lock().idle.len()), (60, 0));
    drop(kept);
    assert_eq!(held.bytes(), 0);
}

/// Let go, it counts no more, whether it hears of that before it ends or not.
#[tokio::test]
async fn nothing_is_given_back_twice() {
    let held = Held::new(100);
    let first = idle(&held, 60).unwrap();
    settle().await;
    let next = held.keep(90).unwrap();
    assert_eq!(held.bytes(), 90);
    first.abort();
    settle().await;
    assert_eq!(held.bytes(), 90);
    drop(next);
    assert_eq!(held.bytes(), 0);
}

#[tokio::test]
async fn pieces_are_small_while_much_is_held() {
    let held = Held::new(100);
    assert_eq!(held.piece_bytes(), READ_PIECE_BYTES);
    let kept = held.keep(51);
    assert_eq!(held.piece_bytes(), SMALL_PIECE_BYTES);
    assert_eq!(held.lent_piece_bytes(), SMALL_PIECE_BYTES);
    drop(kept);
    assert_eq!(held.piece_bytes(), READ_PIECE_BYTES);
}

/// What waits beside requests counts as it changes, and goes in its turn: behind whoever has waited longer since.
#[tokio::test]
async fn what_waits_beside_requests_goes_in_its_turn() {
    let held = Held::new(100);
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let (mut one, mut other) = (held.pending(), held.pending());
    assert_eq!(one.poll(40, false, &mut cx), Ok(()));
    assert_eq!(other.poll(40, false, &mut cx), Ok(()));
    assert_eq!(held.bytes(), 80);
    // The first has moved on, and has waited less long than the other now.
    assert_eq!(one.poll(30, true, &mut cx), Ok(()));
    assert_eq!(held.bytes(), 70);
    let third = held.keep(40).unwrap();
    assert_eq!((one.poll(30, false, &mut cx), other.poll(40, false, &mut cx)), (Ok(()), Err(LetGo)));
    assert_eq!((held.bytes(), held.let_go()), (70, 1));
    assert_eq!(one.poll(0, true, &mut cx), Ok(()));
    assert_eq!(held.bytes(), 40);
    // There is no room for it at all.
    assert_eq!(one.poll(61, true, &mut cx), Err(LetGo));
    drop((one, other));
    assert_eq!(held.bytes(), 40);
    drop(third);
    assert_eq!(held.bytes(), 0);
}

/// One was let go by another thread before it had asked to be woken, which went unnoticed, and when it asked once more the connection's task panicked.
#[tokio::test]
async fn what_is_let_go_as_it_begins_to_wait_is_told_so() {
    let held = Held::new(100);
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let mut one = held.pending();
    let entered = held.wait(60).unwrap();
    let _other = held.keep(60).unwrap();
    assert_eq!(one.enter(60, entered, &mut cx), Err(LetGo));
    // Whoever asks again begins anew.
    assert_eq!(one.poll(30, false, &mut cx), Ok(()));
    assert_eq!(held.bytes(), 90);
    let _third = held.keep(40).unwrap();
    assert_eq!(one.poll(30, false, &mut cx), Err(LetGo));
    assert_eq!(one.poll(0, false, &mut cx), Ok(()));
    assert_eq!(held.bytes(), 100);
}

/// A client that takes nothing and asks for one small thing after the other was the youngest each time, and others went for it.
#[test]
fn whoever_takes_nothing_and_gathers_more_keeps_its_place() {
    let held = Held::new(100);
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let (mut old, mut young) = (held.pending(), held.pending());
    assert_eq!((old.poll(40, true, &mut cx), young.poll(40, true, &mut cx)), (Ok(()), Ok(())));
    assert_eq!((old.poll(50, false, &mut cx), held.bytes()), (Ok(()), 90));
    assert_eq!((old.poll(45, false, &mut cx), held.bytes()), (Ok(()), 85));
    assert_eq!(old.poll(61, false, &mut cx), Err(LetGo));
    assert_eq!((young.poll(40, false, &mut cx), held.bytes()), (Ok(()), 40));
    drop((old, young));
    assert_eq!(held.bytes(), 0);
}

#[test]
fn what_is_kept_may_become_less() {
    let held = Held::new(100);
    let mut kept = held.keep(10).unwrap();
    assert!(kept.more(50));
    kept.less(40);
    assert_eq!(held.bytes(), 20);
    drop(kept);
    assert_eq!(held.bytes(), 0);
}

/// It is said once after each peak.
#[test]
fn a_peak_that_is_over_is_noticed_once() {
    let held = Held::new(u64::MAX);
    let few = held.keep(FALLEN_BYTES - 1).unwrap();
    drop(few);
    assert!(!held.has_fallen());
    for _ in 0..2 {
        let (some, many) = (held.keep(FALLEN_BYTES / 2).unwrap(), held.keep(FALLEN_BYTES).unwrap());
        assert!(!held.has_fallen());
        drop(many);
        assert!(held.has_fallen() && !held.has_fallen());
        drop(some);
        assert!(!held.has_fallen());
    }
}
