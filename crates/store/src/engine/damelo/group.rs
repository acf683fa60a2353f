//! A group: its objects, its pages, its frames on the disk.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::journal::{Entries, PageEntry};
use super::layout::Class;
use super::limits::UNRECORDED_LIVES;
use super::table::{Spot, Table};
use crate::replace::lru::Lru;
use crate::terms::Digest;

/// Pages in memory that may have room for the next object, at most: the others are found again when they are read.
const MOST_OPEN: usize = 8;

/// A full table is swept when one in so many of its entries is stale, so that a sweep makes room for many.
const SWEPT_SHARE: usize = 16;

/// A page of a group, in memory or not. Some 100 bytes each.
#[derive(Default)]
pub struct Page {
    /// How often it was begun; 0 for never.
    pub life: u64,
    /// No life after this one was begun that the disk has not heard of, but for those since it did.
    pub floor: u64,
    /// Whether it has a life now.
    pub is_used: bool,
    /// Whether nothing more is put on it: the process that filled it did not end as it should.
    pub is_sealed: bool,
    /// Whether it comes from a checkpoint and was not looked at since: what of it is to be deleted is not known.
    pub is_restored: bool,
    /// Where it was written last.
    pub frame: Option<u32>,
    /// What the last checkpoint says, or the one on its way: frame and slots.
    pub durable: Option<(u32, u32)>,
    /// Slots that were in use when it was last sent to the disk.
    pub sent: u32,
    /// Objects that the table has there.
    pub live: u32,
    /// Parts of large objects there.
    pub extents: u32,
    /// Its number in the order of use.
    pub order: Option<u32>,
}

/// Of a page that was written: what a checkpoint says of it once a sync has made it last.
pub struct Written {
    /// When the write was begun, counted over all groups.
    pub moment: u64,
    /// What is said.
    pub entry: PageEntry,
    /// The frame that it was written to.
    pub frame: u32,
}

/// What the next checkpoint has to say.
#[derive(Default)]
pub struct Pending {
    /// Pages that were written.
    pub written: Vec<Written>,
    /// Pages that were evicted, and in which life.
    pub dropped: Vec<(u32, u64)>,
    /// Versions that are void.
    pub removed: Vec<Removal>,
}

/// Whatever there was of an object before this number is void.
#[derive(Clone, Copy, Debug)]
pub struct Removal {
    /// The object.
    pub id: Digest,
    /// The number of what made it so.
    pub number: u64,
    /// The group that has, or had, a newer version, if it was that: its journal says it too, for as long as this group's does not.
    pub by: Option<u32>,
}

impl Pending {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && !self.is_less()
    }

    /// Whether something is not there any more that the disk has.
    pub fn is_less(&self) -> bool {
        !self.dropped.is_empty() || !self.removed.is_empty()
    }
}

/// Where a group's checkpoints are.
#[derive(Clone, Copy, Debug, Default)]
pub struct JournalAt {
    /// Which of the two areas is the last.
    pub area: u32,
    /// Its generation.
    pub generation: u64,
    /// Where the next block goes.
    pub used_bytes: u64,
    /// Its number.
    pub next: u32,
    /// Where the other area is to be told that it is not the last any more.
    pub untold: Option<(u64, u32, u64)>,
    /// Generations to pass over with the next full checkpoint.
    pub skipped: u64,
    /// Whether a new full checkpoint is due: there is none, or one of its blocks could not be written.
    pub is_tainted: bool,
}

/// A group. Memory: 43 bytes for each object that it may hold, about 100 for each page, one for each frame.
pub struct Group {
    /// Digest -> (page, slot).
    pub table: Table,
    /// Pages.
    pub pages: Vec<Page>,
    /// Pages in order of use, for what is evicted when the disk is full.
    order: Lru<u32>,
    free_pages: VecDeque<u32>,
    free_frames: BTreeSet<u32>,
    /// How many want each frame as it is.
    holds: Vec<u8>,
    /// Frames of older versions, to be let go of when a checkpoint has been written that does not name them.
    pub superseded: Vec<u32>,
    /// Pages in memory that may have room.
    pub open: Vec<u32>,
    /// The one of them that the last object was put on.
    pub filling: Option<u32>,
    /// Deletes not applied yet (section 4), by page.
    pub deletes: HashMap<u32, Vec<u16>>,
    /// Whether its pages leave memory last.
    pub loved: bool,
    /// When it was used, counted in uses of all groups.
    pub used: u64,
    /// How often it is checkpointed, if that was said; zero for never.
    pub period: Option<Duration>,
    /// When it was.
    pub checkpointed: Instant,
    /// What the next checkpoint has to say.
    pub pending: Pending,
    /// Where checkpoints are.
    pub journal: JournalAt,
    /// Objects that lookups find.
    live: u64,
    /// Stale entries of the table.
    stale: usize,
    last_life: u64,
}

