//! What an index on disk certainly does not hold: a Bloom filter for each of its pages.
//!
//! A page's filter is made anew when the page is written, from what it holds by then, so nothing is ever removed from one. `b` bits an
//! object and `b ln 2` of them set for each leave a lookup of what is absent a read of the page with a probability of 0.6185 to the
//! power of `b`: 0.24 with three bits, 0.09 with five.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bits that are set for each object, at the most.
const MOST_HASHES: u32 = 12;
/// Bits of a page, at the most: they are chosen by 32 bits of a hash.
const MOST_BITS: u64 = 1 << 32;

/// Bits of the filter by bits in all, in proportion between these. A larger filter would save reads of misses and cost reads of hits:
/// `docs/lab/policies-memory.md`.
const BITS: [(f64, f64); 7] = [(1.0, 0.0), (3.0, 0.8), (8.0, 2.0), (12.0, 2.5), (20.0, 3.5), (32.0, 7.0), (64.0, 7.0)];

/// See the module. Memory: its bits. Those of a page begin where those of the page before end, in the middle of a word too: a page may hold a
/// few objects.
pub struct Filter {
    words: Box<[AtomicU64]>,
    pages: u64,
    bits_a_page: u64,
    hashes: u32,
}

/// A page's filter that is being made anew. Nobody sees it before its end. Memory: its bits.
pub struct Renewal<'a> {
    filter: &'a Filter,
    page: u64,
    /// Bits of the page before in the first word.
    from: u64,
    words: Vec<u64>,
}

impl Filter {
    /// How many bits an object it is worth, where there are so many for all of an index on disk.
    pub fn bits_of(bits: f64) -> f64 {
        let between = |[(from, low), (to, high)]: [(f64, f64); 2]| {
            (bits > from).then(|| low + (high - low) * ((bits - from) / (to - from)).min(1.0))
        };
        BITS.array_windows().copied().filter_map(between).next_back().unwrap_or(0.0)
    }

    /// Filters for so many pages that hold so many objects in all, within so many bytes; nothing is known to be absent where these are
    /// not a bit a page. Allocates all of it now.
    pub fn within(pages: u64, objects: u64, bytes: u64) -> Filter {
        let pages = pages.max(1);
        let bits_a_page = (bytes / 8 * 64 / pages).min(MOST_BITS);
        let bits = pages * bits_a_page;
        let bits_an_object = bits as f64 / objects.max(1) as f64;
        let hashes = (bits_an_object * std::f64::consts::LN_2).round().clamp(1.0, f64::from(MOST_HASHES)) as u32;
        Filter { words: (0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(), pages, bits_a_page, hashes }
    }

    /// The page of an object, from [`crate::Digest::low`] or another number that is spread evenly: scaled, as sets are chosen.
    pub fn page_of(&self, id_low: u64) -> u64 {
        ((u128::from(id_low) * u128::from(self.pages)) >> 64) as u64
    }

    /// How many pages there are.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Bytes of memory.
    pub fn allocated_bytes(&self) -> u64 {
        self.words.len() as u64 * 8 + size_of::<Self>() as u64
    }

    /// Whether the page of this object may hold it, by a number that is spread evenly. No lock is taken.
    pub fn may_hold(&self, id_low: u64) -> bool {
        self.may_page_hold(self.page_of(id_low), id_low)
    }

    /// The same, of whoever divides objects among pages in another way.
    pub fn may_page_hold(&self, page: u64, id_low: u64) -> bool {
        let from = page.saturating_mul(self.bits_a_page);
        let is_set = |bit: u64| {
            let bit = from.saturating_add(bit);
            self.words.get((bit / 64) as usize).is_some_and(|word| word.load(Relaxed) >> (bit % 64) & 1 == 1)
        };
        self.bits_a_page == 0 || self.bits(id_low).all(is_set)
    }

    /// A page holds these objects, by numbers that are spread evenly, and no others. Lookups may go on meanwhile: what
    /// the page held before and holds still is always found, since each of its bits is set in both. What is new to it is
    /// found once this returns: keep it in memory until then, and until the page is on the disk. Renew a page from one
    /// thread at a time.
    pub fn renew(&self, page: u64, held: impl Iterator<Item = u64>) {
        let mut renewal = self.renewal(page);
        held.for_each(|id_low| renewal.hold(id_low));
        renewal.end();
    }

    /// The same for whoever learns one by one what the page holds.
    pub fn renewal(&self, page: u64) -> Renewal<'_> {
        let from = page.saturating_mul(self.bits_a_page) % 64;
        let words = vec![0_u64; (from + self.bits_a_page).div_ceil(64) as usize];
        Renewal { filter: self, page, from, words }
    }

    /// A page may hold anything.
    pub fn holds_all(&self, page: u64) {
        for (word, own) in self.page(page) {
            word.fetch_or(own, Relaxed);
        }
    }

    /// The words that a page has bits in, and which of each are its own.
    fn page(&self, page: u64) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let from = page.saturating_mul(self.bits_a_page);
        let to = from.saturating_add(self.bits_a_page);
        // Sliced, since to skip those before it would be to go through them.
        let words = self.words.get((from / 64) as usize..).unwrap_or_default().iter().zip(from / 64..);
        words.take_while(move |(_, nth)| nth * 64 < to).map(move |(word, nth)| {
            let (first, end) = (from.saturating_sub(nth * 64), (to - nth * 64).min(64));
            (word, u64::MAX << first & u64::MAX >> (64 - end))
        })
    }

    /// The bits of an object in its page's filter. Its number is spread evenly already, but its high bits may be those of all in its page.
    #[inline]
    fn bits(&self, id_low: u64) -> impl Iterator<Item = u64> + use<> {
        let hash = id_low.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (first, step, bits) = (hash as u32, (hash >> 32) as u32 | 1, self.bits_a_page);
        (0..self.hashes).map(move |nth| (u64::from(first.wrapping_add(nth.wrapping_mul(step))) * bits) >> 32)
    }
}

