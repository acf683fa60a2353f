//! The engine as section 5.1 uses it: create, read and delete objects by their numbers.

use std::collections::HashSet;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};

use tinaja_store::device::Device;
use tinaja_store::device::elevator::Order;
use tinaja_store::engine::damelo::{Affection, Cleaning, Damelo, DameloLayout, DameloOptions, Shape};
use tinaja_store::engine::{Engine, Fetched, Kind, Placement, Probe, Record};
use tinaja_store::layout::Stamp;
use tinaja_store::{Digest, Secret, WhyNot};

use super::drive::{Ended, Subject};
use super::load::{Objects, Ordering};
use crate::error::LabError;
use crate::paper::damelo as paper;
use crate::random::mix;

/// What a record keeps beside its body, and more: its header, and what it is filled up with.
const BESIDE_BYTES: usize = 64;

/// How the engine is set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    pub frame_bytes: u32,
    pub pool_bytes: u64,
    /// In which order the disk is asked, and how many requests at once.
    pub order: Order,
    pub depth: usize,
    /// Whether the first groups lie in the middle of the disk.
    pub centre: bool,
    /// Whether groups of unpopular objects are hated.
    pub hates: bool,
    /// Whether the engine has a thread of its own.
    pub threads: bool,
}

impl Setting {
    /// All that Dámelo has, for a disk with an arm.
    pub fn whole(frame_bytes: u32, pool_bytes: u64) -> Setting {
        Setting { frame_bytes, pool_bytes, order: Order::TwoWay, depth: 1, centre: true, hates: true, threads: false }
    }
}

/// The largest object of the load: what fits the smallest frame.
pub fn largest_object() -> u32 {
    (Damelo::room(paper::OBJECT_BYTES as usize) - BESIDE_BYTES) as u32
}

/// The engine with objects.
pub struct OnDamelo {
    engine: Damelo,
    layout: DameloLayout,
    objects: Arc<Objects>,
    /// A body of as many bytes as the largest object, for each byte that it may consist of.
    bodies: Vec<Vec<u8>>,
}

impl OnDamelo {
    /// Over a disk that holds nothing yet, with all groups loved. Errors: as the engine's.
    pub fn open(device: Arc<dyn Device>, setting: &Setting, objects: Arc<Objects>) -> Result<OnDamelo, LabError> {
        let bytes = device.geometry().bytes;
        let failed = |why: String| LabError::Engine { engine: "damelo".to_owned(), disk_bytes: bytes, why };
        let Setting { frame_bytes, centre, .. } = *setting;
        let shape = Shape { groups: paper::GROUPS, frame_bytes, large_percent: 0, centre };
        let mean = objects.all_bytes() / u64::from(objects.count().max(1));
        let layout =
            DameloLayout::plan(bytes, 4096, mean, &shape).ok_or_else(|| failed("it is too small".to_owned()))?;
        if layout.ordinary.groups != paper::GROUPS {
            return Err(failed(format!("it has room for {} groups only", layout.ordinary.groups)));
        }
        let options = DameloOptions {
            pool_bytes: setting.pool_bytes,
            order: setting.order,
            depth: setting.depth,
            affection: Affection::Told,
            cleaning: Cleaning::Background,
            threads: setting.threads,
            ..DameloOptions::of(layout, Stamp { seed: Secret::from_bytes([0x5A; 32]).seed() })
        };
        let engine = Damelo::open(device, &options).map_err(failed)?;
        let bodies = (0..=u8::MAX).map(|byte| vec![byte; paper::OBJECT_BYTES as usize]).collect();
        Ok(OnDamelo { engine, layout, objects, bodies })
    }

