//! What is known of each other node, and what it still has to be told.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::OtherNode;
use crate::bans::Stamp;

/// Messages that one node is owed, at most. Who is owed more is told to ban everything.
pub(super) const MOST_OWED: usize = 64;
/// Their bytes, at most. Nodes that are owed the same share them.
const MOST_OWED_BYTES: usize = 2 << 20;
/// For so long a node that is new is told of bans that were made before it was known here.
const RECENT: Duration = Duration::from_secs(60);

/// How long one is left alone that did not do what it was told: so long the first time, twice as long each time that it fails again, and at most so long.
const FIRST_REST: Duration = Duration::from_millis(250);
const LONGEST_REST: Duration = Duration::from_secs(4);

/// A node that is gone for so long and goes on then validates what it has. The cluster has it notice after 3 s.
const NOTICED: Duration = Duration::from_secs(4);

/// How far a node has heard: how often the cache had become this process's by then, and the newest ban.
pub(super) type Heard = (u64, Stamp);

/// One other node.
#[derive(Default)]
struct Other {
    heard: Option<Heard>,
    /// The book that it stamps by.
    book: Option<u32>,
    owed: VecDeque<Bytes>,
    is_busy: bool,
    /// How long it is left alone after it failed last, and until when.
    rest: Option<(Duration, Instant)>,
}

/// All of them, and what was told to all in the last minute.
#[derive(Default)]
pub(super) struct Known {
    others: HashMap<u64, Other>,
    recent: VecDeque<(Instant, Bytes)>,
    /// When one was last found gone.
    gone: Option<Instant>,
}

impl Known {
    /// These are there, and nobody else. Who is new is owed what was told lately.
    pub fn are_there(&mut self, nodes: &[OtherNode], now: Instant) {
        let before = self.others.len();
        self.others.retain(|id, _| nodes.iter().any(|node| node.id == *id));
        if self.others.len() < before {
            self.gone = Some(now);
        }
        self.recent.retain(|(at, _)| now.saturating_duration_since(*at) < RECENT);
        let recent: VecDeque<Bytes> = self.recent.iter().map(|(_, told)| told.clone()).collect();
        for node in nodes {
            self.others.entry(node.id).or_insert_with(|| Other { owed: recent.clone(), ..Other::default() });
        }
    }

    /// From when on whoever has gone so far has noticed that, if it runs at all.
    pub fn has_noticed(&self) -> Option<Instant> {
        self.gone.map(|gone| gone + NOTICED)
    }

    /// All that are there are told this now; who comes within a minute is owed it.
    pub fn tell(&mut self, told: Bytes, now: Instant, all: &Bytes) {
        self.recent.push_back((now, told));
        if is_too_much(self.recent.iter().map(|(_, told)| told)) {
            self.recent.clear();
            self.recent.push_back((now, all.clone()));
        }
    }

    /// One is to be told this when it can be, if it is not owed it already. `all` bans everything.
    pub fn owe(&mut self, id: u64, told: Bytes, all: &Bytes) {
        let Some(other) = self.others.get_mut(&id).filter(|other| !other.owed.contains(&told)) else { return };
        other.owed.push_back(told);
        if is_too_much(other.owed.iter()) {
            other.owed.clear();
            other.owed.push_back(all.clone());
        }
    }

    /// One was told this, and is owed it no longer.
    pub fn was_told(&mut self, id: u64, told: &Bytes) {
        let Some(other) = self.others.get_mut(&id) else { return };
        let first = other.owed.iter().position(|owed| owed == told);
        first.inspect(|at| _ = other.owed.remove(*at));
    }

    /// One has heard so far, and stamps what it asks for by this book. Whether that is believed: no two nodes have one book, so of two that name the same one
    /// neither is.
    pub fn has_heard(&mut self, id: u64, heard: Heard, book: u32) -> bool {
        let mut others = self.others.iter_mut().filter(|(other, known)| **other != id && known.book == Some(book));
        let is_twin = others.next().map(|(_, twin)| twin.heard = None).is_some();
        if let Some(other) = self.others.get_mut(&id) {
            other.book = Some(book);
            other.heard = Some(heard).filter(|_| !is_twin);
        }
        !is_twin
    }

    /// What one is to be told, if it is told nothing else at the moment: what it is owed, and whether it is to be met because it has not heard so far. It is
    /// busy from then on, until [`Known::end`].
    pub fn begin(&mut self, id: u64, to_be_heard: Option<Heard>, now: Instant) -> Option<(VecDeque<Bytes>, bool)> {
        let rests = |other: &Other| other.rest.is_some_and(|(_, until)| now < until);
        let other = self.others.get_mut(&id).filter(|other| !other.is_busy && !rests(other))?;
        let is_to_be_met = to_be_heard
            .is_some_and(|wanted| other.heard.is_none_or(|(takes, stamp)| takes != wanted.0 || stamp.0 < wanted.1.0));
        if other.owed.is_empty() && !is_to_be_met {
            return None;
        }
        other.is_busy = true;
        Some((other.owed.clone(), is_to_be_met))
    }

