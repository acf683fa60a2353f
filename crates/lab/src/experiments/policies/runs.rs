//! Each policy on each load and disk.

use tinaja_store::replace::generations::{Parts, Shape, Value};

use super::loads::Load;
use crate::policies::{Generational, Outcome, REFERENCES, Replay, Settings, replay};

/// The engine's policy, or that with something switched off.
pub struct Variant {
    /// As tables name it.
    pub name: &'static str,
    settings: fn() -> Settings,
    /// Segments may be as small as this.
    least_segment_bytes: u64,
}

/// The smallest segment that the layout of a log has.
const LEAST_SEGMENT: u64 = 256 << 10;
/// A smaller one.
const SMALLER_SEGMENT: u64 = 64 << 10;
/// Segments of a disk, at least.
const SEGMENTS: u64 = 64;

const fn variant(name: &'static str, settings: fn() -> Settings) -> Variant {
    Variant { name, settings, least_segment_bytes: LEAST_SEGMENT }
}

fn with(parts: Parts) -> Settings {
    Settings { parts, ..Settings::default() }
}

fn shaped([classes, generations, large, large_generations]: [usize; 4]) -> Settings {
    let shape = Shape { classes, generations, large, large_generations };
    with(Parts { shape: Some(shape), ..Parts::default() })
}

/// The first is the policy as it ships.
pub const VARIANTS: [Variant; 12] = [
    variant("ours", Settings::default),
    Variant { name: "segments from 64 KiB on", least_segment_bytes: SMALLER_SEGMENT, ..variant("", Settings::default) },
    variant("without classes", || shaped([1, 2, 2, 2])),
    variant("without generations", || shaped([4, 1, 2, 1])),
    variant("large objects in one log", || shaped([4, 2, 1, 1])),
    variant("without learned worth", || with(Parts { learns: false, ..Parts::default() })),
    variant("without tokens", || with(Parts { tokens: 0.0, ..Parts::default() })),
    variant("without ghosts", || with(Parts { ghosts: false, ..Parts::default() })),
    variant("3 classes, 2 generations", || shaped([3, 2, 2, 2])),
    variant("5 classes, 4 generations", || shaped([5, 4, 4, 2])),
    variant("value = balanced", || Settings { value: Value::Balanced, ..Settings::default() }),
    variant("value = bytes", || Settings { value: Value::Bytes, ..Settings::default() }),
];

impl Variant {
    fn replay(&self, load: &Load, disk_bytes: u64, how: Replay) -> Option<Outcome> {
        let mut settings = (self.settings)();
        if self.least_segment_bytes < LEAST_SEGMENT && disk_bytes < SEGMENTS * 2 * LEAST_SEGMENT {
            let segment = (disk_bytes / SEGMENTS).max(1);
            settings.segment_bytes = Some((1 << segment.ilog2()).clamp(self.least_segment_bytes, LEAST_SEGMENT));
        }
        let mut policy = Generational::new(disk_bytes, settings)?;
        Some(replay(&load.sequence, &mut policy, how))
    }
}

/// One load on a disk of one size.
pub struct Run<'a> {
    pub load: &'a Load,
    /// The disk as a part of the footprint, and in bytes.
    pub part: f64,
    pub disk_bytes: u64,
    /// By [`REFERENCES`].
    pub references: Vec<Outcome>,
    /// By [`VARIANTS`]; nothing where the disk is too small for it.
    pub variants: Vec<Option<Outcome>>,
}

impl Run<'_> {
    pub fn of(load: &Load, part: f64) -> Run<'_> {
        let disk_bytes = (load.sequence.bytes as f64 * part) as u64;
        let how = Replay::default();
        let references = REFERENCES.iter().map(|policy| replay(&load.sequence, &mut *(policy.new)(disk_bytes), how));
        let variants = VARIANTS.iter().map(|variant| variant.replay(load, disk_bytes, how));
        Run { load, part, disk_bytes, references: references.collect(), variants: variants.collect() }
    }

    /// What a reference made of it.
    pub fn reference(&self, name: &str) -> Option<&Outcome> {
        REFERENCES.iter().zip(&self.references).find(|(policy, _)| policy.name == name).map(|(_, outcome)| outcome)
    }

    /// What the policy as it ships made of it.
    pub fn ours(&self) -> Option<&Outcome> {
        self.variants.first()?.as_ref()
    }
}

/// Hits over time, on a disk of a tenth of the footprint.
pub struct OverTime {
    pub title: String,
    /// Requests of a part.
    pub part: usize,
    /// Policies by name, with their hits of each part.
    pub hits: Vec<(&'static str, Vec<f64>)>,
}

/// See [`OverTime`].
const PARTS: usize = 20;
const BESIDE: [&str; 3] = ["FIFO", "S3-FIFO", "GDSF"];

pub fn over_time(load: &Load) -> OverTime {
    let (disk_bytes, how) = (load.sequence.bytes / 10, Replay { warm_up: 0, parts: PARTS });
    let beside = REFERENCES.iter().filter(|policy| BESIDE.contains(&policy.name));
    let beside =
        beside.map(|policy| (policy.name, replay(&load.sequence, &mut *(policy.new)(disk_bytes), how).over_time));
    let ours =
        VARIANTS.iter().take(1).filter_map(|ours| Some((ours.name, ours.replay(load, disk_bytes, how)?.over_time)));
    let hits = beside.chain(ours).collect();
    OverTime { title: load.title(), part: load.sequence.asked.len().div_ceil(PARTS), hits }
}
