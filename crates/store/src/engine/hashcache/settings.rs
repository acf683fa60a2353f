//! Settings of HashCache's engines.

use crate::engine::{Setting, Takes};

/// Whether related objects are written together and read together (section 3.5). A new cache does not, unless it is asked to,
/// because that loses least. It costs 8 bits for each position, up to 16 MiB a disk, and at a kill two seconds of the objects
/// that belong to groups. A disk that turns saves most of its reads by it, another one few (`tinaja lab hashcache-prefetch`).
pub static PREFETCH: Setting = Setting {
    name: "prefetch",
    takes: Takes::Switch { off: "off", on: "on" },
    value_name: "true|false",
    help: "Write the objects of one page together, and read them together with a single disk read. Default: as the cache was \
           created, or false for a new one. Costs 8 bits per object with hashcache-log and hashcache-loglru, and up to \
           16 MiB per disk",
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
    help: "Bits of each object's hash that the index of a new cache keeps, 8 to 16 (default 8). Each extra bit costs one bit \
           of memory per object and halves the disk reads for objects that are not in the cache",
    lasts: true,
    made_with: "hashes of",
    unit: "bits",
    missing: "has no index with a configurable number of hash bits",
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
    unit: "percent of the sets",
    missing: "cannot limit how many sets it indexes in memory",
    out_of_range: "{} percent of the sets cannot be indexed in memory",
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
    help: "Positions kept in memory for each set of eight objects (default 4). Finding one of the others costs a second disk read",
    lasts: false,
    made_with: "",
    unit: "positions",
    missing: "cannot limit how many positions it keeps in memory",
    out_of_range: "{} of a set's 8 positions cannot be kept in memory",
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
    help: "Bin size of a new cache: 4KiB, 8KiB, 16KiB, 32KiB or 64KiB. Default: chosen for the disk, which is measured for \
           two seconds when the cache is created",
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
    help: "Bins per set of a new cache: 2, 4 or 8. Default: chosen for the disk",
    lasts: true,
    made_with: "sets of",
    unit: "bins",
    missing: NO_BINS,
    out_of_range: "",
    nothing: None,
};

const NO_BINS: &str = "keeps no bins, so it has no bin size and no bins per set";
