//! What was learned, in bytes, so that a stop does not forget it: on a large disk a lap takes weeks.
//!
//! ```text
//!  0  u8 classes, u8 generations, u8 classes of large objects, u8 generations of those, u32 buckets of ages
//!  8  for each of 4 classes of large objects: u64 objects stored, u64 their bytes
//! 72  for each log: f32 hits by age; f32 objects times laps by age
//! ```
//!
//! What is behind that is padding.

use super::ages::BUCKETS;
use super::shape::Shape;

const HEADER_BYTES: usize = 8;
const LARGE_BYTES: usize = 16;
const LOG_BYTES: usize = 2 * BUCKETS * size_of::<f32>();

/// Bytes that are needed for so many logs.
pub(super) const fn bytes_for(logs: usize) -> usize {
    HEADER_BYTES + Shape::MOST_LARGE * LARGE_BYTES + logs * LOG_BYTES
}

/// See the module.
#[derive(Debug, PartialEq)]
pub(super) struct Saved {
    pub shape: Shape,
    /// Large objects stored, and their bytes, by class.
    pub large: [(u64, u64); Shape::MOST_LARGE],
    /// For each log hits by age, then exposure by age.
    pub seen: Vec<f32>,
}

impl Saved {
    /// As it goes to disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(bytes_for(self.shape.logs()));
        bytes.extend_from_slice(&header(self.shape));
        for (objects, of_them) in self.large {
            bytes.extend_from_slice(&objects.to_le_bytes());
            bytes.extend_from_slice(&of_them.to_le_bytes());
        }
        bytes.extend(self.seen.iter().flat_map(|seen| seen.to_le_bytes()));
        bytes
    }

    /// Read it back, for a policy of this shape. `None` if these bytes are another one's, or say what cannot have been seen.
    pub fn decode(bytes: &[u8], shape: Shape) -> Option<Saved> {
        let (begins, rest) = bytes.get(..bytes_for(shape.logs()))?.split_first_chunk::<HEADER_BYTES>()?;
        if *begins != header(shape) {
            return None;
        }
        let (large_bytes, seen) = rest.split_at_checked(Shape::MOST_LARGE * LARGE_BYTES)?;
        let mut large = [(0, 0); Shape::MOST_LARGE];
        let (numbers, _) = large_bytes.as_chunks::<8>();
        let (pairs, _) = numbers.as_chunks::<2>();
        for (class, [objects, of_them]) in large.iter_mut().zip(pairs) {
            *class = (u64::from_le_bytes(*objects), u64::from_le_bytes(*of_them));
        }
        let (numbers, _) = seen.as_chunks::<4>();
        let seen: Vec<_> = numbers.iter().map(|number| f32::from_le_bytes(*number)).collect();
        seen.iter().all(|seen| seen.is_finite() && *seen >= 0.0).then_some(Saved { shape, large, seen })
    }
}

fn header(shape: Shape) -> [u8; HEADER_BYTES] {
    let Shape { classes, generations, large, large_generations } = shape;
    let [a, b, c, d] = [classes, generations, large, large_generations].map(|number| number as u8);
    let [e, f, g, h] = (BUCKETS as u32).to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { classes: 1, generations: 1, large: 1, large_generations: 1 };

    fn saved() -> Saved {
        let seen = (0..4 * BUCKETS).map(|number| number as f32 / 4.0).collect();
        Saved { shape: SHAPE, large: [(1, 2), (3, 4), (5, 6), (7, 8)], seen }
    }

    /// As docs/formats/generational.md has it: a change is another format.
    #[test]
    fn it_is_read_as_it_was_written() {
        let bytes = saved().encode();
        assert_eq!((bytes.len(), bytes_for(2)), (72 + 2 * 480, 72 + 2 * 480));
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(&bytes[..24]), "010101013c00000001000000000000000200000000000000");
        assert_eq!(hex(&bytes[72..84]), "000000000000803e0000003f");
        assert_eq!(Saved::decode(&[bytes.clone(), vec![0; 99]].concat(), SHAPE), Some(saved()));
        assert!((0..bytes.len()).all(|cut| Saved::decode(&bytes[..cut], SHAPE).is_none()));
    }

    #[test]
    fn what_is_another_ones_or_cannot_be_is_not_taken() {
        let bytes = saved().encode();
        assert_eq!(Saved::decode(&bytes, Shape { large: 2, ..SHAPE }), None);
        assert_eq!(Saved::decode(&vec![0; bytes.len()], SHAPE), None);
        for wrong in [-1.0, f32::NAN, f32::INFINITY] {
            let mut bytes = bytes.clone();
            bytes[80..84].copy_from_slice(&wrong.to_le_bytes());
            assert_eq!(Saved::decode(&bytes, SHAPE), None, "{wrong}");
        }
    }
}
