//! What Dámelo is opened with.

use std::time::Duration;

use super::layout::DameloLayout;
use super::limits::LEAST_POOL_FRAMES;
use crate::device::elevator::Order;
use crate::layout::Stamp;
use crate::memory::limits::share;
use crate::memory::machine;

/// Who says which groups are loved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affection {
    /// The engine: two creates in a row love a group, and one that goes quiet is hated (section 3).
    ByUse,
    /// Whoever uses it; all groups are loved at first.
    Told,
}

/// When deletes are applied to a page in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaning {
    /// By the engine's thread, into a second frame that then takes the place of the first (section 6): no reader waits.
    Background,
    /// When a page is read in or written out, as in section 4: whoever waits for that page waits for it.
    WithRequests,
}

/// What Dámelo is opened with.
#[derive(Clone, Copy, Debug)]
pub struct DameloOptions {
    /// How the disk is cut.
    pub layout: DameloLayout,
    /// Seeds the checksums.
    pub stamp: Stamp,
    /// Memory for frames. At least four of each size are there.
    pub pool_bytes: u64,
    /// In which order the disk is asked.
    pub order: Order,
    /// How many requests the disk is given at once.
    pub depth: usize,
    /// Whether an object's group is that of its site, and not the one it was said to be related to.
    pub by_site: bool,
    /// Who says which groups are loved.
    pub affection: Affection,
    /// When deletes are applied.
    pub cleaning: Cleaning,
    /// Whether the engine has a thread. Without, whoever uses it calls [`super::Damelo::work`].
    pub threads: bool,
    /// How often all groups are checkpointed without being asked; `None` for never.
    pub flush_every: Option<Duration>,
    /// Nothing is written; appends are refused.
    pub read_only: bool,
}

impl DameloOptions {
    /// The paper's file system over a disk that is cut so, but for what it left out: with the two-way elevator, and with
    /// deletes applied in the background.
    pub fn of(layout: DameloLayout, stamp: Stamp) -> Self {
        DameloOptions {
            layout,
            stamp,
            pool_bytes: Self::default_pool_bytes(&layout),
            order: Order::TwoWay,
            depth: 1,
            by_site: false,
            affection: Affection::ByUse,
            cleaning: Cleaning::Background,
            threads: true,
            flush_every: None,
            read_only: false,
        }
    }

    /// A sixteenth of the memory that there is, 4 MiB to the paper's 128 MiB, and not more than an eighth of the disk.
    pub fn default_pool_bytes(layout: &DameloLayout) -> u64 {
        let of_memory = share(machine::memory_bytes(), 4 << 20, 128 << 20) as u64;
        of_memory.min(layout.frames_bytes() / 8)
    }

    /// Frames of each size that memory has room for: ordinary ones and large ones. These have a quarter of it.
    pub fn pool_frames(&self) -> [usize; 2] {
        let [ordinary, large] = [self.layout.ordinary, self.layout.large];
        let for_large = if large.groups == 0 { 0 } else { self.pool_bytes / 4 };
        let frames = |bytes: u64, frame_bytes: u32| {
            (bytes.checked_div(u64::from(frame_bytes)).unwrap_or(0) as usize).max(LEAST_POOL_FRAMES)
        };
        let large = if large.groups == 0 { 0 } else { frames(for_large, large.frame_bytes) };
        [frames(self.pool_bytes - for_large, ordinary.frame_bytes), large]
    }
}
