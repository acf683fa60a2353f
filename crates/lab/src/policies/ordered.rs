//! Objects in the order in which they came, with their sizes: what most policies are made of. Any object can be taken out.

/// A list of objects by their numbers, the oldest first. Memory: 24 bytes for each object of the sequence.
#[derive(Clone, Debug, Default)]
pub struct Ordered {
    links: Vec<Link>,
    /// The oldest, and the newest.
    ends: (Option<u32>, Option<u32>),
    bytes: u64,
    len: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    older: Option<u32>,
    newer: Option<u32>,
    /// Its size, if it is in the list.
    bytes: Option<u64>,
}

impl Ordered {
    /// Bytes of all that is in it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Objects that are in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The size of an object, if it is in the list.
    pub fn size(&self, object: u32) -> Option<u64> {
        self.links.get(object as usize).and_then(|link| link.bytes)
    }

    /// Whether an object is in it.
    pub fn has(&self, object: u32) -> bool {
        self.size(object).is_some()
    }

    /// The oldest.
    pub fn oldest(&self) -> Option<u32> {
        self.ends.0
    }

    /// The next newer one.
    pub fn newer(&self, object: u32) -> Option<u32> {
        self.links.get(object as usize).and_then(|link| link.newer)
    }

    /// Put an object in as the newest. It must not be there.
    pub fn push(&mut self, object: u32, bytes: u64) {
        if self.links.len() <= object as usize {
            self.links.resize(object as usize + 1, Link::default());
        }
        let newest = self.ends.1.replace(object);
        match newest.and_then(|newest| self.links.get_mut(newest as usize)) {
            Some(newest) => newest.newer = Some(object),
            None => self.ends.0 = Some(object),
        }
        if let Some(link) = self.links.get_mut(object as usize) {
            *link = Link { older: newest, newer: None, bytes: Some(bytes) };
        }
        (self.bytes, self.len) = (self.bytes + bytes, self.len + 1);
    }

    /// Put an object in as the newest, and take out the oldest until all fit into so many bytes. One that does not fit by itself is
    /// left out. It must not be there.
    pub fn push_within(&mut self, object: u32, bytes: u64, capacity_bytes: u64) {
        if bytes <= capacity_bytes {
            while self.bytes + bytes > capacity_bytes && self.pop().is_some() {}
            self.push(object, bytes);
        }
    }

    /// Take an object out; its size, if it was there.
    pub fn take(&mut self, object: u32) -> Option<u64> {
        let link = std::mem::take(self.links.get_mut(object as usize)?);
        let bytes = link.bytes?;
        match link.older.and_then(|older| self.links.get_mut(older as usize)) {
            Some(older) => older.newer = link.newer,
            None => self.ends.0 = link.newer,
        }
        match link.newer.and_then(|newer| self.links.get_mut(newer as usize)) {
            Some(newer) => newer.older = link.older,
            None => self.ends.1 = link.older,
        }
        (self.bytes, self.len) = (self.bytes - bytes, self.len - 1);
        Some(bytes)
    }

    /// Take the oldest out.
    pub fn pop(&mut self) -> Option<(u32, u64)> {
        let oldest = self.ends.0?;
        self.take(oldest).map(|bytes| (oldest, bytes))
    }

    /// Make an object the newest.
    pub fn renew(&mut self, object: u32) {
        if let Some(bytes) = self.take(object) {
            self.push(object, bytes);
        }
    }
}

/// A number for each object that has one; 0 for all others.
#[derive(Clone, Debug, Default)]
pub struct Counts(Vec<u8>);

impl Counts {
    /// The number of an object.
    pub fn of(&self, object: u32) -> u8 {
        self.0.get(object as usize).copied().unwrap_or(0)
    }

    /// Change it.
    pub fn set(&mut self, object: u32, count: u8) {
        if self.0.len() <= object as usize {
            self.0.resize(object as usize + 1, 0);
        }
        if let Some(place) = self.0.get_mut(object as usize) {
            *place = count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_can_be_taken_and_the_others_stay_in_order() {
        let mut list = Ordered::default();
        for object in [3, 1, 4, 5] {
            list.push(object, u64::from(object) * 10);
        }
        assert_eq!((list.bytes(), list.len(), list.oldest(), list.newer(1)), (130, 4, Some(3), Some(4)));
        assert_eq!((list.take(4), list.take(4), list.take(99)), (Some(40), None, None));
        list.renew(3);
        let all: Vec<_> = std::iter::from_fn(|| list.pop()).collect();
        assert_eq!(all, [(1, 10), (5, 50), (3, 30)]);
        assert_eq!((list.bytes(), list.len(), list.oldest()), (0, 0, None));
    }
}
