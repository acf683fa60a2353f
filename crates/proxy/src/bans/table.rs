//! All bans, and whether one of them fits an object.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::time::{Duration, UNIX_EPOCH};

use super::Verdict;
use super::marks::{Ban, Found, Marks, Tried};
use super::record::Left;
use super::rule::{Rule, Subject};
use super::seen::Seen;
use super::stamp::Stamp;
use super::tags::Tags;
use super::walked::Walked;

/// Bans that are held, at most.
pub(super) const MOST_BANS: usize = 65_536;
/// Bytes of their texts, at most.
pub(super) const MOST_TEXT_BYTES: usize = 8 << 20;
/// Those of them that are tried one by one.
pub(super) const MOST_TRIED: usize = 100;
/// One in so many makes room for others, at least one.
const SHARE: usize = 8;

/// All bans.
#[derive(Default)]
pub(super) struct Table {
    book: u32,
    number: u64,
    /// What is of another book is stale since then.
    opened: u64,
    /// The largest number of a ban that is held.
    newest: u64,
    /// Objects come from other nodes too, with stamps of their books.
    of_node: bool,
    /// What those are worth here.
    seen: Seen,
    bans: BTreeMap<u64, Ban>,
    text_bytes: usize,
    all: Marks,
    urls: HashMap<String, Marks>,
    prefixes: BTreeMap<String, Marks>,
    hosts: HashMap<String, Marks>,
    domains: HashMap<String, Marks>,
    tags: HashMap<u64, Marks>,
    host_tags: HashMap<(u64, String), Marks>,
    /// By any tag, at all hosts and at one.
    any_tag: Marks,
    any_host_tag: HashMap<String, Marks>,
    tried: Vec<Tried>,
    /// Those that nothing fits any more, and which are written down all the same.
    walked: Walked,
    /// Those that are not even written down.
    left: Left,
    trust: Trust,
}

/// Whether it is as good as if the bans that have left the file were here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trust {
    /// The store goes by an index in which nothing is that they fit.
    #[default]
    Sound,
    /// It may have what they fit.
    Lost,
    /// It had, and nothing of it is left; when the store is opened anew it may be back.
    Regained,
}

/// What becomes of an object that a walk comes past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Goes,
    /// It may be stale by a soft ban; and it is in doubt where a ban may have fitted it that has left the file.
    Stays {
        soft: Option<u64>,
        in_doubt: bool,
    },
}

impl Table {
    /// Without bans, of a book with this id, whose last ban had this number.
    pub fn new(book: u32, number: u64, opened: u64) -> Table {
        Table { book, number, opened, ..Table::default() }
    }

