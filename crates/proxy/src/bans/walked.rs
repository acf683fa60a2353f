//! Bans that nothing in the store fits any more: no object is compared with them.
//!
//! They stay in the file for a while. What the store has forgotten may be back once it is opened anew, from an index that was saved before, or
//! from a log that is read again; so whoever opens the cache next goes by all of them again, and forgets them after a walk of its own. They leave
//! the file once an index is on the disk that was saved in an epoch behind them: see [`super::epochs`].

use std::collections::HashMap;

use super::marks::{Ban, Marks};
use super::rule::Rule;
use super::table::{MOST_BANS, MOST_TEXT_BYTES};

/// See the module.
#[derive(Default)]
pub(super) struct Walked {
    /// Those behind which no epoch has begun.
    fresh: Rules,
    /// The others, and the epoch: they leave before another one begins, however many come.
    behind: Option<(u64, Rules)>,
}

impl Walked {
    /// One more. Where there are too many, one of everything takes the place of all; when the cache is opened anew, more is fetched again.
    pub fn add(&mut self, ban: &Ban) {
        self.fresh.add(ban);
    }

    /// A newer ban makes older ones useless: those of the same rule, or all.
    pub fn replace(&mut self, ban: &Ban) {
        self.fresh.replace(ban);
        if let Some((_, rules)) = &mut self.behind {
            rules.replace(ban);
        }
    }

    /// Whether an epoch may begin behind those that have none; `or_none` also if there are none of them.
    pub fn wants_epoch(&self, or_none: bool) -> bool {
        self.behind.is_none() && (or_none || self.fresh.count() > 0)
    }

    /// An epoch has begun behind all of them.
    pub fn epoch_began(&mut self, epoch: u64) {
        self.behind.get_or_insert_with(|| (epoch, std::mem::take(&mut self.fresh)));
    }

    /// The epoch behind which some wait to leave, and the largest number that any of them has had; 0 where there was none.
    pub fn behind(&self) -> Option<(u64, u64)> {
        self.behind.as_ref().map(|(epoch, rules)| (*epoch, rules.last))
    }

    /// Those could not leave: they wait for another epoch.
    pub fn epoch_is_over(&mut self) {
        let behind = self.behind.take();
        behind.iter().flat_map(|(_, rules)| rules.bans()).for_each(|ban| self.fresh.add(&ban));
        self.fresh.last = self.fresh.last.max(behind.map_or(0, |(_, rules)| rules.last));
    }

    /// Those have left.
    pub fn have_left(&mut self) {
        self.behind = None;
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.fresh.count() + self.behind.as_ref().map_or(0, |(_, rules)| rules.count())
    }

    /// All of them, in any order.
    pub fn bans(&self) -> impl Iterator<Item = Ban> {
        self.staying().chain(self.behind.iter().flat_map(|(_, rules)| rules.bans()))
    }

    /// Those behind which no epoch has begun.
    pub fn staying(&self) -> impl Iterator<Item = Ban> {
        self.fresh.bans()
    }
}

/// Memory: some 150 bytes and its text for each rule, [`MOST_BANS`] of them at most and [`MOST_TEXT_BYTES`] of text.
#[derive(Default)]
struct Rules {
    rules: HashMap<Rule, Marks>,
    text_bytes: usize,
    /// Of everything: its own, and what took the place of others.
    all: Marks,
    /// The largest number of all that have come.
    last: u64,
}

impl Rules {
    /// One more. Where there are too many, one of everything takes the place of all; when the cache is opened anew, more is fetched again.
    fn add(&mut self, ban: &Ban) {
        self.last = self.last.max(ban.number);
        if ban.rule == Rule::All {
            return self.all.set(ban);
        }
        if !self.rules.contains_key(&ban.rule) {
            self.text_bytes += ban.rule.text_bytes();
        }
        self.rules.entry(ban.rule.clone()).or_default().set(ban);
        if self.rules.len() > MOST_BANS || self.text_bytes > MOST_TEXT_BYTES {
            self.rules.values().for_each(|marks| self.all.join(marks));
            self.rules.clear();
            self.text_bytes = 0;
        }
    }

    /// A newer ban makes older ones useless: those of the same rule, or all.
    fn replace(&mut self, ban: &Ban) {
        let goes = |marks: &mut Marks| {
            if !ban.soft {
                marks.hard = 0;
            }
            (marks.soft, marks.soft_at) = (0, 0);
            marks.is_empty()
        };
        if ban.rule == Rule::All {
            goes(&mut self.all);
            self.rules.retain(|_, marks| !goes(marks));
            self.text_bytes = self.rules.keys().map(Rule::text_bytes).sum();
        } else if self.rules.get_mut(&ban.rule).is_some_and(goes) {
            self.rules.remove(&ban.rule);
            self.text_bytes -= ban.rule.text_bytes();
        }
    }

    /// How many there are.
    fn count(&self) -> usize {
        let of = |marks: &Marks| usize::from(marks.hard > 0) + usize::from(marks.soft > 0);
        self.rules.values().map(of).sum::<usize>() + of(&self.all)
    }

    /// All of them, in any order.
    fn bans(&self) -> impl Iterator<Item = Ban> {
        let one = |rule: &Rule, marks: &Marks| {
            let both = [(marks.hard, false, 0), (marks.soft, true, marks.soft_at)];
            let there = both.into_iter().filter(|(number, ..)| *number > 0);
            let bans = there.map(|(number, soft, at)| Ban { number, rule: rule.clone(), soft, at });
            bans.collect::<Vec<_>>()
        };
        let of_rules = self.rules.iter().flat_map(move |(rule, marks)| one(rule, marks));
        of_rules.chain(one(&Rule::All, &self.all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_ones_take_the_place_of_older_ones() {
        let ban = |number, rule: &Rule, soft| Ban { number, rule: rule.clone(), soft, at: number };
        let (one, other) = (Rule::Url("a/x".into()), Rule::Host("b".into()));
        let mut walked = Walked::default();
        for (number, rule, soft) in [(1, &one, false), (2, &one, true), (3, &other, false), (4, &Rule::All, true)] {
            walked.add(&ban(number, rule, soft));
        }
        assert_eq!(walked.count(), 4);
        walked.replace(&ban(5, &one, true));
        let mut left: Vec<_> = walked.bans().map(|ban| (ban.number, ban.soft)).collect();
        left.sort_unstable();
        assert_eq!(left, [(1, false), (3, false), (4, true)]);
        walked.replace(&ban(6, &one, false));
        assert_eq!((walked.count(), walked.fresh.text_bytes), (2, 1));
        walked.replace(&ban(7, &Rule::All, true));
        assert_eq!(walked.count(), 1);
        walked.replace(&ban(8, &Rule::All, false));
        assert_eq!((walked.count(), walked.fresh.text_bytes), (0, 0));
    }

    #[test]
    fn one_of_everything_takes_the_place_of_too_many() {
        let mut walked = Walked::default();
        for number in 1..=MOST_BANS as u64 + 1 {
            let soft = number % 2 == 0;
            walked.add(&Ban { number, rule: Rule::Tag { host: None, tag: number }, soft, at: 9 });
        }
        let mut all: Vec<_> = walked.bans().collect();
        all.sort_by_key(|ban| ban.number);
        let most = MOST_BANS as u64;
        assert_eq!(all.iter().map(|ban| (ban.number, ban.soft)).collect::<Vec<_>>(), [(most, true), (most + 1, false)]);
        assert!(all.iter().all(|ban| ban.rule == Rule::All));
    }
}
