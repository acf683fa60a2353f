//! The record of the log-structured cache.

use std::sync::Arc;

use super::engine::Segmented;
use super::options::SegmentedOptions;
use crate::engine::registry::{Ask, Cut, EngineRecord, Ground, OnDevice, Opening};
use crate::engine::segments::figures::{CLEANED_SEGMENTS, EVICTED_OBJECTS, KEPT_BYTES, PASSED_OVER_SEGMENTS};
use crate::engine::{Engine, Setting, Settings, Takes, no_cut_to_tell, none_wrong};
use crate::layout::LogSection;

/// Percentage of what is stored that may be written once more, so that the most valuable of the objects that would be
/// evicted with a segment stay. 0 is the paper's cache: what leaves is what is oldest. At 50 every byte stored would be
/// written one and a half times.
pub static KEEP: Setting = Setting {
    name: "keep",
    takes: Takes::Number { least: 0, most: 50 },
    value_name: "PERCENT",
    help: "Percentage of the stored bytes that may be written again, so that popular objects are kept when the oldest ones are \
           evicted, 0 to 50 (default 0)",
    lasts: false,
    made_with: "",
    unit: "percent of the bytes",
    missing: "does not clean segments, so it cannot keep any of their objects",
    out_of_range: "{} percent of the bytes cannot be kept when segments are cleaned",
    nothing: Some(0),
};

/// The log-structured cache (Log-structured cache, section 3): segments whose cleaning is eviction, for slow flash.
pub static SEGMENTED: EngineRecord = EngineRecord {
    name: "segmented",
    about: "46 bits of memory per object; writes only in long sequential runs, for slow flash such as eMMC and SD cards",
    settings: &[&KEEP],
    counts_objects: true,
    wrong: none_wrong,
    figures: &[&CLEANED_SEGMENTS, &PASSED_OVER_SEGMENTS, &EVICTED_OBJECTS, &KEPT_BYTES],
    inspect: no_cut_to_tell,
    ground: Ground::Device(OnDevice {
        names: &[("segmented", &[])],
        made_with: |_| Settings::new(),
        cut: |ask| {
            let Ask { bytes, reserved, mean_object_bytes, stamp, settings } = *ask;
            keeping(SegmentedOptions::plan(bytes, reserved, mean_object_bytes, stamp), settings)
        },
        cut_before: |section, ask| {
            let Ask { bytes, reserved, stamp, settings, .. } = *ask;
            let LogSection { log, slots, mean_object_bytes, .. } = LogSection::decode(section, bytes)?;
            keeping(SegmentedOptions::of(log, slots, reserved, mean_object_bytes, stamp), settings)
        },
    }),
};

fn keeping(plan: Option<SegmentedOptions>, settings: &Settings) -> Option<Box<dyn Cut>> {
    let keep_percent = settings.get(&KEEP).unwrap_or(0).min(100) as u8;
    Some(Box::new(SegmentedOptions { keep_percent, ..plan? }))
}

impl Cut for SegmentedOptions {
    fn end(&self) -> u64 {
        self.layout.base + self.layout.log_bytes()
    }

    fn mean_object_bytes(&self) -> u64 {
        self.mean_object_bytes
    }

    fn made_with(&self) -> Settings {
        Settings::new()
    }

    fn section(&self) -> Vec<u8> {
        LogSection::of(self.layout, self.slots, self.mean_object_bytes).encode()
    }

    fn open_unguarded(&self, opening: Opening) -> Result<Arc<dyn Engine>, String> {
        let Opening { device, flush_every, read_only, .. } = opening;
        Ok(Arc::new(Segmented::open(device, &SegmentedOptions { flush_every, read_only, ..*self })?))
    }
}
