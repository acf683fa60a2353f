//! Of many requests for one thing that is not there, one goes to the origin and the others wait for its answer's head.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tinaja_store::Key;
use tokio::sync::watch;

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

/// The requests under way, by what they fetch. Memory: one entry for each fetch whose head has not come.
#[derive(Debug, Default)]
pub(super) struct Flights(Arc<Mutex<HashMap<Key, watch::Receiver<Option<Landed>>>>>);

/// The one that goes. Dropped without a word, it has brought nothing for others.
#[derive(Debug)]
pub(super) struct Pilot {
    place: Key,
    landed: watch::Sender<Option<Landed>>,
    flights: Arc<Mutex<HashMap<Key, watch::Receiver<Option<Landed>>>>>,
}

/// One that waits.
#[derive(Debug)]
pub(super) struct Passenger(watch::Receiver<Option<Landed>>);

impl Flights {
    /// Goes for what is to stand at `place`, or waits for whoever does.
    pub fn board(&self, place: &Key) -> Result<Pilot, Passenger> {
        let mut flights = self.0.lock();
        if let Some(flight) = flights.get(place) {
            return Err(Passenger(flight.clone()));
        }
        let (landed, waiting) = watch::channel(None);
        flights.insert(place.clone(), waiting);
        Ok(Pilot { place: place.clone(), landed, flights: self.0.clone() })
    }
}

impl Pilot {
    /// Tells those who wait. From now on others may go.
    pub fn land(self, landed: Landed) {
        self.landed.send_replace(Some(landed));
    }
}

impl Drop for Pilot {
    fn drop(&mut self) {
        // Those who look from now on find what there is; those who wait are told, here at the latest.
        self.flights.lock().remove(&self.place);
        self.landed.send_if_modified(|landed| {
            let silent = landed.is_none();
            landed.get_or_insert(Landed::NotShared);
            silent
        });
    }
}

impl Passenger {
    /// Waits for the one that goes, at most for `limit`.
    pub async fn wait(mut self, limit: Duration) -> Landed {
        let landed = tokio::time::timeout(limit, self.0.wait_for(Option::is_some)).await;
        match landed {
            Ok(Ok(landed)) => landed.clone().unwrap_or(Landed::NotShared),
            _ => Landed::NotShared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn one_goes_and_all_others_hear() {
        let flights = Flights::default();
        let (here, there) = (Key::from_name(b"here"), Key::from_name(b"there"));
        let pilot = flights.board(&here).unwrap();
        assert!(flights.board(&there).is_ok());
        let waiting: Vec<_> = (0..3).map(|_| flights.board(&here).unwrap_err()).collect();
        pilot.land(Landed::Stored);
        for passenger in waiting {
            assert!(matches!(passenger.wait(LONG).await, Landed::Stored));
        }
        let next = flights.board(&here).unwrap();
        let passenger = flights.board(&here).unwrap_err();
        drop(next);
        assert!(matches!(passenger.wait(LONG).await, Landed::NotShared));
        assert!(flights.0.lock().is_empty());
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let flights = Flights::default();
        let pilot = flights.board(&Key::from_name(b"x")).unwrap();
        let passenger = flights.board(&Key::from_name(b"x")).unwrap_err();
        assert!(matches!(passenger.wait(Duration::from_millis(20)).await, Landed::NotShared));
        drop(pilot);
    }
}
