//! What clients ask for: popular objects, and others that are stored and never asked for again.

use std::time::Duration;

use crate::random::{Random, Zipf, mix};

/// How popularity falls off; real logs have 0.6 to 0.9.
const ALPHA: f64 = 0.8;
/// The mean size of a body and its deviation.
const BYTES: (f64, f64) = (8000.0, 8000.0);
/// None is larger.
const MOST_BYTES: f64 = 200_000.0;

/// One thing that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// An object, which is stored if it is not there.
    Get(u64),
    /// An object to be stored, and its size.
    Put(u64, u64),
    /// That what was stored lasts.
    Flush,
}

/// How much is asked for. A rate of 0 is none.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Lookups a second.
    pub gets: f64,
    /// New objects a second.
    pub puts: f64,
    /// Flushes a second.
    pub flushes: f64,
}

impl Rates {
    /// The same mix, with so many new objects a second.
    pub fn scaled(self, puts: f64) -> Rates {
        Rates { gets: self.gets * puts / self.puts, puts, ..self }
    }
}

/// A load without end: lookups and new objects come by chance, flushes by the clock.
pub struct Load {
    rates: Rates,
    random: Random,
    /// An object is its rank.
    popular: Zipf,
    /// The next one that is new.
    fresh: u64,
    /// When the next lookup, new object and flush come.
    due: [Duration; 3],
}

impl Load {
    /// Of so many objects that are asked for.
    pub fn new(ranks: u64, seed: u64) -> Load {
        let popular = Zipf::with(ranks as usize, ALPHA);
        let rates = Rates { gets: 0.0, puts: 0.0, flushes: 0.0 };
        Load { rates, random: Random::new(seed), popular, fresh: ranks, due: [Duration::MAX; 3] }
    }

    /// The same at other rates.
    pub fn at(&mut self, rates: Rates) -> &mut Load {
        self.rates = rates;
        self
    }

    /// From now on.
    pub fn begins(&mut self, now: Duration) {
        self.due = [now; 3];
        (0..3).for_each(|kind| self.plan(kind));
    }

    fn plan(&mut self, kind: usize) {
        let rate = [self.rates.gets, self.rates.puts, self.rates.flushes].get(kind).copied().unwrap_or_default();
        let mean = 1.0 / rate;
        let pause = if kind == 2 { mean } else { self.random.exponential(mean) };
        if let Some(due) = self.due.get_mut(kind) {
            let pause = Duration::try_from_secs_f64(pause).unwrap_or(Duration::MAX);
            *due = due.saturating_add(pause);
        }
    }

    /// When something is asked for next, if anything is.
    pub fn next(&self) -> Option<Duration> {
        self.due.iter().min().copied().filter(|due| *due < Duration::MAX)
    }

    /// What that is.
    pub fn take(&mut self) -> Asked {
        let kind = (0..3).min_by_key(|kind| self.due.get(*kind)).unwrap_or_default();
        self.plan(kind);
        match kind {
            0 => Asked::Get(self.popular.rank(&mut self.random) as u64),
            1 => {
                self.fresh += 1;
                Asked::Put(self.fresh, self.bytes(self.fresh))
            }
            _ => Asked::Flush,
        }
    }

    /// How large an object is.
    pub fn bytes(&self, object: u64) -> u64 {
        let bytes = Random::new(mix(object)).log_normal(BYTES.0, BYTES.1);
        bytes.clamp(100.0, MOST_BYTES) as u64
    }
}
