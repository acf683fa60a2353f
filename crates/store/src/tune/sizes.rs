//! How large objects are: Table 5 of the HashCache paper, for any objects.

use std::fmt;

use super::paper;
use crate::cache::Cache;
use crate::layout::bin::BIN_HEADER_BYTES;
use crate::store::{Cursor, Store};
use crate::terms::StoreError;
use crate::wait::block_on;

/// Objects of a cache whose sizes are looked at to choose how a disk is cut: their distribution hardly changes beyond, and
/// each is a read.
pub const MAX_MEASURED_OBJECTS: usize = 20_000;

/// Classes of sizes, by their upper ends: 4 KiB and its doublings up to 1 MiB, and what is larger.
const CLASSES: usize = 10;
const FIRST_CLASS_BYTES: u64 = 4096;

/// What lies in a bin beside a web object's body, roughly: its URL, the fields of its head, and the bin's own header.
pub const BESIDE_BODY_BYTES: u64 = 512;

/// The share of objects below 4 KiB where the paper's are gone by, which says nothing of them: two thirds of those below 8.
const ASSUMED_BELOW_FIRST: f64 = 0.5;

/// The sizes of objects. Memory: some hundred bytes, however many there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    /// The share of objects smaller than the end of each class, the last of which is all of them.
    below: [f64; CLASSES],
    mean: u64,
    objects: u64,
    /// Whose objects they are.
    of: String,
}

/// The end of a class, which is not in it.
fn end_of(class: usize) -> u64 {
    FIRST_CLASS_BYTES << class
}

impl Sizes {
    /// What the paper gives: three quarters below 8 KiB. It says nothing of those below 4 KiB, nor of those above 256, which
    /// are assumed to be half of all and none: see [`Sizes::is_assumed`]. The mean is 8 KiB, by which the paper counts.
    pub fn of_the_paper() -> Self {
        let share = |class| {
            let printed = paper::table_5(end_of(class)).map(|percent| percent / 100.0);
            printed.unwrap_or(if class == 0 { ASSUMED_BELOW_FIRST } else { 1.0 })
        };
        Sizes {
            below: std::array::from_fn(share),
            mean: paper::MEAN_BYTES,
            objects: 0,
            of: "those of CoDeeN in the HashCache paper, since there are no others".into(),
        }
    }

    /// Of these sizes, as they would lie in a bin; without any, [`Sizes::of_the_paper`].
    pub fn from_bytes(sizes: impl IntoIterator<Item = u64>) -> Self {
        let (mut counts, mut objects, mut all) = ([0_u64; CLASSES], 0_u64, 0_u128);
        for bytes in sizes {
            objects += 1;
            all += u128::from(bytes);
            counts
                .iter_mut()
                .enumerate()
                .filter(|(class, _)| bytes < end_of(*class))
                .for_each(|(_, count)| *count += 1);
        }
        if objects == 0 {
            return Sizes::of_the_paper();
        }
        let mut below = counts.map(|count| count as f64 / objects as f64);
        if let Some(last) = below.last_mut() {
            *last = 1.0;
        }
        let mean = u64::try_from(all / u128::from(objects)).unwrap_or(u64::MAX);
        Sizes { below, mean, objects, of: "the objects given".into() }
    }

    /// Of web objects with bodies of these sizes, as they would lie in a bin: with their names and heads, and what the bin
    /// itself takes, for which [`BESIDE_BODY_BYTES`] are added.
    pub fn of_bodies(bodies: impl IntoIterator<Item = u64>) -> Self {
        Sizes::from_bytes(bodies.into_iter().map(|bytes| bytes.saturating_add(BESIDE_BODY_BYTES)))
    }