    /// One for which everything that is stored is stale.
    pub fn distrusting(now: u64) -> Table {
        let mut table = Table::new(super::file::random_id(), 0, now);
        table.apply(Ban { number: 1, rule: Rule::All, soft: true, at: now });
        table
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// These have left the file.
    pub fn set_left(&mut self, left: Left) {
        self.left = left;
        self.number = self.number.max(left.number);
    }

    /// The store goes by an index that was saved in this epoch. Whether that is too old for those that have left the file.
    pub fn opened_at(&mut self, epoch: u64) -> bool {
        // What comes from other nodes may be as old, whatever the own index says.
        let is_lost = self.left.number > 0 && (epoch < self.left.epoch || self.of_node);
        self.trust = if is_lost { Trust::Lost } else { Trust::Sound };
        self.set_newest();
        is_lost
    }

    fn is_lost(&self) -> bool {
        self.trust == Trust::Lost
    }

    /// The epoch behind which one is to begin, if one is: then what is written down only can leave the file.
    pub fn wants_epoch(&self) -> Option<u64> {
        // As long as something is in doubt that the store has, no index may be of an epoch that says otherwise.
        let wants = !self.is_lost() && self.walked.wants_epoch(self.trust == Trust::Regained);
        wants.then_some(self.left.epoch)
    }

    /// One has begun.
    pub fn epoch_began(&mut self, epoch: u64) {
        self.walked.epoch_began(epoch);
    }

    /// What has left the file could not be written down: they wait for another epoch.
    pub fn epoch_is_over(&mut self) {
        self.walked.epoch_is_over();
    }

    /// Those that will have left the file when it is written anew, where an index of this epoch is on the disk; `None` if none can leave.
    pub fn may_leave(&self, saved: u64) -> Option<Left> {
        let (epoch, last) = self.walked.behind().filter(|(epoch, _)| *epoch <= saved)?;
        Some(Left { number: self.left.number.max(last), epoch })
    }

    /// They have left it.
    pub fn have_left(&mut self, left: Left) {
        self.walked.have_left();
        (self.left, self.trust) = (left, Trust::Sound);
    }

    pub fn set_of_node(&mut self, of_node: bool) {
        self.of_node = of_node;
    }

    pub fn set_book(&mut self, book: u32) {
        self.book = book;
    }

    /// What is stamped now.
    pub fn now(&self) -> Stamp {
        Stamp::new(self.book, self.number)
    }

    /// What is asked for from now on is told from what was asked for before, though no ban is made.
    pub fn begin_number(&mut self) {
        self.number += 1;
    }

    /// What has this stamp of the own book, or a later one, counts.
    pub fn newest(&self) -> Stamp {
        Stamp::new(self.book, self.newest)
    }

    /// What has this stamp of another book, or a later one of that, was asked for after the own bans up to this number had been made.
    pub fn note_seen(&mut self, from: Stamp, own: u64) {
        if from.book() != self.book && from.book() != 0 {
            self.seen.note(from, own);
        }
    }

    /// Of what has stamps of this book nothing is known any more.
    pub fn forget_seen(&mut self, book: u32) {
        self.seen.forget(book);
    }

    fn is_own(&self, stamp: Stamp) -> bool {
        stamp.book() == self.book && stamp.number() <= self.number
    }

    /// Whether there is anything to go by.
    pub fn is_empty(&self) -> bool {
        self.count() == 0 && !self.is_lost()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.bans.len() + usize::from(self.all.hard > 0) + usize::from(self.all.soft > 0)
    }

    /// How many are written down.
    pub fn written(&self) -> usize {
        self.count() + self.walked.count()
    }

    /// The smallest number of what a walk may forget.
    pub fn oldest(&self) -> Option<u64> {
        let of_all = [self.all.hard, self.all.soft].into_iter().filter(|number| *number > 0);
        of_all.chain(self.bans.keys().next().copied()).chain(self.is_lost().then_some(self.left.number)).min()
    }

    /// All that is needed to make it anew, in order.
    pub fn all(&self) -> Vec<Ban> {
        self.held_and(self.walked.bans())
    }

    /// The same without those that may leave.
    pub fn staying(&self) -> Vec<Ban> {
        self.held_and(self.walked.staying())
    }

    fn held_and(&self, others: impl Iterator<Item = Ban>) -> Vec<Ban> {
        let Marks { hard, soft, soft_at } = self.all;
        let of_all = [(hard, false, 0), (soft, true, soft_at)].into_iter().filter(|(number, ..)| *number > 0);
        let of_all = of_all.map(|(number, soft, at)| Ban { number, rule: Rule::All, soft, at });
        let mut all: Vec<_> = of_all.chain(self.bans.values().cloned()).chain(others).collect();
        all.sort_by_key(|ban| ban.number);
        all
    }

    /// Whether what was asked for at `stamp` counts.
    pub fn judge(&self, stamp: Stamp, tags: &Tags, subject: Option<&Subject<'_>>) -> Verdict {
        let (is_own, number, found) = self.found(stamp, tags, subject);
        let since = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        if found.marks.hard > number {
            Verdict::Gone(found.by[0])
        } else if !is_own && !self.of_node && stamp != Stamp::default() {
            // Nobody knows any more which bans there were.
            Verdict::Unknown(since(self.opened))
        } else if self.is_lost() && number < self.left.number {
            Verdict::Unknown(since(self.opened))
        } else if found.marks.soft > number {
            Verdict::Stale(since(found.marks.soft_at), found.by[1])
        } else {
            Verdict::Counts
        }
    }

    /// Whether a stamp is the own book's, the number that it is worth, and the newest bans that fit.
    fn found(&self, stamp: Stamp, tags: &Tags, subject: Option<&Subject<'_>>) -> (bool, u64, Found) {
        let is_own = self.is_own(stamp);
        let number = if is_own { stamp.number() } else { self.seen.floor(stamp) };
        let mut found = Found::default();
        found.add(&self.all, "all");
        if let Some(subject) = subject {
            self.look(subject, number, tags, &mut found);
        }
        (is_own, number, found)
    }

    /// What becomes of what was asked for at `stamp`.
    pub fn fate(&self, stamp: Stamp, tags: &Tags, subject: Option<&Subject<'_>>) -> Fate {
        let (_, number, found) = self.found(stamp, tags, subject);
        if found.marks.hard > number {
            return Fate::Goes;
        }
        let soft = Some(found.marks.soft).filter(|soft| *soft > number);
        Fate::Stays { soft, in_doubt: self.is_lost() && number < self.left.number }
    }

    /// Nothing is left of what those that have left the file could fit, and nothing can come.
    pub fn regain(&mut self) {
        if self.is_lost() {
            self.trust = Trust::Regained;
            self.set_newest();
        }
    }

    /// The number up to which the bans have left the file, of which the store may have what they fit.
    pub fn lost(&self) -> Option<u64> {
        self.is_lost().then_some(self.left.number)
    }

    /// Nothing older fits any of the bans up to this number, but for soft ones of these numbers, and nothing older can come: they are held no more, and only
    /// written down. How many.
    pub fn forget_to(&mut self, up_to: u64, but: &HashSet<u64>) -> usize {
        let before = self.count();
        let goes = |number: u64, soft: bool| (1..=up_to).contains(&number) && !(soft && but.contains(&number));
        let gone: Vec<Ban> =
            self.bans.range(..=up_to).map(|(_, ban)| ban).filter(|ban| goes(ban.number, ban.soft)).cloned().collect();
        for ban in gone {
            self.walked.add(&ban);
            self.drop_one(ban.number);
        }
        let Marks { hard, soft, soft_at } = self.all;
        if goes(hard, false) {
            self.walked.add(&Ban { number: hard, rule: Rule::All, soft: false, at: 0 });
            self.all.hard = 0;
        }
        if goes(soft, true) {
            self.walked.add(&Ban { number: soft, rule: Rule::All, soft: true, at: soft_at });
            (self.all.soft, self.all.soft_at) = (0, 0);
        }
        self.any_tag = Marks::default();
        self.tags.values().for_each(|marks| self.any_tag.join(marks));
        self.any_host_tag.clear();
        for ((_, host), marks) in &self.host_tags {
            self.any_host_tag.entry(host.clone()).or_default().join(marks);
        }
        self.set_newest();
        before - self.count()
    }

    fn set_newest(&mut self) {
        let last = self.bans.keys().next_back().copied().unwrap_or(0);
        self.newest = last.max(self.all.hard).max(self.all.soft).max(self.lost().unwrap_or(0));
    }

    fn look(&self, subject: &Subject<'_>, number: u64, tags: &Tags, found: &mut Found) {
        let mut add = |marks: Option<&Marks>, by| marks.into_iter().for_each(|marks| found.add(marks, by));
        let host = &*subject.host;
        add(self.hosts.get(host), "host");
        if !self.domains.is_empty() {
            let above = host.match_indices('.').filter_map(|(at, _)| host.get(at + 1..));
            above.for_each(|domain| add(self.domains.get(domain), "domain"));
        }
        add(self.urls.get(&subject.url), "url");
        self.prefixes_of(&subject.url, |marks| add(Some(marks), "prefix"));
        if tags.unlisted {
            add(Some(&self.any_tag), "tag");
            add(self.any_host_tag.get(host), "tag");
        }
        for tag in tags.hashes() {
            add(self.tags.get(&tag), "tag");
            if !self.host_tags.is_empty() {
                add(self.host_tags.get(&(tag, host.to_owned())), "tag");
            }
        }
        for tried in self.tried.iter().filter(|tried| tried.marks.hard.max(tried.marks.soft) > number) {
            if tried.fits(subject) {
                add(Some(&tried.marks), tried.rule.kind_name());
            }
        }
    }

    /// All prefixes of a URL, the longest first: each step goes on with what the last one and the URL begin with.
    fn prefixes_of(&self, url: &str, mut each: impl FnMut(&Marks)) {
        let mut upper = url.as_bytes();
        let mut bound = Bound::Included(url);
        while let Some((prefix, marks)) = self.prefixes.range::<str, _>((Bound::Unbounded, bound)).next_back() {
            let common = prefix.bytes().zip(upper).take_while(|(one, other)| one == *other).count();
            upper = upper.get(..common).unwrap_or_default();
            bound = if common == prefix.len() {
                each(marks);
                Bound::Excluded(prefix)
            } else {
                // URLs are ASCII, so each place in one is the end of a character.
                Bound::Included(url.get(..common).unwrap_or_default())
            };
        }
    }

    /// Adds a ban; older ones that it makes useless go. How many had to make room for it, in whose place one of everything is that is as
    /// old as the newest of them.
    pub fn apply(&mut self, ban: Ban) -> u64 {
        self.number = self.number.max(ban.number);
        self.newest = self.newest.max(ban.number);
        self.walked.replace(&ban);
        if ban.rule == Rule::All {
            self.all.set(&ban);
            let goes = |old: &Ban| old.number < ban.number && (old.soft || !ban.soft);
            self.drop_those(goes);
            if !ban.soft && self.all.soft < ban.number {
                (self.all.soft, self.all.soft_at) = (0, 0);
            }
            return 0;
        }
        let marks = self.marks_mut(&ban.rule).copied().unwrap_or_default();
        let useless = [marks.soft, if ban.soft { 0 } else { marks.hard }];
        useless.iter().filter(|number| **number > 0).for_each(|number| self.drop_one(*number));
        self.text_bytes += ban.rule.text_bytes();
        self.enter(&ban);
        self.bans.insert(ban.number, ban);
        self.make_room()
    }

    fn make_room(&mut self) -> u64 {
        let mut last = None;
        if self.bans.len() > MOST_BANS || self.text_bytes > MOST_TEXT_BYTES {
            last = self.bans.keys().nth(self.bans.len() / SHARE).copied();
        }
        if self.tried.len() > MOST_TRIED {
            let oldest = self.bans.values().find(|ban| ban.rule.is_tried()).map(|ban| ban.number);
            last = last.max(oldest);
        }
        let Some(last) = last else { return 0 };
        for ban in self.bans.range(..=last).map(|(_, ban)| ban) {
            self.all.set(ban);
        }
        let before = self.bans.len();
        self.drop_those(|ban| ban.number <= last);
        (before - self.bans.len()) as u64
    }

    fn drop_those(&mut self, goes: impl Fn(&Ban) -> bool) {
        let gone: Vec<u64> = self.bans.values().filter(|ban| goes(ban)).map(|ban| ban.number).collect();
        gone.into_iter().for_each(|number| self.drop_one(number));
        let all = self.all;
        self.any_host_tag.retain(|_, marks| marks.hard > all.hard || marks.soft > all.soft.max(all.hard));
    }

    fn drop_one(&mut self, number: u64) {
        let Some(ban) = self.bans.remove(&number) else { return };
        self.text_bytes -= ban.rule.text_bytes();
        let Some(marks) = self.marks_mut(&ban.rule) else { return };
        if marks.hard == number {
            marks.hard = 0;
        }
        if marks.soft == number {
            (marks.soft, marks.soft_at) = (0, 0);
        }
        if marks.is_empty() {
            self.forget(&ban.rule);
        }
    }

    fn marks_mut(&mut self, rule: &Rule) -> Option<&mut Marks> {
        match rule {
            Rule::All => Some(&mut self.all),
            Rule::Url(url) => self.urls.get_mut(url),
            Rule::Prefix(prefix) => self.prefixes.get_mut(prefix),
            Rule::Host(host) => self.hosts.get_mut(host),
            Rule::Domain(domain) => self.domains.get_mut(domain),
            Rule::Tag { host: None, tag } => self.tags.get_mut(tag),
            Rule::Tag { host: Some(host), tag } => self.host_tags.get_mut(&(*tag, host.clone())),
            Rule::Suffix { .. } | Rule::Regex(_) => {
                self.tried.iter_mut().find(|tried| tried.rule == *rule).map(|tried| &mut tried.marks)
            }
        }
    }

    fn enter(&mut self, ban: &Ban) {
        let marks = match &ban.rule {
            Rule::All => &mut self.all,
            Rule::Url(url) => self.urls.entry(url.clone()).or_default(),
            Rule::Prefix(prefix) => self.prefixes.entry(prefix.clone()).or_default(),
            Rule::Host(host) => self.hosts.entry(host.clone()).or_default(),
            Rule::Domain(domain) => self.domains.entry(domain.clone()).or_default(),
            Rule::Tag { host: None, tag } => {
                self.any_tag.set(ban);
                self.tags.entry(*tag).or_default()
            }
            Rule::Tag { host: Some(host), tag } => {
                self.any_host_tag.entry(host.clone()).or_default().set(ban);
                self.host_tags.entry((*tag, host.clone())).or_default()
            }
            rule @ (Rule::Suffix { .. } | Rule::Regex(_)) => {
                let at = self.tried.iter().position(|tried| tried.rule == *rule).unwrap_or_else(|| {
                    self.tried.push(Tried::new(rule));
                    self.tried.len() - 1
                });
                match self.tried.get_mut(at) {
                    Some(tried) => &mut tried.marks,
                    None => return,
                }
            }
        };
        marks.set(ban);
    }

    fn forget(&mut self, rule: &Rule) {
        match rule {
            Rule::All => {}
            Rule::Url(url) => drop(self.urls.remove(url)),
            Rule::Prefix(prefix) => drop(self.prefixes.remove(prefix)),
            Rule::Host(host) => drop(self.hosts.remove(host)),
            Rule::Domain(domain) => drop(self.domains.remove(domain)),
            Rule::Tag { host: None, tag } => drop(self.tags.remove(tag)),
            Rule::Tag { host: Some(host), tag } => drop(self.host_tags.remove(&(*tag, host.clone()))),
            rule => self.tried.retain(|tried| tried.rule != *rule),
        }
    }
}
