//! What is known of the mapped file's segments: which are taken, which are free, and whose object makes room. No I/O.
//!
//! The size of a segment stays what it was when it was placed, and an object replaces one of the same size (section 3.3). A
//! size of which the full file has no segment is given the next larger one that there is; where there is none, the object becomes
//! a file.

use crate::device::mapped::{CLASSES, Packer, Packing, Segment};
use crate::replace::fbc::{AMAX, CMAX};
use crate::replace::{Fbc, Lru};

/// Which object of a size makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The one that was asked for least recently (section 3.5).
    Lru,
    /// The first behind a pointer that was not asked for often (section 3.6).
    Cyclic {
        /// With so many references it is passed over.
        cmax: u32,
        /// When the mean of all counts is above, all are halved.
        amax: u32,
    },
}

impl Replacement {
    /// The paper's FBC.
    pub const FBC: Replacement = Replacement::Cyclic { cmax: CMAX, amax: AMAX };
}

/// How a mapped file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Its size in bytes.
    pub bytes: u64,
    /// Of a page, 4096 or 8192: no larger object goes into the file.
    pub page_bytes: u32,
    /// How objects are placed.
    pub packing: Packing,
    /// Who makes room.
    pub replacement: Replacement,
}

/// The segments, and whose object makes room: an object is told by a number of the caller's. Memory: 24 bytes an object by LRU and
/// some 48 by FBC; 8 bytes a free segment.
pub struct Segments {
    packer: Packer,
    free: [Vec<Segment>; CLASSES],
    order: Order,
}

enum Order {
    Lru(Box<[Lru<u64>; CLASSES]>),
    Cyclic(Fbc<u64>),
}

impl Segments {
    /// Over a file in which these are taken, in their order. What lies between them is free.
    pub fn with(mapped: Mapped, taken: impl Iterator<Item = Segment>) -> Segments {
        let page = u64::from(mapped.page_bytes);
        let class = page.ilog2().saturating_sub(9) as usize;
        let mut taken: Vec<_> = taken.collect();
        taken.sort_unstable();
        let mut free: [Vec<Segment>; CLASSES] = Default::default();
        let mut next = 0;
        for segment in taken {
            cut(next, segment.offset(), page, &mut free);
            next = next.max(segment.offset() + segment.bytes());
        }
        let packed = if mapped.packing == Packing::WithinPages { next.next_multiple_of(page) } else { next };
        cut(next, packed.min(mapped.bytes), page, &mut free);
        // The first is used first.
        free.iter_mut().for_each(|free| free.reverse());
        let order = match mapped.replacement {
            Replacement::Lru => Order::Lru(Box::default()),
            Replacement::Cyclic { cmax, amax } => Order::Cyclic(Fbc::new(CLASSES, cmax, amax)),
        };
        Segments { packer: Packer::new(mapped.packing, class, packed, mapped.bytes), free, order }
    }

    /// The classes that so many bytes may go into, the smallest first; none if they are too many.
    pub fn classes_for(&self, bytes: usize) -> impl Iterator<Item = usize> + use<> {
        let most = self.packer.page();
        // An object as large as a page is the largest: there is a header with it, which the paper's has not.
        Segment::class_for(bytes).into_iter().flat_map(move |least| least..=most)
    }

    /// A segment that nobody has: one that was given back, else the next in the file.
    pub fn take(&mut self, class: usize) -> Option<Segment> {
        self.free.get_mut(class)?.pop().or_else(|| self.packer.place(class))
    }

    /// Nobody has it any more.
    pub fn give_back(&mut self, segment: Segment) {
        if let Some(free) = self.free.get_mut(usize::from(segment.class)) {
            free.push(segment);
        }
    }

    /// An object is in a segment. Returns what it is called in the order of replacement.
    pub fn enter(&mut self, segment: Segment, file: u64) -> u32 {
        match &mut self.order {
            Order::Lru(lists) => lists.get_mut(usize::from(segment.class)).map_or(0, |list| list.insert(file)),
            Order::Cyclic(fbc) => {
                fbc.insert(segment.class.into(), segment.at, file);
                segment.at
            }
        }
    }

    /// It was asked for.
    pub fn touch(&mut self, segment: Segment, order: u32) {
        match &mut self.order {
            Order::Lru(lists) => {
                lists.get_mut(usize::from(segment.class)).into_iter().for_each(|list| list.touch(order))
            }
            Order::Cyclic(fbc) => fbc.touch(segment.class.into(), order),
        }
    }

    /// It is replaced no more: it leaves by itself.
    pub fn leave(&mut self, segment: Segment, order: u32) {
        match &mut self.order {
            Order::Lru(lists) => drop(lists.get_mut(usize::from(segment.class)).and_then(|list| list.remove(order))),
            Order::Cyclic(fbc) => drop(fbc.remove(segment.class.into(), order)),
        }
    }

    /// Whose object makes room for one of this class; it leaves the order.
    pub fn victim(&mut self, class: usize) -> Option<u64> {
        match &mut self.order {
            Order::Lru(lists) => lists.get_mut(class)?.pop_oldest(),
            Order::Cyclic(fbc) => fbc.victim(class).map(|(_, file)| file),
        }
    }

