//! What the parts of the engine share: groups, pages in memory, and what is to be done once the lock is let go of.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Waker;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::group::{Group, Removal};
use super::layout::{At, Slot};
use super::limits::{FRAME_PATIENCE, PINNED_SHARE};
use super::options::DameloOptions;
use super::pool::Pool;
use super::rounds::{Ask, Round};
use crate::device::{Device, Op};
use crate::engine::FetchDone;
use crate::layout::health::Health;
use crate::memory::AlignedBuf;
use crate::replace::lru::Lru;
use crate::terms::Digest;

/// The engine.
pub struct Inner {
    pub options: DameloOptions,
    /// The disk, behind its queue.
    pub device: Arc<dyn Device>,
    /// Frames in memory, ordinary and large ones.
    pub pools: [Arc<Pool<AlignedBuf>>; 2],
    pub state: Mutex<State>,
    pub counts: Counts,
    pub signal: Arc<Signal>,
}

/// What is counted.
#[derive(Default)]
pub struct Counts {
    pub pages_read: AtomicU64,
    pub pages_written: AtomicU64,
    pub evicted_pages: AtomicU64,
    pub compacted_pages: AtomicU64,
    pub compacted_bytes: AtomicU64,
    pub compaction_waits: AtomicU64,
    pub checkpoints: AtomicU64,
    pub copied_reads: AtomicU64,
    pub false_reads: AtomicU64,
    pub corrupt: AtomicU64,
    pub damaged_at_open: AtomicU64,
    pub read_errors: AtomicU64,
    pub write_errors: AtomicU64,
    pub sync_errors: AtomicU64,
}

/// Wakes the engine's thread.
#[derive(Default)]
pub struct Signal {
    pub is_set: Mutex<bool>,
    pub changed: Condvar,
}

impl Signal {
    /// Something is due.
    pub fn set(&self) {
        *self.is_set.lock() = true;
        self.changed.notify_all();
    }
}

/// All that one lock guards. It is held for memory work only.
pub struct State {
    pub groups: Vec<Group>,
    /// Pages in memory, in ordinary and in large frames.
    pub residents: [Residents; 2],
    /// Of the last change.
    pub number: u64,
    /// Of the last write that was begun.
    pub moment: u64,
    /// How often the cache was opened after a crash.
    pub epoch: u32,
    /// Versions that the disk has and that were replaced by one that it may not have yet.
    pub shadows: HashMap<At, Vec<Shadow>>,
    pub shadow_count: usize,
    /// The checkpoint on its way, and who asks for the next.
    pub round: Option<Round>,
    pub asked: Option<Ask>,
    /// When all groups were checkpointed.
    pub flushed: Instant,
    /// What failed since somebody was last told.
    pub failed: Option<String>,
    pub health: Health,
    pub closed: bool,
    /// Uses of all groups, and which one the last create was in.
    pub uses: u64,
    pub last_created: Option<u32>,
}

/// A version that was replaced. It is in no table and may come back after a crash, if the one that replaced it does not.
pub struct Shadow {
    pub id: Digest,
    pub slot: u16,
    pub number: u64,
    /// When it was replaced.
    pub moment: u64,
    /// The number of what replaced it.
    pub by: u64,
    /// The group which that is in. If it is another one, this version stays on its page until that lasts.
    pub by_group: u32,
}

impl Shadow {
    /// That this version is void, to be said by the group that has it.
    pub fn removal(&self) -> Removal {
        Removal { id: self.id, number: self.by, by: Some(self.by_group) }
    }
}

/// How a shadow ends.
pub enum Fate {
    /// It does not yet.
    Stays,
    /// Its group's journal has heard that it is void.
    Told,
    /// Its group's journal is to hear so.
    Void(Removal),
}

impl State {
    /// End shadows, as `fate` says of each.
    pub fn end_shadows(&mut self, fate: impl Fn(&At, &Shadow) -> Fate) {
        let State { shadows, groups, shadow_count, .. } = self;
        for (at, of_page) in shadows.iter_mut() {
            let Some(group) = groups.get_mut(at.group as usize) else { continue };
            let before = of_page.len();
            of_page.retain(|shadow| match fate(at, shadow) {
                Fate::Stays => true,
                Fate::Told => false,
                Fate::Void(removal) => {
                    // What was replaced in its own group leaves its page already.
                    if shadow.by_group != at.group {
                        group.delete(at.page, shadow.slot);
                    }
                    group.pending.removed.push(removal);
                    false
                }
            });
            *shadow_count -= before - of_page.len();
        }
        shadows.retain(|_, of_page| !of_page.is_empty());
    }
}

/// Pages in memory.
#[derive(Default)]
pub struct Residents {
    pub pages: HashMap<At, Resident>,
    /// How many are on their way to the disk.
    pub writing: usize,
    /// The order in which they leave.
    pub order: Lru<At>,
    /// Pages to be read that wait for a frame.
    pub wants: VecDeque<At>,
    /// Who waits for a frame to append to.
    pub appends: Vec<Waker>,
    /// Since when nobody who asked for a frame got one.
    pub starved: Option<Instant>,
}

