//! Writes that can no longer be stored, and the readers of them: those who keep up, and those who are left behind.
//!
//! Such a write once went at the pace of the slowest reader, even one that was a gigabyte behind and still read what had
//! been stored: everybody else stood still until it was dropped, half a minute later.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tinaja_clock::ManualClock;
use tinaja_store::contract::bytes_of;
use tinaja_store::device::Medium;
use tinaja_store::device::wrap::Fault;
use tinaja_store::limits::RELAY_BYTES;
use tinaja_store::{Body, Cache, Commit, Hint, ReadError, Store, Writer, block_on};

use crate::support::{disk_by, is_write, key, open_without_snapshots};

/// A store whose disk is full once the flag is set. Extents are 64 KiB.
///
/// Its time stands still for as long as the clock is there: no thread of its own writes anything, and the disk is done with what it is given when it has been
/// given it. By the system's clock a write was once not taken since such a thread was on its way with earlier ones, and readers had the blame. It happened
/// again, before the disk was full and for less than a millisecond: the clock was dropped here, and so went on by itself, and a thread that takes snapshots may begin so
/// late that one is due. So there is none. The clock is the first to go, so that the store can end.
fn store() -> (Cache, Arc<AtomicBool>, ManualClock) {
    let full = Arc::new(AtomicBool::new(false));
    let now = full.clone();
    let plan = move |_, request: &_| (is_write(request) && now.load(SeqCst)).then_some(Fault::Full);
    let hand = ManualClock::new();
    let disk = disk_by(hand.clock(), &Medium::zeroed(32 << 20), plan);
    (open_without_snapshots(disk).unwrap(), full, hand)
}

/// A reader, how much it has read, and how it ended.
struct Reader {
    body: Body,
    read: usize,
    ended: Option<Result<(), ReadError>>,
}

impl Reader {
    fn of(body: Body) -> Self {
        Reader { body, read: 0, ended: None }
    }

    /// Read up to so many bytes, as far as they are there, and compare each.
    fn read(&mut self, most: usize, expected: &Bytes) {
        let (mut cx, end) = (Context::from_waker(Waker::noop()), self.read.saturating_add(most));
        while self.read < end && self.ended.is_none() {
            match self.body.poll_next(&mut cx, end - self.read) {
                Poll::Pending => return,
                Poll::Ready(Ok(Some(piece))) => {
                    assert!(piece == expected[self.read..self.read + piece.len()], "wrong bytes from {}", self.read);
                    self.read += piece.len();
                }
                Poll::Ready(Ok(None)) => self.ended = Some(Ok(())),
                Poll::Ready(Err(error)) => self.ended = Some(Err(error)),
            }
        }
    }
}

/// Whether all of it was taken at once; what was not is left in `data`.
fn write(writer: &mut Writer, data: &mut Bytes) -> bool {
    writer.poll_write(&mut Context::from_waker(Waker::noop()), data).is_ready()
}

/// All of it is taken at once.
fn write_all(writer: &mut Writer, mut data: Bytes) {
    assert!(write(writer, &mut data), "held up");
}

#[test]
fn a_disk_full_half_way_holds_up_nobody_who_keeps_up() {
    const PIECE: usize = 50_000;
    let (store, full, _hand) = store();
    let body = bytes_of(1, 7 << 20);
    let half = body.len() / 2;
    let hint = Hint { expected_bytes: Some(body.len() as u64), ..Hint::default() };
    let mut writer = store.put(&key(1), Bytes::new(), hint);
    let mut readers: Vec<_> = (0..3).map(|_| Reader::of(writer.follow().body)).collect();
    for (number, piece) in body.chunks(PIECE).enumerate() {
        if number == half / PIECE {
            full.store(true, SeqCst);
            readers.push(Reader::of(block_on(store.find(&key(1))).expect("the unfinished write").body));
        }
        write_all(&mut writer, Bytes::copy_from_slice(piece));
        // One keeps up, one is slow, the third never reads, and whoever joined half-way is faster, but not enough.
        let paces = [usize::MAX, 5_000, 0, 2 * PIECE - 10_000];
        readers.iter_mut().zip(paces).for_each(|(reader, pace)| reader.read(pace, &body));
        assert_eq!(readers[0].read, body.len().min((number + 1) * PIECE));
    }
    assert_eq!(store.followers(&key(1), writer.id()), 1, "the others are on their own");
    assert!(matches!(block_on(writer.commit()), Commit::NotStored(_)));
    readers.iter_mut().for_each(|reader| reader.read(usize::MAX, &body));
    assert_eq!((readers[0].read, readers[0].ended), (body.len(), Some(Ok(()))));
    let stored = readers[1].read;
    assert!(stored >= half && stored < body.len() && stored.is_multiple_of(64 << 10), "{stored} bytes");
    for reader in &mut readers[1..] {
        assert_eq!((reader.read, reader.ended), (stored, Some(Err(ReadError::Behind))));
    }
    assert!(block_on(store.find(&key(1))).is_none());
}

