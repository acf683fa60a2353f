//! An engine on the bench: over disks that take little memory, count what is asked of them, and are slow by a model.
//!
//! ```text
//! the store -> the engine -> Counted -> Limited, in virtual time, one for each model -> Sparse
//! ```
//!
//! So a run counts each request and each seek, keeps the clocks of several disks at once, and needs neither the time nor the
//! memory of the disk that it stands for: `Sparse` packs runs of one byte.

mod apart;
mod clock;
mod emmc;
pub mod memory;
mod meter;
mod models;
mod page_cache;
mod sparse;
mod spec;
mod stepped;
mod turns;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tinaja_store::device::wrap::{Counted, Limited, Time};
use tinaja_store::device::{Access, Device, Disk, Io, IoEngine};
use tinaja_store::engine::Engine;
use tinaja_store::engine::registry::Opening;
use tinaja_store::engine::spread::Spread;
use tinaja_store::{Cache, Commit, Hint, Key, Secret, Store, block_on};

pub use clock::Clock;
pub use emmc::{Emmc, EmmcModel};
pub use meter::{Reading, Requests};
pub use models::{SCSI_9LZX_BYTES, random_reads_a_second, sata_7200, scsi_9lzx, scsi_10000, scsi_15000, usb_7200};
pub use page_cache::{PAGE, PageCache, PageCacheOptions};
pub use sparse::Sparse;
pub use spec::Spec;
pub use stepped::Stepped;
pub use turns::Turns;

use crate::error::LabError;
use apart::Apart;
use spec::SECRET;

/// A store on the bench.
pub struct Rig {
    /// The store.
    pub store: Cache,
    spindles: Vec<Spindle>,
}

/// One disk with all that is wrapped around it.
struct Spindle {
    counted: Arc<Counted>,
    limited: Vec<Arc<Limited>>,
}

impl Rig {
    /// Put an engine over empty disks. Memory: its index, the hot objects, and what its disks hold, packed. Errors: the
    /// disks are too small, or the system has no more threads.
    pub fn new(spec: &Spec) -> Result<Rig, LabError> {
        let disks = (0..spec.disks.max(1)).map(|_| Arc::new(Sparse::new(spec.disk_bytes)) as Arc<dyn Device>);
        Rig::over(spec, disks)
    }

    /// Put an engine over one file, which is made here: as long as the disk, and with holes where nothing is written.
    /// Errors: the file cannot be made, or as [`Rig::new`].
    pub fn on_file(spec: &Spec, path: &Path) -> Result<Rig, LabError> {
        let file = File::create(path).map_err(|error| spec.refused(error))?;
        file.set_len(spec.disk_bytes).map_err(|error| spec.refused(error))?;
        let disk = Disk::open(path, Access::Alone, &Io::new(IoEngine::Auto, 8)).map_err(|error| spec.refused(error))?;
        Rig::over(spec, std::iter::once(Arc::new(disk) as Arc<dyn Device>))
    }

    /// Put an engine over this disk, by its clock. Errors: as [`Rig::new`].
    pub fn on(spec: &Spec, disk: Arc<dyn Device>) -> Result<Rig, LabError> {
        Rig::over(spec, std::iter::once(disk))
    }

    fn over(spec: &Spec, disks: impl Iterator<Item = Arc<dyn Device>>) -> Result<Rig, LabError> {
        let cut = spec.cut()?;
        let new = |disk| Spindle::new(disk, spec).map_err(|error| spec.refused(error));
        let mut spindles = disks.map(new).collect::<Result<Vec<_>, _>>()?;
        let apart = cut.beside_bytes().map(|bytes| (bytes, Arc::new(Sparse::new(bytes * spindles.len() as u64))));
        let apart = apart.map(|(bytes, disk)| Ok::<_, LabError>((bytes, new(disk)?))).transpose()?;
        let mut engines = Vec::new();
        for (number, spindle) in (0_u64..).zip(&spindles) {
            let beside = apart.as_ref().map(|(bytes, positions)| positions.part(number * bytes, *bytes, spindle));
            let engine = cut.open(Opening { beside, ..Opening::of(spindle.counted.clone()) });
            engines.push(engine.map_err(|error| spec.refused(error))?);
        }
        spindles.extend(apart.map(|(_, positions)| positions));
        let one = if engines.len() == 1 { engines.pop() } else { None };
        let all = |engines| Spread::over(engines).map(|spread| Arc::new(spread) as Arc<dyn Engine>);
        let engine =
            one.or_else(|| all(engines)).ok_or_else(|| spec.refused("it cannot be spread over so many disks"))?;
        let clock = spindles.first().map(|spindle| spindle.counted.clock().clone()).unwrap_or_default();
        let store = Cache::over_by(clock, engine, Secret::from_bytes(SECRET), spec.hot_bytes);
        Ok(Rig { store: store.map_err(|error| spec.refused(error))?, spindles })
    }

