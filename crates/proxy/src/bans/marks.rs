//! Bans, and what is known of one rule: the newest ban by it, hard and soft.

use regex::bytes::Regex;

use super::rule::{Rule, Subject};
use super::selector::compiled;

/// One ban. `at` is when it was made, in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ban {
    pub number: u64,
    pub rule: Rule,
    pub soft: bool,
    pub at: u64,
}

/// The newest bans of one rule, by their numbers; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub hard: u64,
    pub soft: u64,
    pub soft_at: u64,
}

impl Marks {
    pub fn is_empty(&self) -> bool {
        self.hard == 0 && self.soft == 0
    }

    /// The newer ones of both.
    pub fn join(&mut self, other: &Marks) {
        self.hard = self.hard.max(other.hard);
        if other.soft > self.soft {
            (self.soft, self.soft_at) = (other.soft, other.soft_at);
        }
    }

    pub fn set(&mut self, ban: &Ban) {
        match ban.soft {
            true if ban.number > self.soft => (self.soft, self.soft_at) = (ban.number, ban.at),
            true => {}
            false => self.hard = self.hard.max(ban.number),
        }
    }
}

/// The newest bans that fit an object.
#[derive(Default)]
pub(super) struct Found {
    pub marks: Marks,
    /// Their kinds: of the hard one, and of the soft one.
    pub by: [&'static str; 2],
}

impl Found {
    pub fn add(&mut self, marks: &Marks, by: &'static str) {
        if marks.hard > self.marks.hard {
            (self.marks.hard, self.by[0]) = (marks.hard, by);
        }
        if marks.soft > self.marks.soft {
            (self.marks.soft, self.marks.soft_at, self.by[1]) = (marks.soft, marks.soft_at, by);
        }
    }
}

/// One that is tried.
pub(super) struct Tried {
    pub rule: Rule,
    regex: Option<Regex>,
    pub marks: Marks,
}

impl Tried {
    /// A rule of which nothing is known yet.
    pub fn new(rule: &Rule) -> Tried {
        let regex = if let Rule::Regex(expression) = rule { compiled(expression).ok() } else { None };
        Tried { rule: rule.clone(), regex, marks: Marks::default() }
    }

    pub fn fits(&self, subject: &Subject<'_>) -> bool {
        match (&self.rule, &self.regex) {
            (Rule::Suffix { host, suffix }, _) => {
                host.as_deref().is_none_or(|host| host == subject.host) && subject.path().ends_with(suffix.as_str())
            }
            (_, Some(regex)) => regex.is_match(format!("{}://{}", subject.scheme, subject.url).as_bytes()),
            // What could not be compiled anew fits everything.
            (_, None) => true,
        }
    }
}
