//! The key-table: where each object is, in memory that peers read (section 3, "soft shared state").
//!
//! ```text
//! word 0   generation, odd while the bucket is being changed
//!      1   what has happened to its keys (see [`Seen`])
//!      2   checksum of all other words
//!      3.. eight entries of six words:
//!            key, first half   key, second half   version   node   slot and bytes   generation of the slot
//! ```
//!
//! A node reads the bucket of a key from the key's home, with one read and without its help. Whoever wants to change something sends the home a message, as in
//! the paper, so that no locks are needed. An entry names one copy, whichever the home chooses. The paper also
//! broadcasts this information periodically; here nodes are told of each other's room alone, and look everything else up.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::arena::{Arena, WORD, copy};
use crate::limits::BUCKET_ENTRIES;
use crate::members::NodeId;
use crate::slots::{Rejected, SlotKey, Where};

const HEADER_WORDS: usize = 3;
const ENTRY_WORDS: usize = 6;
const BUCKET_WORDS: usize = HEADER_WORDS + BUCKET_ENTRIES * ENTRY_WORDS;
/// Bytes of a bucket, as they are read.
pub const BUCKET_BYTES: usize = BUCKET_WORDS * WORD;

/// What had happened to the keys of a bucket when somebody looked: how many were invalidated, and how many were stored anew. Whoever comes later with
/// something that he got before is told so by it. Both go round after 4 thousand million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen(pub u64);

impl Seen {
    /// One more key was invalidated.
    pub fn invalidated(&mut self) {
        self.0 = self.0.wrapping_add(1 << 32);
    }

    /// One more object was stored.
    pub fn stored(&mut self) {
        self.0 = (self.0 & !0xFFFF_FFFF) | u64::from((self.0 as u32).wrapping_add(1));
    }

    /// Whether nothing was invalidated between the two.
    pub fn is_as_valid_as(self, other: Seen) -> bool {
        self.0 >> 32 == other.0 >> 32
    }
}

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The node.
    pub node: NodeId,
    /// Where it has it.
    pub at: Where,
    /// Which version of the object.
    pub version: u64,
}

/// Buckets that peers read. Memory beside the arena: none.
pub struct Table<A> {
    arena: A,
    seed: u64,
    buckets: u32,
}

/// The bucket of a key, of so many.
pub fn bucket_of(key: &SlotKey, buckets: u32) -> u32 {
    // Not the bytes that choose the home: all keys here have the same ones.
    let hash = xxh3_64_with_seed(key, 1);
    u32::try_from((u128::from(hash) * u128::from(buckets)) >> 64).unwrap_or_default()
}

/// How many buckets a home should have for so many objects: a third of their entries used in the mean, so that one of a thousand overflows.
pub fn buckets_for(objects: u32) -> u32 {
    (u64::from(objects) * 3).div_ceil(BUCKET_ENTRIES as u64).clamp(1, u64::from(u32::MAX)) as u32
}

impl<A: Arena> Table<A> {
    /// As many buckets as the arena has room for, all of them empty. `first` as in [`crate::slots::Slots::over`].
    pub fn over(arena: A, seed: u64, first: u64) -> Table<A> {
        let buckets = u32::try_from(arena.words().len() / BUCKET_WORDS).unwrap_or(u32::MAX);
        let table = Table { arena, seed, buckets };
        for bucket in 0..buckets {
            table.words(bucket).iter().take(1).for_each(|word| word.store(first & !1, Ordering::Relaxed));
            table.publish(bucket, Seen::default(), &[]);
        }
        table
    }

    /// How many there are.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    fn words(&self, bucket: u32) -> &[AtomicU64] {
        let from = bucket as usize * BUCKET_WORDS;
        self.arena.words().get(from..from + BUCKET_WORDS).unwrap_or_default()
    }

    /// Write a bucket anew; what does not fit is left out.
    pub fn publish(&self, bucket: u32, seen: Seen, entries: &[(SlotKey, Listed)]) {
        let Some((first, rest)) = self.words(bucket).split_first() else { return };
        let generation = (first.load(Ordering::Relaxed) & !1).wrapping_add(2);
        first.store(generation.wrapping_sub(1), Ordering::Relaxed);
        // No other word may be seen to change before this one has.
        fence(Ordering::Release);
        let mut words = [0; BUCKET_WORDS - 1];
        let mut next = words.iter_mut();
        let mut put = |value: u64| next.next().map(|word| *word = value);
        put(seen.0);
        put(0);
        for (key, Listed { node, at, version }) in entries.iter().take(BUCKET_ENTRIES) {
            let (first, second) = halves(key);
            put(first);
            put(second);
            put(*version);
            put(node.0);
            put(u64::from(at.slot) << 32 | u64::from(at.bytes));
            put(at.generation);
        }
        let sum = checksum(self.seed, generation, &words);
        for (at, (word, value)) in rest.iter().zip(words).enumerate() {
            word.store(if at == 1 { sum } else { value }, Ordering::Relaxed);
        }
        first.store(generation, Ordering::Release);
    }

    /// A copy of a bucket, as a peer reads it.
    pub fn copy(&self, bucket: u32) -> Vec<u8> {
        copy(self.words(bucket))
    }
}