/// Whoever has the first half of a body from the store itself is not told that the origin gave up.
#[test]
fn an_abort_is_not_news_to_those_left_behind() {
    let (store, full, _hand) = store();
    let body = bytes_of(1, 6 << 20);
    let mut writer = store.put(&key(1), Bytes::new(), Hint::default());
    let (mut fast, mut slow) = (Reader::of(writer.follow().body), Reader::of(writer.follow().body));
    for (number, piece) in body.chunks(100_000).enumerate() {
        full.store(number > 20, SeqCst);
        write_all(&mut writer, Bytes::copy_from_slice(piece));
        fast.read(usize::MAX, &body);
    }
    assert!(block_on(store.find(&key(1))).is_none(), "nobody begins what cannot be had whole");
    drop(writer);
    fast.read(usize::MAX, &body);
    slow.read(usize::MAX, &body);
    assert_eq!(fast.ended, Some(Err(ReadError::Aborted)));
    assert!(slow.ended == Some(Err(ReadError::Behind)) && slow.read > 2_000_000, "{} bytes", slow.read);
}

/// What happens to a write and its readers, in order.
#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    Read { reader: usize, bytes: usize },
    Join,
    Leave { reader: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![1..5_000_usize, 60_000..70_000_usize, 100_000..1_500_000_usize];
    let step = prop_oneof![
        6 => bytes.clone().prop_map(Step::Write),
        12 => (0..8_usize, bytes).prop_map(|(reader, bytes)| Step::Read { reader, bytes }),
        1 => Just(Step::Join),
        1 => (0..8_usize).prop_map(|reader| Step::Leave { reader }),
    ];
    vec(step, 10..80)
}

/// One random history: the disk is full from the step `full_at` on. Returns how often the writer was held up, and how
/// many readers were left behind.
fn run(steps: Vec<Step>, full_at: usize) -> (usize, usize) {
    let (store, full, _hand) = store();
    let body = bytes_of(1, 6 << 20);
    let mut writer = store.put(&key(1), Bytes::new(), Hint::default());
    let mut readers: Vec<_> = (0..4).map(|_| Reader::of(writer.follow().body)).collect();
    let (mut arrived, mut refused) = (0, Vec::new());
    for (number, step) in steps.into_iter().enumerate() {
        full.store(number >= full_at, SeqCst);
        let reader = |reader| (!readers.is_empty()).then(|| reader % readers.len());
        match step {
            Step::Write(bytes) => {
                let mut data = body.slice(arrived..body.len().min(arrived + bytes));
                let all = data.len();
                let ready = write(&mut writer, &mut data);
                arrived += all - data.len();
                if !ready {
                    refused.push((arrived, readers.iter().map(|reader| reader.read).collect::<Vec<_>>()));
                }
            }
            Step::Read { reader: n, bytes } => {
                if let Some(n) = reader(n) {
                    readers[n].read(bytes, &body);
                }
            }
            Step::Leave { reader: n } => {
                if let Some(n) = reader(n) {
                    readers.remove(n);
                }
            }
            Step::Join => readers.extend(block_on(store.find(&key(1))).map(|hit| Reader::of(hit.body))),
        }
    }
    let _: Commit = block_on(writer.commit());
    readers.iter_mut().for_each(|reader| reader.read(usize::MAX, &body));
    let left: Vec<_> = readers.iter().filter(|reader| reader.ended != Some(Ok(()))).collect();
    let stored = left.first().map(|reader| reader.read);
    for reader in &left {
        assert_eq!((reader.ended, Some(reader.read)), (Some(Err(ReadError::Behind)), stored), "left behind elsewhere");
    }
    assert!(readers.iter().all(|reader| reader.ended.is_some_and(|end| end.is_err()) || reader.read == arrived));
    for (arrived, reached) in &refused {
        let in_window = |read: &usize| *read >= stored.unwrap_or(0);
        // Those who still read what was stored are waited for where nobody else reads.
        let holds_up =
            |read: &usize| *read + RELAY_BYTES <= *arrived && (in_window(read) || !reached.iter().any(in_window));
        assert!(reached.iter().any(holds_up), "held up at {arrived} by {reached:?}, with {stored:?} stored");
    }
    (refused.len(), left.len())
}

/// Whatever the order of writes and reads: bytes are right, all who are left behind are told so where what was stored
/// ends, and the writer waits only for somebody who has read that far and then let a whole window pass, or where nobody has.
#[test]
fn whatever_the_order_nobody_behind_holds_up_the_others() {
    let config = Config { cases: 150, failure_persistence: None, ..Config::default() };
    let (held_up, left_behind) = (Cell::new(0), Cell::new(0));
    TestRunner::new(config)
        .run(&(steps(), 0..60_usize), |(steps, full_at)| {
            let (held, left) = run(steps, full_at);
            held_up.update(|all| all + held);
            left_behind.update(|all| all + left);
            Ok(())
        })
        .unwrap();
    println!("held up {} times, {} readers left behind", held_up.get(), left_behind.get());
    assert!(held_up.get() > 0 && left_behind.get() > 0, "this tried nothing");
}
