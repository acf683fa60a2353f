//! Checkpoints of a group: what it needs after a restart to find its objects without reading its pages.
//!
//! A group has two areas. One holds the last full checkpoint and, behind it, blocks with what changed since; when it is full,
//! a new full checkpoint goes into the other. Neither is ever written over while it is the only one. Once the other one is
//! there, the first is told so: should the newer one be damaged later, the older one must not bring back what it knows. So
//! it is with a block in the middle that does not verify, if others follow it: nobody knows what it said. A group without a
//! checkpoint that holds is empty. A clean stop leaves a full checkpoint in both areas, so one damage costs nothing then.
//!
//! ```text
//! block:   0  [4]  magic "DmJ1"     16  u32  number of the block in its area
//!          4  u32  group            20  u32  blocks of the full checkpoint; 0 in a block of changes
//!          8  u64  generation       24  u32  bytes of entries
//!         28  u32  0                32  u64  checksum of bytes 0 to 31 and of the entries      40  entries
//! entries: 1 page: u32 page, u64 life, u64 floor, u32 epoch, u32 frame or all ones, u32 slots, u32 extents, u32 objects, and
//!            for each object u16 slot, u64 number, [16] digest
//!          2 removed: [16] digest, u64 number
//!          3 opened: u32 epoch, u64 number          4 closed: u64 number
//!          5 moved: u64 generation of the other area
//! ```
//!
//! A page entry replaces what was said of the page before. One without a frame says that it was evicted. What is said is a
//! hint: each page and each record is verified when it is read. Numbers count changes over all groups, so where two groups
//! have an object, the greater number is the newer one; and what one group's journal says was removed or replaced, no group has
//! of an older number.

use std::collections::HashMap;

use xxhash_rust::xxh3::Xxh3;

use super::table::Spot;
use crate::layout::Stamp;
use crate::layout::take::{take, take_u16, take_u32, take_u64};
use crate::memory::aligned::{ALIGN, round_up};
use crate::terms::Digest;

const MAGIC: [u8; 4] = *b"DmJ1";
const HEADER_BYTES: usize = 40;
const CHECKED_BYTES: usize = 32;
const NO_FRAME: u32 = u32::MAX;
/// Entries of a full checkpoint that go into one block; a page's may pass it.
const BLOCK_BYTES: usize = 256 << 10;
const PAGE_ENTRY_BYTES: u64 = 41;
const OBJECT_BYTES: u64 = 26;

/// Bytes of an area for a group of so many frames and objects: a full checkpoint of all of them, and as much for changes.
pub fn area_bytes(frames: u32, objects: u32) -> u64 {
    let full = u64::from(frames) * PAGE_ENTRY_BYTES + u64::from(objects) * OBJECT_BYTES;
    let blocks = full / BLOCK_BYTES as u64 + 2;
    round_up(2 * full + blocks * 2 * ALIGN as u64, ALIGN as u64)
}

/// What a checkpoint says of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageEntry {
    /// The page.
    pub page: u32,
    /// Its life.
    pub life: u64,
    /// No life after this one was begun when that was said.
    pub floor: u64,
    /// The epoch in which that was said; see [`Replayed::epoch`].
    pub epoch: u32,
    /// Where it lies; `None` if it was evicted.
    pub frame: Option<u32>,
    /// Slots used up.
    pub slots: u32,
    /// Parts of large objects on it, which no digest leads to.
    pub extents: u32,
    /// Its objects: slot, number, digest.
    pub objects: Vec<(u16, u64, Digest)>,
}

/// Entries being gathered.
#[derive(Default)]
pub struct Entries {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
}

impl Entries {
    fn room(&mut self) -> &mut Vec<u8> {
        if self.last.len() >= BLOCK_BYTES {
            self.full.push(std::mem::take(&mut self.last));
        }
        &mut self.last
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.full.is_empty() && self.last.is_empty()
    }

