//! Lookups made before Pingora asks for them.
//!
//! A program that looks into the store first, to answer a hit without Pingora, has paid for a read of the disk when
//! the object turns out to be of no use as it is. It hands over what it found, so that Pingora's own lookup in the
//! same request does not read it again.

use std::cell::RefCell;
use std::future::Future;

use tinaja_store::{Hit, Key};

/// What a lookup of one key gave.
#[derive(Debug)]
pub struct Handed {
    /// The key, as [`crate::TinajaStorage::store_key`] makes it.
    pub key: Key,
    /// What was found, of which nothing has been read; `None` for nothing.
    pub hit: Option<Hit>,
}

tokio::task_local! {
    static HANDED: RefCell<Vec<Handed>>;
}

/// Runs `request` such that the first lookup of each handed key, if it comes from the same task, is answered with what
/// is handed over. Memory: the hits, until they are taken or the request ends.
pub async fn hand_over<T>(handed: Vec<Handed>, request: impl Future<Output = T>) -> T {
    HANDED.scope(RefCell::new(handed), request).await
}

/// What was handed over for `key`, once.
pub(crate) fn take(key: &Key) -> Option<Handed> {
    let taken = HANDED.try_with(|handed| {
        let mut handed = handed.borrow_mut();
        let at = handed.iter().position(|one| one.key == *key)?;
        Some(handed.swap_remove(at))
    });
    // Outside of a request that was handed anything there is nothing to take.
    taken.ok().flatten()
}
