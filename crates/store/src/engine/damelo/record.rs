//! The record of Dámelo, and its settings.

use std::sync::Arc;

use super::engine::Damelo;
use super::figures::{
    CHECKPOINTS, COMPACTED_BYTES, COMPACTED_PAGES, COMPACTION_WAITS, COPIED_READS, EVICTED_PAGES, PAGES_READ,
    PAGES_WRITTEN,
};
use super::layout::{DameloLayout, Shape};
use super::limits::{LARGE_FRAME_BYTES, LEAST_FRAME_BYTES};
use super::options::DameloOptions;
use crate::device::elevator::Order;
use crate::engine::registry::{Ask, Cut, EngineRecord, Ground, OnDevice, Opening};
use crate::engine::{Engine, Setting, Settings, Takes, no_cut_to_tell};

/// Groups with ordinary frames.
pub static GROUPS: Setting = Setting {
    name: "groups",
    takes: Takes::Number { least: 1, most: 4096 },
    value_name: "N",
    help: "Groups of a new cache, whose objects lie beside each other, 1 to 4096 (default 16). A small disk gets fewer",
    lasts: true,
    made_with: "at most",
    unit: "groups",
    missing: "does not keep objects in groups",
    out_of_range: "there cannot be {} groups",
    nothing: None,
};

/// Bytes of a page, and of the frame that holds it.
pub static FRAME_SIZE: Setting = Setting {
    name: "frame-size",
    takes: Takes::Bytes,
    value_name: "SIZE",
    help: "Bytes that a new cache reads and writes as one piece: 16KiB, 32KiB, 64KiB, 128KiB or 256KiB (default 64KiB)",
    lasts: true,
    made_with: "frames of",
    unit: "bytes",
    missing: "has no frames",
    out_of_range: "",
    nothing: None,
};

/// How much of the disk has large frames.
pub static LARGE_FRAMES: Setting = Setting {
    name: "large-frames",
    takes: Takes::Number { least: 0, most: 90 },
    value_name: "PERCENT",
    help: "Percentage of a new cache's disk with frames of 256KiB, for objects that fit no other frame, 0 to 90 (default 50). With \
           0 there is one size of frame, as in the paper",
    lasts: true,
    made_with: "large frames on",
    unit: "percent of the disk",
    missing: "has no frames",
    out_of_range: "{} percent of the disk cannot have large frames",
    nothing: None,
};

/// Whether groups are sites.
pub static GROUP_BY_SITE: Setting = Setting {
    name: "group-by-site",
    takes: Takes::Switch { off: "by page or client", on: "by site" },
    value_name: "true|false",
    help: "Group objects by the site they come from, and not by the page or client that asked for them (default true)",
    lasts: false,
    made_with: "groups",
    unit: "",
    missing: "does not keep objects in groups",
    out_of_range: "",
    nothing: None,
};

/// Memory for pages.
pub static POOL: Setting = Setting {
    name: "pool",
    takes: Takes::Bytes,
    value_name: "SIZE",
    help: "Memory for pages that are read and written (default: a sixteenth of the memory, 4MiB to 128MiB, and at most an \
           eighth of the disk)",
    lasts: false,
    made_with: "a pool of",
    unit: "bytes",
    missing: "has no pool of pages",
    out_of_range: "",
    nothing: None,
};

/// Whether the disk is asked in the order of places.
pub static ELEVATOR: Setting = Setting {
    name: "elevator",
    takes: Takes::Switch { off: "as requests come", on: "in the order of a lift" },
    value_name: "true|false",
    help: "Give the disk one request at a time, in the order in which its head passes them (default true); flash wants \
           false: all requests at once, by io_uring",
    lasts: false,
    made_with: "requests",
    unit: "",
    missing: "does not order its requests",
    out_of_range: "",
    nothing: None,
};

/// Requests that a disk is given at once without the elevator.
pub(super) const PLAIN_DEPTH: usize = 128;

