//! The least recently used leaves: a cache of so many bytes that keeps whole objects, as a reference.

use std::collections::{BTreeMap, HashMap};

use super::Request;

/// An exact LRU over bytes. Memory: some 100 bytes an object.
pub struct ByteLru {
    capacity_bytes: u64,
    used_bytes: u64,
    clock: u64,
    /// When each object was used last, and its size.
    objects: HashMap<u64, (u64, u64)>,
    /// Objects by when they were used.
    order: BTreeMap<u64, u64>,
}

impl ByteLru {
    /// Empty, with room for so many bytes.
    pub fn new(capacity_bytes: u64) -> Self {
        ByteLru { capacity_bytes, used_bytes: 0, clock: 0, objects: HashMap::new(), order: BTreeMap::new() }
    }

    /// Ask for an object; whether it was there. It is now, if it may be stored and is not larger than the cache.
    pub fn ask(&mut self, request: &Request) -> bool {
        self.clock += 1;
        if let Some((used, _)) = self.objects.get_mut(&request.object) {
            self.order.remove(used);
            *used = self.clock;
            self.order.insert(self.clock, request.object);
            return true;
        }
        if request.cachable && request.bytes <= self.capacity_bytes {
            self.objects.insert(request.object, (self.clock, request.bytes));
            self.order.insert(self.clock, request.object);
            self.used_bytes += request.bytes;
        }
        while self.used_bytes > self.capacity_bytes {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.used_bytes -= self.objects.remove(&oldest).map_or(0, |(_, bytes)| bytes);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_was_used_longest_ago_leaves_first() {
        let mut cache = ByteLru::new(100);
        let mut ask = |object, bytes, cachable| {
            let time = Duration::ZERO;
            cache.ask(&Request {
                time,
                object,
                bytes,
                sent_bytes: bytes,
                client: 0,
                referer: None,
                host: 0,
                stream: 0,
                cachable,
            })
        };
        assert_eq!([(1, 40), (2, 40), (1, 40)].map(|(object, bytes)| ask(object, bytes, true)), [false, false, true]);
        assert!(!ask(3, 60, true), "2 leaves for it");
        assert_eq!([1, 3].map(|object| ask(object, 0, true)), [true, true]);
        assert!(!ask(2, 40, true), "1 leaves for it, and 3 stays");
        assert_eq!([(3, true), (1, false)].map(|(object, there)| ask(object, 1, false) == there), [true, true]);
        assert!(!ask(9, 101, true) && !ask(9, 101, true), "larger than the cache");
    }
}
