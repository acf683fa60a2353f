//! How many connections there are, and how many there may be.

use std::sync::Arc;
use std::time::Duration;

use tinaja_clock::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How often whoever waits for the end looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The connections that are open now.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    places: Arc<Semaphore>,
    most: u32,
}

impl Crowd {
    /// At most `most` connections at once.
    pub fn new(most: usize) -> Crowd {
        let most = u32::try_from(most.clamp(1, Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX >> 4);
        Crowd { places: Arc::new(Semaphore::new(most as usize)), most }
    }

    /// A place for one more connection, until the permit is dropped.
    pub fn enter(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// How many there are.
    pub fn present(&self) -> usize {
        (self.most as usize).saturating_sub(self.places.available_permits())
    }

    /// Waits until all connections have ended, at most for `limit`. Whether they have.
    pub async fn emptied(&self, clock: &Clock, limit: Duration) -> bool {
        // Asking for all places would take those that come free from whoever still may enter: streams of a connection
        // that is told to end, for one.
        let empty = async {
            while self.present() > 0 {
                clock.timer(LOOK_EVERY).await;
            }
        };
        clock.timeout(limit, empty).await.is_ok()
    }
}
