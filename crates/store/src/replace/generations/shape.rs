//! How many logs there are, and which is whose.

/// A log: a class of size and a generation, as one number from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Log(pub u8);

/// Classes of size and generations of each. Behind their logs are those of large objects, with classes and generations of their own:
/// such an object is never written again, but stored in the next generation once it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Classes of size, 1 to [`Shape::MOST_CLASSES`].
    pub classes: usize,
    /// Generations of each, 1 to [`Shape::MOST_GENERATIONS`]; 0 is what is new.
    pub generations: usize,
    /// Classes of large objects, 1 to [`Shape::MOST_LARGE`]: up to a segment, to four, to sixteen, and more.
    pub large: usize,
    /// Generations of each, 1 to [`Shape::MOST_GENERATIONS`].
    pub large_generations: usize,
}

/// The bounds of the classes in bytes, by how many classes there are.
const BOUNDS: [&[u64]; Shape::MOST_CLASSES] =
    [&[], &[8 << 10], &[4 << 10, 16 << 10], &[2 << 10, 6 << 10, 18 << 10], &[2 << 10, 8 << 10, 32 << 10, 128 << 10]];

/// Segments that the objects of all classes of large ones but the last take at the most.
const LARGE_SEGMENTS: [u64; Shape::MOST_LARGE - 1] = [1, 4, 16];

impl Shape {
    /// More classes are not known.
    pub const MOST_CLASSES: usize = 5;
    /// Hits are counted to three, so that there are four.
    pub const MOST_GENERATIONS: usize = 4;
    /// More classes of large objects are not known.
    pub const MOST_LARGE: usize = 4;

    /// What suits a disk of so many segments: each log has one that is being filled, half empty on average.
    pub fn of(segments: u64) -> Shape {
        let (classes, generations, large, large_generations) = match segments {
            0..12 => (1, 1, 1, 1),
            12..16 => (2, 1, 1, 1),
            16..48 => (3, 2, 2, 1),
            48..256 => (4, 2, 2, 2),
            256..512 => (4, 3, 3, 2),
            _ => (5, 4, 4, 2),
        };
        Shape { classes, generations, large, large_generations }
    }

    /// The same with numbers that there can be.
    pub(super) fn in_bounds(self) -> Shape {
        let classes = self.classes.clamp(1, Shape::MOST_CLASSES);
        let generations = self.generations.clamp(1, Shape::MOST_GENERATIONS);
        let large_generations = self.large_generations.clamp(1, Shape::MOST_GENERATIONS);
        Shape { classes, generations, large: self.large.clamp(1, Shape::MOST_LARGE), large_generations }
    }

    /// Logs in all, those of large objects among them.
    pub fn logs(self) -> usize {
        self.small() + self.large * self.large_generations
    }

    /// Logs of what is not large: they come first.
    pub fn small(self) -> usize {
        self.classes * self.generations
    }

    /// Whether this is a log of large objects.
    pub fn is_large(self, log: Log) -> bool {
        self.class_of_large(log).is_some()
    }

    /// The class of size of a log of large objects, from 0 on.
    pub(super) fn class_of_large(self, log: Log) -> Option<usize> {
        let number = usize::from(log.0).checked_sub(self.small())?;
        Some(number / self.large_generations.max(1)).filter(|class| *class < self.large)
    }

    /// Bytes above which an object is of a class of large ones.
    pub(super) fn least_of_large(self, class: usize, segment_bytes: u64) -> u64 {
        let before = class.checked_sub(1).and_then(|before| LARGE_SEGMENTS.get(before));
        before.map_or(segment_bytes / 4, |segments| segment_bytes.saturating_mul(*segments))
    }

    /// The log of large objects of so many bytes in a generation, on a disk with such segments.
    pub(super) fn log_of_large(self, object_bytes: u64, segment_bytes: u64, generation: usize) -> Log {
        let segments = object_bytes.div_ceil(segment_bytes.max(1));
        let class = LARGE_SEGMENTS.iter().filter(|most| segments > **most).count();
        let generation = generation.min(self.large_generations - 1);
        Log((self.small() + class.min(self.large - 1) * self.large_generations + generation) as u8)
    }

    /// The log of a record of so many bytes in a generation; too high a generation is the highest.
    pub(super) fn log(self, record_bytes: u64, generation: usize) -> Log {
        let bounds = BOUNDS.get(self.classes - 1).copied().unwrap_or_default();
        let class = bounds.partition_point(|bound| *bound < record_bytes);
        Log((class * self.generations + generation.min(self.generations - 1)) as u8)
    }

    /// Bytes that a record in this log takes at the most, where its class has a bound.
    pub fn most_bytes(self, log: Log) -> u64 {
        let bounds = BOUNDS.get(self.classes - 1).copied().unwrap_or_default();
        bounds.get(usize::from(log.0) / self.generations).copied().unwrap_or(u64::MAX)
    }

    /// The generation that a log is of.
    pub fn generation(self, log: Log) -> usize {
        match usize::from(log.0).checked_sub(self.small()) {
            Some(large) => large % self.large_generations,
            None => usize::from(log.0) % self.generations,
        }
    }
}