/// What a copy of a bucket says of a key: what had happened so far, and where the object is. Errors: [`Rejected`]; one that was being changed is worth another look.
pub fn look_up(copy: &[u8], key: &SlotKey, seed: u64) -> Result<(Seen, Option<Listed>), Rejected> {
    if copy.len() != BUCKET_BYTES {
        return Err(Rejected::Length);
    }
    let mut words = copy.chunks_exact(WORD).map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes));
    let generation = words.next().unwrap_or_default();
    if generation % 2 == 1 {
        return Err(Rejected::Changing);
    }
    let mut rest = [0; BUCKET_WORDS - 1];
    rest.iter_mut().zip(words).for_each(|(to, word)| *to = word);
    let [seen, sum, ..] = rest;
    if checksum(seed, generation, &rest) != sum {
        return Err(Rejected::Checksum);
    }
    let own = halves(key);
    let entries = rest.get(HEADER_WORDS - 1..).unwrap_or_default().chunks_exact(ENTRY_WORDS);
    let listed = entries.filter_map(|entry| entry.first_chunk::<ENTRY_WORDS>()).find_map(|entry| {
        let [first, second, version, node, slot_and_bytes, generation] = *entry;
        let at = Where { slot: (slot_and_bytes >> 32) as u32, bytes: slot_and_bytes as u32, generation };
        ((first, second) == own && generation != 0).then_some(Listed { node: NodeId(node), at, version })
    });
    Ok((Seen(seen), listed))
}

fn halves(key: &SlotKey) -> (u64, u64) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *key;
    (u64::from_le_bytes([a, b, c, d, e, f, g, h]), u64::from_le_bytes([i, j, k, l, m, n, o, p]))
}

/// Of all words but the checksum itself.
fn checksum(seed: u64, generation: u64, words: &[u64; BUCKET_WORDS - 1]) -> u64 {
    let mut hash = Xxh3::with_seed(seed);
    hash.update(&generation.to_le_bytes());
    for word in words.iter().take(1).chain(words.iter().skip(2)) {
        hash.update(&word.to_le_bytes());
    }
    hash.digest()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(buckets: usize) -> Table<Vec<AtomicU64>> {
        Table::over((0..buckets * BUCKET_WORDS).map(|_| AtomicU64::new(0)).collect(), 42, 1001)
    }

    fn listed(n: u32) -> Listed {
        Listed {
            node: NodeId(n.into()),
            at: Where { slot: n, bytes: 8192, generation: 2 * u64::from(n) + 2 },
            version: 3,
        }
    }

    #[test]
    fn what_is_published_is_found_until_something_else_is() {
        let table = table(2);
        let empty = table.copy(1);
        assert_eq!(look_up(&empty, &[1; 16], 42), Ok((Seen(0), None)));
        let entries: Vec<(SlotKey, Listed)> = (0..8).map(|n| ([n as u8; 16], listed(n))).collect();
        table.publish(1, Seen(5), &entries);
        let copy = table.copy(1);
        for (key, listed) in &entries {
            assert_eq!(look_up(&copy, key, 42), Ok((Seen(5), Some(*listed))));
        }
        assert_eq!(look_up(&copy, &[9; 16], 42), Ok((Seen(5), None)));
        assert_eq!(look_up(&copy, &[0; 16], 43), Err(Rejected::Checksum), "another cluster's");
        assert_eq!(look_up(&copy[1..], &[0; 16], 42), Err(Rejected::Length));
        assert_eq!(look_up(&table.copy(0), &[1; 16], 42), Ok((Seen(0), None)), "the other bucket");
        assert!(table.copy(2).is_empty(), "there is none");
    }

    #[test]
    fn buckets_are_filled_evenly() {
        let mut full = vec![0_u32; buckets_for(10_240) as usize];
        for n in 0..10_240_u64 {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&n.to_le_bytes());
            let bucket = bucket_of(&key, full.len() as u32);
            full[bucket as usize] += 1;
        }
        assert_eq!(full.iter().sum::<u32>(), 10_240);
        let over = full.iter().filter(|entries| **entries > BUCKET_ENTRIES as u32).count();
        assert!(over * 300 < full.len(), "{over} of {} buckets have more than they hold", full.len());
        assert_eq!((bucket_of(&[255; 16], 1), buckets_for(0)), (0, 1));
    }

    #[test]
    fn what_was_seen_tells_what_happened_since() {
        let mut now = Seen::default();
        let before = now;
        now.stored();
        assert!(now != before && now.is_as_valid_as(before));
        now.invalidated();
        assert!(!now.is_as_valid_as(before));
        let mut last = Seen(0x1_FFFF_FFFF);
        last.stored();
        assert_eq!(last, Seen(0x1_0000_0000), "one does not run into the other");
    }

    proptest! {
        #[test]
        fn no_mixture_of_two_buckets_is_believed(which in prop::collection::vec(any::<bool>(), BUCKET_WORDS)) {
            let table = table(1);
            table.publish(0, Seen(1), &[([1; 16], listed(1)), ([2; 16], listed(2))]);
            let before = table.copy(0);
            table.publish(0, Seen(2), &[([1; 16], listed(3)), ([4; 16], listed(4))]);
            let after = table.copy(0);
            let mixed: Vec<u8> = which.iter().enumerate().flat_map(|(n, new)| if *new { &after } else { &before }[n * 8..][..8].to_vec()).collect();
            prop_assert_eq!(look_up(&mixed, &[1; 16], 42).is_ok(), mixed == before || mixed == after);
        }

        #[test]
        fn nothing_foreign_is_believed(bytes in prop::collection::vec(any::<u8>(), BUCKET_BYTES)) {
            prop_assert!(look_up(&bytes, &[1; 16], 42).is_err());
        }
    }
}
