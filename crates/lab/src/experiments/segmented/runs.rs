//! Caches that are compared, each on a disk of its own.

use tinaja_store::device::wrap::Detail;
use tinaja_store::{Settings, engines};

use crate::browser::Event;
use crate::error::LabError;
use crate::replay::{Disk, DiskKind, Replayed, Stand, replay};
use crate::rig::{EmmcModel, PAGE, PageCacheOptions};
use crate::rival::{Ages, BlockfileOptions};

/// A cache that is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cache {
    /// The in-place cache of block files.
    Rival(Ages),
    /// Segments, straight on the disk as the engine works, keeping so many bytes in a hundred of what it would evict.
    Segments(u8),
    /// Segments behind the page cache that the rival has.
    SegmentsBehindPages,
}

/// What came of it.
pub struct Run {
    pub cache: Cache,
    pub replayed: Replayed,
    pub detail: Detail,
    /// How long a modelled disk was at work, in seconds, and how often it merged.
    pub worked: Option<(f64, u64)>,
}

impl Cache {
    pub fn name(self) -> String {
        match self {
            Cache::Rival(Ages::Ignored) => "rival".into(),
            Cache::Rival(Ages::ByTheClock) => "rival, by ages too".into(),
            Cache::Segments(0) => "segmented".into(),
            Cache::Segments(percent) => format!("segmented, keeping {percent} %"),
            Cache::SegmentsBehindPages => "segmented, page cache".into(),
        }
    }

    /// Replay a trace on an empty one of so many bytes. The page cache, where there is one, has an eighth of that.
    pub fn run(self, bytes: u64, place: &DiskKind, events: &[Event]) -> Result<Run, LabError> {
        let pages = Some(PageCacheOptions { clean_pages: (bytes / 8) as usize / PAGE, ..PageCacheOptions::phone() });
        let disk = |page_cache| Disk { place: place.clone(), page_cache };
        let segments = |keep_percent: u8, page_cache| {
            let settings = Settings::new().with(&engines::KEEP, keep_percent.into());
            Stand::engine(engines::SEGMENTED, &settings, bytes, &disk(page_cache))
        };
        let stand = match self {
            Cache::Rival(ages) => Stand::rival(BlockfileOptions { bytes, ages }, &disk(pages)),
            Cache::Segments(percent) => segments(percent, None),
            Cache::SegmentsBehindPages => segments(0, pages),
        }?;
        let replayed = replay(&stand, events)?;
        let worked = stand.worked().map(|(busy, merges)| (busy.as_secs_f64(), merges));
        Ok(Run { cache: self, replayed, detail: stand.detail(), worked })
    }
}

impl Run {
    /// Bytes written to the disk for each that was given to the cache.
    pub fn amplification(&self) -> f64 {
        self.detail.writes.bytes as f64 / self.replayed.written_bytes.max(1) as f64
    }

    /// The share of writes that are smaller than this, which must be a power of two.
    pub fn writes_below(&self, bytes: u64) -> f64 {
        let classes = bytes.max(1).ilog2() as usize;
        let small: u64 = self.detail.writes.sizes.iter().take(classes).sum();
        small as f64 / self.detail.writes.requests.max(1) as f64
    }
}

/// The modelled phone.
pub fn phone() -> DiskKind {
    DiskKind::Emmc(EmmcModel::phone())
}
