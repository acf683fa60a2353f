//! Of many requests for one thing that is not there, one goes to the origin and the others wait for its answer's head.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tinaja_clock::Clock;
use tinaja_store::Key;
use tokio::sync::Notify;

use crate::failure::Failure;

/// What became of the request that went.
#[derive(Clone, Debug)]
pub(super) enum Landed {
    /// Look again: an answer is there, or is being fetched, that may do for others.
    Stored,
    /// The answer is for that client alone, or there is none: each goes for itself.
    NotShared,
    /// The origin cannot be reached, by anybody.
    Failed(Failure),
}

/// Landings that are remembered, for those who looked before one and board after it. Who cannot be told for certain looks
/// once more: ten thousand landings a second leave a slow lookup 100 ms.
const REMEMBERED: usize = 1024;

/// The requests under way, by what they fetch. Memory: one entry for each fetch whose head has not come, and
/// [`REMEMBERED`] of those that have, of 32 bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Flights {
    clock: Clock,
    board: Arc<Mutex<Board>>,
}

#[derive(Debug, Default)]
struct Board {
    under_way: HashMap<Key, Arc<Flight>, RandomState>,
    /// What has been stored, or is on its way to be, oldest first: its place, hashed, and when.
    landed: VecDeque<(u64, Instant)>,
    hasher: RandomState,
}

impl Board {
    fn note(&mut self, place: &Key, now: Instant) {
        if self.landed.len() == REMEMBERED {
            self.landed.pop_front();
        }
        self.landed.push_back((self.hasher.hash_one(place), now));
    }

    /// Whether something may have landed at a place since then.
    fn has_landed(&self, place: &Key, since: Instant) -> bool {
        let forgotten = self.landed.len() == REMEMBERED && self.landed.front().is_some_and(|(_, at)| *at >= since);
        let hash = self.hasher.hash_one(place);
        forgotten || self.landed.iter().rev().take_while(|(_, at)| *at >= since).any(|(other, _)| *other == hash)
    }
}

/// Why a request does not go itself.
#[derive(Debug)]
pub(super) enum Grounded {
    /// Somebody goes: wait.
    Wait(Passenger),
    /// Somebody went and is back since this request looked: it is to look again.
    LookAgain,
}

/// A request under way, and those that wait for it: they are told in the order in which they came.
#[derive(Debug, Default)]
struct Flight {
    landed: OnceLock<Landed>,
    told: Notify,
}

impl Flight {
    /// Tells those who wait, unless they were told something before.
    fn tell(&self, landed: Landed) {
        if self.landed.set(landed).is_ok() {
            self.told.notify_waiters();
        }
    }

    async fn heard(&self) -> Landed {
        let told = self.told.notified();
        if self.landed.get().is_none() {
            told.await;
        }
        self.landed.get().cloned().unwrap_or(Landed::NotShared)
    }
}

/// The one that goes. Dropped without a word, it has brought nothing for others.
#[derive(Debug)]
pub(super) struct Pilot {
    place: Key,
    flight: Arc<Flight>,
    flights: Arc<Mutex<Board>>,
    clock: Clock,
}

/// One that waits.
#[derive(Debug)]
pub(super) struct Passenger {
    clock: Clock,
    flight: Arc<Flight>,
}

impl Flights {
    pub fn new(clock: Clock) -> Flights {
        Flights { clock, board: Arc::default() }
    }

    /// Goes for what is to stand at `place`, or waits for whoever does. `looked` is when this request looked for it, or
    /// began: who has come for it since may have brought it.
    pub fn board(&self, place: &Key, looked: Instant) -> Result<Pilot, Grounded> {
        let mut flights = self.board.lock();
        if let Some(flight) = flights.under_way.get(place) {
            return Err(Grounded::Wait(Passenger { clock: self.clock.clone(), flight: flight.clone() }));
        }
        if flights.has_landed(place, looked) {
            return Err(Grounded::LookAgain);
        }
        let flight = Arc::new(Flight::default());
        flights.under_way.insert(place.clone(), flight.clone());
        Ok(Pilot { place: place.clone(), flight, flights: self.board.clone(), clock: self.clock.clone() })
    }
}

