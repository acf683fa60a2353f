//! A list in order of use, with both ends open: least recently used first out, or most recently.

const NONE: u32 = u32::MAX;

struct Node<T> {
    value: Option<T>,
    older: u32,
    newer: u32,
}

/// Items in order of use. Each is named by a number that stays the same while it is on the list and is used again
/// afterwards. Memory: 8 bytes an item beside the item itself as an `Option`, never given back.
pub struct Lru<T> {
    nodes: Vec<Node<T>>,
    newest: u32,
    oldest: u32,
    free: Vec<u32>,
    len: usize,
}

impl<T> Default for Lru<T> {
    fn default() -> Self {
        Lru { nodes: Vec::new(), newest: NONE, oldest: NONE, free: Vec::new(), len: 0 }
    }
}

impl<T> Lru<T> {
    /// Items on the list.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Add an item as the most recently used. Returns its number.
    pub fn insert(&mut self, value: T) -> u32 {
        let node = Node { value: Some(value), older: NONE, newer: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                if let Some(slot) = self.nodes.get_mut(at as usize) {
                    *slot = node;
                }
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.len += 1;
        self.link_newest(at);
        at
    }

    /// All numbers are below this.
    pub fn numbers(&self) -> usize {
        self.nodes.len()
    }

    /// The item with this number.
    pub fn get(&self, at: u32) -> Option<&T> {
        self.nodes.get(at as usize)?.value.as_ref()
    }

    /// Make an item the most recently used.
    pub fn touch(&mut self, at: u32) {
        if self.get(at).is_some() && self.newest != at {
            self.unlink(at);
            self.link_newest(at);
        }
    }

    /// Make an item the least recently used: the next to leave.
    pub fn retire(&mut self, at: u32) {
        if self.get(at).is_some() && self.oldest != at {
            self.unlink(at);
            self.link_oldest(at);
        }
    }

    /// Take an item off the list.
    pub fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.nodes.get_mut(at as usize)?.value.take()?;
        self.unlink(at);
        self.free.push(at);
        self.len -= 1;
        Some(value)
    }

    /// Items with their numbers, the least recently used first.
    pub fn oldest_first(&self) -> impl Iterator<Item = (u32, &T)> {
        let node = |at: u32| Some((at, self.nodes.get(at as usize)?));
        std::iter::successors(node(self.oldest), move |(_, last)| node(last.newer))
            .filter_map(|(at, node)| Some((at, node.value.as_ref()?)))
    }

    /// Take the least recently used item off the list.
    pub fn pop_oldest(&mut self) -> Option<T> {
        self.remove(self.oldest)
    }

    /// Take the most recently used item off the list.
    pub fn pop_newest(&mut self) -> Option<T> {
        self.remove(self.newest)
    }

    fn link_newest(&mut self, at: u32) {
        let next = self.newest;
        if let Some(node) = self.nodes.get_mut(at as usize) {
            (node.older, node.newer) = (next, NONE);
        }
        match self.nodes.get_mut(next as usize) {
            Some(node) => node.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn link_oldest(&mut self, at: u32) {
        let next = self.oldest;
        if let Some(node) = self.nodes.get_mut(at as usize) {
            (node.older, node.newer) = (NONE, next);
        }
        match self.nodes.get_mut(next as usize) {
            Some(node) => node.older = at,
            None => self.newest = at,
        }
        self.oldest = at;
    }

    fn unlink(&mut self, at: u32) {
        let Some(&Node { older, newer, .. }) = self.nodes.get(at as usize) else {
            return;
        };
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_ends_give_what_they_should() {
        let mut lru = Lru::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| lru.insert(name));
        lru.touch(a);
        assert_eq!(lru.get(b), Some(&"b"));
        assert_eq!((lru.pop_oldest(), lru.pop_newest(), lru.len()), (Some("b"), Some("a"), 1));
        assert_eq!((lru.remove(c), lru.pop_oldest(), lru.is_empty()), (Some("c"), None, true));
        assert_eq!(lru.remove(c), None);
    }

    proptest! {
        /// The list behaves as a vector does in which use moves an item to the end.
        #[test]
        fn it_matches_a_vector(steps in proptest::collection::vec((0..6_u8, 0..20_usize), 0..200)) {
            let (mut lru, mut model) = (Lru::default(), Vec::new());
            for (step, (what, which)) in steps.into_iter().enumerate() {
                let pick = (!model.is_empty()).then(|| which % model.len());
                match (what, pick) {
                    (0 | 1, _) => { let at = lru.insert(step); model.push((at, step)); }
                    (2, Some(i)) => { let item: (u32, usize) = model.remove(i); lru.touch(item.0); model.push(item); }
                    (3, Some(i)) => { let item = model.remove(i); prop_assert_eq!(lru.remove(item.0), Some(item.1)); }
                    (4, Some(i)) => { let item = model.remove(i); lru.retire(item.0); model.insert(0, item); }
                    (5, Some(_)) => prop_assert_eq!(lru.pop_oldest(), Some(model.remove(0).1)),
                    _ => prop_assert_eq!(lru.pop_newest(), None),
                }
                prop_assert_eq!(lru.len(), model.len());
            }
        }
    }
}
