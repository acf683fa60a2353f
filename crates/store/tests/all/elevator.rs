//! The elevator hands requests down as many at a time and in the order that it was told, and each ends once.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use proptest::prelude::*;
use tinaja_store::Clock;
use tinaja_store::device::elevator::{Elevator, Order};
use tinaja_store::device::wrap::{Limited, Model, Time};
use tinaja_store::device::{Counters, Device, Geometry, Kind, Medium, Memory, Op, Outcome, Request, lending};
use tinaja_store::limits::MAX_QUEUED_REQUESTS;
use tinaja_store::memory::AlignedBuf;

const ORDERS: [Order; 3] = [Order::InTurn, Order::OneWay, Order::TwoWay];

/// A disk that ends a request when it is told to, and remembers what it was given.
#[derive(Default)]
struct Held {
    clock: Clock,
    given: Mutex<Vec<(Kind, u64)>>,
    held: Mutex<Vec<Op>>,
    said: Mutex<Vec<String>>,
}

impl Held {
    fn end(&self, number: usize) {
        let op = self.held.lock().remove(number);
        let buffer = if let Request::Read { into, .. } = op.request { Some(into) } else { None };
        (op.done)(Outcome { buffer, result: Ok(()) });
    }

    fn end_all(&self) {
        while !self.held.lock().is_empty() {
            self.end(0);
        }
    }

    fn places(&self) -> Vec<u64> {
        self.given.lock().iter().map(|(_, at)| at / 512).collect()
    }
}

