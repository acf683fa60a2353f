//! Opening HashCache-Log: the index is rebuilt from the log's summaries, oldest record first.

use crate::engine::Kind;
use crate::layout::log::Recovered;

use super::index::Index;

/// Enter everything that was found into an empty index: later records of a fingerprint join or replace earlier ones as
/// they did when they were written, and tombstones remove what came before. The order of use becomes the order of
/// writing. A slot is a hint, so an entry that does not match its record costs one read.
pub fn rebuild(index: &Index, found: &Recovered) {
    for entry in &found.entries {
        match entry.kind {
            Kind::Whole | Kind::Large => index.insert_low(entry.id_low, entry.place),
            Kind::Tombstone => index.remove_low(entry.id_low),
            Kind::Extent => {}
        }
    }
}