    /// It is busy no longer. Unless all went well it is left alone for a while.
    pub fn end(&mut self, id: u64, went_well: bool, now: Instant) {
        let Some(other) = self.others.get_mut(&id) else { return };
        other.is_busy = false;
        let rest = other.rest.map_or(FIRST_REST, |(rest, _)| (2 * rest).min(LONGEST_REST));
        other.rest = (!went_well).then(|| (rest, now + rest));
    }
}

fn is_too_much<'a>(told: impl ExactSizeIterator<Item = &'a Bytes>) -> bool {
    told.len() > MOST_OWED || told.map(Bytes::len).sum::<usize>() > MOST_OWED_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u64) -> OtherNode {
        OtherNode { id, name: format!("box-{id}") }
    }

    #[test]
    fn who_is_new_is_owed_what_is_recent_and_nobody_is_owed_without_bound() {
        let (mut known, now, all) = (Known::default(), Instant::now(), Bytes::from_static(b"all"));
        let owed = |known: &mut Known, id| {
            let owed = known.begin(id, None, now).map(|(owed, _)| Vec::from(owed)).unwrap_or_default();
            owed.iter().for_each(|told| known.was_told(id, told));
            known.end(id, true, now);
            owed
        };
        known.are_there(&[node(1)], now);
        known.tell("first".into(), now, &all);
        known.are_there(&[node(1), node(2)], now);
        assert_eq!((owed(&mut known, 1), owed(&mut known, 2)), (vec![], vec![Bytes::from("first")]));
        known.are_there(&[node(1), node(2)], now);
        assert_eq!(owed(&mut known, 2), Vec::<Bytes>::new(), "once");
        known.are_there(&[node(3)], now + RECENT);
        assert_eq!(owed(&mut known, 3), Vec::<Bytes>::new(), "long ago");
        known.owe(1, "gone".into(), &all);
        assert_eq!(known.others.len(), 1, "nobody is owed that is gone");
        for n in 0..=MOST_OWED {
            known.owe(3, n.to_string().into(), &all);
            known.tell(n.to_string().into(), now, &all);
        }
        known.are_there(&[node(3), node(4)], now);
        assert_eq!((owed(&mut known, 3), owed(&mut known, 4)), (vec![all.clone()], vec![all.clone()]));
        for n in 0..3 {
            known.owe(3, vec![n; 1 << 20].into(), &all);
        }
        assert!(owed(&mut known, 3) == [all.clone()], "nor too many bytes");
        // What it was not told it is owed still, once.
        known.owe(3, "late".into(), &all);
        known.owe(3, "late".into(), &all);
        assert!(known.begin(3, None, now).is_some() && known.begin(3, None, now).is_none());
        known.end(3, true, now);
        assert_eq!(owed(&mut known, 3), vec![Bytes::from("late")]);
    }

    #[test]
    fn a_node_is_met_until_it_has_heard() {
        let (mut known, now) = (Known::default(), Instant::now());
        known.are_there(&[node(1)], now);
        let met = |known: &mut Known, wanted| {
            let begun = known.begin(1, wanted, now).map(|(_, is_met)| is_met);
            known.end(1, true, now);
            begun
        };
        assert_eq!((met(&mut known, None), met(&mut known, Some((1, Stamp(5))))), (None, Some(true)));
        assert!(known.has_heard(1, (1, Stamp(5)), 7));
        assert_eq!((met(&mut known, Some((1, Stamp(5)))), met(&mut known, Some((1, Stamp(6))))), (None, Some(true)));
        assert_eq!(met(&mut known, Some((2, Stamp(5)))), Some(true), "what was known is forgotten");
        let mut begins = || known.begin(1, Some((2, Stamp(5))), now).is_some();
        assert!(begins() && !begins(), "busy");
    }

    /// One that fails is not asked again without a pause, and one that goes on is asked at once.
    #[test]
    fn who_fails_is_left_alone_for_longer_each_time() {
        let (mut known, mut now) = (Known::default(), Instant::now());
        known.are_there(&[node(1)], now);
        let wanted = Some((1, Stamp(5)));
        for rest in [250, 500, 1000, 2000, 4000, 4000].map(Duration::from_millis) {
            assert!(known.begin(1, wanted, now).is_some());
            known.end(1, false, now);
            now += rest;
            assert!(known.begin(1, wanted, now - Duration::from_millis(1)).is_none(), "{rest:?}");
        }
        assert!(known.begin(1, wanted, now).is_some());
        known.end(1, true, now);
        assert!(known.begin(1, wanted, now).is_some(), "all went well");
    }

    /// A node that names another one's book is not believed, and that one no more, until one of them is gone.
    #[test]
    fn a_book_is_of_one_node() {
        let (mut known, now, wanted) = (Known::default(), Instant::now(), (1, Stamp(5)));
        known.are_there(&[node(1), node(2)], now);
        assert!(known.has_heard(1, wanted, 7) && known.has_heard(2, wanted, 8) && known.has_heard(1, wanted, 7));
        assert!(!known.has_heard(2, wanted, 7) && !known.has_heard(1, wanted, 7));
        assert!(known.begin(1, Some(wanted), now).is_some() && known.begin(2, Some(wanted), now).is_some());
        known.are_there(&[node(1)], now);
        assert!(known.has_heard(1, wanted, 7), "the other one is gone");
    }
}
