//! Hot objects: whole objects kept in memory, least recently used first out (HashCache, section 4.3).
//!
//! Their bytes are the program's own, and a hit is given them as they are; or they lie in memory that the kernel may take
//! back ([`crate::memory::yielding`]), and a hit is given a copy that was compared with a checksum, if they are still there.
//!
//! An object that its reader gets piece by piece would push out hundreds of small ones, and most are read once. It is
//! kept when it is read a second time while the first is remembered, and only where no copy is made for each hit.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytes::Bytes;
use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::memory::held::{Held, Share};
use crate::memory::yielding::{Lent, Yielding};
use crate::replace::Lru;
use crate::terms::{Digest, Key, Place};

/// Parts of the hot objects, each under its own lock.
pub const HOT_SHARDS: usize = 8;

/// A hot object may take one part in so many of its shard, or a few large ones would push out all the rest.
pub const HOT_OBJECT_SHARE: usize = 8;

/// Of the budget, one part in so many may be taken besides by long bodies that are being put together for their readers.
pub const HOT_COLLECTED_SHARE: usize = 8;

/// How many long objects are remembered to have been read: 4 bytes each.
const READ_ONCE: usize = 1024;

/// Bodies of more than this count until the last of their readers has gone. A slow reader of a shorter one holds as much
/// whatever it is sent from.
const COUNTED_WHILE_READ_BYTES: usize = 16 << 10;

/// What each object costs beside its bytes: the map's entry and its spare room, the list's node, the buffers' headers.
const OVERHEAD_BYTES: usize = 256;

/// Whole objects in memory within a budget of bytes, heads, names and bookkeeping included, and what readers still have of
/// those that have left. Memory: the budget, one part of it in [`HOT_COLLECTED_SHARE`] while long bodies are put together,
/// and 4 KiB.
pub struct HotObjects {
    shards: Box<[Mutex<Shard>]>,
    shard_bytes: usize,
    /// Long objects that were read, by some bits of their digest in a place given by others.
    read_once: Box<[AtomicU32]>,
    collected: Held,
    /// Whether the kernel may take bytes back.
    yields: bool,
}

#[derive(Default)]
struct Shard {
    found: HashMap<Digest, u32, RandomState>,
    order: Lru<Object>,
    /// Those of `leaving` included.
    bytes: usize,
    /// Bodies of objects that have left while they were read.
    leaving: Vec<Bytes>,
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
        HotObjects {
            shards: (0..HOT_SHARDS).map(|_| Mutex::default()).collect(),
            shard_bytes: usize::try_from(budget_bytes).unwrap_or(usize::MAX) / HOT_SHARDS,
            read_once: (0..READ_ONCE).map(|_| AtomicU32::new(0)).collect(),
            collected: Held::default(),
            yields: false,
        }
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

    /// A share of what may be put together at once, for a long object of this size that is being read: it would be kept, and
    /// was read not long ago. Other long objects make that forgotten.
    pub fn collects(&self, id: &Digest, bytes: usize) -> Option<Share> {
        if self.yields || !self.takes(bytes) {
            return None;
        }
        let last = self.read_once.get(id.high() as usize % READ_ONCE)?;
        // Zero is a place where nothing is.
        let now = (id.high() >> 32) as u32 | 1;
        if last.swap(now, Relaxed) != now {
            return None;
        }
        self.collected.hold(bytes, self.shard_bytes.saturating_mul(HOT_SHARDS) / HOT_COLLECTED_SHARE)
    }

    /// Keep an object if it fits and `current` says, with the shard locked, that it is still the stored version;
    /// whoever changes the store publishes there first and calls [`HotObjects::remove`] after. A borrowed body is
    /// copied to its exact size, so that no larger buffer stays behind it.
    pub fn insert(
        &self,
        id: &Digest,
        key: &Key,
        head: &[u8],
        body: Cow<'_, [u8]>,
        place: Place,
        current: impl FnOnce() -> bool,
    ) {
        if !self.takes(key.name().len() + head.len() + body.len()) {
            return;
        }
        let Some(shard) = self.shard(id) else { return };
        // What is copied is copied before the lock.
        let here = |body: Cow<'_, [u8]>| Kept::Here(Bytes::copy_from_slice(head), Bytes::from(body.into_owned()));
        let kept = if self.yields { Err(body) } else { Ok(here(body)) };
        let mut shard = shard.lock();
        if !current() {
            return;
        }
        shard.take(id);
        shard.see_off();
        let Some(kept) = kept.map_or_else(|body| shard.lend(head, &body), Some) else { return };
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
        match (&object.kept, &mut self.yielding) {
            (Kept::Lent(lent), Some(yielding)) => yielding.free(lent),
            (Kept::Here(_, body), _) if body.len() > COUNTED_WHILE_READ_BYTES && !body.is_unique() => {
                self.bytes += body.len();
                self.leaving.push(body.clone());
            }
            _ => {}
        }
    }

    /// Forget bodies that nobody reads any more.
    fn see_off(&mut self) {
        let bytes = &mut self.bytes;
        self.leaving.retain(|body| {
            let is_read = !body.is_unique();
            *bytes -= if is_read { 0 } else { body.len() };
            is_read
        });
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
#[path = "hot_tests.rs"]
mod tests;
