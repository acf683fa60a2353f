//! What is known of something for a while, and of so many things at most.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

use parking_lot::Mutex;

/// Things of which something is known at once. Memory: some 100 bytes each, with short names.
pub(crate) const MOST: usize = 4096;

/// What is known of things, each until its own time. Of too many the one that would be forgotten first is.
#[derive(Debug)]
pub(crate) struct Remembered<K, V>(Mutex<HashMap<K, (V, Instant)>>);

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Remembered(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone, V: Copy> Remembered<K, V> {
    /// Remembers something until then, in place of what was known of it.
    pub fn add(&self, thing: K, known: V, now: Instant, until: Instant) {
        let mut all = self.0.lock();
        if all.len() >= MOST && !all.contains_key(&thing) {
            all.retain(|_, (_, until)| now < *until);
            let oldest = all.iter().min_by_key(|(_, (_, until))| *until).map(|(thing, _)| thing.clone());
            if let Some(oldest) = oldest.filter(|_| all.len() >= MOST) {
                all.remove(&oldest);
            }
        }
        all.insert(thing, (known, until));
    }

    /// What is known of something now.
    pub fn get(&self, thing: &K, now: Instant) -> Option<V> {
        self.0.lock().get(thing).filter(|(_, until)| now < *until).map(|(known, _)| *known)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }
}
