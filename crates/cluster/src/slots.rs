//! Slots of one size in memory that peers read whenever they like (3.1, "buffer management").
//!
//! ```text
//! word 0   generation, odd while the slot is being changed
//!      1   key, first half        2   key, second half
//!      3   bytes of the payload
//!      4   checksum of the generation, the key, the bytes and the payload
//!      5.. payload
//! ```
//!
//! The paper leaves open what a reader sees of a slot that is given to another object meanwhile. Here a reader copies the slot whole and then looks whether
//! the copy is one thing ([`verified`]): of the generation that the key-table told it, of the key that it asks for, and of one checksum. The
//! generation never comes twice, in whatever slot, so an older copy of the same object is not taken for the newer one either.
//!
//! Invariants:
//! - A slot is changed by one thread at a time: it is handed out by [`Slots::take`] to one caller, who writes it and gives it back.
//! - Before the first word of a payload changes, the generation is odd; after the last one has changed, it is even and higher than any before.
//! - What does not verify is never served. It is a miss, and the caller counts it by its reason.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use parking_lot::Mutex;
use xxhash_rust::xxh3::Xxh3;

use crate::arena::{Arena, WORD, copy, word_of, write};

/// Words before the payload.
const HEADER_WORDS: usize = 5;
/// Bytes that a slot has beside its payload.
pub const HEADER_BYTES: usize = HEADER_WORDS * WORD;

/// What an object is known by among all nodes: half of a hash of its name, mixed with the cluster's secret.
pub type SlotKey = [u8; 16];

/// Where an object is among a node's slots, and what says whether it still is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Where {
    /// The slot.
    pub slot: u32,
    /// Bytes of the payload.
    pub bytes: u32,
    /// The slot's generation.
    pub generation: u64,
}

/// Why a copy of a slot is not what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Rejected {
    /// It was being changed.
    #[error("the slot was being changed")]
    Changing,
    /// It is of another generation than was asked for.
    #[error("the slot has been given to another object or version")]
    OtherGeneration,
    /// It has another object.
    #[error("the slot has another object")]
    OtherKey,
    /// What it says of itself cannot be.
    #[error("the slot says a length that it cannot have")]
    Length,
    /// Some of it is of one object and some of another, or damaged.
    #[error("the slot was changed while it was read")]
    Checksum,
}

/// Slots of one size. Memory beside the arena: 4 bytes a slot.
pub struct Slots<A> {
    arena: A,
    count: u32,
    slot_words: usize,
    seed: u64,
    state: Mutex<State>,
}

struct State {
    free: Vec<u32>,
    /// The last generation of any, even.
    generation: u64,
}

/// A slot that nobody else writes, to be used with the [`Slots`] that it was taken from alone. Dropped, it stays taken: give it back with
/// [`Slots::give_back`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Taken(u32);

impl Taken {
    /// Its number, from 0.
    pub fn number(&self) -> u32 {
        self.0
    }
}

