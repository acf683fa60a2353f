//! What indexes have told of files, in a fixed amount of memory.
//!
//! An entry is a hash of a mirror and a URL there, and the beginning of a digest. Entries stand in sets of eight. Where a set is full, the one
//! that was told longest ago leaves. The hash has a secret of this process in it, so nobody chooses which entries share a set.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::unpack::MOST_AT_ONCE;
use crate::mirrors::sum::{Hash, Sum};

const WAYS: usize = 8;
const SETS: usize = 16 * 1024;
/// Entries at most: with 48 bytes each they take 6 MiB, for all mirrors together, as far as they are used.
pub(in crate::mirrors) const MOST_ENTRIES: usize = WAYS * SETS;

/// Empty where the last word is 0. Words: hash; three of the digest, or of a mark; who told it, and where a right one stands; when, state, and
/// [`Hash`].
type Entry = [u64; 6];

/// What a mark has in the place of a [`Hash`].
const MARK: u64 = 0xff;

/// Where an entry stands, and what tells it from others there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mirrors) struct Key {
    set: u64,
    rest: u64,
}

/// What is known of the stored object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mirrors) enum State {
    /// Nothing yet.
    Told,
    /// What stands at this place is right.
    Proved(u32),
    /// It was right, and its index says otherwise by now.
    Outdated,
    /// Two indexes say different things, so neither counts.
    Disputed,
}

/// The entries. `Debug` shows none.
pub(in crate::mirrors) struct Table {
    secret: [u8; 32],
    inner: Mutex<Inner>,
    windows: Arc<Semaphore>,
}

#[derive(Default)]
struct Inner {
    /// Nothing is taken before the first is told.
    sets: Vec<[Entry; WAYS]>,
    /// Counts indexes.
    now: u32,
    /// Entries that have left for others.
    evicted: u64,
}

impl Table {
    pub fn new(secret: [u8; 32]) -> Arc<Table> {
        Arc::new(Table { secret, inner: Mutex::default(), windows: Arc::new(Semaphore::new(MOST_AT_ONCE)) })
    }

    /// How many indexes may be unpacked by xz at once.
    pub fn windows(&self) -> Arc<Semaphore> {
        self.windows.clone()
    }

    /// A hash of these parts, which no part of can be foreseen.
    pub fn hash(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        hasher.finalize().into()
    }

    /// Where what these parts name stands.
    pub fn key(&self, parts: &[&[u8]]) -> Key {
        let (set, rest) = words(&self.hash(parts));
        Key { set, rest }
    }

    /// A number for these parts.
    pub fn number(&self, parts: &[&[u8]]) -> u64 {
        words(&self.hash(parts)).0
    }

    /// An index begins to tell; its number, which all that it tells has.
    pub fn begin(&self) -> u32 {
        let mut inner = self.inner.lock();
        inner.now = inner.now.wrapping_add(1);
        inner.now
    }

    /// An index says what a file must hash to. `owner` is who it is: one alone may change what it has said, since anybody who can have a
    /// page of his own at a source could otherwise make the files of others wrong.
    pub fn tell(&self, key: Key, sum: Sum, owner: u32, now: u32) {
        let mut inner = self.inner.lock();
        let Some((entry, is_new)) = inner.place(key) else { return };
        let was = if is_new { None } else { File::read(entry) };
        let state = was.map_or(State::Told, |was| match (was.state, was.sum == sum, was.owner == owner) {
            (State::Disputed, ..) => State::Disputed,
            (state, true, _) => state,
            (_, false, false) => State::Disputed,
            // What is stored may be the one or the other.
            (State::Told, false, true) => State::Told,
            // It may be another hash of the same bytes.
            (_, false, true) if was.sum.hash != sum.hash => State::Told,
            (_, false, true) => State::Outdated,
        });
        File { sum, owner: was.map_or(owner, |was| was.owner), state, told: now }.write(entry);
    }

    /// What is known of a file. Nothing where two indexes say different things.
    pub fn find(&self, key: Key) -> Option<(Sum, State)> {
        let mut inner = self.inner.lock();
        let file = inner.present(key).and_then(|entry| File::read(entry))?;
        (file.state != State::Disputed).then_some((file.sum, file.state))
    }

