//! How many logs there are, and which is whose.

/// A log: a class of size and a generation, as one number from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Log(pub u8);

/// Classes of size and generations of each. One more log is for large objects, which are never written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Classes of size, 1 to [`Shape::MOST_CLASSES`].
    pub classes: usize,
    /// Generations of each, 1 to [`Shape::MOST_GENERATIONS`]; 0 is what is new.
    pub generations: usize,
}

/// The bounds of the classes in bytes, by how many classes there are.
const BOUNDS: [&[u64]; Shape::MOST_CLASSES] =
    [&[], &[8 << 10], &[4 << 10, 16 << 10], &[2 << 10, 6 << 10, 18 << 10], &[2 << 10, 8 << 10, 32 << 10, 128 << 10]];

impl Shape {
    /// More classes are not known.
    pub const MOST_CLASSES: usize = 5;
    /// Hits are counted to three, so that there are four.
    pub const MOST_GENERATIONS: usize = 4;

    /// What suits a disk of so many segments: each log has one that is being filled, half empty on average.
    pub fn of(segments: u64) -> Shape {
        let (classes, generations) = match segments {
            0..12 => (1, 1),
            12..16 => (2, 1),
            16..48 => (3, 2),
            48..256 => (4, 2),
            256..512 => (4, 3),
            _ => (5, 4),
        };
        Shape { classes, generations }
    }

    /// The same with numbers that there can be.
    pub(super) fn in_bounds(self) -> Shape {
        let classes = self.classes.clamp(1, Shape::MOST_CLASSES);
        Shape { classes, generations: self.generations.clamp(1, Shape::MOST_GENERATIONS) }
    }

    /// Logs in all, the one of large objects among them.
    pub fn logs(self) -> usize {
        self.classes * self.generations + 1
    }

    /// The log of large objects.
    pub fn large(self) -> Log {
        Log((self.classes * self.generations) as u8)
    }

    /// The log of a record of so many bytes in a generation; too high a generation is the highest.
    pub(super) fn log(self, record_bytes: u64, generation: usize) -> Log {
        let bounds = BOUNDS.get(self.classes - 1).copied().unwrap_or_default();
        let class = bounds.partition_point(|bound| *bound < record_bytes);
        Log((class * self.generations + generation.min(self.generations - 1)) as u8)
    }

    /// The generation that a log is of: 0 for that of large objects.
    pub fn generation(self, log: Log) -> usize {
        if log == self.large() { 0 } else { usize::from(log.0) % self.generations }
    }
}
