//! Every limit of the store, with its reason. Each stands beside what it limits; this page lists them all.
//!
//! | where | what it limits |
//! |---|---|
//! | `terms` | what several rooms keep to: leases, patience, the longest request |
//! | `memory` | shares of the memory that there is; spare buffers |
//! | `index` | slots |
//! | `device` | reads under way, requests in queues |
//! | `layout` | batches, bins, summaries, failures, changes that are remembered |
//! | `engine/damelo` | frames, lives of pages, versions that were replaced |
//! | `engine/hashcache/log` | how often `hashcache-log` writes its index |
//! | `engine/hashcache/loglru` | positions of `hashcache-loglru` on their way to its file |
//! | `engine/hashcache/table` | what the engines with a Disk Table remember |
//! | `engine/trees` | older versions of files, and files without a sync |
//! | `hot` | hot objects |
//! | `reuse` | objects that are followed to say what a larger cache would find |
//! | `extents` | what readers of large objects hold |
//! | `write` | unfinished writes, heads, objects that wait for their group |
//! | `cache` | the smallest cache, the table of a body of unknown length, what making a cache anew holds |
//! | `external` | reads handed out |
//! | `tune` | objects that are measured |
//! | here | files and entries, which stand above |

pub use crate::cache::limits::{MAX_PLACES_SORTED, MIN_DISK_BYTES, OBJECTS_COPIED_AT_ONCE, UNTOLD_EXTENTS};
pub use crate::device::limits::{MAX_IN_FLIGHT, MAX_QUEUED_REQUESTS, MAX_READS, MIN_READS, reads};
pub use crate::engine::damelo::limits::{
    FRAME_PATIENCE, LARGE_FRAME_BYTES, LEAST_FRAME_BYTES, LEAST_POOL_FRAMES, MAX_SHADOWS, PINNED_SHARE,
};
pub use crate::engine::hashcache::log::limits::SNAPSHOT_SHARE;
pub use crate::engine::hashcache::loglru::limits::MAX_POSITIONS_WAITING;
pub use crate::engine::hashcache::table::limits::{MAX_SETS_AT_HAND, MAX_SETS_LEARNED, MAX_UNWRITTEN_REMOVALS};
pub use crate::engine::trees::{MAX_SUPERSEDED_SHARE, MAX_UNSYNCED_FILES};
pub use crate::extents::limits::{MAX_HELD_BYTES, MIN_HELD_BYTES, held_bytes, read_turns_kept};
pub use crate::external::index::MAX_TICKETS;
pub use crate::hot::{HOT_COLLECTED_SHARE, HOT_OBJECT_SHARE, HOT_SHARDS};
pub use crate::index::limits::MAX_SLOTS;
pub use crate::layout::limits::{
    MAX_AHEAD_BYTES, MAX_BATCHES_IN_FLIGHT, MAX_BINS_IN_FLIGHT, MAX_CHANGED_SETS, MAX_LOST_BATCHES, MAX_LOST_BINS,
    MAX_SUMMARIES_WAITING, MAX_UNSYNCED_BINS, MAX_WRITE_FAILURES, WRITE_BEHIND, WRITE_BEHIND_OF_SEVERAL,
};
pub use crate::memory::limits::{MAX_SPARE_BYTES, MEMORY_SHARE};
pub use crate::reuse::MAX_FOLLOWED;
pub use crate::terms::limits::{LEASE, MAX_REQUEST_BYTES, TOGETHER_BYTES, WRITE_PATIENCE};
pub use crate::tune::sizes::MAX_MEASURED_OBJECTS;
pub use crate::write::limits::{
    GROUP_HOLD, GROUP_QUIET, GROUP_WINDOW, MAX_GATHERED_BYTES, MAX_GATHERED_OBJECT, MAX_GROUP_OBJECTS, MAX_GROUPS,
    MAX_HEAD_BYTES, MAX_OPEN_WRITES, MAX_WRITTEN_BYTES, MIN_WRITTEN_BYTES, RELAY_BYTES, SHORT_RELAY_BYTES,
    written_bytes,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fused::MAX_WAITING_APPENDS;

    #[test]
    fn every_open_write_may_wait_for_a_broken_engine() {
        const { assert!(MAX_WAITING_APPENDS >= 2 * MAX_OPEN_WRITES) }
    }
}
