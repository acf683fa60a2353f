//! What only some engines count: each figure is defined in the folder of the engine that has it.

/// Figures that one engine may have.
const MAX_FIGURES: usize = 8;

/// What an engine counts beside what all engines do.
#[derive(Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its name, in small letters and underscores; metrics put `tinaja_engine_` before it, and `_total` behind a counter.
    pub name: &'static str,
    /// What it says, in a sentence.
    pub help: &'static str,
    /// How it changes.
    pub kind: FigureKind,
}

/// How a figure changes, and what becomes of those of several disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// It only grows since the cache was opened. Those of several disks add up.
    Counter,
    /// It stays as the disk was cut. Of several disks the largest counts.
    Cut,
}

/// The figures of an engine, with their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineFigures([Option<(&'static Figure, u64)>; MAX_FIGURES]);

impl EngineFigures {
    /// The same, and one more. A ninth is left out.
    #[must_use]
    pub fn with(mut self, figure: &'static Figure, value: u64) -> Self {
        let place = self.0.iter_mut().find(|place| place.is_none_or(|(other, _)| other == figure));
        if let Some(place) = place {
            *place = Some((figure, value));
        }
        self
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Figure, u64)> + '_ {
        self.0.iter().copied().flatten()
    }

    /// The value of one; 0 if the engine does not have it.
    pub fn get(&self, figure: &Figure) -> u64 {
        self.named(figure.name)
    }

    /// The value of the one of this name; 0 if the engine does not have it.
    pub fn named(&self, name: &str) -> u64 {
        self.iter().find(|(figure, _)| figure.name == name).map_or(0, |(_, value)| value)
    }

    /// Those of two disks together.
    pub(super) fn and(self, other: EngineFigures) -> Self {
        other.iter().fold(self, |all, (figure, value)| {
            let before = all.get(figure);
            all.with(figure, if figure.kind == FigureKind::Counter { before + value } else { before.max(value) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SOWN: Figure = Figure { name: "sown", help: "What was sown.", kind: FigureKind::Counter };
    static WIDTH: Figure = Figure { name: "width", help: "How wide it is.", kind: FigureKind::Cut };

    #[test]
    fn counters_of_several_disks_add_up_and_of_cuts_the_largest_counts() {
        let one = EngineFigures::default().with(&SOWN, 3).with(&WIDTH, 8);
        let other = EngineFigures::default().with(&WIDTH, 4).with(&SOWN, 5);
        let both = one.and(other);
        assert_eq!((both.get(&SOWN), both.named("width"), both.iter().count()), (8, 8, 2));
        assert_eq!((EngineFigures::default().get(&SOWN), one.named("reaped")), (0, 0));
        assert_eq!(one.with(&SOWN, 9).get(&SOWN), 9);
    }
}
