//! What objects are called in the store.

use pingora_cache::key::CacheHashKey;
use tinaja_store::Key;

/// An object's combined hash alone, since purges know no more.
pub(crate) fn store_key(key: &impl CacheHashKey) -> Key {
    Key::from_digest(key.combined_bin())
}
