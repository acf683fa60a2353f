//! How many connections there are, and how many there may be.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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
    pub async fn emptied(&self, limit: Duration) -> bool {
        let all = self.places.acquire_many(self.most);
        tokio::time::timeout(limit, all).await.is_ok()
    }
}