impl<A: Arena> Slots<A> {
    /// As many slots as the arena has room for, each with room for a payload of so many bytes. `seed` seeds the checksums: all nodes of a cluster have the
    /// same. `first_generation` is higher than any that an earlier life of this arena's address may have told others: a clock's nanoseconds will do.
    pub fn over(arena: A, payload_bytes: usize, seed: u64, first_generation: u64) -> Slots<A> {
        let slot_words = HEADER_WORDS + payload_bytes.div_ceil(WORD);
        let count = u32::try_from(arena.words().len() / slot_words).unwrap_or(u32::MAX);
        let state = State { free: (0..count).rev().collect(), generation: first_generation & !1 };
        Slots { arena, count, slot_words, seed, state: Mutex::new(state) }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Slots that nobody has.
    pub fn free(&self) -> usize {
        self.state.lock().free.len()
    }

    /// Bytes of a slot, with its header: what a peer reads at once, from [`Slots::at`] on, is as many of them as the object has.
    pub fn slot_bytes(&self) -> usize {
        self.slot_words * WORD
    }

    /// The largest payload.
    pub fn payload_bytes(&self) -> usize {
        (self.slot_words - HEADER_WORDS) * WORD
    }

    /// The byte of the arena at which a slot begins.
    pub fn at(&self, slot: u32) -> u64 {
        u64::from(slot) * self.slot_bytes() as u64
    }

    /// A free slot, if there is one.
    pub fn take(&self) -> Option<Taken> {
        self.state.lock().free.pop().map(Taken)
    }

    /// The slot has nothing from now on, and stays taken: whoever still reads it finds another generation.
    pub fn clear(&self, slot: &Taken) {
        self.begin(slot);
    }

    /// The slot is free again, and has nothing.
    pub fn give_back(&self, slot: Taken) {
        self.clear(&slot);
        self.state.lock().free.push(slot.0);
    }

    /// Put an object into a slot, in the place of what it has; its generation. `None`, and the slot has nothing, if it is too long.
    pub fn put(&self, slot: &Taken, key: &SlotKey, payload: &[u8]) -> Option<u64> {
        let (words, generation) = self.begin(slot)?;
        let (header, body) = words.split_at_checked(HEADER_WORDS)?;
        if payload.len() > body.len() * WORD {
            return None;
        }
        write(body, payload);
        let (first, second) = key.split_at(WORD);
        let sum = checksum(self.seed, generation, key, payload);
        for (word, value) in header.iter().skip(1).zip([word_of(first), word_of(second), payload.len() as u64, sum]) {
            word.store(value, Ordering::Relaxed);
        }
        header.first()?.store(generation, Ordering::Release);
        Some(generation)
    }

    /// From now on what others read of the slot does not verify. Its words, and its next generation.
    fn begin(&self, slot: &Taken) -> Option<(&[AtomicU64], u64)> {
        let from = slot.0 as usize * self.slot_words;
        let words = self.arena.words().get(from..from + self.slot_words)?;
        let mut state = self.state.lock();
        state.generation = state.generation.wrapping_add(2);
        let generation = state.generation;
        drop(state);
        words.first()?.store(generation.wrapping_sub(1), Ordering::Relaxed);
        // No word of the payload may be seen to change before this one has.
        fence(Ordering::Release);
        Some((words, generation))
    }

    /// The payload of a slot, if it has so many bytes.
    pub fn payload(&self, slot: &Taken, bytes: u32) -> Vec<u8> {
        self.part(slot.0, HEADER_WORDS, bytes as usize)
    }

    /// A copy of a slot's first bytes, as a peer reads it.
    pub fn copy(&self, slot: u32, bytes: usize) -> Vec<u8> {
        self.part(slot, 0, bytes)
    }

    /// So many bytes of a slot from one of its words on, or as many as it has.
    fn part(&self, slot: u32, from_word: usize, bytes: usize) -> Vec<u8> {
        let from = slot as usize * self.slot_words;
        let words = self.arena.words().get(from..from + self.slot_words).and_then(|words| words.get(from_word..));
        let words = words.unwrap_or_default();
        let mut copy = copy(words.get(..bytes.div_ceil(WORD)).unwrap_or(words));
        copy.truncate(bytes);
        copy
    }
}

/// Bytes to read of a slot for a payload of so many, which a peer may have told: no slot has too many.
pub fn bytes_for(payload_bytes: usize) -> usize {
    HEADER_BYTES.saturating_add(payload_bytes.div_ceil(WORD).saturating_mul(WORD))
}

/// The payload in a copy of a slot, if it is that of this key and generation, and one thing. Errors: [`Rejected`], with the first reason that is found.
pub fn verified<'a>(copy: &'a [u8], key: &SlotKey, generation: u64, seed: u64) -> Result<&'a [u8], Rejected> {
    let (header, body) = copy.split_at_checked(HEADER_BYTES).ok_or(Rejected::Length)?;
    let mut words = header.chunks_exact(WORD).map(word_of);
    let mut next = || words.next().unwrap_or_default();
    let (found, first, second, bytes, sum) = (next(), next(), next(), next(), next());
    if found % 2 == 1 {
        return Err(Rejected::Changing);
    }
    if found != generation {
        return Err(Rejected::OtherGeneration);
    }
    let (own_first, own_second) = key.split_at(WORD);
    if (first, second) != (word_of(own_first), word_of(own_second)) {
        return Err(Rejected::OtherKey);
    }
    let payload = usize::try_from(bytes).ok().and_then(|bytes| body.get(..bytes)).ok_or(Rejected::Length)?;
    if checksum(seed, generation, key, payload) == sum { Ok(payload) } else { Err(Rejected::Checksum) }
}