    /// What is stored was found to be right, at this place, or wrong; it counts if that digest is still the one that is wanted.
    pub fn judge(&self, key: Key, sum: Sum, right_at: Option<u32>) {
        let mut inner = self.inner.lock();
        let Some(entry) = inner.present(key) else { return };
        if let Some(file) = File::read(entry).filter(|file| file.sum == sum && file.state != State::Disputed) {
            File { state: right_at.map_or(State::Outdated, State::Proved), ..file }.write(entry);
        }
    }

    /// An index was read to its end; `form` says which it was.
    pub fn mark(&self, key: Key, form: u64, now: u32) {
        let mut inner = self.inner.lock();
        let Some((entry, _)) = inner.place(key) else { return };
        *entry = [key.rest, form, 0, 0, 0, u64::from(now) << 32 | MARK];
        // With what has left for the mark itself: that is of this index only where it alone fills a set.
        let evicted = inner.evicted;
        if let Some([_, _, then, ..]) = inner.present(key) {
            *then = evicted;
        }
    }

    /// Whether an index was read in this form, and nothing has left since.
    pub fn is_marked(&self, key: Key, form: u64) -> bool {
        let mut inner = self.inner.lock();
        let evicted = inner.evicted;
        inner
            .present(key)
            .is_some_and(|[_, was, then, _, _, what]| *what & 0xff == MARK && (*was, *then) == (form, evicted))
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Table")
    }
}

impl Inner {
    fn set(&mut self, key: Key) -> Option<&mut [Entry; WAYS]> {
        let at = usize::try_from(key.set % SETS as u64).ok()?;
        self.sets.get_mut(at)
    }

    fn present(&mut self, key: Key) -> Option<&mut Entry> {
        self.set(key)?.iter_mut().find(|[rest, .., what]| *rest == key.rest && *what != 0)
    }

    /// The entry of a key, and whether it is new: then it has taken the place of the oldest, where none was free.
    fn place(&mut self, key: Key) -> Option<(&mut Entry, bool)> {
        if self.sets.is_empty() {
            // The system gives zeroed pages as they are touched.
            self.sets = vec![[[0; 6]; WAYS]; SETS];
        }
        let now = self.now;
        let age = |[rest, .., what]: &Entry| match what {
            0 => 1 << 32,
            _ if *rest == key.rest => 2 << 32,
            what => u64::from(now.wrapping_sub(u32::try_from(what >> 32).unwrap_or_default())),
        };
        let set = self.set(key)?;
        let oldest = set.iter().map(&age).max()?;
        let entry = set.iter_mut().find(|entry| age(entry) == oldest)?;
        let (is_new, is_full) = (oldest < 2 << 32, oldest < 1 << 32);
        if is_new {
            *entry = [key.rest, 0, 0, 0, 0, 0];
        }
        // The borrow of the set ends here.
        self.evicted += u64::from(is_full);
        Some((self.set(key)?.iter_mut().find(|[rest, ..]| *rest == key.rest)?, is_new))
    }
}

/// An entry of a file.
#[derive(Clone, Copy)]
struct File {
    sum: Sum,
    owner: u32,
    state: State,
    told: u32,
}

impl File {
    fn read([_, one, two, three, who, what]: &Entry) -> Option<File> {
        let low = |word: u64| u32::try_from(word & 0xffff_ffff).unwrap_or_default();
        let mut start = [0; 24];
        let bytes = [one, two, three].into_iter().flat_map(|word| word.to_le_bytes());
        start.iter_mut().zip(bytes).for_each(|(byte, told)| *byte = told);
        let state = match what >> 8 & 0xff {
            0 => State::Told,
            1 => State::Proved(low(*who)),
            2 => State::Outdated,
            _ => State::Disputed,
        };
        Some(File {
            sum: Sum { hash: Hash::numbered(what & 0xff)?, start },
            owner: low(who >> 32),
            state,
            told: low(what >> 32),
        })
    }

    fn write(self, entry: &mut Entry) {
        let [_, one, two, three, who, what] = entry;
        for (word, bytes) in [one, two, three].into_iter().zip(self.sum.start.chunks(8)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        let (state, place) = match self.state {
            State::Told => (0, 0),
            State::Proved(place) => (1, place),
            State::Outdated => (2, 0),
            State::Disputed => (3, 0),
        };
        *who = u64::from(self.owner) << 32 | u64::from(place);
        *what = u64::from(self.told) << 32 | state << 8 | self.sum.hash as u64;
    }
}

fn words(hash: &[u8; 32]) -> (u64, u64) {
    let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let (first, rest) = hash.split_at(8);
    (word(first), rest.get(..8).map(word).unwrap_or_default())
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