    /// Say how a page is.
    pub fn page(&mut self, entry: &PageEntry) {
        let block = self.room();
        block.push(1);
        block.extend_from_slice(&entry.page.to_le_bytes());
        block.extend_from_slice(&entry.life.to_le_bytes());
        block.extend_from_slice(&entry.floor.to_le_bytes());
        let numbers =
            [entry.epoch, entry.frame.unwrap_or(NO_FRAME), entry.slots, entry.extents, entry.objects.len() as u32];
        numbers.iter().for_each(|number| block.extend_from_slice(&number.to_le_bytes()));
        for (slot, number, id) in &entry.objects {
            block.extend_from_slice(&slot.to_le_bytes());
            block.extend_from_slice(&number.to_le_bytes());
            block.extend_from_slice(&id.0);
        }
    }

    /// Say that whatever there was of an object before this number is void.
    pub fn removed(&mut self, id: &Digest, number: u64) {
        let block = self.room();
        block.push(2);
        block.extend_from_slice(&id.0);
        block.extend_from_slice(&number.to_le_bytes());
    }

    /// Say that the cache was opened.
    pub fn opened(&mut self, epoch: u32, number: u64) {
        let block = self.room();
        block.push(3);
        block.extend_from_slice(&epoch.to_le_bytes());
        block.extend_from_slice(&number.to_le_bytes());
    }

    /// Say that it was closed and that nothing is missing.
    pub fn closed(&mut self, number: u64) {
        let block = self.room();
        block.push(4);
        block.extend_from_slice(&number.to_le_bytes());
    }

    /// Say that the other area has a newer checkpoint.
    pub fn moved(&mut self, generation: u64) {
        let block = self.room();
        block.push(5);
        block.extend_from_slice(&generation.to_le_bytes());
    }

    /// The blocks as they go to the disk, each of whole [`ALIGN`]s, from the block number on.
    pub fn blocks(self, stamp: Stamp, group: u32, generation: u64, first: u32, is_full: bool) -> Vec<Vec<u8>> {
        let all: Vec<_> = self.full.into_iter().chain([self.last]).filter(|entries| !entries.is_empty()).collect();
        let of = if is_full { all.len() as u32 } else { 0 };
        let encode = |(n, entries): (usize, Vec<u8>)| {
            let mut block = Vec::with_capacity(HEADER_BYTES + entries.len() + ALIGN);
            block.extend_from_slice(&MAGIC);
            block.extend_from_slice(&group.to_le_bytes());
            block.extend_from_slice(&generation.to_le_bytes());
            [first + n as u32, of, entries.len() as u32, 0]
                .iter()
                .for_each(|n| block.extend_from_slice(&n.to_le_bytes()));
            let sum = sum(&block, &entries, stamp);
            block.extend_from_slice(&sum.to_le_bytes());
            block.extend_from_slice(&entries);
            block.resize(round_up(block.len() as u64, ALIGN as u64) as usize, 0);
            block
        };
        all.into_iter().enumerate().map(encode).collect()
    }
}

fn sum(header: &[u8], entries: &[u8], stamp: Stamp) -> u64 {
    let mut sum = Xxh3::with_seed(stamp.seed);
    sum.update(header.get(..CHECKED_BYTES).unwrap_or_default());
    sum.update(entries);
    sum.digest()
}

/// What an area says, block by block.
#[derive(Default)]
pub struct Replayed {
    /// Which full checkpoint it begins with; 0 if there is none.
    pub generation: u64,
    /// Where the next block goes.
    pub used_bytes: u64,
    /// Its number.
    pub next: u32,
    /// How often the cache was opened after a crash.
    pub epoch: u32,
    /// The greatest number.
    pub number: u64,
    /// Whether nothing came after the cache was closed.
    pub closed: bool,
    /// Whether the other area has a newer one, or has had it.
    pub moved: bool,
    /// Whether bytes do not verify, though something follows them or nothing could be before them.
    pub damaged: bool,
    /// The pages, with their objects.
    pub pages: HashMap<u32, PageEntry>,
    /// The objects.
    pub objects: HashMap<Digest, Spot>,
    /// Objects that were removed or replaced since the full checkpoint, with the number of that: what another group has of an
    /// older version is gone too, though its own journal may not have heard of it.
    pub removed: HashMap<Digest, u64>,
    /// Blocks of the full checkpoint.
    of: u32,
}

impl Replayed {
    /// Whether the full checkpoint is whole.
    pub fn is_whole(&self) -> bool {
        self.generation > 0 && self.next >= self.of && !self.moved && !self.damaged
    }

