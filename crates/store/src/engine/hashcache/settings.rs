//! Settings of HashCache's engines.

use crate::engine::{Setting, Takes};

/// Whether related objects are written together and read together (section 3.5). A new cache does not, unless it is asked to,
/// because that loses least. It costs 8 bits for each position, up to 16 MiB a disk, and at a kill two seconds of the objects
/// that belong to groups. A disk that turns saves most of its reads by it, another one few (`tinaja lab hashcache-prefetch`).
pub static PREFETCH: Setting = Setting {
    name: "prefetch",
    takes: Takes::Switch { off: "off", on: "on" },
    value_name: "true|false",
    help: "Write the objects of one page together and read them together, so that the disk is asked once for all of them. \
           The default is what the cache was made with, or false for a new one. Costs 8 bits an object with hashcache-log \
           and hashcache-loglru, and up to 16 MiB a disk",
    lasts: true,
    made_with: "prefetching",
    unit: "",
    missing: "never prefetches",
    out_of_range: "",
    nothing: Some(0),
};

/// How many bits of an object's hash the index in memory keeps of it (3.3, 4.4).
pub static HASH_BITS: Setting = Setting {
    name: "hash-bits",
    takes: Takes::Number { least: 8, most: 16 },
    value_name: "N",
    help: "Bits of each object's hash that the index of a new cache keeps, 8 to 16 (default 8). Each costs a bit an object, \
           and halves the reads for what is not there",
    lasts: true,
    made_with: "hashes of",
    unit: "bits",
    missing: "has no index with a choice of hash bits",
    out_of_range: "an index cannot keep {} bits of an object's hash",
    nothing: None,
};

/// Percentage of sets whose row HashCache-SetMemLRU keeps in memory. 40 is below SetMem's memory (3.3).
pub static SETS_IN_MEMORY: Setting = Setting {
    name: "sets-in-memory",
    takes: Takes::Number { least: 1, most: 100 },
    value_name: "PERCENT",
    help: "Percentage of sets indexed in memory (default 40)",
    lasts: false,
    made_with: "",
    unit: "in a hundred sets",
    missing: "has no choice of how many sets it has in memory",
    out_of_range: "{} in a hundred sets cannot be in memory",
    nothing: None,
};

/// What [`SETS_IN_MEMORY`] is where nothing is said.
pub const DEFAULT_SETS_IN_MEMORY: u64 = 40;

/// Of how many slots in each set of eight HashCache-LogLRU keeps the position in memory. Half of the objects are rarely
/// asked for again (3.4).
pub static POSITIONS_IN_MEMORY: Setting = Setting {
    name: "positions-in-memory",
    takes: Takes::Number { least: 1, most: 8 },
    value_name: "N",
    help: "Positions of each set of eight objects kept in memory (default 4). The others cost a second read",
    lasts: false,
    made_with: "",
    unit: "positions",
    missing: "has no choice of how many positions it has in memory",
    out_of_range: "of {} of a set's 8 positions there cannot be a copy in memory",
    nothing: None,
};

/// What [`POSITIONS_IN_MEMORY`] is where nothing is said.
pub const DEFAULT_POSITIONS_IN_MEMORY: u64 = 4;

/// Whether the other positions lie on a device of their own, and not before the log (5.4). The store sets it where it is
/// given a directory for them.
pub static POSITIONS_APART: Setting = Setting {
    name: "positions-apart",
    takes: Takes::Switch { off: "beside the log", on: "in a directory of their own" },
    value_name: "",
    help: "",
    lasts: true,
    made_with: "positions",
    unit: "",
    missing: "keeps no positions on disk, so they need no directory",
    out_of_range: "",
    nothing: Some(0),
};

/// Bytes of a bin of a new Disk Table.
pub static BIN_SIZE: Setting = Setting {
    name: "bin-size",
    takes: Takes::Bytes,
    value_name: "SIZE",
    help: "Size of a bin of a new cache: 4KiB, 8KiB, 16KiB, 32KiB or 64KiB. The default suits the disk, which is measured \
           for two seconds when the cache is made",
    lasts: true,
    made_with: "bins of",
    unit: "bytes",
    missing: NO_BINS,
    out_of_range: "",
    nothing: None,
};

/// Bins of a set of a new Disk Table.
pub static WAYS: Setting = Setting {
    name: "ways",
    takes: Takes::Number { least: 1, most: 8 },
    value_name: "N",
    help: "Bins in a set of a new cache: 2, 4 or 8. The default suits the disk",
    lasts: true,
    made_with: "sets of",
    unit: "bins",
    missing: NO_BINS,
    out_of_range: "",
    nothing: None,
};

const NO_BINS: &str = "keeps no bins, so they have no size and no number";
