//! Whether a cache that is there is the one that was asked for.

use std::path::Path;

use super::open::{Checked, asked_of};
use super::options::{CacheOptions, OpenError};
use crate::engine::registry::Identity;
use crate::engine::{EngineRef, Settings};
use crate::terms::Secret;

/// Objects may have from so many bytes on average: no less than what is stored beside each. There must be room for some.
const LEAST_MEAN_BYTES: u64 = 64;
const LEAST_OBJECTS: u64 = 64;

/// What is wrong with objects of such a mean size in a new cache of so many bytes, and what to do about it.
pub(super) fn wrong_mean(mean_object_bytes: u64, disk_bytes: u64) -> Option<String> {
    let most = disk_bytes / LEAST_OBJECTS;
    (!(LEAST_MEAN_BYTES..=most).contains(&mean_object_bytes)).then(|| {
        format!(
            "a cache of {disk_bytes} bytes cannot be cut for objects of {mean_object_bytes} bytes on average: choose an object \
             size from {LEAST_MEAN_BYTES} bytes to {most}, or leave it out"
        )
    })
}

/// Whether a disk is the one that this cache has in this place.
pub(super) fn in_its_place(disk: &Checked, given: (u16, u16), secret: &Secret) -> Result<(), OpenError> {
    let Identity { secret: own, disk: there } = disk.identity();
    let same = secret.bytes() == own.bytes();
    if *there == given && same {
        return Ok(());
    }
    let name = |(number, of): (u16, u16)| format!("disk {} of {of}", number + 1);
    let there = name(*there) + if same { "" } else { " of another cache" };
    Err(OpenError::OtherDisk { path: disk.path.clone(), there, given: name(given) })
}

/// An error about a cache that was made otherwise than asked for.
pub(super) fn other(path: &Path, what: &'static str, there: String, asked: String) -> OpenError {
    OpenError::OtherGeometry { path: path.to_path_buf(), what, there, asked }
}

/// Whether an existing cache has the engine and the settings that were asked for. `bytes` are those that it has.
pub(super) fn made_so(
    path: &Path,
    options: &CacheOptions,
    engine: EngineRef,
    made: &Settings,
    bytes: u64,
) -> Result<(), OpenError> {
    if let Some(asked) = options.engine.filter(|asked| *asked != engine) {
        return Err(other(path, "the engine", engine.to_string(), asked.to_string()));
    }
    let asked = asked_of(options);
    if let Some(why) = options.engines.wrong(engine, &asked, bytes) {
        return Err(OpenError::Setting(why));
    }
    for (setting, value) in asked.iter().filter(|(setting, _)| setting.lasts && engine.has(setting)) {
        let there = made.get(setting).unwrap_or(0);
        if there != value {
            return Err(other(path, setting.made_with, setting.in_words(there), setting.in_words(value)));
        }
    }
    Ok(())
}
