//! The rival's entries: made, found, ranked, evicted.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;

use tinaja_backend::{BackendError, STREAMS};

use super::BlockfileOptions;
use super::ranks::{Rank, Ranks};
use super::space::{BlockRun, Class, Space};
use super::streams::Stream;
use crate::rig::{Clock, PageCache};

/// Entries open at the same time: of each up to 48 KiB are in memory.
const MOST_OPEN: usize = 4096;
/// A key is no longer; as browsers' URLs.
const MOST_KEY: usize = 32 << 10;
/// Eviction goes on until this much is free, so that it is not begun for every store.
const MARGIN: u64 = 1 << 20;
/// An entry's own bytes in its block, before the key.
const ENTRY_HEAD: u64 = 96;

/// What it did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries created.
    pub created: u64,
    /// Entries found.
    pub found: u64,
    /// Entries evicted.
    pub evicted: u64,
    /// Bytes of keys and streams that were written by callers.
    pub written_bytes: u64,
}

/// All of it, under one lock.
pub struct RivalState {
    pub(super) space: Space,
    pub(super) options: BlockfileOptions,
    pub(super) clock: Clock,
    pub(super) entries: HashMap<u64, Stored>,
    names: HashMap<Box<[u8]>, u64>,
    ranks: Ranks,
    next_id: u64,
    open: usize,
    /// Bytes of keys and streams.
    pub(super) used: u64,
    pub(super) counts: Counts,
    pub(super) stopped: bool,
}

/// An entry.
pub struct Stored {
    pub(super) key: Box<[u8]>,
    pub(super) block: BlockRun,
    rank_block: BlockRun,
    rank: Rank,
    pub(super) streams: [Stream; STREAMS],
    opened: u32,
    pub(super) doomed: bool,
    pub(super) dirty: bool,
}

pub fn failed(error: io::Error) -> BackendError {
    BackendError::NotKept(error.to_string())
}

