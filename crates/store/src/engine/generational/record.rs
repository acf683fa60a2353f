//! The record of the engine.

use std::sync::Arc;

use super::engine::Generational;
use super::format::Format;
use super::options::{GenerationalOptions, Plan, entries_within, index_bytes};
use crate::engine::registry::{Ask, Cut, EngineRecord, Ground, OnDevice, Opening};
use crate::engine::segments::figures::{
    CLEANED_SEGMENTS, EVICTED_OBJECTS, INDEX_DISK_BYTES, INDEX_READS, KEPT_BYTES, PASSED_OVER_SEGMENTS,
    RETURNED_OBJECTS, SNAPSHOT_BYTES,
};
use crate::engine::{Engine, Setting, Settings, Takes, none_wrong};
use crate::index::limits::MAX_SLOTS;
use crate::layout::LogSection;
use crate::replace::generations::Value;
use crate::terms::Stats;

/// How the index lies on the disk: 3, or 1 or 2 in caches from before (`docs/formats/generational.md`). No flag: a new cache has the newest.
pub static FORMAT: Setting = Setting {
    name: "format",
    takes: Takes::Number { least: 1, most: Format::NEWEST as u64 },
    value_name: "",
    help: "",
    lasts: true,
    made_with: "an index of format",
    unit: "",
    missing: "has no index of several formats",
    out_of_range: "there is no format {} of this engine's index",
    nothing: Some(Format::NEWEST as u64),
};

/// Index entries: the memory of hot objects is the index's as well. No flag: the store sets it by that memory. Where there is a cache
/// already, it has as many as it was made with, whatever is said.
pub static INDEX_ENTRIES: Setting = Setting {
    name: "index-entries",
    takes: Takes::Number { least: 1, most: MAX_SLOTS },
    value_name: "",
    help: "",
    lasts: false,
    made_with: "an index for",
    unit: "objects",
    missing: "has no index that shares the memory of hot objects",
    out_of_range: "",
    nothing: None,
};

/// Bytes of memory for the index, which lies on the disk then: what has changed, a filter, and copies of what was asked for. Without it all
/// of the index is in memory. Nothing on the disk depends on it, so a cache may be opened with more or less at any time.
pub static INDEX_MEMORY: Setting = Setting {
    name: "index-memory",
    takes: Takes::Bytes,
    value_name: "",
    help: "",
    lasts: false,
    made_with: "",
    unit: "bytes",
    missing: "has no index of which a part can be in memory",
    out_of_range: "",
    nothing: None,
};

/// What a hit counts where it is decided what leaves: a hit as such, its bytes, or between the two. Nothing on the disk depends on it.
pub static VALUE: Setting = Setting {
    name: "value",
    takes: Takes::OneOf(&["objects", "bytes", "balanced"]),
    value_name: "WHAT",
    help: "What to find as much of as possible: objects, where each hit counts the same, bytes, where it counts its bytes, or balanced, between the two \
           (default objects)",
    lasts: false,
    made_with: "",
    unit: "",
    missing: "does not weigh what it evicts, so it finds neither more objects nor more bytes",
    out_of_range: "",
    nothing: Some(0),
};

/// The values of [`VALUE`], as it has their words.
const VALUES: [Value; 3] = [Value::Objects, Value::Bytes, Value::Balanced];

/// Logs by size and generation: what leaves is what is worth least.
pub static GENERATIONAL: EngineRecord = EngineRecord {
    name: "generational",
    about: "46 bits of memory per object, or as few as there are; evicts what is worth least by size, age and popularity, for the most hits",
    settings: &[&FORMAT, &INDEX_ENTRIES, &INDEX_MEMORY, &VALUE],
    counts_objects: true,
    wrong: none_wrong,
    figures: &[
        &CLEANED_SEGMENTS,
        &PASSED_OVER_SEGMENTS,
        &EVICTED_OBJECTS,
        &RETURNED_OBJECTS,
        &KEPT_BYTES,
        &SNAPSHOT_BYTES,
        &INDEX_DISK_BYTES,
        &INDEX_READS,
    ],
    inspect,
    ground: Ground::Device(OnDevice {
        names: &[
            ("generational", &[(&FORMAT, Format::OneSet as u64)]),
            ("generational-2", &[(&FORMAT, Format::TwoSets as u64)]),
            ("generational-3", &[(&FORMAT, Format::SmallPages as u64)]),
        ],
        made_with: |section| match LogSection::read(section) {
            Some(section) => Settings::new().with(&INDEX_ENTRIES, section.slots),
            None => Settings::new(),
        },
        cut: |ask| boxed(GenerationalOptions::plan(&plan(ask))),
        cut_before: |section, ask| {
            let LogSection { log, slots, mean_object_bytes, .. } = LogSection::decode(section, ask.bytes)?;
            boxed(GenerationalOptions::of(log, slots, &Plan { mean_object_bytes, ..plan(ask) }))
        },
    }),
};

/// How many slots there are for each object that has room, and what would give more.
fn inspect(stats: &Stats) -> String {
    let Stats { mean_object_bytes, slots, capacity_bytes, .. } = *stats;
    let each = slots as f64 * mean_object_bytes as f64 / capacity_bytes.max(1) as f64;
    let most = entries_within(0, capacity_bytes, mean_object_bytes);
    let more = if slots < most / 10 * 9 {
        // Three quarters of it are for the index.
        let mib = (index_bytes(most) as f64 * 4.0 / 3.0 / f64::from(1 << 20)).ceil();
        format!(" (4 would keep small objects longer: set memory to {mib}MiB, then `tinaja resize`)")
    } else {
        String::new()
    };
    format!(": {each:.1} for each that there is room for{more}")
}

fn plan(ask: &Ask<'_>) -> Plan {
    let Ask { bytes, reserved, mean_object_bytes, stamp, settings } = *ask;
    let format = settings.get(&FORMAT).and_then(Format::of).unwrap_or(Format::NEWEST);
    let value = settings.get(&VALUE).and_then(|value| VALUES.get(usize::try_from(value).ok()?).copied());
    let (value, entries) = (value.unwrap_or_default(), settings.get(&INDEX_ENTRIES));
    let index_memory = settings.get(&INDEX_MEMORY);
    Plan { bytes, reserved, mean_object_bytes, stamp, format, entries, value, index_memory }
}

fn boxed(plan: Option<GenerationalOptions>) -> Option<Box<dyn Cut>> {
    Some(Box::new(plan?))
}

impl Cut for GenerationalOptions {
    fn end(&self) -> u64 {
        self.layout.base + self.layout.log_bytes()
    }

    fn mean_object_bytes(&self) -> u64 {
        self.mean_object_bytes
    }

    fn made_with(&self) -> Settings {
        Settings::new().with(&FORMAT, self.format as u64).with(&INDEX_ENTRIES, self.slots)
    }

    fn section(&self) -> Vec<u8> {
        LogSection::of(self.layout, self.slots, self.mean_object_bytes).encode()
    }

    fn open_unguarded(&self, opening: Opening) -> Result<Arc<dyn Engine>, String> {
        let Opening { device, flush_every, read_only, .. } = opening;
        Ok(Arc::new(Generational::open(device, &GenerationalOptions { flush_every, read_only, ..*self })?))
    }
}