    /// The same, of the `most` objects asked for least recently the first that `is_better` than others; the first of all if none is.
    /// FBC has no such choice.
    pub fn victim_among(&mut self, class: usize, most: usize, is_better: impl Fn(u64) -> bool) -> Option<u64> {
        if let Order::Lru(lists) = &mut self.order {
            let list = lists.get_mut(class)?;
            let better = list.oldest_first().take(most).find(|(_, object)| is_better(**object)).map(|(at, _)| at);
            if let Some(at) = better {
                return list.remove(at);
            }
        }
        self.victim(class)
    }

    /// What FBC counts: how often all counts were halved, and their mean. Zeros by LRU.
    pub fn counts(&self) -> (u64, f64) {
        match &self.order {
            Order::Lru(_) => (0, 0.0),
            Order::Cyclic(fbc) => (fbc.agings(), fbc.mean()),
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        let free: usize = self.free.iter().map(|free| free.capacity() * size_of::<Segment>()).sum();
        let order = match &self.order {
            Order::Lru(lists) => lists.iter().map(|list| list.numbers() as u64 * 24).sum(),
            Order::Cyclic(fbc) => fbc.len() * 48,
        };
        free as u64 + order
    }
}

/// What lies between two offsets, in pieces as large as they may be: each begins at a multiple of its size.
fn cut(from: u64, to: u64, page: u64, free: &mut [Vec<Segment>; CLASSES]) {
    let mut at = from;
    while at < to {
        let fits = |class: &usize| {
            let bytes = 512 << class;
            bytes <= page && at.is_multiple_of(bytes) && at + bytes <= to
        };
        let Some(class) = (0..CLASSES).rev().find(fits) else { return };
        let Some(segment) = Segment::new(at, class) else { return };
        at += segment.bytes();
        free.get_mut(class).into_iter().for_each(|free| free.push(segment));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mapped(packing: Packing, replacement: Replacement) -> Mapped {
        Mapped { bytes: 64 << 10, page_bytes: 8192, packing, replacement }
    }

    /// A full file: an object replaces one of its own size, and sizes without any segment take the next larger one.
    #[test]
    fn each_size_replaces_its_own() {
        for replacement in [Replacement::Lru, Replacement::FBC] {
            let mut segments = Segments::with(mapped(Packing::WithinPages, replacement), std::iter::empty());
            let sizes = [1, 1, 4, 3, 4, 4, 4, 4, 4, 4];
            let all: Vec<_> = sizes.iter().map_while(|class| segments.take(*class)).collect();
            assert_eq!(all.len(), 10, "eight pages: one has two of 1024 bytes and one of 4096");
            let orders: Vec<_> = all.iter().zip(0..).map(|(segment, file)| segments.enter(*segment, file)).collect();
            segments.touch(all[0], orders[0]);
            segments.touch(all[0], orders[0]);
            assert_eq!(segments.victim(1), Some(1));
            // 512 bytes are left over of the first page's 2048, and 2048.
            assert_eq!(segments.take(2).map(|segment| segment.offset()), Some(2048));
            assert_eq!((segments.take(0), segments.victim(0)), (None, None));
            assert_eq!(segments.classes_for(100).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
            assert_eq!(segments.classes_for(8185).count(), 0);
        }
    }

    /// Section 7: of those asked for least recently, one whose page is in memory.
    #[test]
    fn a_better_one_goes_first() {
        let mut segments = Segments::with(mapped(Packing::WithinPages, Replacement::Lru), std::iter::empty());
        for object in 0..8 {
            let segment = segments.take(4).unwrap();
            segments.enter(segment, object);
        }
        assert_eq!(segments.victim_among(4, 4, |object| object >= 3), Some(3));
        assert_eq!(segments.victim_among(4, 4, |object| object >= 6), Some(0), "none of the four is");
        assert_eq!(segments.victim_among(4, 0, |_| true), Some(1));
        assert_eq!(segments.counts(), (0, 0.0));
    }

    proptest! {
        /// Opened again with some of them gone: no two share a byte, taken before or after.
        #[test]
        fn after_a_restart_the_rest_is_free(
            within in any::<bool>(), small in any::<bool>(),
            classes in prop::collection::vec((0..5_usize, any::<bool>()), 0..200),
        ) {
            let packing = if within { Packing::WithinPages } else { Packing::InOrder };
            let page_bytes = if small { 4096 } else { 8192 };
            let mapped = Mapped { page_bytes, ..mapped(packing, Replacement::Lru) };
            let mut segments = Segments::with(mapped, std::iter::empty());
            let placed = classes.iter().filter_map(|(class, stays)| Some((segments.take(*class)?, *stays)));
            let kept: Vec<_> = placed.collect::<Vec<_>>().into_iter().filter(|(_, stays)| *stays).map(|(one, _)| one).collect();
            let mut again = Segments::with(mapped, kept.iter().copied());
            let mut all = kept;
            for class in [4, 3, 2, 1, 0] {
                all.extend(std::iter::from_fn(|| again.take(class)));
            }
            all.sort_unstable();
            let bytes: u64 = all.iter().map(|segment| segment.bytes()).sum();
            prop_assert!(all.windows(2).all(|two| two[0].offset() + two[0].bytes() <= two[1].offset()));
            prop_assert_eq!(bytes, mapped.bytes, "and none is lost");
            if within {
                let page = u64::from(page_bytes);
                prop_assert!(all.iter().all(|one| one.offset() / page == (one.offset() + one.bytes() - 1) / page));
            }
        }
    }
}