fn checksum(seed: u64, generation: u64, key: &SlotKey, payload: &[u8]) -> u64 {
    let mut hash = Xxh3::with_seed(seed);
    hash.update(&generation.to_le_bytes());
    hash.update(key);
    hash.update(&(payload.len() as u64).to_le_bytes());
    hash.update(payload);
    hash.digest()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use proptest::prelude::*;

    use super::*;

    fn arena(bytes: usize) -> Vec<AtomicU64> {
        (0..bytes / WORD).map(|_| AtomicU64::new(0)).collect()
    }

    fn slots(payload_bytes: usize) -> Slots<Vec<AtomicU64>> {
        Slots::over(arena(64 << 10), payload_bytes, 42, 1001)
    }

    #[test]
    fn what_is_put_is_read_until_the_slot_has_something_else() {
        let slots = slots(100);
        assert_eq!((slots.slot_bytes(), slots.payload_bytes(), slots.count()), (144, 104, 455));
        let slot = slots.take().unwrap();
        let generation = slots.put(&slot, &[1; 16], b"an object").unwrap();
        let copy = slots.copy(slot.number(), bytes_for(9));
        assert_eq!(verified(&copy, &[1; 16], generation, 42), Ok(&b"an object"[..]));
        assert_eq!(verified(&copy, &[2; 16], generation, 42), Err(Rejected::OtherKey));
        assert_eq!(verified(&copy, &[1; 16], generation - 2, 42), Err(Rejected::OtherGeneration));
        assert_eq!(verified(&copy, &[1; 16], generation, 43), Err(Rejected::Checksum), "another cluster's");
        assert_eq!(verified(&copy[..45], &[1; 16], generation, 42), Err(Rejected::Length));
        let newer = slots.put(&slot, &[1; 16], b"a newer version").unwrap();
        let copy = slots.copy(slot.number(), slots.slot_bytes());
        assert_eq!(verified(&copy, &[1; 16], generation, 42), Err(Rejected::OtherGeneration));
        assert_eq!(verified(&copy, &[1; 16], newer, 42), Ok(&b"a newer version"[..]));
        let number = slot.number();
        slots.give_back(slot);
        assert_eq!(verified(&slots.copy(number, 144), &[1; 16], newer, 42), Err(Rejected::Changing));
    }

    #[test]
    fn there_are_as_many_as_fit_and_each_has_one_owner() {
        let slots = slots(4056);
        let mut all: Vec<Taken> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!((all.len(), slots.free()), (16, 0), "65,536 bytes in slots of 4,096");
        assert!(slots.put(&all[0], &[1; 16], &[7; 4057]).is_none(), "too long");
        assert!(slots.put(&all[0], &[1; 16], &[7; 4056]).is_some());
        slots.give_back(all.pop().unwrap());
        assert_eq!((slots.free(), slots.take().unwrap().number()), (1, 15));
        assert!(slots.take().is_none());
        assert_eq!(Slots::over(arena(30), 8, 42, 0).count(), 0);
    }

    /// Readers never stop a writer, and of what they accept no word is another object's.
    #[test]
    fn a_reader_races_a_writer() {
        let slots = slots(2000);
        let slot = slots.take().unwrap();
        let ended = AtomicBool::new(false);
        let (accepted, rejected) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut accepted, mut rejected) = (0_u64, 0_u64);
                loop {
                    // The last look is at a slot that stands still.
                    let is_last = ended.load(Ordering::Acquire);
                    let copy = slots.copy(0, slots.slot_bytes());
                    let generation = u64::from_le_bytes(copy[..8].try_into().unwrap());
                    match verified(&copy, &[9; 16], generation, 42) {
                        Ok(payload) => {
                            let word = generation.to_le_bytes();
                            assert!(payload.len() == 2000 && payload.chunks(8).all(|bytes| bytes == word));
                            accepted += 1;
                        }
                        Err(_) => rejected += 1,
                    }
                    if is_last {
                        break;
                    }
                }
                (accepted, rejected)
            });
            let mut generation = 1000;
            for _ in 0..100_000 {
                let payload = (generation + 2_u64).to_le_bytes().repeat(250);
                generation = slots.put(&slot, &[9; 16], &payload).unwrap();
            }
            ended.store(true, Ordering::Release);
            reader.join().unwrap()
        });
        println!("{accepted} accepted, {rejected} rejected");
        assert!(accepted > 0);
    }

    proptest! {
        /// Words of two objects in one slot, in whatever proportion, verify as neither, unless all are of one.
        #[test]
        fn no_mixture_verifies(which in prop::collection::vec(any::<bool>(), 10), other in 1..255_u8) {
            let slots = slots(40);
            let slot = slots.take().unwrap();
            let older = slots.put(&slot, &[1; 16], &[0; 40]).unwrap();
            let before = slots.copy(0, 80);
            let newer = slots.put(&slot, &[1; 16], &[other; 40]).unwrap();
            let after = slots.copy(0, 80);
            let mixed: Vec<u8> = (0..10).flat_map(|n| if which[n] { &after } else { &before }[n * 8..][..8].to_vec()).collect();
            prop_assert_eq!(verified(&mixed, &[1; 16], older, 42).is_ok(), mixed == before);
            prop_assert_eq!(verified(&mixed, &[1; 16], newer, 42).is_ok(), mixed == after);
        }

        #[test]
        fn nothing_foreign_verifies(bytes in prop::collection::vec(any::<u8>(), 0..200), generation in any::<u64>()) {
            prop_assert!(verified(&bytes, &[1; 16], generation, 42).is_err());
        }
    }
}
