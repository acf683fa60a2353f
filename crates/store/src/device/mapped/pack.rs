//! Where the next object goes in the mapped file: no I/O.

use super::segment::{CLASSES, Segment};

/// How objects are placed one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// One behind the other, wherever pages end (section 2.4.2).
    InOrder,
    /// So that none crosses the end of a page: Algorithm 1 (section 2.4.4).
    WithinPages,
}

/// Places objects in the order in which they come. Memory: nothing that grows.
#[derive(Clone, Debug)]
pub struct Packer {
    packing: Packing,
    /// Class of a segment that is a whole page.
    page: usize,
    end: u64,
    next: u64,
    /// Of each class below a page's, what is left of pages that were begun: one segment at most.
    left: [Option<u64>; CLASSES],
}

impl Packer {
    /// Over a file of so many bytes, from an offset on where a page begins; `page` is the class of the page.
    pub fn new(packing: Packing, page: usize, from: u64, end: u64) -> Packer {
        Packer { packing, page: page.min(CLASSES - 1), end, next: from, left: [None; CLASSES] }
    }

    /// The class of a page: no object is larger.
    pub fn page(&self) -> usize {
        self.page
    }

    /// The segment for the next object of this class; `None` when the file is full.
    pub fn place(&mut self, class: usize) -> Option<Segment> {
        let bytes = 512_u64 << class.min(CLASSES);
        if class > self.page {
            return None;
        }
        match self.packing {
            Packing::InOrder => self.take(bytes, class),
            Packing::WithinPages => {
                // The smallest that is available and fits.
                let left = (class..self.page).find_map(|larger| Some((larger, self.left.get_mut(larger)?.take()?)));
                let (larger, offset) = match left {
                    Some(left) => left,
                    None => (self.page, self.take(512 << self.page, self.page)?.offset()),
                };
                for rest in class..larger {
                    self.left.get_mut(rest)?.replace(offset + (512 << rest));
                }
                Segment::new(offset, class)
            }
        }
    }

    fn take(&mut self, bytes: u64, class: usize) -> Option<Segment> {
        let after = self.next.checked_add(bytes).filter(|after| *after <= self.end)?;
        let segment = Segment::new(self.next, class)?;
        self.next = after;
        Some(segment)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Algorithm 1 as the paper prints it, line by line, with 0 for "none".
    fn algorithm_1(sizes: &[u64]) -> Vec<u64> {
        let (mut freelist, mut offsets) = ([0_u64; 5], Vec::new());
        for size in sizes {
            let segment = (0..5).find(|segment| *size <= 1 << (9 + segment)).unwrap();
            for free_seg in segment..5 {
                if freelist[free_seg] > 0 || free_seg == 4 {
                    let offset = freelist[free_seg];
                    if free_seg == 4 {
                        freelist[4] = offset + 8192;
                    } else {
                        freelist[free_seg] = 0;
                    }
                    for (rest_seg, left) in freelist.iter_mut().enumerate().take(free_seg).skip(segment) {
                        *left = offset + (1 << (9 + rest_seg));
                    }
                    offsets.push(offset);
                    break;
                }
            }
        }
        offsets
    }

    proptest! {
        #[test]
        fn objects_lie_where_algorithm_1_puts_them(sizes in prop::collection::vec(1..=8192_u64, 0..300)) {
            let mut packer = Packer::new(Packing::WithinPages, 4, 0, 1 << 40);
            let class = |size: u64| (0..5).find(|class| size <= 512 << class).unwrap();
            let placed: Vec<_> = sizes.iter().map(|size| packer.place(class(*size)).unwrap()).collect();
            let offsets: Vec<_> = placed.iter().map(|segment| segment.offset()).collect();
            prop_assert_eq!(offsets, algorithm_1(&sizes));
            for segment in placed {
                prop_assert_eq!(segment.offset() / 8192, (segment.offset() + segment.bytes() - 1) / 8192);
            }
        }

        /// Whatever the packing and the page, no two segments share a byte and none lies behind the end.
        #[test]
        fn segments_are_apart(
            within in any::<bool>(), page in 3..5_usize, end in 0..200_000_u64,
            classes in prop::collection::vec(0..5_usize, 0..400),
        ) {
            let packing = if within { Packing::WithinPages } else { Packing::InOrder };
            let mut packer = Packer::new(packing, page, 0, end);
            let mut placed: Vec<_> = classes.iter().filter_map(|class| packer.place(*class)).collect();
            placed.sort_unstable();
            prop_assert!(placed.windows(2).all(|two| two[0].offset() + two[0].bytes() <= two[1].offset()));
            prop_assert!(placed.iter().all(|last| last.offset() + last.bytes() <= end && usize::from(last.class) <= page));
        }
    }
}