fn hash_of(key: &[u8]) -> u64 {
    // Its keys are fixed: the same place in each run.
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

impl RivalState {
    pub fn new(disk: Arc<PageCache>, options: BlockfileOptions, clock: Clock) -> Self {
        RivalState {
            space: Space::new(disk, options.bytes),
            options,
            clock,
            entries: HashMap::new(),
            names: HashMap::new(),
            ranks: Ranks::default(),
            next_id: 1,
            open: 0,
            used: 0,
            counts: Counts::default(),
            stopped: false,
        }
    }

    fn may_open(&self, key: &[u8]) -> Result<(), BackendError> {
        match () {
            () if self.stopped => Err(BackendError::Stopped),
            () if key.len() > MOST_KEY => Err(BackendError::KeyTooLong { asked: key.len(), most: MOST_KEY }),
            () if self.open >= MOST_OPEN => Err(BackendError::Full("too many entries are open")),
            () => Ok(()),
        }
    }

    /// A new entry: a block for it and one for its rank, a cell of the index, and the head of a list.
    pub fn create(&mut self, key: &[u8]) -> Result<u64, BackendError> {
        self.may_open(key)?;
        if self.names.contains_key(key) {
            return Err(BackendError::Exists);
        }
        self.make_room(key.len() as u64)?;
        // A key that does not fit into four blocks is cut here; it would be a stream of its own.
        let blocks = (ENTRY_HEAD + key.len() as u64).div_ceil(Class::Entries.block_bytes()).clamp(1, 4) as u32;
        let block = self.take(Class::Entries, blocks)?;
        let rank_block = match self.take(Class::Ranks, 1) {
            Ok(rank_block) => rank_block,
            Err(error) => {
                self.space.give_back(block).map_err(failed)?;
                return Err(error);
            }
        };
        let (id, now) = (self.next_id, self.clock.now());
        self.next_id += 1;
        let rank = self.ranks.insert(id, now);
        let stored = Stored {
            key: key.into(),
            block,
            rank_block,
            rank,
            streams: Default::default(),
            opened: 1,
            doomed: false,
            dirty: true,
        };
        self.entries.insert(id, stored);
        self.names.insert(key.into(), id);
        self.used += key.len() as u64;
        self.open += 1;
        self.counts.created += 1;
        self.counts.written_bytes += key.len() as u64;
        self.write_entry(id).and_then(|()| self.write_rank(id)).map_err(failed)?;
        self.space.write_index(Some(hash_of(key)), id as u32).map_err(failed)?;
        Ok(id)
    }

    /// Open one that is there: its block is read, and it stands first in its list.
    pub fn open(&mut self, key: &[u8]) -> Result<u64, BackendError> {
        self.may_open(key)?;
        let unreadable = |error: io::Error| BackendError::Unreadable(error.to_string());
        self.space.read_index(hash_of(key)).map_err(unreadable)?;
        let id = self.names.get(key).copied().ok_or(BackendError::NotFound)?;
        let (now, stored) = (self.clock.now(), self.entries.get_mut(&id).ok_or(BackendError::NotFound)?);
        let mut head = [0; 8];
        self.space.read_blocks(stored.block, 0, &mut head).map_err(unreadable)?;
        if u64::from_le_bytes(head) != id {
            return Err(BackendError::Unreadable("its block is another entry's".to_owned()));
        }
        stored.opened = stored.opened.saturating_add(1);
        let beside = self.ranks.neighbours(stored.rank);
        stored.rank = self.ranks.used(id, stored.rank, now);
        self.open += 1;
        self.counts.found += 1;
        // It leaves its neighbours and gets another; its block says that it was used.
        let linked = beside.into_iter().flatten().try_for_each(|other| self.write_rank_block(other));
        linked.and_then(|()| self.write_rank(id)).and_then(|()| self.write_entry(id)).map_err(unreadable)?;
        self.space.write_index(None, id as u32).map_err(unreadable)?;
        Ok(id)
    }

    /// One who had it open has it no more. The last one writes what was kept in memory.
    pub fn close(&mut self, id: u64) -> Result<(), BackendError> {
        let Some(stored) = self.entries.get_mut(&id) else { return Err(BackendError::NotFound) };
        stored.opened = stored.opened.saturating_sub(1);
        self.open = self.open.saturating_sub(1);
        if stored.opened > 0 {
            return Ok(());
        }
        if stored.doomed {
            return self.remove(id).map_err(failed);
        }
        let kept = self.put_away(id);
        if kept.is_err() {
            self.doom(id);
            self.remove(id).map_err(failed)?;
        }
        kept.and_then(|()| self.make_room(0))
    }

    /// It is found no more; its blocks are free when nobody has it open.
    pub fn doom(&mut self, id: u64) {
        let Some(stored) = self.entries.get_mut(&id).filter(|stored| !stored.doomed) else { return };
        stored.doomed = true;
        self.names.remove(&stored.key);
        let (hash, beside) = (hash_of(&stored.key), self.ranks.neighbours(stored.rank));
        self.ranks.remove(stored.rank);
        // A failed write shows when all is flushed.
        let _ = self.space.write_index(Some(hash), 0);
        beside.into_iter().flatten().for_each(|other| drop(self.write_rank_block(other)));
    }

    fn remove(&mut self, id: u64) -> io::Result<()> {
        let Some(stored) = self.entries.remove(&id) else { return Ok(()) };
        let bytes: u64 = stored.streams.iter().map(Stream::len).sum();
        self.used = self.used.saturating_sub(stored.key.len() as u64 + bytes);
        stored.streams.into_iter().try_for_each(|stream| stream.drop_from(&mut self.space))?;
        self.space.give_back(stored.block)?;
        self.space.give_back(stored.rank_block)
    }

    /// Evict until so many bytes more have room: down to a margin, so that it is done seldom.
    pub(super) fn make_room(&mut self, bytes: u64) -> Result<(), BackendError> {
        if self.used + bytes <= self.options.bytes {
            return Ok(());
        }
        let margin = MARGIN.min(self.options.bytes / 16);
        while self.used + bytes + margin > self.options.bytes {
            if !self.evict()? {
                break;
            }
        }
        if self.used + bytes <= self.options.bytes {
            Ok(())
        } else {
            Err(BackendError::Full("what is open fills the cache"))
        }
    }

    /// Evict one that nobody has open; whether there was one.
    fn evict(&mut self) -> Result<bool, BackendError> {
        let may_leave = |id| self.entries.get(&id).is_some_and(|stored| stored.opened == 0);
        let Some(id) = self.ranks.victim(self.options.ages, self.clock.now(), may_leave) else { return Ok(false) };
        self.doom(id);
        self.counts.evicted += 1;
        self.remove(id).map(|()| true).map_err(failed)
    }

    /// Blocks; where a block file is full of gaps, entries leave.
    pub(super) fn take(&mut self, class: Class, count: u32) -> Result<BlockRun, BackendError> {
        loop {
            if let Some(place) = self.space.take(class, count).map_err(failed)? {
                return Ok(place);
            }
            if !self.evict()? {
                return Err(BackendError::Full("what is open fills a block file"));
            }
        }
    }

    /// Its block: who it is, its streams' sizes and places.
    pub(super) fn write_entry(&mut self, id: u64) -> io::Result<()> {
        let Some(stored) = self.entries.get(&id) else { return Ok(()) };
        let mut bytes = id.to_le_bytes().to_vec();
        stored.streams.iter().for_each(|stream| bytes.extend_from_slice(&stream.len().to_le_bytes()));
        bytes.resize(ENTRY_HEAD as usize, 0);
        bytes.extend_from_slice(&stored.key);
        bytes.truncate((stored.block.block_bytes()) as usize);
        self.space.write_blocks(stored.block, &bytes)
    }

    /// Its rank, and that of the one behind which it stands now.
    fn write_rank(&mut self, id: u64) -> io::Result<()> {
        let beside = self.entries.get(&id).map(|stored| self.ranks.neighbours(stored.rank)).unwrap_or_default();
        self.write_rank_block(id)?;
        beside.into_iter().flatten().try_for_each(|other| self.write_rank_block(other))
    }

    fn write_rank_block(&mut self, id: u64) -> io::Result<()> {
        let Some(stored) = self.entries.get(&id) else { return Ok(()) };
        let mut bytes = [0; 36];
        let fields = [id, stored.rank.uses.into(), self.clock.now().as_secs(), u64::from(stored.block.first)];
        bytes.chunks_mut(8).zip(fields).for_each(|(to, field)| to.copy_from_slice(&field.to_le_bytes()));
        self.space.write_blocks(stored.rank_block, &bytes)
    }

    /// It was written to: first in its list.
    pub(super) fn rank_written(&mut self, id: u64) -> io::Result<()> {
        let now = self.clock.now();
        let Some(stored) = self.entries.get_mut(&id).filter(|stored| !stored.doomed) else { return Ok(()) };
        stored.rank = self.ranks.written(id, stored.rank, now);
        self.write_rank(id)?;
        self.space.write_index(None, id as u32)
    }

    pub fn flush(&mut self) -> Result<(), BackendError> {
        self.space.flush().map_err(failed)
    }
}

impl BlockRun {
    /// Bytes of all its blocks.
    pub fn block_bytes(&self) -> u64 {
        self.class.block_bytes() * u64::from(self.count)
    }
}