impl Residents {
    /// Whether somebody has waited for a frame for so long that nobody should wait for one.
    pub fn is_starved(&self, now: Instant) -> bool {
        self.starved.is_some_and(|since| now.saturating_duration_since(since) >= FRAME_PATIENCE)
    }

    /// A frame was had.
    pub fn fed(&mut self) {
        self.starved = None;
    }
}

/// A page in memory, or on its way there.
#[derive(Default)]
pub struct Resident {
    /// Its frame; `None` until it has been read.
    pub frame: Option<Arc<AlignedBuf>>,
    pub order: Option<u32>,
    pub is_dirty: bool,
    pub is_writing: bool,
    /// Who waits for it to be read.
    pub waiting: Vec<Waiting>,
    /// Since when it is to be read.
    pub since: Option<Instant>,
}

/// Somebody who waits for a record.
pub struct Waiting {
    pub slot: Slot,
    pub wanted: Wanted,
    pub done: FetchDone,
}

/// Which record is wanted from a slot.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Whose it is to be; `None` for whatever lies there.
    pub id: Option<Digest>,
    /// Whether lookups must find it.
    pub indexed: bool,
    /// Whether one that is to be deleted will do: then it is the page that is wanted in memory.
    pub even_deleted: bool,
}

/// What is to be done outside the lock: a device may complete a request at once, and whoever is told may ask again.
#[derive(Default)]
pub struct Out {
    pub ops: Vec<Op>,
    pub after: Vec<Box<dyn FnOnce() + Send>>,
}

impl Out {
    /// Wake everybody.
    pub fn wake(&mut self, wakers: &mut Vec<Waker>) {
        let wakers = mem::take(wakers);
        if !wakers.is_empty() {
            self.after.push(Box::new(move || wakers.into_iter().for_each(Waker::wake)));
        }
    }
}

/// Pools for these options.
pub fn pools(options: &DameloOptions, signal: &Arc<Signal>) -> [Arc<Pool<AlignedBuf>>; 2] {
    let [ordinary, large] = options.pool_frames();
    let pool = |frames: usize, frame_bytes: u32| {
        let signal = signal.clone();
        let all = (0..frames).map(|_| AlignedBuf::with_own_pages(frame_bytes as usize)).collect();
        Pool::new(all, (frames / PINNED_SHARE).max(1), move || signal.set())
    };
    let layout = &options.layout;
    [pool(ordinary, layout.ordinary.frame_bytes), pool(large, layout.large.frame_bytes.max(4096))]
}

impl Inner {
    /// Of which size a group's frames are: 0 for ordinary ones, 1 for large ones.
    pub fn size_of(&self, group: u32) -> usize {
        usize::from(group >= self.options.layout.ordinary.groups)
    }

    /// Where a frame of a group's lies on the disk.
    pub fn frame_at(&self, group: u32, frame: u32) -> u64 {
        let class = self.options.layout.class_of(group);
        let first = self.options.layout.group_at(group) + 2 * class.area_bytes;
        first + u64::from(frame) * u64::from(class.frame_bytes)
    }

    /// The frames in memory of one size.
    pub fn pool(&self, size: usize) -> &Arc<Pool<AlignedBuf>> {
        let [ordinary, large] = &self.pools;
        if size == 0 { ordinary } else { large }
    }

    /// Do what was left for outside the lock.
    pub fn carry_out(&self, out: Out) {
        out.ops.into_iter().for_each(|op| self.device.submit(op));
        out.after.into_iter().for_each(|then| then());
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.device.clock().now()
    }
}

impl State {
    /// A group.
    pub fn group(&mut self, group: u32) -> Option<&mut Group> {
        self.groups.get_mut(group as usize)
    }

    /// The pages in memory in frames of one size.
    pub fn residents(&mut self, size: usize) -> &mut Residents {
        let [ordinary, large] = &mut self.residents;
        if size == 0 { ordinary } else { large }
    }

    /// A group was used, at its page: in the order in which pages leave memory it comes last if it is loved and first if it
    /// is hated (section 3), and last in the order in which they leave the disk. The page that is being filled comes last in any
    /// case: written with little on it and begun anew for the next object, it would cost many times as many writes. The thesis does not
    /// speak of it.
    pub fn used(&mut self, size: usize, at: At) {
        let Some(group) = self.group(at.group) else { return };
        group.touch(at.page);
        let stays = group.loved || group.filling == Some(at.page);
        let residents = self.residents(size);
        if let Some(order) = residents.pages.get(&at).and_then(|resident| resident.order) {
            if stays { residents.order.touch(order) } else { residents.order.retire(order) }
        }
    }

    /// An object was put on a page. The one that was filled before it is as any other of its group from now on.
    pub fn filled(&mut self, size: usize, at: At) {
        let before = self.group(at.group).and_then(|group| {
            let before = group.filling.replace(at.page).filter(|page| *page != at.page)?;
            (!group.loved).then_some(At { page: before, ..at })
        });
        self.used(size, at);
        let residents = self.residents(size);
        if let Some(order) = before.and_then(|before| residents.pages.get(&before)?.order) {
            residents.order.retire(order);
        }
    }
}