/// Dámelo (chapters 3 and 4): groups of pages, for disks whose head has to move.
pub static DAMELO: EngineRecord = EngineRecord {
    name: "damelo",
    about: "about 400 bits of memory per object; related objects lie beside each other and are read together, for spinning disks",
    settings: &[&GROUPS, &FRAME_SIZE, &LARGE_FRAMES, &GROUP_BY_SITE, &POOL, &ELEVATOR],
    counts_objects: true,
    wrong,
    figures: &[
        &PAGES_READ,
        &PAGES_WRITTEN,
        &EVICTED_PAGES,
        &COMPACTED_PAGES,
        &COMPACTED_BYTES,
        &COMPACTION_WAITS,
        &CHECKPOINTS,
        &COPIED_READS,
    ],
    inspect: no_cut_to_tell,
    ground: Ground::Device(OnDevice {
        names: &[("damelo", &[])],
        made_with: |section| DameloLayout::read(section).map_or_else(Settings::new, |layout| made_with(&layout)),
        cut: |ask| {
            let Ask { bytes, reserved, mean_object_bytes, settings, .. } = *ask;
            let layout = DameloLayout::plan(bytes, reserved, mean_object_bytes, &shape(settings))?;
            Some(Box::new(options(layout, ask)))
        },
        cut_before: |section, ask| Some(Box::new(options(DameloLayout::decode(section, ask.bytes)?, ask))),
    }),
};

fn shape(settings: &Settings) -> Shape {
    Shape {
        groups: settings.get(&GROUPS).unwrap_or(16) as u32,
        frame_bytes: settings.get(&FRAME_SIZE).unwrap_or(64 << 10) as u32,
        large_percent: settings.get(&LARGE_FRAMES).unwrap_or(50) as u32,
        centre: true,
    }
}

fn options(layout: DameloLayout, ask: &Ask<'_>) -> DameloOptions {
    let by_default = DameloOptions::of(layout, ask.stamp);
    let elevator = ask.settings.get(&ELEVATOR) != Some(0);
    DameloOptions {
        pool_bytes: ask.settings.get(&POOL).unwrap_or(by_default.pool_bytes),
        by_site: ask.settings.get(&GROUP_BY_SITE) != Some(0),
        order: if elevator { Order::TwoWay } else { Order::InTurn },
        depth: if elevator { 1 } else { PLAIN_DEPTH },
        ..by_default
    }
}

fn made_with(layout: &DameloLayout) -> Settings {
    Settings::new()
        .with(&GROUPS, layout.asked.0.into())
        .with(&FRAME_SIZE, layout.ordinary.frame_bytes.into())
        .with(&LARGE_FRAMES, layout.asked.1.into())
}

fn wrong(settings: &Settings, disk_bytes: u64) -> Option<String> {
    let Shape { groups, frame_bytes, large_percent, .. } = shape(settings);
    let sizes = LEAST_FRAME_BYTES..=LARGE_FRAME_BYTES;
    if !sizes.contains(&frame_bytes) || !frame_bytes.is_power_of_two() {
        return Some(format!(
            "there are no frames of {frame_bytes} bytes: choose 16KiB, 32KiB, 64KiB, 128KiB or 256KiB"
        ));
    }
    let frame = u64::from(frame_bytes);
    if let Some(pool) = settings.get(&POOL)
        && pool < 4 * frame + if large_percent > 0 { 4 * u64::from(LARGE_FRAME_BYTES) } else { 0 }
    {
        return Some(format!(
            "a pool of {pool} bytes has no room for four frames of each size ({frame_bytes} bytes, and {LARGE_FRAME_BYTES} \
             unless large-frames is 0): make the pool larger or frames smaller"
        ));
    }
    let asked = settings.get(&GROUPS).is_some();
    let ordinary = disk_bytes / 100 * u64::from(100 - large_percent.min(100));
    (asked && ordinary / (18 * frame) < u64::from(groups)).then(|| {
        format!(
            "{groups} groups of at least 16 frames of {frame_bytes} bytes do not fit {ordinary} bytes: choose fewer groups, \
             smaller frames or a larger disk"
        )
    })
}

impl Cut for DameloOptions {
    fn end(&self) -> u64 {
        self.layout.end()
    }

    fn mean_object_bytes(&self) -> u64 {
        self.layout.mean_object_bytes
    }

    fn made_with(&self) -> Settings {
        made_with(&self.layout)
    }

    fn section(&self) -> Vec<u8> {
        self.layout.encode()
    }

    fn open_unguarded(&self, opening: Opening) -> Result<Arc<dyn Engine>, String> {
        let Opening { device, flush_every, read_only, .. } = opening;
        Ok(Arc::new(Damelo::open(device, &DameloOptions { flush_every, read_only, ..*self })?))
    }
}