impl Device for Held {
    fn geometry(&self) -> Geometry {
        Geometry { bytes: 1 << 20, block_bytes: 512, direct: false }
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn submit(&self, op: Op) {
        self.given.lock().push((op.request.kind(), op.request.extent().map_or(0, |(at, _)| at)));
        self.held.lock().push(op);
    }

    fn counters(&self) -> Counters {
        Counters { waiting: self.held.lock().len() as u64, ..Counters::default() }
    }

    fn stop(&self) {
        self.said.lock().push("stop".to_owned());
        self.end_all();
    }

    fn give_up(&self, found: &str) {
        self.said.lock().push(found.to_owned());
    }

    fn release(&self) {
        self.said.lock().push("release".to_owned());
    }
}

fn over_held(order: Order, depth: usize) -> (Arc<Held>, Arc<Elevator>) {
    let held = Arc::new(Held::default());
    (held.clone(), Elevator::over(held, order, depth))
}

fn request(kind: Kind, block: u64) -> Request {
    let at = block * 512;
    match kind {
        Kind::Read => Request::Read { at, into: AlignedBuf::zeroed(512) },
        Kind::Write => Request::Write { at, from: Arc::new(AlignedBuf::zeroed(512)), part: 0..512 },
        Kind::Sync => Request::Sync,
    }
}

fn begin(device: &dyn Device, kind: Kind, block: u64) -> mpsc::Receiver<io::Result<()>> {
    let (tell, told) = mpsc::channel();
    let done = Box::new(move |outcome: Outcome| drop(tell.send(outcome.result)));
    device.submit(Op { request: request(kind, block), done });
    told
}

#[test]
fn the_head_goes_on_and_turns_round() {
    let goes = |order| {
        let (held, elevator) = over_held(order, 1);
        for block in [50, 70, 20, 60, 40, 55] {
            drop(begin(&*elevator, Kind::Read, block));
        }
        assert_eq!((held.places(), elevator.counters().waiting), (vec![50], 6), "one below, five in the queue");
        held.end_all();
        assert_eq!(elevator.counters().waiting, 0);
        held.places()
    };
    assert_eq!(goes(Order::InTurn), [50, 70, 20, 60, 40, 55]);
    assert_eq!(goes(Order::OneWay), [50, 55, 60, 70, 20, 40]);
    assert_eq!(goes(Order::TwoWay), [50, 55, 60, 70, 40, 20]);
}

#[test]
fn as_many_are_below_as_it_was_told() {
    let (held, elevator) = over_held(Order::TwoWay, 3);
    let told: Vec<_> = (0..8).map(|block| begin(&*elevator, Kind::Write, block)).collect();
    assert_eq!(held.places(), [0, 1, 2]);
    held.end(1);
    assert_eq!(held.places(), [0, 1, 2, 3]);
    assert!(told[1].try_recv().unwrap().is_ok() && told[0].try_recv().is_err());
    held.end_all();
    assert!(told.iter().filter_map(|told| told.try_recv().ok()).all(|result| result.is_ok()));
}

#[test]
fn a_disk_that_ends_requests_at_once_does_not_grow_the_stack() {
    /// Each completion begins the next request.
    fn go_on(elevator: Arc<Elevator>, left: u64, deepest: Arc<AtomicU64>, ended: mpsc::Sender<()>) {
        let local = 0_u8;
        deepest.fetch_min(std::ptr::from_ref(&local).addr() as u64, SeqCst);
        let again = elevator.clone();
        let done = Box::new(move |_: Outcome| match left {
            0 => ended.send(()).unwrap(),
            _ => go_on(again, left - 1, deepest, ended),
        });
        elevator.submit(Op { request: request(Kind::Read, left % 100), done });
    }
    let elevator = Elevator::over(Arc::new(Memory::over(&Medium::zeroed(1 << 20))), Order::TwoWay, 1);
    let (tell, told) = mpsc::channel();
    let (top, deepest) = (0_u8, Arc::new(AtomicU64::new(u64::MAX)));
    go_on(elevator, 100_000, deepest.clone(), tell);
    told.recv().unwrap();
    let used = (std::ptr::from_ref(&top).addr() as u64).abs_diff(deepest.load(SeqCst));
    assert!(used < 64 << 10, "{used} bytes of stack");
}

#[test]
fn what_is_beyond_the_limit_ends_with_an_error() {
    let (held, elevator) = over_held(Order::TwoWay, 1);
    let told: Vec<_> = (0..MAX_QUEUED_REQUESTS as u64).map(|n| begin(&*elevator, Kind::Read, n % 100)).collect();
    let refused = begin(&*elevator, Kind::Read, 0).try_recv().unwrap().unwrap_err();
    assert!(refused.to_string().contains("queue is full"), "{refused}");
    held.end_all();
    assert!(told.iter().all(|told| told.try_recv().unwrap().is_ok()));
    drop(begin(&*elevator, Kind::Read, 0));
    assert_eq!(held.held.lock().len(), 1, "there is room again");

    let elevator = Elevator::with_room(Arc::new(Held::default()), Order::TwoWay, 1, MAX_QUEUED_REQUESTS + 1);
    let told: Vec<_> = (0..=MAX_QUEUED_REQUESTS as u64).map(|n| begin(&*elevator, Kind::Read, n % 100)).collect();
    assert!(told.iter().all(|told| told.try_recv().is_err()));
    assert!(begin(&*elevator, Kind::Read, 0).try_recv().unwrap().is_err());
}

#[test]
fn after_a_stop_what_waits_has_ended_and_nothing_is_accepted() {
    for order in ORDERS {
        let (held, elevator) = over_held(order, 1);
        let told: Vec<_> = [5, 3, 9].map(|block| begin(&*elevator, Kind::Write, block)).into();
        let sync = begin(&*elevator, Kind::Sync, 0);
        elevator.stop();
        elevator.stop();
        assert!(told.iter().all(|told| told.try_recv().unwrap().is_ok()), "{order:?}");
        assert!(sync.try_recv().is_ok(), "{order:?}: it ended, well or not");
        let refused = begin(&*elevator, Kind::Read, 0).try_recv().unwrap().unwrap_err();
        assert!(refused.to_string().contains("stopped"), "{refused}");
        assert_eq!(*held.said.lock(), ["stop", "stop"]);
    }
}

/// A real disk refuses what comes after it was stopped; so does the slow one here, whose threads end what waits.
#[test]
fn a_stop_ends_all_requests_of_a_disk_with_threads_too() {
    let memory = Arc::new(Memory::over(&Medium::zeroed(1 << 20)));
    let slow = Limited::new(memory, Model::sata_7200(), Time::Real).unwrap();
    let elevator = Elevator::over(Arc::new(slow), Order::TwoWay, 1);
    let told: Vec<_> = (0..200).map(|block| begin(&*elevator, Kind::Write, block * 7 % 200)).collect();
    let sync = begin(&*elevator, Kind::Sync, 0);
    elevator.stop();
    assert!(told.into_iter().all(|told| told.recv().unwrap().is_ok()));
    assert_eq!(sync.recv().unwrap().unwrap_err().kind(), ErrorKind::Other, "it must not say that all writes last");
}

#[test]
fn what_its_user_says_is_passed_on() {
    let (held, elevator) = over_held(Order::TwoWay, 1);
    elevator.give_up("broken");
    elevator.release();
    assert_eq!(*held.said.lock(), ["broken", "release"]);
    assert_eq!(elevator.geometry(), held.geometry());
}

/// A blown fuse drops a request with its completion. Its place in the queue must not be lost with it.
#[test]
fn a_dropped_request_makes_room_for_the_next() {
    let (held, elevator) = over_held(Order::TwoWay, 1);
    let dropped = begin(&*elevator, Kind::Write, 1);
    let sync = begin(&*elevator, Kind::Sync, 0);
    let op = held.held.lock().pop();
    drop(op);
    assert!(dropped.recv().is_err(), "nobody was told");
    assert_eq!(held.given.lock().last(), Some(&(Kind::Sync, 0)));
    held.end_all();
    assert!(sync.recv().unwrap().is_ok());
}

/// A completion that panics is its user's fault, and must not stop everybody else's requests.
#[test]
fn a_panic_in_a_completion_leaves_the_queue_as_it_was() {
    let elevator = Elevator::over(Arc::new(Memory::over(&Medium::zeroed(1 << 20))), Order::TwoWay, 1);
    let panics = elevator.clone();
    let done = Box::new(|_: Outcome| panic!("a fault of the caller's"));
    let panicked = thread::spawn(move || panics.submit(Op { request: request(Kind::Read, 1), done })).join();
    assert!(panicked.is_err());
    assert!(begin(&*elevator, Kind::Read, 2).recv().unwrap().is_ok());
}

#[test]
fn a_read_that_is_handed_out_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let file = std::fs::File::create_new(dir.path().join("disk")).unwrap();
    let memory = Arc::new(Memory::over(&Medium::zeroed(1 << 20)));
    let elevator = Elevator::over(Arc::new(lending::Lending::over(memory, Arc::new(file))), Order::TwoWay, 1);
    let (told, handed) = lending::catch(|| begin(&*elevator, Kind::Read, 3));
    assert!(begin(&*elevator, Kind::Read, 4).recv().unwrap().is_ok());
    handed.unwrap().answer(&[0; 512]);
    assert!(told.recv().unwrap().is_ok());
}

