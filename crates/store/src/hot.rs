//! Hot objects: whole small objects kept in memory, least recently used first out (HashCache, section 4.3).
//!
//! Their bytes are the program's own, and a hit is given them as they are; or they lie in memory that the kernel may take
//! back ([`crate::memory::yielding`]), and a hit is given a copy that was compared with a checksum, if they are still there.

use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::memory::yielding::{Lent, Yielding};
use crate::replace::Lru;
use crate::terms::{Digest, Key, Place};

/// Parts of the hot objects, each under its own lock.
pub const HOT_SHARDS: usize = 8;

/// A hot object may take one part in so many of its shard, or a few large ones would push out all the rest.
pub const HOT_OBJECT_SHARE: usize = 8;

/// What each object costs beside its bytes: the map's entry and its spare room, the list's node, the buffers' headers.
const OVERHEAD_BYTES: usize = 256;

/// Whole objects in memory within a budget of bytes, heads, names and bookkeeping included.
pub struct HotObjects {
    shards: Box<[Mutex<Shard>]>,
    shard_bytes: usize,
    /// Whether the kernel may take bytes back.
    yields: bool,
}

#[derive(Default)]
struct Shard {
    found: HashMap<Digest, u32>,
    order: Lru<Object>,
    bytes: usize,
    /// Where bytes lie, if the kernel may take them.
    yielding: Option<Yielding>,
    /// Objects that it took.
    taken: u64,
}

struct Object {
    id: Digest,
    key: Key,
    kept: Kept,
    place: Place,
}

/// An object as a listing has it.
pub struct Listed {
    /// What it is found by.
    pub id: Digest,
    /// Its whole key.
    pub key: Key,
    /// Its head.
    pub head: Bytes,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// Where its record was.
    pub place: Place,
}

/// An object's head and body.
enum Kept {
    Here(Bytes, Bytes),
    Lent(Lent),
}

impl Object {
    fn bytes(&self) -> usize {
        let bytes = match &self.kept {
            Kept::Here(head, body) => head.len() + body.len(),
            Kept::Lent(lent) => lent.bytes(),
        };
        OVERHEAD_BYTES + self.key.name().len() + bytes
    }
}

impl HotObjects {
    /// A cache of at most `budget_bytes`; 0 keeps nothing. An object may take an eighth of a shard, one of eight.
    pub fn new(budget_bytes: u64) -> Self {
        let shard_bytes = usize::try_from(budget_bytes).unwrap_or(usize::MAX) / HOT_SHARDS;
        HotObjects { shards: (0..HOT_SHARDS).map(|_| Mutex::default()).collect(), shard_bytes, yields: false }
    }

    /// The same in memory that the kernel may take back when it is short of it; what it took is a miss here. Where the system
    /// gives no such memory, nothing is kept.
    pub fn yielding(budget_bytes: u64) -> Self {
        let all = HotObjects { yields: true, ..Self::new(budget_bytes) };
        let room = |shard: &Mutex<Shard>| {
            let yielding = Yielding::of(all.shard_bytes);
            let there = yielding.is_some();
            shard.lock().yielding = yielding;
            there
        };
        if all.shards.iter().all(room) {
            return all;
        }
        if budget_bytes > 0 {
            tracing::warn!("the system has no room for {budget_bytes} bytes of hot objects: none are kept in memory");
        }
        Self::new(0)
    }

    fn shard(&self, id: &Digest) -> Option<&Mutex<Shard>> {
        // From other bits than those which choose the set: any will do.
        self.shards.get((id.high() >> 32) as usize % HOT_SHARDS)
    }

