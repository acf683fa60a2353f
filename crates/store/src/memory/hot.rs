//! Hot objects: whole small objects kept in memory, least recently used first out (HashCache, section 4.3).

use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::engine::Place;
use crate::key::{Digest, Key};
use crate::limits::{HOT_OBJECT_SHARE, HOT_SHARDS};
use crate::replace::Lru;

/// What each object costs beside its bytes: the map's entry and its spare room, the list's node, the buffers' headers.
const OVERHEAD_BYTES: usize = 256;

/// Whole objects in memory within a budget of bytes, heads, names and bookkeeping included.
pub struct HotObjects {
    shards: Box<[Mutex<Shard>]>,
    shard_bytes: usize,
}

#[derive(Default)]
struct Shard {
    found: HashMap<Digest, u32>,
    order: Lru<Object>,
    bytes: usize,
}

struct Object {
    id: Digest,
    key: Key,
    head: Bytes,
    body: Bytes,
    place: Place,
}

impl Object {
    fn bytes(&self) -> usize {
        OVERHEAD_BYTES + self.key.name().len() + self.head.len() + self.body.len()
    }
}

impl HotObjects {
    /// A cache of at most `budget_bytes`; 0 keeps nothing. An object may take an eighth of a shard, one of eight.
    pub fn new(budget_bytes: u64) -> Self {
        let shard_bytes = usize::try_from(budget_bytes).unwrap_or(usize::MAX) / HOT_SHARDS;
        HotObjects { shards: (0..HOT_SHARDS).map(|_| Mutex::default()).collect(), shard_bytes }
    }

    fn shard(&self, id: &Digest) -> Option<&Mutex<Shard>> {
        // From other bits than those which choose the set: any will do.
        self.shards.get((id.high() >> 32) as usize % HOT_SHARDS)
    }

    /// The object's head and body and its place on disk, if it is here and its whole key is the same; it becomes the
    /// most recently used. No allocation.
    pub fn get(&self, id: &Digest, key: &Key) -> Option<(Bytes, Bytes, Place)> {
        let mut shard = self.shard(id)?.lock();
        let at = *shard.found.get(id)?;
        let found = shard.order.get(at).filter(|object| object.key == *key)?;
        let both = (found.head.clone(), found.body.clone(), found.place);
        shard.order.touch(at);
        Some(both)
    }

    /// Whether an object of this size would be kept.
    pub fn takes(&self, bytes: usize) -> bool {
        bytes.saturating_add(OVERHEAD_BYTES) <= self.shard_bytes / HOT_OBJECT_SHARE
    }

    /// Keep an object if it fits and `current` says, with the shard locked, that it is still the stored version;
    /// whoever changes the store publishes there first and calls [`HotObjects::remove`] after. What is kept is
    /// copied to its exact size, so that no larger buffer stays behind it.
    pub fn insert(
        &self,
        id: &Digest,
        key: &Key,
        head: &[u8],
        body: &[u8],
        place: Place,
        current: impl FnOnce() -> bool,
    ) {
        if !self.takes(key.name().len() + head.len() + body.len()) {
            return;
        }
        let (head, body) = (Bytes::copy_from_slice(head), Bytes::copy_from_slice(body));
        let object = Object { id: *id, key: key.clone(), head, body, place };
        let Some(shard) = self.shard(id) else { return };
        let mut shard = shard.lock();
        if !current() {
            return;
        }
        shard.take(id);
        shard.bytes += object.bytes();
        let at = shard.order.insert(object);
        shard.found.insert(*id, at);
        while shard.bytes > self.shard_bytes {
            let Some(victim) = shard.order.pop_oldest() else { break };
            shard.bytes -= victim.bytes();
            shard.found.remove(&victim.id);
        }
    }

    /// Forget an object.
    pub fn remove(&self, id: &Digest) {
        if let Some(shard) = self.shard(id) {
            shard.lock().take(id);
        }
    }

    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().bytes as u64).sum()
    }
}

impl Shard {
    fn take(&mut self, id: &Digest) {
        if let Some(object) = self.found.remove(id).and_then(|at| self.order.remove(at)) {
            self.bytes -= object.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> (Digest, Key) {
        let key = Key::from_name(&n.to_le_bytes());
        (Digest(*key.digest()), key)
    }

    #[test]
    fn the_budget_holds_and_the_least_recently_used_leave() {
        let hot = HotObjects::new(1 << 20);
        let body = Bytes::from(vec![1; 4000]);
        for n in 0..1000 {
            let (id, key) = id(n);
            hot.insert(&id, &key, b"head", &body, Place(n), || true);
            assert!(hot.bytes() <= 1 << 20);
            let first = self::id(0);
            assert!(hot.get(&first.0, &first.1).is_some(), "used all the time");
        }
        assert!(hot.bytes() > 900_000);
        assert!(hot.get(&id(1).0, &id(1).1).is_none());
    }

    #[test]
    fn what_is_too_large_stale_or_another_key_is_not_served() {
        let hot = HotObjects::new(1 << 20);
        let ((a, key), (_, other)) = (id(1), id(2));
        hot.insert(&a, &key, b"", &vec![0; 100_000], Place(0), || true);
        hot.insert(&a, &key, b"", b"", Place(0), || false);
        assert!(hot.get(&a, &key).is_none());
        hot.insert(&a, &key, b"h", b"b", Place(9), || true);
        assert!(hot.get(&a, &other).is_none());
        assert_eq!(hot.get(&a, &key), Some(("h".into(), "b".into(), Place(9))));
        hot.remove(&a);
        assert_eq!((hot.get(&a, &key), hot.bytes()), (None, 0));
    }
}
