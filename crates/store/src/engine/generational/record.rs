//! The record of the engine.

use std::sync::Arc;

use super::engine::Generational;
use super::options::GenerationalOptions;
use crate::engine::registry::{Ask, Cut, EngineRecord, Ground, OnDevice, Opening};
use crate::engine::segments::Choices;
use crate::engine::segments::figures::{
    CLEANED_SEGMENTS, EVICTED_OBJECTS, KEPT_BYTES, PASSED_OVER_SEGMENTS, SNAPSHOT_BYTES,
};
use crate::engine::{Engine, Setting, Settings, Takes, no_cut_to_tell, none_wrong};
use crate::layout::LogSection;

/// Whether an object may be in two sets of the index: in all caches but those of before it was so. No flag: a new cache has it.
pub static TWO_SETS: Setting = Setting {
    name: "two-sets",
    takes: Takes::Switch { off: "one set for each object", on: "two sets for each object" },
    value_name: "",
    help: "",
    lasts: true,
    made_with: "an index with",
    unit: "",
    missing: "has no index with two sets for each object",
    out_of_range: "",
    nothing: Some(1),
};

/// Logs by size and generation: what leaves is what is worth least.
pub static GENERATIONAL: EngineRecord = EngineRecord {
    name: "generational",
    about: "46 bits of memory per object; evicts what is worth least by size, age and popularity, for the most hits",
    settings: &[&TWO_SETS],
    counts_objects: true,
    wrong: none_wrong,
    figures: &[&CLEANED_SEGMENTS, &PASSED_OVER_SEGMENTS, &EVICTED_OBJECTS, &KEPT_BYTES, &SNAPSHOT_BYTES],
    inspect: no_cut_to_tell,
    ground: Ground::Device(OnDevice {
        names: &[("generational", &[(&TWO_SETS, 0)]), ("generational-2", &[(&TWO_SETS, 1)])],
        made_with: |_| Settings::new(),
        cut: |ask| {
            let Ask { bytes, reserved, mean_object_bytes, stamp, .. } = *ask;
            boxed(GenerationalOptions::plan(bytes, reserved, mean_object_bytes, stamp, choices(ask.settings)))
        },
        cut_before: |section, ask| {
            let Ask { bytes, reserved, stamp, .. } = *ask;
            let LogSection { log, slots, mean_object_bytes, .. } = LogSection::decode(section, bytes)?;
            let choices = choices(ask.settings);
            boxed(GenerationalOptions::of(log, slots, reserved, mean_object_bytes, stamp, choices))
        },
    }),
};

fn choices(settings: &Settings) -> Choices {
    if settings.get(&TWO_SETS) == Some(0) { Choices::One } else { Choices::Two }
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
        Settings::new().with(&TWO_SETS, (self.choices == Choices::Two).into())
    }

    fn section(&self) -> Vec<u8> {
        LogSection::of(self.layout, self.slots, self.mean_object_bytes).encode()
    }

    fn open_unguarded(&self, opening: Opening) -> Result<Arc<dyn Engine>, String> {
        let Opening { device, flush_every, read_only, .. } = opening;
        Ok(Arc::new(Generational::open(device, &GenerationalOptions { flush_every, read_only, ..*self })?))
    }
}