impl Group {
    /// A group without objects.
    pub fn new(class: &Class, last_life: u64, now: Instant) -> Self {
        Group {
            table: Table::new(class.objects as usize),
            pages: (0..class.frames).map(|_| Page::default()).collect(),
            order: Lru::default(),
            free_pages: (0..class.frames).collect(),
            free_frames: (0..class.frames).collect(),
            holds: vec![0; class.frames as usize],
            superseded: Vec::new(),
            open: Vec::new(),
            filling: None,
            deletes: HashMap::new(),
            loved: true,
            used: 0,
            period: None,
            checkpointed: now,
            pending: Pending::default(),
            journal: JournalAt { area: 1, is_tainted: true, ..JournalAt::default() },
            live: 0,
            stale: 0,
            last_life,
        }
    }

    /// A page.
    pub fn page(&self, page: u32) -> Option<&Page> {
        self.pages.get(page as usize)
    }

    /// A page, to be changed.
    pub fn page_mut(&mut self, page: u32) -> Option<&mut Page> {
        self.pages.get_mut(page as usize)
    }

    /// Whether what an entry of the table says still holds.
    pub fn is_current(&self, spot: &Spot) -> bool {
        self.page(spot.page).is_some_and(|page| page.is_used && page.life as u16 == spot.life)
    }

    /// Where an object lies.
    pub fn find(&self, id: &Digest) -> Option<Spot> {
        self.table.get(id).filter(|spot| self.is_current(spot))
    }

    /// Say where an object lies, for which the table must have room: [`Group::has_room`]. Returns where it lay.
    pub fn enter(&mut self, id: Digest, spot: Spot) -> Option<Spot> {
        let before = self.table.insert(id, spot);
        let current = before.filter(|before| self.is_current(before));
        if before.is_some() && current.is_none() {
            self.stale = self.stale.saturating_sub(1);
        }
        if let Some(page) = self.page_mut(spot.page) {
            page.live += 1;
            self.live += 1;
        }
        self.left(current);
        current
    }

    /// Forget where an object lies. Returns where it lay.
    pub fn forget(&mut self, id: &Digest) -> Option<Spot> {
        let before = self.find(id)?;
        self.table.remove(id);
        self.left(Some(before));
        Some(before)
    }

    fn left(&mut self, spot: Option<Spot>) {
        if let Some(page) = spot.and_then(|spot| self.page_mut(spot.page)) {
            page.live = page.live.saturating_sub(1);
            self.live = self.live.saturating_sub(1);
        }
    }

    /// Whether the table takes one more object. Stale entries are swept out when there are many of them, or if `at_once`.
    pub fn has_room(&mut self, at_once: bool) -> bool {
        let worth_it = if at_once { 1 } else { self.table.most() / SWEPT_SHARE };
        if self.table.is_full() && self.stale >= worth_it.max(1) {
            let pages = &self.pages;
            self.table.sweep(|spot| {
                pages.get(spot.page as usize).is_some_and(|page| page.is_used && page.life as u16 == spot.life)
            });
            self.stale = 0;
        }
        !self.table.is_full()
    }

    /// Objects that lookups find.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// The page was used.
    pub fn touch(&mut self, page: u32) {
        if let Some(order) = self.page(page).and_then(|page| page.order) {
            self.order.touch(order);
        }
    }