    /// Love the groups of popular objects, and hate the others if that is wanted.
    pub fn love(&self, ordering: Ordering, hates: bool) {
        let popular = ordering.popular(self.objects.count());
        let loved = match popular.checked_sub(1) {
            Some(last) => self.objects.group(last, paper::GROUPS) + 1,
            None => 0,
        };
        (0..loved).for_each(|group| self.engine.love(group));
        (loved..paper::GROUPS).for_each(|group| if hates { self.engine.hate(group) } else { self.engine.love(group) });
    }

    /// Pages on which there are objects.
    pub fn pages(&self) -> u64 {
        let (mut pages, mut cursor) = (HashSet::new(), Some(0));
        while let Some(from) = cursor {
            let (places, next) = self.engine.walk(from, 4096);
            let slots = places.into_iter().filter_map(|place| self.layout.slot(place));
            pages.extend(slots.map(|slot| (slot.at.group, slot.at.page)));
            cursor = next;
        }
        pages.len() as u64
    }

    /// Pages that had to leave the disk, with all objects on them.
    fn evicted(&self) -> u64 {
        self.engine.stats().of_engine.named("evicted_pages")
    }

    /// Stop its threads and let go of the disk.
    pub fn close(self) {
        let (tell, told) = mpsc::sync_channel(1);
        self.engine.close(Box::new(move |how| drop(tell.send(how))));
        let _ = told.recv();
    }

    fn placement(&self, object: u32) -> Placement<'static> {
        let group = self.objects.group(object, paper::GROUPS);
        Placement { group: Some(u64::from(group)), ..Placement::of(digest(object)) }
    }
}

fn digest(object: u32) -> Digest {
    let (low, high) = (mix(u64::from(object)), mix(u64::from(object) ^ (1 << 40)));
    Digest((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
}

/// The byte that an object's body consists of.
fn fill(object: u32) -> u8 {
    mix(u64::from(object)) as u8
}

/// Whether this is the object that was asked for.
fn check(fetched: Fetched, object: u32, bytes: u32) -> Ended {
    match fetched {
        Fetched::Record(found) => {
            let right = found.body.len() == bytes as usize && found.body.first() == Some(&fill(object));
            if right { Ok(()) } else { Err(format!("object {object} is another one")) }
        }
        Fetched::Missing => Err(format!("object {object} is gone")),
        Fetched::Failed(why) => Err(format!("object {object}: {why}")),
    }
}

impl Subject for OnDamelo {
    fn poll_create(&self, cx: &mut Context<'_>, object: u32) -> Poll<Ended> {
        let body =
            self.bodies.get(usize::from(fill(object))).and_then(|body| body.get(..self.objects.bytes(object) as usize));
        let record = Record {
            id: digest(object),
            kind: Kind::Whole,
            name: &[],
            head: &[],
            body: body.unwrap_or_default(),
            related_bytes: 0,
        };
        let kept = self.engine.poll_append(cx, &self.placement(object), &record);
        kept.map(|kept| kept.map(drop).map_err(|why| why_not(object, why)))
    }

    fn read(&self, object: u32, done: Box<dyn FnOnce(Ended) + Send>) {
        let (at, bytes) = (self.placement(object), self.objects.bytes(object));
        match self.engine.probe(&at) {
            Probe::At(places) => {
                self.engine.fetch(&at, places, Box::new(move |fetched| done(check(fetched, object, bytes))));
            }
            Probe::Absent | Probe::AskDisk => {
                done(Err(format!("object {object} is not there; {} pages were evicted", self.evicted())));
            }
        }
    }

    fn poll_delete(&self, cx: &mut Context<'_>, object: u32) -> Poll<Ended> {
        let removed = self.engine.poll_remove(cx, &self.placement(object));
        removed.map(|removed| removed.map(drop).map_err(|why| why_not(object, why)))
    }

    fn flush(&self, done: Box<dyn FnOnce(Ended) + Send>) {
        self.engine.flush_pool(done);
    }

    fn work(&self) {
        self.engine.work();
    }
}

fn why_not(object: u32, why: WhyNot) -> String {
    format!("object {object}: {why}")
}
