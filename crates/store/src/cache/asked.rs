//! Whether a cache that is there is the one that was asked for.

use std::path::Path;

use super::on_disk::NameOnDisk;
use super::open::{Checked, plan};
use super::options::{CacheOptions, EngineName, OpenError};
use super::plan::{Plan, bins_of};
use super::tuning::{Tuning, wrong, wrong_hash};
use crate::engine::hashcache::Bins;
use crate::layout::{Stamp, Superblock};
use crate::terms::Secret;

/// Whether a disk is the one that this cache has in this place.
pub(super) fn in_its_place(disk: &Checked, given: (u16, u16), secret: &Secret) -> Result<(), OpenError> {
    let same = secret.bytes() == disk.superblock.secret.bytes();
    if disk.superblock.disk == given && same {
        return Ok(());
    }
    let name = |(number, of): (u16, u16)| format!("disk {} of {of}", number + 1);
    let there = name(disk.superblock.disk) + if same { "" } else { " of another cache" };
    Err(OpenError::OtherDisk { path: disk.path.clone(), there, given: name(given) })
}

/// The engine of an existing cache and what it does, if these and its size are those asked for.
pub(super) fn name_of(path: &Path, options: &CacheOptions, superblock: &Superblock) -> Result<NameOnDisk, OpenError> {
    let other = |what, there: String, asked: String| {
        Err(OpenError::OtherGeometry { path: path.to_path_buf(), what, there, asked })
    };
    let name = match NameOnDisk::read(&superblock.engine) {
        Some(name) => name,
        None => {
            return other(
                "the engine",
                superblock.engine.clone(),
                EngineName::ALL.map(EngineName::as_str).join(" or "),
            );
        }
    };
    let NameOnDisk { engine, prefetch, positions_apart } = name;
    if let Some(asked) = options.engine.filter(|asked| *asked != engine) {
        return other("the engine", engine.to_string(), asked.to_string());
    }
    let on = |prefetch| if prefetch { "on" } else { "off" };
    if let Some(asked) = options.tuning.prefetch.filter(|asked| *asked != prefetch) {
        return other("prefetching", on(prefetch).into(), on(asked).into());
    }
    if let Some(asked) = options.tuning.hash_bits.filter(|asked| *asked != superblock.hash_bits) {
        if let Some(why) = wrong_hash(engine, asked) {
            return Err(OpenError::Setting(why));
        }
        return other("hashes of", format!("{} bits", superblock.hash_bits), format!("{asked} bits"));
    }
    let there = superblock.log.base + superblock.log.log_bytes();
    let stamp = Stamp { seed: superblock.secret.seed() };
    let bins = bins_of(engine, superblock);
    if let Some(why) = wrong(engine, options.tuning, options.bins, there) {
        return Err(OpenError::Setting(why));
    }
    if options.positions_dir.is_some() && !positions_apart {
        return other("positions", "beside the log".into(), "in a directory of their own".into());
    }
    let number = |bins: Bins| bins.ways.map(|ways| ways as u64);
    for (what, unit, there, asked) in
        [("bins of", "bytes", bins.bytes, options.bins.bytes), ("sets of", "bins", number(bins), number(options.bins))]
    {
        if let (Some(there), Some(asked)) = (there, asked)
            && there != asked
        {
            return other(what, format!("{there} {unit}"), format!("{asked} {unit}"));
        }
    }
    let hash_bits = Some(superblock.hash_bits);
    let tuning = Tuning { prefetch: Some(prefetch), hash_bits, positions_apart, ..options.tuning };
    let options = CacheOptions { engine: Some(engine), tuning, bins, ..options.clone() };
    let asked = |bytes| plan(&options, bytes, superblock.mean_object_bytes, stamp);
    let end = |plan: Plan| plan.log().base + plan.log().log_bytes();
    match options.disk_bytes.filter(|bytes| asked(*bytes).map(end) != Some(there)) {
        Some(bytes) => other("a size of", format!("{there} bytes"), format!("{bytes} bytes")),
        None => Ok(name),
    }
}
