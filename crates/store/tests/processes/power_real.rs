//! Power cut under real file systems: what a flush acknowledged is there, and nothing wrong is.
//!
//! Needs root, a free loop device, and from Debian e2fsprogs and xfsprogs.

use std::path::Path;
use std::time::Duration;

use tinaja_store::{CacheOptions, EngineRef, engines};

use crate::grouped::GROUPED;
use crate::image;
use crate::tree::TREE;

fn options(dir: &Path, engine: EngineRef) -> CacheOptions {
    CacheOptions::new(dir.join("cache")).engine(engine).disk_bytes(256 << 20).memory_bytes(0).flush_every(None)
}

#[test]
fn ext4_loses_nothing_that_was_flushed() {
    image::cut_under("ext4", Duration::from_millis(700), |dir| options(dir, engines::HASHCACHE_LOG));
    image::cut_under("ext4", Duration::from_millis(800), |dir| options(dir, engines::SEGMENTED));
}

#[test]
fn xfs_loses_nothing_that_was_flushed() {
    image::cut_under("xfs", Duration::from_millis(900), |dir| options(dir, engines::HASHCACHE_LOG));
    image::cut_under("xfs", Duration::from_millis(600), |dir| options(dir, engines::SEGMENTED));
}

/// Trees of files, and a mapped file beside them.
#[test]
fn trees_lose_nothing_that_was_flushed() {
    for (kind, engine) in
        [("ext4", engines::SQUID2), ("xfs", engines::SQUIDL), ("ext4", engines::SQUIDMLA), ("xfs", engines::SQUIDM)]
    {
        image::cut_under(kind, Duration::from_millis(700), |dir| options(dir, engine));
    }
}

/// The same for engines that were written in test files alone.
#[test]
fn engines_of_others_lose_nothing_that_was_flushed() {
    for (kind, engine) in [("ext4", &TREE), ("xfs", &TREE), ("ext4", &GROUPED), ("xfs", &GROUPED)] {
        image::cut_under(kind, Duration::from_millis(700), |dir| {
            options(dir, engine).engines(engines::built_in().with(&TREE).with(&GROUPED))
        });
    }
}