/// Threads that each wait for their request before the next, over a disk with threads of its own.
#[test]
fn many_threads_lose_nothing() {
    let memory = Arc::new(Memory::over(&Medium::zeroed(1 << 20)));
    let quick = Model { lanes: 4, ..Model::flash() };
    let elevator = Elevator::over(Arc::new(Limited::new(memory, quick, Time::Real).unwrap()), Order::TwoWay, 4);
    thread::scope(|scope| {
        for thread in 0..8 {
            let elevator = &elevator;
            scope.spawn(move || {
                for n in 0..100 {
                    let kind = [Kind::Read, Kind::Write, Kind::Sync][n as usize % 3];
                    let told = begin(&**elevator, kind, (n * 37 + thread * 11) % 2000);
                    assert!(told.recv_timeout(Duration::from_secs(60)).unwrap().is_ok());
                }
            });
        }
    });
    assert_eq!(elevator.counters().waiting, 0);
    elevator.stop();
}

proptest! {
    /// Whatever comes and ends in whatever order: never more below than allowed, none lost, none twice, and a sync only
    /// once all writes before it have ended.
    #[test]
    fn requests_keep_the_rules(
        order in prop_oneof![Just(Order::InTurn), Just(Order::OneWay), Just(Order::TwoWay)],
        depth in 1..4_usize,
        steps in proptest::collection::vec((0..6_u8, 0..40_u64), 0..150),
    ) {
        let (held, elevator) = over_held(order, depth);
        let mut told = Vec::new();
        let mut given = 0;
        for (step, block) in steps {
            let below = held.held.lock().len();
            match step {
                0..5 => {
                    let kind = [Kind::Read, Kind::Read, Kind::Write, Kind::Write, Kind::Sync][usize::from(step)];
                    told.push((kind, begin(&*elevator, kind, block), false));
                }
                _ if below > 0 => held.end(block as usize % below),
                _ => {}
            }
            check(&held, depth, &mut told, &mut given)?;
        }
        while !held.held.lock().is_empty() {
            held.end(0);
            check(&held, depth, &mut told, &mut given)?;
        }
        prop_assert_eq!(elevator.counters().waiting, 0);
        prop_assert_eq!(held.given.lock().len(), told.len());
        prop_assert!(told.iter().all(|(.., ended)| *ended));
    }
}

type Told = (Kind, mpsc::Receiver<io::Result<()>>, bool);

fn check(held: &Held, depth: usize, told: &mut [Told], given: &mut usize) -> Result<(), TestCaseError> {
    prop_assert!(held.held.lock().len() <= depth);
    for (_, told, ended) in told.iter_mut() {
        if told.try_recv().is_ok() {
            prop_assert!(!*ended, "it ended twice");
            *ended = true;
        }
    }
    // Syncs go below in their order: the newest that was given is the n-th that came.
    let all = held.given.lock();
    for (number, (kind, _)) in all.iter().enumerate().skip(*given) {
        if *kind == Kind::Sync {
            let before = all.iter().take(number).filter(|(kind, _)| *kind == Kind::Sync).count();
            let syncs = told.iter().enumerate().filter(|(_, (kind, ..))| *kind == Kind::Sync);
            let came = syncs.map(|(came, _)| came).nth(before).unwrap_or_default();
            let earlier = told.iter().take(came).filter(|(kind, ..)| *kind == Kind::Write);
            prop_assert!(earlier.into_iter().all(|(.., ended)| *ended), "a sync overtook a write");
        }
    }
    *given = all.len();
    Ok(())
}