    /// Store an object of so many bytes; whether it was. One that is larger than the store takes is not even made.
    pub fn put(&self, object: u64, bytes: u64, group: Option<u64>) -> bool {
        block_on(self.put_later(object, bytes, group))
    }

    /// [`Rig::put`] for whoever does not wait for one thing alone.
    pub async fn put_later(&self, object: u64, bytes: u64, group: Option<u64>) -> bool {
        if bytes > self.store.max_object_bytes() {
            return false;
        }
        let hint = Hint { expected_bytes: Some(bytes), group, ..Hint::default() };
        let mut writer = self.store.put(&key(object), Bytes::from_static(HEAD), hint);
        // Piece by piece, since an object may be larger than memory.
        let (piece, mut left) = (body(object, bytes.min(PIECE_BYTES)), bytes);
        while left > 0 {
            let next = piece.slice(..left.min(PIECE_BYTES) as usize);
            left -= next.len() as u64;
            writer.write(next).await;
        }
        matches!(writer.commit().await, Commit::Stored { .. })
    }

    /// Look for an object and read all of it: its length if it is there. Errors: other bytes than were stored, which
    /// no cache may ever give.
    pub fn get(&self, object: u64) -> Result<Option<u64>, LabError> {
        self.get_part(object, u64::MAX)
    }

    /// Look for an object and read so much of its beginning, or all of it: how much that was. Errors as [`Rig::get`].
    pub fn get_part(&self, object: u64, bytes: u64) -> Result<Option<u64>, LabError> {
        block_on(self.get_part_later(object, bytes))
    }

    /// [`Rig::get_part`] for whoever does not wait for one thing alone.
    pub async fn get_part_later(&self, object: u64, bytes: u64) -> Result<Option<u64>, LabError> {
        let Some(mut hit) = self.store.find(&key(object)).await else { return Ok(None) };
        let wanted = hit.body.len().map_or(bytes, |len| len.min(bytes));
        if hit.body.seek(0..wanted).is_err() {
            return Ok(None);
        }
        let (right, mut read) = (fill(object), 0);
        loop {
            match hit.body.next(PIECE_BYTES as usize).await {
                Ok(Some(piece)) => {
                    let ends = [piece.first(), piece.last()];
                    if ends.into_iter().flatten().any(|byte| *byte != right) {
                        return Err(LabError::failed("reading an object back", "it was another object's body"));
                    }
                    read += piece.len() as u64;
                }
                Ok(None) => return Ok(Some(read)),
                Err(_) => return Ok(None),
            }
        }
    }

    /// No more objects of a group will come: they are written together.
    pub fn end_group(&self, group: u64) {
        block_on(self.store.end_group(group));
    }

    /// Write out what is still in memory, and wait until the engine has nothing more to do by itself.
    pub fn settle(&self) -> Result<(), LabError> {
        block_on(self.store.flush()).map_err(|error| LabError::failed("flushing the store", error))?;
        // An engine may write parts of its index ten times a second.
        std::thread::sleep(std::time::Duration::from_millis(250));
        Ok(())
    }

    /// What all counters and clocks say now.
    pub fn read(&self) -> Reading {
        Reading::of(&self.store, &self.spindles)
    }

    /// Requests to all disks so far: cheaper to ask for than [`Rig::read`].
    pub fn requests(&self) -> Requests {
        self.spindles.iter().map(|spindle| spindle.counted.detail()).fold(Requests::default(), |all, one| Requests {
            reads: all.reads + one.reads.requests,
            read_seeks: all.read_seeks + one.reads.seeks,
            writes: all.writes + one.writes.requests,
            write_seeks: all.write_seeks + one.writes.seeks,
        })
    }

    /// Let the clock of one model reach a time on every disk, with the disks idle meanwhile.
    pub fn idle_until(&self, model: usize, now: std::time::Duration) {
        let clocks = self.spindles.iter().filter_map(|spindle| spindle.limited.get(model));
        clocks.for_each(|limited| limited.idle_until(now));
    }

    /// When the last request to each disk so far ends, by the clock of one model.
    pub fn clocks(&self, model: usize) -> impl Iterator<Item = std::time::Duration> + '_ {
        self.spindles.iter().filter_map(move |spindle| Some(spindle.limited.get(model)?.now()))
    }
}