    /// Pages, the least recently used first.
    pub fn oldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.order.oldest_first().map(|(_, page)| *page)
    }

    /// Begin a page that is free. `None` if none is, or if none may be begun before the disk has heard of its lives so far.
    pub fn begin(&mut self) -> Option<u32> {
        for _ in 0..self.free_pages.len() {
            let page = self.free_pages.pop_front()?;
            let last_life = self.last_life;
            let Some(begun) = self.page_mut(page) else { continue };
            let life = begun.life.max(begun.floor) + 1;
            if life > last_life {
                // Its places are used up.
                continue;
            }
            if life - begun.floor >= UNRECORDED_LIVES {
                self.free_pages.push_back(page);
                continue;
            }
            *begun = Page { life, floor: begun.floor, is_used: true, ..Page::default() };
            self.enlist(page);
            return Some(page);
        }
        None
    }

    /// Put a page that is used at the end of the order of use.
    fn enlist(&mut self, page: u32) {
        let order = self.order.insert(page);
        if let Some(page) = self.page_mut(page) {
            page.order = Some(order);
        }
    }

    /// Take a page as a checkpoint says that it is.
    pub fn restore(&mut self, page: u32, restored: Page) {
        let is_used = restored.is_used;
        if let Some(frame) = restored.frame {
            // As it was written, and as the checkpoint has it.
            self.hold(frame);
            self.hold(frame);
        }
        if let Some(old) = self.page_mut(page) {
            *old = restored;
        }
        if is_used {
            self.enlist(page);
        }
    }

    /// All pages that are there were restored: the others are free.
    pub fn restored(&mut self) {
        let free = |(number, page): (usize, &Page)| (!page.is_used).then_some(number as u32);
        self.free_pages = self.pages.iter().enumerate().filter_map(free).collect();
    }

    /// Evict a page, with all that lies there.
    pub fn drop_page(&mut self, page: u32) {
        let Some(dropped) = self.page_mut(page).filter(|page| page.is_used) else { return };
        let (live, life, order) = (dropped.live, dropped.life, dropped.order.take());
        let frames = [dropped.frame.take(), dropped.durable.take().map(|(frame, _)| frame)];
        dropped.is_used = false;
        (dropped.live, dropped.extents) = (0, 0);
        self.stale += live as usize;
        self.live = self.live.saturating_sub(u64::from(live));
        frames.into_iter().flatten().for_each(|frame| self.let_go(frame));
        order.map(|order| self.order.remove(order));
        self.open.retain(|open| *open != page);
        self.deletes.remove(&page);
        let mut frames = Vec::new();
        self.pending.written.retain(|written| {
            let stays = written.entry.page != page;
            if !stays {
                frames.push(written.frame);
            }
            stays
        });
        frames.into_iter().for_each(|frame| self.let_go(frame));
        self.pending.dropped.push((page, life));
        self.free_pages.push_back(page);
    }

    /// A frame of the disk that nobody wants any more, near the one that the group used last.
    pub fn take_frame(&mut self) -> Option<u32> {
        let frame = self.free_frames.pop_first()?;
        self.hold(frame);
        Some(frame)
    }

    /// Whether a checkpoint is due for its own sake: few frames are free, and many hold what one would let go of.
    pub fn wants_checkpoint(&self) -> bool {
        let frames = self.pages.len();
        self.free_frames.len() * 8 < frames && self.pending.written.len() * 16 > frames
    }

    /// One more wants a frame as it is.
    pub fn hold(&mut self, frame: u32) {
        self.free_frames.remove(&frame);
        if let Some(holds) = self.holds.get_mut(frame as usize) {
            *holds = holds.saturating_add(1);
        }
    }

    /// One less does. With nobody left it is free.
    pub fn let_go(&mut self, frame: u32) {
        if let Some(holds) = self.holds.get_mut(frame as usize).filter(|holds| **holds > 0) {
            *holds -= 1;
            if *holds == 0 {
                self.free_frames.insert(frame);
            }
        }
    }

    /// A page in memory may have room.
    pub fn opened(&mut self, page: u32) {
        if self.page(page).is_some_and(|page| page.is_used && !page.is_sealed) && !self.open.contains(&page) {
            if self.open.len() >= MOST_OPEN {
                self.open.remove(0);
            }
            self.open.push(page);
        }
    }

    /// Delete what lies in a slot, some time.
    pub fn delete(&mut self, page: u32, slot: u16) {
        self.deletes.entry(page).or_default().push(slot);
    }

    /// Whether a slot is to be deleted.
    pub fn is_deleted(&self, page: u32, slot: u16) -> bool {
        self.deletes.get(&page).is_some_and(|slots| slots.contains(&slot))
    }

    /// All that a full checkpoint says, as far as a sync has made it last.
    pub fn full(&self, epoch: u32, more: impl Fn(u32) -> Vec<(u16, u64, Digest)>) -> Entries {
        let mut of_page: HashMap<u32, Vec<(u16, u64, Digest)>> = HashMap::new();
        for (_, id, spot) in self.table.from(0) {
            let slots = self.page(spot.page).and_then(|page| page.durable).map_or(0, |(_, slots)| slots);
            if self.is_current(&spot) && u32::from(spot.slot) < slots {
                of_page.entry(spot.page).or_default().push((spot.slot, spot.number, *id));
            }
        }
        let mut entries = Entries::default();
        for (number, page) in self.pages.iter().enumerate().filter(|(_, page)| page.life.max(page.floor) > 0) {
            let number = number as u32;
            let mut objects = of_page.remove(&number).unwrap_or_default();
            let (frame, slots) = page.durable.map_or((None, 0), |(frame, slots)| (Some(frame), slots));
            if frame.is_some() {
                objects.extend(more(number).into_iter().filter(|(slot, ..)| u32::from(*slot) < slots));
            }
            let (life, floor, extents) = (page.life, page.floor.max(page.life), page.extents);
            entries.page(&PageEntry { page: number, life, floor, epoch, frame, slots, extents, objects });
        }
        entries
    }
}