impl Renewal<'_> {
    /// The page holds this object, by a number that is spread evenly.
    #[inline]
    pub fn hold(&mut self, id_low: u64) {
        if self.filter.bits_a_page == 0 {
            return;
        }
        for bit in self.filter.bits(id_low) {
            let bit = self.from + bit;
            if let Some(word) = self.words.get_mut((bit / 64) as usize) {
                *word |= 1 << (bit % 64);
            }
        }
    }

    /// It holds no others.
    pub fn end(self) {
        for ((word, own), new) in self.filter.page(self.page).zip(self.words) {
            // The others are another page's.
            let _ = word.fetch_update(Relaxed, Relaxed, |word| Some(word & !own | new));
        }
    }
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;
    use crate::index::hash::scatter;

    fn ids(from: u64) -> impl Iterator<Item = u64> {
        (from..).map(|n| xxh3_64(&n.to_le_bytes()))
    }

    fn filled(pages: u64, objects: usize, bits: f64) -> Filter {
        let filter = Filter::within(pages, objects as u64, (objects as f64 * bits / 8.0) as u64);
        for page in 0..pages {
            filter.renew(page, ids(0).take(objects).filter(|id| filter.page_of(*id) == page));
        }
        filter
    }

    /// And of what is absent so many as theory says are taken for present, within a tenth.
    #[test]
    fn what_a_page_holds_is_always_found() {
        for bits in [1.0, 3.0, 5.0, 8.0] {
            let filter = filled(64, 40_000, bits);
            assert!(ids(0).take(40_000).all(|id| filter.may_hold(id)), "{bits}");
            let wrong = ids(1 << 40).take(40_000).filter(|id| filter.may_hold(*id)).count() as f64 / 40_000.0;
            let theory = 0.6185_f64.powf(bits);
            println!("{bits} bits an object: {wrong:.4}, {theory:.4} in theory, {} bytes", filter.allocated_bytes());
            assert!(wrong < theory * 1.1 + 0.02 && wrong > theory * 0.8, "{bits}: {wrong}");
            assert!(filter.allocated_bytes() <= (40_000.0 * bits / 8.0) as u64 + 64);
        }
    }

    /// Spots of a page are numbers beside each other. Spread by one multiplication they are told apart as well.
    #[test]
    fn spots_of_a_page_are_spread_evenly() {
        const SETS: u64 = 90;
        let spots = |page: u64| {
            let fingerprint = move |n: u64| xxh3_64(&(page << 32 | n).to_le_bytes()) & 0xFFF;
            (0_u64..).map(move |n| scatter((page * SETS + n % SETS) << 12 | fingerprint(n)))
        };
        for bits in [3_u64, 5, 8] {
            let filter = Filter::within(64, 64 * 540, 64 * 540 * bits / 8);
            (0..64).for_each(|page| filter.renew(page, spots(page).take(540)));
            assert!((0..64).all(|page| spots(page).take(540).all(|spot| filter.may_page_hold(page, spot))));
            let absent =
                |page| spots(page).skip(540).take(1000).filter(|spot| filter.may_page_hold(page, *spot)).count();
            let wrong = (0..64).map(absent).sum::<usize>() as f64 / 64_000.0;
            let theory = 0.6185_f64.powf(bits as f64);
            assert!(wrong < theory * 1.1 + 0.02 && wrong > theory * 0.8, "{bits}: {wrong}, {theory} in theory");
        }
    }

    #[test]
    fn a_page_made_anew_holds_nothing_of_before_and_others_stay() {
        let filter = filled(8, 4000, 8.0);
        filter.renew(3, std::iter::empty());
        for id in ids(0).take(4000) {
            assert_eq!(filter.may_hold(id), filter.page_of(id) != 3);
        }
        filter.holds_all(3);
        assert!(ids(1 << 50).take(400).filter(|id| filter.page_of(*id) == 3).all(|id| filter.may_hold(id)));
    }

    /// A page with few objects had a whole word or none, so small ones had none.
    #[test]
    fn pages_share_words_and_do_not_disturb_each_other() {
        for (pages, bits) in [(1000, 3.0), (333, 8.0), (1500, 1.0)] {
            let filter = filled(pages, 2000, bits);
            assert!(filter.allocated_bytes() > (2000.0 * bits / 8.0 * 0.7) as u64);
            assert!(ids(0).take(2000).all(|id| filter.may_hold(id)));
            let wrong = || ids(1 << 40).take(2000).filter(|id| filter.may_hold(*id)).count();
            let before = wrong();
            (0..pages).step_by(2).for_each(|page| filter.renew(page, std::iter::empty()));
            let is_there = |id: &u64| filter.page_of(*id) % 2 == 1;
            assert!(ids(0).take(2000).all(|id| filter.may_hold(id) == is_there(&id)));
            assert!(before < 1700 && wrong() < before, "{before}, {}", wrong());
            filter.holds_all(4);
            assert!(ids(0).take(2000).all(|id| filter.may_hold(id) == (is_there(&id) || filter.page_of(id) == 4)));
        }
    }

    #[test]
    fn without_memory_everything_may_be_there() {
        for filter in [Filter::within(100, 1000, 0), Filter::within(100, 1000, 8), Filter::within(0, 0, 0)] {
            filter.renew(0, ids(0).take(10));
            filter.renew(7777, ids(0).take(10));
            assert!(ids(0).take(100).all(|id| filter.may_hold(id)) && filter.pages() > 0);
        }
    }
}
