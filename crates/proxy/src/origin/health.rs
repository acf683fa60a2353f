//! Whether an origin is well: a small machine that is told what happens, and the time.
//!
//! An origin is out after some failures in a row, and left alone for a while. Then one request may try it: as long as
//! that one is on its way, the others go on without it. Where origins are checked, checks alone bring it back.
//!
//! Once it is out, a dead origin costs time only to the request that tries it. An answer of 5xx is an answer: it puts no
//! origin out, and no other origin is asked. One page that fails everywhere would put all of them out; checks do look at the
//! status.

use std::time::{Duration, Instant};

/// The numbers that decide.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Whether it can be out at all.
    pub may_rest: bool,
    pub fails: u32,
    pub rest: Duration,
    /// Good checks in a row that bring it back; none where nobody checks.
    pub passes: Option<u32>,
}

/// What is known of one origin.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Requests that failed in a row.
    fails: u32,
    /// Checks that failed in a row: an origin that answers requests may fail its checks, and the other way round.
    bad_checks: u32,
    /// Good checks in a row.
    passes: u32,
    out: Option<Out>,
}

#[derive(Clone, Copy, Debug)]
struct Out {
    /// Left alone until then.
    until: Instant,
    /// A request is trying it.
    trying: bool,
}

/// How a request may go to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Like any other.
    Free,
    /// As the one that tries whether it is back. Whoever got this has to report, or to leave.
    Trial,
}

impl Health {
    pub fn is_up(&self) -> bool {
        self.out.is_none()
    }

    /// Whether a request may go there now. `may_try` lets it be the one that tries an origin that is out.
    pub fn enter(&mut self, now: Instant, rules: Rules, may_try: bool) -> Option<Entry> {
        match &mut self.out {
            None => Some(Entry::Free),
            Some(_) if !rules.may_rest => Some(Entry::Free),
            Some(out) if may_try && rules.passes.is_none() && !out.trying && now >= out.until => {
                out.trying = true;
                Some(Entry::Trial)
            }
            Some(_) => None,
        }
    }

    /// A trial ended without a result.
    pub fn leave(&mut self) {
        if let Some(out) = &mut self.out {
            out.trying = false;
        }
    }

    /// It answered a request. Whether it is back by that.
    pub fn succeeded(&mut self, rules: Rules) -> bool {
        self.fails = 0;
        rules.passes.is_none() && self.out.take().is_some()
    }

    /// It failed a request. Whether it is out by that.
    pub fn failed(&mut self, now: Instant, rules: Rules) -> bool {
        self.fails = self.fails.saturating_add(1);
        self.put_out(self.fails, now, rules)
    }

    /// It failed a check. Whether it is out by that.
    pub fn failed_check(&mut self, now: Instant, rules: Rules) -> bool {
        self.bad_checks = self.bad_checks.saturating_add(1);
        self.passes = 0;
        self.put_out(self.bad_checks, now, rules)
    }

    fn put_out(&mut self, fails: u32, now: Instant, rules: Rules) -> bool {
        let was_up = self.is_up();
        if !rules.may_rest || (was_up && fails < rules.fails) {
            return false;
        }
        self.out = Some(Out { until: now + rules.rest, trying: false });
        was_up
    }

    /// It passed a check. Whether it is back by that.
    pub fn passed(&mut self, rules: Rules) -> bool {
        self.passes = self.passes.saturating_add(1);
        self.bad_checks = 0;
        let back = !self.is_up() && rules.passes.is_none_or(|passes| self.passes >= passes);
        if back {
            (self.out, self.fails) = (None, 0);
        }
        back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(5);

    fn rules(may_rest: bool, passes: Option<u32>) -> Rules {
        Rules { may_rest, fails: 3, rest: REST, passes }
    }

    #[test]
    fn failures_in_a_row_put_it_out_and_one_request_tries_it() {
        let (mut health, rules, now) = (Health::default(), rules(true, None), Instant::now());
        for _ in 0..10 {
            assert!(!health.failed(now, rules) && !health.failed(now, rules));
            assert!(!health.succeeded(rules), "it was never out");
        }
        assert!(!health.failed(now, rules) && !health.failed(now, rules));
        assert_eq!(health.enter(now, rules, false), Some(Entry::Free));
        assert!(health.failed(now, rules) && !health.is_up());
        assert!(!health.failed(now, rules), "it is out already");
        assert_eq!(health.enter(now + REST - Duration::from_millis(1), rules, true), None);
        let later = now + REST;
        assert_eq!(health.enter(later, rules, false), None, "not everybody may try");
        assert_eq!(health.enter(later, rules, true), Some(Entry::Trial));
        assert_eq!(health.enter(later, rules, true), None, "one at a time");
        health.leave();
        assert_eq!(health.enter(later, rules, true), Some(Entry::Trial));
        assert!(!health.failed(later, rules), "still out");
        assert_eq!(health.enter(later, rules, true), None);
        assert_eq!(health.enter(later + REST, rules, true), Some(Entry::Trial));
        assert!(health.succeeded(rules) && health.is_up());
        assert!(!health.failed(later, rules), "counted from the start");
    }

    #[test]
    fn checks_alone_bring_back_what_is_checked() {
        let (mut health, rules, now) = (Health::default(), rules(true, Some(2)), Instant::now());
        assert!((0..3).any(|_| health.failed(now, rules)));
        assert_eq!(health.enter(now + REST * 100, rules, true), None);
        assert!(!health.succeeded(rules) && !health.is_up(), "an answer from before says little");
        assert!(!health.passed(rules));
        health.failed_check(now, rules);
        assert!(!health.passed(rules), "not in a row");
        assert!(health.passed(rules) && health.is_up());
        assert!(!health.passed(rules), "it is back already");
    }

    #[test]
    fn checks_count_by_themselves() {
        let (mut health, rules, now) = (Health::default(), rules(true, Some(2)), Instant::now());
        // Requests that are answered say nothing against checks that fail.
        assert!(!health.failed_check(now, rules) && !health.succeeded(rules) && !health.failed_check(now, rules));
        assert!(!health.succeeded(rules) && health.failed_check(now, rules));
        assert!(!health.passed(rules) && health.passed(rules));
        // Nor checks that pass against requests that fail.
        assert!(!health.failed(now, rules) && !health.passed(rules) && !health.failed(now, rules));
        assert!(!health.passed(rules) && health.failed(now, rules));
    }

    #[test]
    fn one_without_others_is_never_out() {
        let (mut health, rules, now) = (Health::default(), rules(false, None), Instant::now());
        for _ in 0..100 {
            assert!(!health.failed(now, rules));
            assert_eq!(health.enter(now, rules, false), Some(Entry::Free));
        }
    }
}
