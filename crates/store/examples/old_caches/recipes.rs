//! Which caches are made.

use std::path::{Path, PathBuf};

use tinaja_store::{CacheOptions, Settings, engines};

/// How one is made.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    /// The name of its directory.
    pub name: String,
    /// Its engine's name.
    pub engine: &'static str,
    pub prefetch: bool,
    /// Whether its positions lie in a directory of their own.
    pub apart: bool,
    pub hash_bits: Option<u64>,
    /// Bytes of a bin, bins of a set.
    pub bins: Option<(u64, u64)>,
    pub two_disks: bool,
    /// Whether it is filled more than twice over.
    pub laps: bool,
    /// Whether its process is killed after a flush, not closed.
    pub killed: bool,
}

const TABLES: [&str; 4] = ["hashcache-basic", "hashcache-set", "hashcache-setmem", "hashcache-setmemlru"];
const LOGS: [&str; 4] = ["hashcache-loglru", "hashcache-logn", "hashcache-log", "segmented"];
const WITH_HASH: [&str; 5] =
    ["hashcache-setmem", "hashcache-setmemlru", "hashcache-loglru", "hashcache-logn", "hashcache-log"];
const NEVER_PREFETCH: [&str; 2] = ["hashcache-logn", "segmented"];

/// Every one, closed and killed.
pub fn all() -> Vec<Recipe> {
    let mut closed = Vec::new();
    let mut add = |what: &str, recipe: Recipe| {
        closed.push(Recipe { name: format!("{}{what}", recipe.engine), ..recipe });
    };
    for engine in TABLES.into_iter().chain(LOGS) {
        let plain = Recipe { engine, ..Recipe::default() };
        let prefetch = Recipe { prefetch: true, ..plain.clone() };
        add("", plain.clone());
        add("-two-disks", Recipe { two_disks: true, ..plain.clone() });
        add("-laps", Recipe { laps: true, ..plain.clone() });
        if !NEVER_PREFETCH.contains(&engine) {
            add("-prefetch", prefetch.clone());
            add("-prefetch-two-disks", Recipe { two_disks: true, ..prefetch.clone() });
        }
        if WITH_HASH.contains(&engine) {
            add("-hash-12", Recipe { hash_bits: Some(12), ..plain.clone() });
        }
        if engine == "hashcache-loglru" {
            add("-apart", Recipe { apart: true, ..plain.clone() });
            add("-apart-prefetch", Recipe { apart: true, ..prefetch.clone() });
            add("-apart-two-disks", Recipe { apart: true, two_disks: true, ..plain.clone() });
            add("-apart-laps", Recipe { apart: true, laps: true, ..plain.clone() });
        }
        if TABLES.contains(&engine) {
            let ways = if engine == "hashcache-basic" { 1 } else { 4 };
            add("-bins-16k", Recipe { bins: Some((16 << 10, ways)), ..plain });
        }
    }
    let killed = closed.iter().map(|one| Recipe { name: format!("{}-killed", one.name), killed: true, ..one.clone() });
    let killed: Vec<_> = killed.collect();
    closed.into_iter().chain(killed).collect()
}

/// Where the disks of a cache in a directory are.
pub fn disks(dir: &Path, two_disks: bool) -> Vec<PathBuf> {
    let names: &[&str] = if two_disks { &["cache", "second"] } else { &["cache"] };
    names.iter().map(|name| dir.join(name)).collect()
}

/// The disks and the directory for positions of a cache in a directory, if it has them.
pub fn options(dir: &Path, two_disks: bool, apart: bool) -> CacheOptions {
    let mut disks = disks(dir, two_disks).into_iter();
    CacheOptions::new(disks.next().unwrap())
        .more_dirs(disks)
        .when(apart.then(|| dir.join("positions")), CacheOptions::positions_dir)
        .memory_bytes(0)
}

impl Recipe {
    /// What it is made with.
    pub fn options(&self, dir: &Path) -> CacheOptions {
        let mut settings = Settings::new();
        if self.prefetch {
            settings.set(&engines::PREFETCH, 1);
        }
        if let Some(bits) = self.hash_bits {
            settings.set(&engines::HASH_BITS, bits);
        }
        if let Some((bytes, ways)) = self.bins {
            settings.set(&engines::BIN_SIZE, bytes);
            settings.set(&engines::WAYS, ways);
        }
        options(dir, self.two_disks, self.apart)
            .engine(self.engine.parse().unwrap())
            .disk_bytes(32 << 20)
            .settings(settings)
            .flush_every(None)
    }
}
