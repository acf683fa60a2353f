//! LHD (Beckmann, Chen, Cidon, NSDI 2018): of some objects that are drawn the one leaves whose hits for bytes and time are fewest, as
//! they were learned by age, in classes of objects by the age at their last hit.

use super::ordered::Ordered;
use super::{Asked, Policy};
use crate::random::Random;

/// Objects drawn for each that leaves.
const DRAWN: usize = 32;
/// Classes, coarse ages in each, and requests that a coarse age has.
const CLASSES: usize = 16;
const AGES: usize = 20_000;
const COARSE: u64 = 256;
/// Densities are learned anew after so many requests; what was before counts so much less.
const LESSON: u64 = 1 << 18;
const DECAY: f64 = 0.9;

/// See the module.
pub struct Lhd {
    capacity_bytes: u64,
    objects: Ordered,
    /// By object: when it was used last, the age that it had then, and the one before.
    used: Vec<Used>,
    there: Vec<u32>,
    where_there: Vec<u32>,
    classes: Vec<Class>,
    now: u64,
    random: Random,
}

#[derive(Clone, Copy, Default)]
struct Used {
    at: u64,
    age: u64,
    age_before: u64,
}

struct Class {
    hits: Vec<f64>,
    evictions: Vec<f64>,
    density: Vec<f64>,
}

impl Lhd {
    /// Empty, with room for so many bytes.
    pub fn new(capacity_bytes: u64) -> Lhd {
        // Before anything is learned, as the authors' program has it: what was used twice in a short time is worth more, and so is what
        // is young.
        let first = |class: usize| (0..AGES).map(move |age| (class + 1) as f64 / (age + 1) as f64).collect();
        let class = |class| Class { hits: vec![0.0; AGES], evictions: vec![0.0; AGES], density: first(class) };
        Lhd {
            capacity_bytes,
            objects: Ordered::default(),
            used: Vec::new(),
            there: Vec::new(),
            where_there: Vec::new(),
            classes: (0..CLASSES).map(class).collect(),
            now: 0,
            random: Random::new(2018),
        }
    }

    /// The class of an object, and its coarse age.
    fn class_and_age(&self, object: u32) -> (usize, usize) {
        let used = self.used.get(object as usize).copied().unwrap_or_default();
        let age = (self.now - used.at) / COARSE;
        let between = (used.age + used.age_before) / COARSE;
        // The shorter, the higher: by how often it can be doubled.
        let class = (AGES as u64 / between.max(1)).checked_ilog2().unwrap_or(0) as usize;
        (class.min(CLASSES - 1), (age as usize).min(AGES - 1))
    }

    fn density(&self, object: u32) -> f64 {
        let (class, age) = self.class_and_age(object);
        let density = self.classes.get(class).and_then(|class| class.density.get(age)).copied().unwrap_or(0.0);
        density / self.objects.size(object).unwrap_or(1).max(1) as f64
    }

    fn count(&mut self, object: u32, hit: bool) {
        let (class, age) = self.class_and_age(object);
        let Some(class) = self.classes.get_mut(class) else { return };
        let events = if hit { &mut class.hits } else { &mut class.evictions };
        if let Some(event) = events.get_mut(age) {
            *event += 1.0;
        }
    }

    /// Hits to come, divided by time to come, from each age on: as the paper's section 4.2 has it, from the oldest age down.
    fn learn(&mut self) {
        for class in &mut self.classes {
            let (mut hits, mut events, mut lives) = (0.0, 0.0, 0.0);
            for age in (0..AGES).rev() {
                let hit = class.hits.get(age).copied().unwrap_or(0.0);
                hits += hit;
                events += hit + class.evictions.get(age).copied().unwrap_or(0.0);
                lives += events;
                if let Some(density) = class.density.get_mut(age) {
                    *density = if events > 1e-5 { hits / lives } else { 0.0 };
                }
            }
            class.hits.iter_mut().chain(&mut class.evictions).for_each(|count| *count *= DECAY);
        }
    }

    fn use_of(&mut self, object: u32, there: bool) {
        let at = object as usize;
        if self.used.len() <= at {
            self.used.resize(at + 1, Used::default());
            self.where_there.resize(at + 1, 0);
        }
        let now = self.now;
        if let Some(used) = self.used.get_mut(at) {
            let far = (AGES as u64) * COARSE;
            *used = match there {
                true => Used { at: now, age: now - used.at, age_before: used.age },
                false => Used { at: now, age: far, age_before: 0 },
            };
        }
        if !there {
            if let Some(place) = self.where_there.get_mut(at) {
                *place = self.there.len() as u32;
            }
            self.there.push(object);
        }
    }

    fn evict(&mut self) -> bool {
        let drawn = (0..DRAWN).filter_map(|_| {
            let at = self.random.below(self.there.len() as u64) as usize;
            self.there.get(at).copied()
        });
        let drawn: Vec<_> = drawn.collect();
        let least = drawn.into_iter().min_by(|one, other| self.density(*one).total_cmp(&self.density(*other)));
        let Some(object) = least else { return false };
        self.count(object, false);
        self.objects.take(object);
        let place = self.where_there.get(object as usize).copied().unwrap_or_default();
        self.there.swap_remove(place as usize);
        if let Some(moved) = self.there.get(place as usize)
            && let Some(of_moved) = self.where_there.get_mut(*moved as usize)
        {
            *of_moved = place;
        }
        true
    }
}

impl Policy for Lhd {
    fn ask(&mut self, asked: &Asked) -> bool {
        self.now += 1;
        if self.now.is_multiple_of(LESSON) {
            self.learn();
        }
        if self.objects.has(asked.object) {
            self.count(asked.object, true);
            self.use_of(asked.object, true);
            return true;
        }
        if asked.bytes <= self.capacity_bytes {
            while self.objects.bytes() + asked.bytes > self.capacity_bytes && self.evict() {}
            self.objects.push(asked.object, asked.bytes);
            self.use_of(asked.object, false);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sequence;
    use super::*;

    #[test]
    fn it_learns_what_returns_and_keeps_that() {
        let mut random = Random::new(3);
        // Half of the requests are for ten objects, half for what nobody asks for again.
        let asked: Vec<_> = (0..400_000_u64)
            .map(|number| (if random.chance(0.5) { random.below(10) } else { 100 + number }, 10))
            .collect();
        let found = Sequence::of(&asked).found(&mut Lhd::new(400));
        let hits = found[350_000..].iter().filter(|found| **found).count();
        assert!(hits > 24_000, "{hits} of some 25,000");
    }
}