    /// The object's head and body and its place on disk, if it is here and its whole key is the same; it becomes the
    /// most recently used. No allocation, but for the copy of what the kernel may take.
    pub fn get(&self, id: &Digest, key: &Key) -> Option<(Bytes, Bytes, Place)> {
        let mut shard = self.shard(id)?.lock();
        let at = *shard.found.get(id)?;
        let found = shard.order.get(at).filter(|object| object.key == *key)?;
        let place = found.place;
        let both = match &found.kept {
            Kept::Here(head, body) => Some((head.clone(), body.clone())),
            Kept::Lent(lent) => shard.yielding.as_ref().and_then(|yielding| yielding.get(lent)),
        };
        match both {
            Some((head, body)) => {
                shard.order.touch(at);
                Some((head, body, place))
            }
            None => {
                shard.taken += 1;
                shard.take(id);
                None
            }
        }
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
        let here = || Kept::Here(Bytes::copy_from_slice(head), Bytes::copy_from_slice(body));
        let here = if self.yields { None } else { Some(here()) };
        let Some(shard) = self.shard(id) else { return };
        let mut shard = shard.lock();
        if !current() {
            return;
        }
        shard.take(id);
        let Some(kept) = here.or_else(|| shard.lend(head, body)) else { return };
        let object = Object { id: *id, key: key.without_url(), kept, place };
        shard.bytes += object.bytes();
        let at = shard.order.insert(object);
        shard.found.insert(*id, at);
        while shard.bytes > self.shard_bytes && shard.drop_oldest() {}
    }

    /// Forget an object.
    pub fn remove(&self, id: &Digest) {
        if let Some(shard) = self.shard(id) {
            shard.lock().take(id);
        }
    }

    /// Forget an object if it is the version whose record was there.
    pub fn remove_at(&self, id: &Digest, place: Place) {
        let Some(shard) = self.shard(id) else { return };
        let mut shard = shard.lock();
        let at = shard.found.get(id).copied();
        if at.and_then(|at| shard.order.get(at)).is_some_and(|object| object.place == place) {
            shard.take(id);
        }
    }

    /// Some of the objects, from a number on, and the next number; 0 is the start. What changes meanwhile may be among them or
    /// not.
    pub fn page(&self, from: u64, most: usize) -> (Vec<Listed>, Option<u64>) {
        let (number, mut at) = ((from >> 32) as usize, from as u32);
        let Some(shard) = self.shards.get(number) else { return (Vec::new(), None) };
        let shard = shard.lock();
        let mut page = Vec::new();
        while page.len() < most && (at as usize) < shard.order.numbers() {
            page.extend(shard.order.get(at).and_then(|object| shard.listed(object)));
            at += 1;
        }
        let is_over = at as usize >= shard.order.numbers();
        let next = if is_over { (number as u64 + 1) << 32 } else { (number as u64) << 32 | u64::from(at) };
        (page, (next >> 32 < self.shards.len() as u64).then_some(next))
    }

    /// Objects that the kernel took back, as far as somebody asked for them.
    pub fn taken(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().taken).sum()
    }

    /// Bytes held now, or lent to the kernel.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().bytes as u64).sum()
    }
}

impl Shard {
    fn listed(&self, object: &Object) -> Option<Listed> {
        let (head, body) = match &object.kept {
            Kept::Here(head, body) => (head.clone(), body.clone()),
            Kept::Lent(lent) => self.yielding.as_ref()?.get(lent)?,
        };
        let Object { id, key, place, .. } = object;
        Some(Listed { id: *id, key: key.clone(), head, body_bytes: body.len() as u64, place: *place })
    }

    fn take(&mut self, id: &Digest) {
        if let Some(object) = self.found.remove(id).and_then(|at| self.order.remove(at)) {
            self.let_go(&object);
        }
    }

    fn let_go(&mut self, object: &Object) {
        self.bytes -= object.bytes();
        if let (Kept::Lent(lent), Some(yielding)) = (&object.kept, &mut self.yielding) {
            yielding.free(lent);
        }
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(victim) = self.order.pop_oldest() else { return false };
        self.let_go(&victim);
        self.found.remove(&victim.id);
        true
    }