    /// Of a group of which no checkpoint holds.
    pub fn lost(damaged: bool, generation: u64) -> Self {
        Replayed { damaged, generation, ..Replayed::default() }
    }

    /// Whether there was something here once.
    pub fn is_something(&self) -> bool {
        self.generation > 0 || self.damaged
    }

    /// Whether a block that was written later than what was taken begins here.
    pub fn is_later(&self, bytes: &[u8], stamp: Stamp, group: u32) -> bool {
        let mut rest = bytes;
        let rest = &mut rest;
        let mut header = || {
            (take(rest)? == MAGIC && take_u32(rest)? == group).then_some(())?;
            let (generation, number, _, len) = (take_u64(rest)?, take_u32(rest)?, take_u32(rest)?, take_u32(rest)?);
            let (_, expected) = (take_u32(rest)?, take_u64(rest)?);
            // One that is longer than what is at hand is taken for whole: it is as good a sign.
            let entries = bytes.get(HEADER_BYTES..HEADER_BYTES + len as usize);
            let verifies = entries.is_none_or(|entries| sum(bytes, entries, stamp) == expected);
            Some(verifies && (generation > self.generation || generation == self.generation && number > self.next))
        };
        header().unwrap_or(false)
    }

    /// Take the block at the front of `bytes`. Returns its length; `None` if there is none that follows, and then nothing
    /// has changed. More bytes than `bytes` has may be asked for, by `need`.
    pub fn block(&mut self, bytes: &[u8], stamp: Stamp, group: u32, need: &mut usize) -> Option<usize> {
        let mut rest = bytes;
        let rest = &mut rest;
        if take(rest)? != MAGIC || take_u32(rest)? != group {
            return None;
        }
        let (generation, number, of, len) = (take_u64(rest)?, take_u32(rest)?, take_u32(rest)?, take_u32(rest)?);
        let (_, expected) = (take_u32(rest)?, take_u64(rest)?);
        let follows = number == self.next
            && if number == 0 {
                generation > 0 && of > 0
            } else {
                generation == self.generation && (of == self.of || of == 0)
            };
        if !follows || len as usize > BLOCK_BYTES + (1 << 20) {
            return None;
        }
        let whole = round_up((HEADER_BYTES + len as usize) as u64, ALIGN as u64) as usize;
        let Some(mut entries) = bytes.get(HEADER_BYTES..HEADER_BYTES + len as usize) else {
            *need = whole;
            return None;
        };
        if sum(bytes, entries, stamp) != expected {
            return None;
        }
        (self.generation, self.next) = (generation, number + 1);
        if number == 0 {
            self.of = of;
        }
        self.used_bytes += whole as u64;
        while !entries.is_empty() {
            // What verifies was written by this program: nothing is left over.
            self.entry(&mut entries)?;
        }
        Some(whole)
    }

