//! Faults by rule and by chance: which requests a [`super::Faulty`] fails, and how.

use std::fmt;
use std::ops::Range;

use parking_lot::Mutex;

use super::Fault;
use crate::device::{Kind, Request};

/// When a request is given a fault. A field that is `None` asks for nothing.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Numbers of requests, counted from 0 in order of submission.
    pub calls: Option<Range<u64>>,
    /// Reads, writes or syncs only.
    pub kind: Option<Kind>,
    /// Requests that touch a byte of this part of the device only.
    pub offsets: Option<Range<u64>>,
    /// The share of these requests that are given the fault, 0 to 1.
    pub probability: f64,
    /// Which.
    pub fault: Fault,
}

impl Rule {
    /// Every request.
    pub fn always(fault: Fault) -> Self {
        Rule { calls: None, kind: None, offsets: None, probability: 1.0, fault }
    }

    fn matches(&self, call: u64, request: &Request) -> bool {
        let touches = |part: &Range<u64>| {
            request.extent().is_some_and(|(at, bytes)| at < part.end && at.saturating_add(bytes) > part.start)
        };
        self.calls.as_ref().is_none_or(|calls| calls.contains(&call))
            && self.kind.is_none_or(|kind| kind == request.kind())
            && self.offsets.as_ref().is_none_or(touches)
    }
}

/// A list of rules and a seed: the first rule that applies decides. The same seed gives the same faults to the same
/// series of requests; print it (`Display`) wherever a test may fail.
pub struct Rules {
    seed: u64,
    random: Mutex<u64>,
    rules: Vec<Rule>,
}

impl Rules {
    /// Rules with a seed of the caller's.
    pub fn new(seed: u64, rules: Vec<Rule>) -> Self {
        Rules { seed, random: Mutex::new(seed), rules }
    }

    /// The fault of this request, if it has one. A plan for [`super::Faulty::new`].
    pub fn pick(&self, call: u64, request: &Request) -> Option<Fault> {
        let rule = self.rules.iter().find(|rule| rule.matches(call, request) && self.chance() < rule.probability);
        rule.map(|rule| rule.fault)
    }

    /// The next number from 0 to 1, 1 excluded (SplitMix64).
    fn chance(&self) -> f64 {
        let mut random = self.random.lock();
        *random = random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fault rules with seed {}", self.rules.len(), self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::AlignedBuf;

    fn read(at: u64) -> Request {
        Request::Read { at, into: AlignedBuf::zeroed(4096) }
    }

    #[test]
    fn rules_pick_by_number_kind_and_place() {
        let only =
            Rule { calls: Some(2..4), kind: Some(Kind::Read), offsets: Some(4000..4097), ..Rule::always(Fault::Lost) };
        let rules = Rules::new(1, vec![only, Rule { kind: Some(Kind::Sync), ..Rule::always(Fault::Error) }]);
        assert_eq!(rules.pick(2, &read(0)), Some(Fault::Lost));
        assert_eq!(rules.pick(3, &read(4096)), Some(Fault::Lost));
        assert_eq!(rules.pick(3, &read(8192)), None);
        assert_eq!(rules.pick(4, &read(0)), None);
        assert_eq!(rules.pick(2, &Request::Sync), Some(Fault::Error));
    }

    #[test]
    fn chance_is_as_said_and_repeats_with_its_seed() {
        let faults = |seed| {
            let rules = Rules::new(seed, vec![Rule { probability: 0.1, ..Rule::always(Fault::Error) }]);
            (0..10_000).filter(|&call| rules.pick(call, &Request::Sync).is_some()).collect::<Vec<_>>()
        };
        assert!((900..1100).contains(&faults(7).len()), "{}", faults(7).len());
        assert_eq!(faults(7), faults(7));
        assert_ne!(faults(7), faults(8));
    }
}