    /// Head and body copied to where the kernel may take them. They lie in one piece, so the oldest objects make room.
    fn lend(&mut self, head: &[u8], body: &[u8]) -> Option<Kept> {
        loop {
            if let Some(lent) = self.yielding.as_mut()?.put(head, body) {
                return Some(Kept::Lent(lent));
            }
            if !self.drop_oldest() {
                return None;
            }
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

    const KINDS: [fn(u64) -> HotObjects; 2] = [HotObjects::new, HotObjects::yielding];

    #[test]
    fn the_budget_holds_and_the_least_recently_used_leave() {
        for make in KINDS {
            let hot = make(1 << 20);
            let body = Bytes::from(vec![1; 4000]);
            for n in 0..1000 {
                let (id, key) = id(n);
                hot.insert(&id, &key, b"head", &body, Place(n), || true);
                assert!(hot.bytes() <= 1 << 20);
                let first = self::id(0);
                assert!(hot.get(&first.0, &first.1).is_some() || hot.taken() > 0, "used all the time");
            }
            assert!(hot.bytes() > 900_000);
            assert!(hot.get(&id(1).0, &id(1).1).is_none());
        }
    }

    #[test]
    fn pages_name_every_object_once() {
        for make in KINDS {
            let hot = make(1 << 20);
            for n in 0..100 {
                let (id, key) = id(n);
                hot.insert(&id, &key, b"head", &vec![0; n as usize], Place(n), || true);
            }
            (0..100).step_by(3).for_each(|n| hot.remove(&id(n).0));
            let (mut listed, mut from) = (Vec::new(), Some(0));
            while let Some(at) = from {
                let (page, next) = hot.page(at, 5);
                assert!(page.len() <= 5);
                listed.extend(page.into_iter().map(|object| (object.place.0, object.body_bytes, object.key)));
                from = next;
            }
            listed.sort_by_key(|(n, ..)| *n);
            let expected: Vec<_> = (0..100).filter(|n| n % 3 > 0).map(|n| (n, n, id(n).1)).collect();
            assert!(listed == expected || hot.taken() > 0);
        }
    }

    #[test]
    fn what_is_too_large_stale_or_another_key_is_not_served() {
        for make in KINDS {
            let hot = make(1 << 20);
            let ((a, key), (_, other)) = (id(1), id(2));
            hot.insert(&a, &key, b"", &vec![0; 100_000], Place(0), || true);
            hot.insert(&a, &key, b"", b"", Place(0), || false);
            assert!(hot.get(&a, &key).is_none());
            hot.insert(&a, &key, b"h", b"b", Place(9), || true);
            assert!(hot.get(&a, &other).is_none());
            let found = hot.get(&a, &key);
            assert!(found == Some(("h".into(), "b".into(), Place(9))) || hot.taken() > 0);
            hot.remove(&a);
            assert_eq!((hot.get(&a, &key), hot.bytes()), (None, 0));
        }
    }

    #[test]
    fn what_the_kernel_took_is_a_miss_and_its_room_is_used_again() {
        let hot = HotObjects::yielding(1 << 20);
        let body = Bytes::from(vec![5; 10_000]);
        for n in 0..50 {
            let (id, key) = id(n);
            hot.insert(&id, &key, b"head", &body, Place(n), || true);
        }
        for shard in &hot.shards {
            let shard = shard.lock();
            let lent = shard.found.values().filter_map(|at| match &shard.order.get(*at)?.kept {
                Kept::Lent(lent) => Some(lent),
                Kept::Here(..) => None,
            });
            lent.for_each(|lent| shard.yielding.as_ref().unwrap().take(lent));
        }
        assert!((0..50).map(id).all(|(id, key)| hot.get(&id, &key).is_none()));
        assert_eq!((hot.taken(), hot.bytes()), (50, 0));
        let (id, key) = id(1);
        hot.insert(&id, &key, b"head", &body, Place(1), || true);
        assert!(hot.get(&id, &key).is_some_and(|(_, found, _)| found == body) || hot.taken() > 50);
    }
}
