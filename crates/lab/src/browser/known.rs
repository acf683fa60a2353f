//! What a cache without end would hold: the upper bound of section 4.2.

use std::collections::HashMap;

use super::{Extent, TraceKey};

/// Streams of an entry that are replayed: those that a backend has.
pub const KEPT: usize = tinaja_backend::STREAMS;

/// Entries with the sizes of their streams. Memory: some 80 bytes an entry.
#[derive(Clone, Debug, Default)]
pub struct Known {
    entries: HashMap<TraceKey, [u64; KEPT]>,
    bytes: u64,
}

impl Known {
    /// The sizes of an entry's streams, if it is there.
    pub fn sizes(&self, key: &TraceKey) -> Option<[u64; KEPT]> {
        self.entries.get(key).copied()
    }

    /// Bytes of all streams of all entries.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// It is there now; what it had of streams stays.
    pub fn insert(&mut self, key: TraceKey) {
        self.entries.entry(key).or_default();
    }

    /// It is gone.
    pub fn remove(&mut self, key: &TraceKey) {
        let sizes = self.entries.remove(key).unwrap_or_default();
        self.bytes -= sizes.iter().sum::<u64>();
    }

    /// Something was written into an entry; nothing happens to one that is not there.
    pub fn write(&mut self, key: &TraceKey, part: Extent, truncate: bool) {
        let size = self.entries.get_mut(key).and_then(|sizes| sizes.get_mut(part.stream as usize));
        let Some(size) = size else { return };
        let end = part.offset + part.len;
        let after = if truncate { end } else { end.max(*size) };
        self.bytes = self.bytes - *size + after;
        *size = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_all_streams_that_are_there() {
        let key = TraceKey { hash: [1; 20], len: 9 };
        let part = |stream, offset, len| Extent { stream, offset, len };
        let mut known = Known::default();
        known.write(&key, part(0, 0, 5), false);
        assert!(known.is_empty() && known.bytes() == 0, "what is not there is not written to");
        known.insert(key);
        known.write(&key, part(0, 0, 700), true);
        known.write(&key, part(1, 100, 900), false);
        known.write(&key, part(1, 0, 10), false);
        known.write(&key, part(7, 0, 10), false);
        assert_eq!((known.sizes(&key), known.bytes()), (Some([700, 1000, 0]), 1700));
        known.write(&key, part(1, 0, 10), true);
        assert_eq!((known.len(), known.bytes()), (1, 710));
        known.remove(&key);
        known.remove(&key);
        assert_eq!((known.len(), known.bytes()), (0, 0));
    }
}