    fn entry(&mut self, rest: &mut &[u8]) -> Option<()> {
        let [kind] = take(rest)?;
        self.closed = kind == 4;
        match kind {
            1 => {
                let (page, life, floor) = (take_u32(rest)?, take_u64(rest)?, take_u64(rest)?);
                let (epoch, frame) = (take_u32(rest)?, take_u32(rest)?);
                let (slots, extents, count) = (take_u32(rest)?, take_u32(rest)?, take_u32(rest)?);
                let old = self.pages.remove(&page).unwrap_or_default();
                for (slot, number, id) in old.objects {
                    if self.objects.get(&id).is_some_and(|spot| spot.number == number && spot.slot == slot) {
                        self.objects.remove(&id);
                    }
                }
                let mut objects = Vec::new();
                for _ in 0..count {
                    let (slot, number, id) = (take_u16(rest)?, take_u64(rest)?, Digest(take(rest)?));
                    self.number = self.number.max(number);
                    objects.push((slot, number, id));
                    let spot = Spot { page, slot, life: life as u16, number };
                    let newest = self.objects.entry(id).or_insert(spot);
                    if newest.number <= number {
                        *newest = spot;
                    }
                }
                let frame = Some(frame).filter(|frame| *frame != NO_FRAME);
                self.pages.insert(page, PageEntry { page, life, floor, epoch, frame, slots, extents, objects });
            }
            2 => {
                let (id, number) = (Digest(take(rest)?), take_u64(rest)?);
                self.number = self.number.max(number);
                if self.objects.get(&id).is_some_and(|spot| spot.number < number) {
                    self.objects.remove(&id);
                }
                let last = self.removed.entry(id).or_insert(number);
                *last = number.max(*last);
            }
            3 => {
                self.epoch = take_u32(rest)?;
                self.number = self.number.max(take_u64(rest)?);
            }
            5 => self.moved = self.generation <= take_u64(rest)?,
            _ => self.number = self.number.max(take_u64(rest)?),
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { seed: 11 };

    fn id(n: u8) -> Digest {
        Digest([n; 16])
    }

    fn page(page: u32, frame: Option<u32>, objects: &[(u16, u64, u8)]) -> PageEntry {
        let objects = objects.iter().map(|(slot, number, n)| (*slot, *number, id(*n))).collect();
        PageEntry { page, life: 3, floor: 3, epoch: 1, frame, slots: 9, extents: 2, objects }
    }

    fn replay(area: &[u8]) -> Replayed {
        let (mut found, mut at, mut need) = (Replayed::default(), 0, 0);
        while let Some(bytes) = found.block(area.get(at..).unwrap_or_default(), STAMP, 4, &mut need) {
            at += bytes;
        }
        found
    }

    fn example() -> Vec<u8> {
        let mut full = Entries::default();
        full.opened(7, 40);
        full.page(&page(1, Some(5), &[(0, 10, 1), (1, 11, 2)]));
        full.page(&page(2, Some(6), &[(0, 12, 3)]));
        let mut changes = Entries::default();
        changes.page(&page(3, Some(7), &[(0, 50, 1)]));
        changes.page(&page(2, None, &[]));
        changes.removed(&id(2), 51);
        changes.closed(52);
        let full = full.blocks(STAMP, 4, 9, 0, true);
        let next = full.len() as u32;
        [full, changes.blocks(STAMP, 4, 9, next, false)].concat().concat()
    }

    #[test]
    fn a_checkpoint_and_its_changes_come_back() {
        let found = replay(&example());
        assert!(found.is_whole() && found.closed);
        assert_eq!((found.generation, found.next, found.used_bytes), (9, 2, 8192));
        assert_eq!((found.epoch, found.number), (7, 52));
        assert_eq!(found.objects, HashMap::from([(id(1), Spot { page: 3, slot: 0, life: 3, number: 50 })]));
        assert_eq!(found.pages.get(&2).unwrap().frame, None);
        assert_eq!(found.pages.get(&1).unwrap().frame, Some(5));
    }

    /// A change of these bytes is another version, and keeps the file of this one.
    #[test]
    fn a_checkpoint_is_that_of_the_golden_file() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let all = example();
        let found = format!("{}\n{}\n", hex(&all[..256]), hex(&all[4096..4352]));
        assert_eq!(found, include_str!("../../../tests/golden/damelo-checkpoint-v1.txt"));
    }

    /// What was evicted does not let an older version come to light.
    #[test]
    fn an_older_version_stays_away_when_the_newer_one_is_evicted() {
        let mut entries = Entries::default();
        entries.page(&page(1, Some(1), &[(0, 10, 1)]));
        entries.page(&page(2, Some(2), &[(0, 20, 1)]));
        entries.page(&page(2, None, &[]));
        assert!(replay(&entries.blocks(STAMP, 4, 1, 0, true).concat()).objects.is_empty());
    }

    #[test]
    fn damage_ends_a_checkpoint_where_it_is() {
        let whole = example();
        for bit in 0..whole.len() * 8 {
            let mut area = whole.clone();
            area[bit / 8] ^= 1 << (bit % 8);
            let found = replay(&area);
            match bit / 8 {
                0..4096 => {
                    assert!(found.generation == 0 || found.next == 2, "bit {bit}: the padding alone has no checksum")
                }
                _ => assert!(found.is_whole() && found.next >= 1, "bit {bit}"),
            }
            assert!(found.next == 2 || found.objects.len() == [0, 3][found.next as usize], "bit {bit}");
        }
        for cut in (0..whole.len()).step_by(512) {
            assert!(replay(&whole[..cut]).next <= (cut / 4096) as u32 + 1);
        }
    }
}