impl Spindle {
    fn new(mut below: Arc<dyn Device>, spec: &Spec) -> std::io::Result<Spindle> {
        let mut limited = Vec::new();
        for model in &spec.models {
            let slow = Arc::new(Limited::new(below, model.clone(), Time::Virtual)?);
            limited.push(slow.clone());
            below = slow;
        }
        Ok(Spindle { counted: Arc::new(Counted::new(below)), limited })
    }

    /// A part of this disk for the positions of what lies on another.
    fn part(&self, at: u64, bytes: u64, log: &Spindle) -> Arc<dyn Device> {
        let clocks = self.limited.iter().cloned().zip(log.limited.iter().cloned());
        Arc::new(Apart::new(self.counted.clone(), at, bytes, clocks))
    }
}

/// So much of a body is in memory at once.
const PIECE_BYTES: u64 = 1 << 20;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: image/gif\r\nCache-Control: max-age=86400\r\n\r\n";

/// Bytes of name and head that an object has beside its body.
pub fn beside_body(object: u64) -> u64 {
    (key(object).name().len() + HEAD.len()) as u64
}

/// The name of an object: as long as a short URL.
fn key(object: u64) -> Key {
    Key::from_name(format!("http://host{}.example/objects/{object:016x}", object % 1000).as_bytes())
}

/// The byte that an object's body consists of: such a body takes next to no memory on a [`Sparse`] disk.
fn fill(object: u64) -> u8 {
    crate::random::mix(object) as u8
}

fn body(object: u64, bytes: u64) -> Bytes {
    Bytes::from(vec![fill(object); bytes as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tinaja_store::engine::hashcache::settings::POSITIONS_APART;
    use tinaja_store::{Settings, engines};

    #[test]
    fn every_engine_gives_back_what_was_put_into_it() {
        for engine in engines::on_devices().iter() {
            let rig = Rig::new(&Spec { disks: 2, models: vec![sata_7200()], ..Spec::new(engine, 32 << 20) }).unwrap();
            let sizes = [0, 1, 100, 5000, 100_000, 700_000];
            for (object, bytes) in (1..).zip(sizes) {
                assert_eq!(rig.get(object).unwrap(), None);
                assert!(rig.put(object, bytes, Some(7)), "{engine}: {bytes} bytes");
            }
            rig.settle().unwrap();
            let before = rig.read();
            for (object, bytes) in (1..).zip(sizes) {
                assert_eq!(rig.get(object).unwrap(), Some(bytes), "{engine}");
                assert_eq!(rig.get_part(object, 50).unwrap(), Some(bytes.min(50)), "{engine}");
            }
            assert!(!rig.put(9, 1 << 40, None), "{engine}: a terabyte");
            let spent = rig.read().since(&before);
            // What was put is in Dámelo's pool of pages still.
            let has_read = spent.reads.requests >= 6 && spent.busy(0) > Duration::from_millis(6);
            assert!(has_read || engine == engines::DAMELO, "{engine}: {spent:?}");
        }
    }

    #[test]
    fn positions_of_two_disks_lie_on_a_third() {
        let settings = Settings::new().with(&engines::POSITIONS_IN_MEMORY, 1).with(&POSITIONS_APART, 1);
        let spec =
            Spec { settings, disks: 2, models: vec![sata_7200()], ..Spec::new(engines::HASHCACHE_LOGLRU, 32 << 20) };
        let rig = Rig::new(&spec).unwrap();
        (0..12_000).for_each(|object| assert!(rig.put(object, 1000, None)));
        rig.settle().unwrap();
        let (requests, clocks) = (rig.requests(), rig.clocks(0).collect::<Vec<_>>());
        assert_eq!(clocks.len(), 3);
        let found = (0..12_000).filter(|object| rig.get(*object).unwrap().is_some()).count() as u64;
        let spent = rig.requests().since(requests);
        assert!(found > 6000 && spent.reads > found * 3 / 2, "{found} found with {spent:?}");
        // A lookup has its position before it reads the log: neither disk's clock is much behind the third's.
        let now: Vec<_> = rig.clocks(0).collect();
        assert!(now.iter().all(|now| *now > clocks[2]) && now[2] > clocks[2], "{clocks:?} {now:?}");
    }

    #[test]
    fn a_disk_too_small_is_refused() {
        let refused = Rig::new(&Spec::new(engines::HASHCACHE_LOG, 1 << 12)).err().unwrap().to_string();
        assert!(refused.starts_with("cannot open hashcache-log over 4096 bytes"), "{refused}");
    }
}