    /// Of the objects in a cache, up to [`MAX_MEASURED_OBJECTS`] of them: names, heads and bodies, as they lie in a bin.
    /// Reads each of them. `None` if there are none. Errors: the store's.
    pub fn of_cache(cache: &Cache) -> Result<Option<Self>, StoreError> {
        let (mut sizes, mut cursor) = (Vec::new(), Some(Cursor::default()));
        while let Some(at) = cursor.filter(|_| sizes.len() < MAX_MEASURED_OBJECTS) {
            let page = block_on(cache.scan(at, 256))?;
            let bytes =
                page.entries.iter().map(|entry| (entry.name.len() + entry.head.len()) as u64 + entry.body_bytes);
            sizes.extend(bytes.map(|bytes| bytes + BIN_HEADER_BYTES as u64));
            cursor = page.next;
        }
        Ok((!sizes.is_empty()).then(|| Sizes::from_bytes(sizes).named("the objects in this cache")))
    }

    /// The same, called by what they are.
    pub fn named(self, of: impl Into<String>) -> Self {
        Sizes { of: of.into(), ..self }
    }

    /// The share of objects smaller than so many bytes, from 0 to 1: of the largest class that ends there or before.
    pub fn below(&self, bytes: u64) -> f64 {
        let mut fits = self.below.iter().enumerate().filter(|(class, _)| end_of(*class) <= bytes);
        fits.next_back().map_or(0.0, |(_, share)| *share)
    }

    /// Whether [`Sizes::below`] of so many bytes is assumed: neither counted nor in the paper.
    pub fn is_assumed(&self, bytes: u64) -> bool {
        self.objects == 0 && paper::table_5(bytes).is_none()
    }

    /// Their mean size in bytes.
    pub fn mean(&self) -> u64 {
        self.mean
    }

    /// How many were looked at; 0 for the paper's.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// Whose they are.
    pub fn of(&self) -> &str {
        &self.of
    }

    /// Each class: what its objects are smaller than, and the share of all objects that are, from 0 to 1.
    pub fn classes(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.below.iter().enumerate().take(CLASSES - 1).map(|(class, share)| (end_of(class), *share))
    }
}

impl fmt::Display for Sizes {
    /// What was counted, and beside it what the paper prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Object sizes: {}. For comparison: Table 5 of the HashCache paper", self.of)?;
        writeln!(f, "  smaller than    % of objects | Table 5: % of objects")?;
        for (bytes, share) in self.classes() {
            let percent = format!("{:.1}", 100.0 * share);
            let counted = match (self.objects, self.is_assumed(bytes)) {
                (_, true) => format!("{percent} assumed"),
                (0, false) => "-".into(),
                (_, false) => percent,
            };
            let printed = paper::table_5(bytes).map_or("-".into(), |percent| format!("{percent:.1}"));
            writeln!(f, "  {:>8} KiB   {counted:>13} | {printed:>21}", bytes >> 10)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted() {
        let sizes = Sizes::from_bytes([0, 4095, 4096, 8191, 8192, 100_000, u64::MAX]);
        let sevenths = |share: f64| (share * 7.0).round() as u64;
        assert_eq!(sizes.classes().map(|(_, share)| sevenths(share)).collect::<Vec<_>>(), [2, 4, 5, 5, 5, 6, 6, 6, 6]);
        assert_eq!((sevenths(sizes.below(8191)), sevenths(sizes.below(8192)), sizes.below(4095)), (2, 4, 0.0));
        assert_eq!((sizes.objects(), sizes.below(u64::MAX)), (7, 1.0));
        assert_eq!(Sizes::from_bytes([1000, 3000]).mean(), 2000);
    }

    #[test]
    fn the_papers_table_is_the_papers() {
        let paper = Sizes::of_the_paper();
        for (kib, percent) in paper::TABLE_5 {
            assert!((paper.below(kib << 10) * 100.0 - percent).abs() < 1e-9 && !paper.is_assumed(kib << 10));
        }
        assert_eq!(Sizes::from_bytes([]), paper);
        for row in [
            "       4 KiB    50.0 assumed |                     -\n",
            "       8 KiB               - |                  74.8\n",
            "     512 KiB   100.0 assumed |                     -\n",
        ] {
            assert!(paper.to_string().contains(row), "{paper}");
        }
        let counted = Sizes::from_bytes([5000, 9000]);
        assert!(!counted.is_assumed(4096) && counted.to_string().contains("50.0 |                  74.8"), "{counted}");
    }
}