impl Pilot {
    /// Tells those who wait. From now on others may go.
    pub fn land(self, landed: Landed) {
        self.flight.tell(landed);
    }
}

/// Tells those who wait for an answer that there is none.
pub(super) fn land_failed(pilot: Option<Pilot>, failure: &Failure) {
    if let Some(pilot) = pilot {
        pilot.land(if failure.is_unreachable() { Landed::Failed(failure.clone()) } else { Landed::NotShared });
    }
}

impl Drop for Pilot {
    fn drop(&mut self) {
        // Those who look from now on find what there is; those who wait are told, here at the latest.
        let mut flights = self.flights.lock();
        flights.under_way.remove(&self.place);
        if matches!(self.flight.landed.get(), Some(Landed::Stored)) {
            flights.note(&self.place, self.clock.now());
        }
        drop(flights);
        self.flight.tell(Landed::NotShared);
    }
}

impl Passenger {
    /// Waits for the one that goes, at most for `limit`.
    pub async fn wait(self, limit: Duration) -> Landed {
        self.clock.timeout(limit, self.flight.heard()).await.unwrap_or(Landed::NotShared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    fn passenger(flights: &Flights, place: &Key) -> Passenger {
        match flights.board(place, Instant::now()) {
            Err(Grounded::Wait(passenger)) => passenger,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn one_goes_and_all_others_hear() {
        let flights = Flights::default();
        let (here, there) = (Key::from_name(b"here"), Key::from_name(b"there"));
        let pilot = flights.board(&here, Instant::now()).unwrap();
        assert!(flights.board(&there, Instant::now()).is_ok());
        let waiting: Vec<_> = (0..3).map(|_| passenger(&flights, &here)).collect();
        pilot.land(Landed::Stored);
        for passenger in waiting {
            assert!(matches!(passenger.wait(LONG).await, Landed::Stored));
        }
        let next = flights.board(&here, Instant::now()).unwrap();
        let passenger = passenger(&flights, &here);
        drop(next);
        assert!(matches!(passenger.wait(LONG).await, Landed::NotShared));
        assert!(flights.board.lock().under_way.is_empty());
    }

    /// A request that had looked and found nothing, and was then overtaken by the whole flight, went itself.
    #[test]
    fn who_looked_before_a_landing_looks_again() {
        let flights = Flights::default();
        let (here, there) = (Key::from_name(b"here"), Key::from_name(b"there"));
        let looked = Instant::now();
        flights.board(&here, looked).unwrap().land(Landed::Stored);
        assert!(matches!(flights.board(&here, looked), Err(Grounded::LookAgain)));
        assert!(flights.board(&there, looked).is_ok() && flights.board(&here, Instant::now()).is_ok());
        // What brought nothing is no reason to look.
        flights.board(&there, looked).unwrap().land(Landed::NotShared);
        assert!(flights.board(&there, looked).is_ok());
        // Too long ago to tell: so many have landed since.
        let before = Instant::now();
        let others = (0..REMEMBERED).map(|n| Key::from_name(&n.to_le_bytes()));
        others.for_each(|place| flights.board(&place, before).unwrap().land(Landed::Stored));
        assert!(matches!(flights.board(&there, before), Err(Grounded::LookAgain)));
        assert!(flights.board(&there, Instant::now()).is_ok());
        assert_eq!(flights.board.lock().landed.len(), REMEMBERED);
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let flights = Flights::default();
        let pilot = flights.board(&Key::from_name(b"x"), Instant::now()).unwrap();
        let passenger = passenger(&flights, &Key::from_name(b"x"));
        assert!(matches!(passenger.wait(Duration::from_millis(20)).await, Landed::NotShared));
        drop(pilot);
    }
}
