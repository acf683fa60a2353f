//! What an answer may be: which version of what was true when, and what was said of it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::objects::Version;
use crate::site::Resource;

/// Ages are in whole seconds, as are dates, and each is rounded.
const ROUNDED: Duration = Duration::from_secs(2);

/// The origin has said that a version is the present one.
#[derive(Clone, Copy, Debug)]
struct Said {
    at: Instant,
    /// When the proxy had read that.
    read: Option<Instant>,
    /// It never will.
    is_lost: bool,
    /// Until when it may be used.
    until: Instant,
    /// How far the clock was ahead then, and how often the machine had been switched on.
    ahead_ms: i64,
    opened: usize,
    version: Version,
}

/// What of a resource may not be answered any more.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// To requests that begin after this.
    from: Instant,
    what: What,
    /// Of what may be used for a while: how far the clock was ahead then, and how often the machine had been switched on.
    softly: Option<(i64, usize)>,
}

/// What was taken back.
#[derive(Clone, Copy, Debug)]
enum What {
    /// By an unsafe request: versions before this one.
    Versions(u64),
    /// By a purge: all that was said before it began.
    Said(Instant),
}

impl Taken {
    fn names(&self, said: &Said) -> bool {
        match self.what {
            What::Versions(before) => said.version.number < before,
            What::Said(before) => said.at < before,
        }
    }
}

/// The truth.
#[derive(Debug)]
pub struct Oracle {
    pub resources: Vec<Resource>,
    present: Vec<u64>,
    said: Vec<Said>,
    of: BTreeMap<Version, Vec<usize>>,
    taken: Vec<Vec<Taken>>,
    /// How far the machine's clock is ahead, and the least since it was switched on, each time that it was.
    ahead_ms: i64,
    least_ahead_ms: Vec<i64>,
}

impl Oracle {
    pub fn new(resources: Vec<Resource>) -> Oracle {
        let count = resources.len();
        Oracle {
            resources,
            present: vec![1; count],
            said: Vec::new(),
            of: BTreeMap::new(),
            taken: vec![Vec::new(); count],
            ahead_ms: 0,
            least_ahead_ms: Vec::new(),
        }
    }

    /// The present version of a resource's variant.
    pub fn present(&self, resource: usize, variant: usize) -> Version {
        Version { resource, variant, number: self.present[resource] }
    }

    /// A resource has changed, all of its variants. Its new version.
    pub fn change(&mut self, resource: usize) -> u64 {
        self.present[resource] += 1;
        self.present[resource]
    }

    /// The origin says now that this is the present version. What the network is to give back once that was read.
    pub fn say(&mut self, version: Version) -> u64 {
        let resource = &self.resources[version.resource];
        let at = Instant::now();
        let until = at + resource.lifetime.unwrap_or_default() + resource.meanwhile + ROUNDED;
        self.of.entry(version).or_default().push(self.said.len());
        let (ahead_ms, opened) = (self.ahead_ms, self.least_ahead_ms.len());
        self.said.push(Said { at, read: None, is_lost: false, until, ahead_ms, opened, version });
        self.said.len() as u64 - 1
    }

    /// The proxy has read what was said.
    pub fn was_read(&mut self, tag: u64) {
        if let Some(said) = self.said.get_mut(tag as usize) {
            said.read = Some(Instant::now());
            said.ahead_ms = said.ahead_ms.max(self.ahead_ms);
        }
    }

    /// What was said is lost: the proxy never reads it.
    pub fn was_lost(&mut self, tag: u64) {
        if let Some(said) = self.said.get_mut(tag as usize) {
            said.is_lost = said.read.is_none();
        }
    }

    /// The machine was switched on, with a clock that is so far ahead.
    pub fn opened(&mut self, ahead_ms: i64) {
        self.ahead_ms = ahead_ms;
        self.least_ahead_ms.push(ahead_ms);
    }

    /// Its clock was set while it runs.
    pub fn clock_is_ahead(&mut self, ahead_ms: i64) {
        self.ahead_ms = ahead_ms;
        if let Some(least) = self.least_ahead_ms.last_mut() {
            *least = ahead_ms.min(*least);
        }
    }

    /// By how much longer it may be used since nobody knows how late it is: a machine that was switched off has its clock alone, and what that says may be less
    /// than what it said before. While it runs it must know better.
    fn hidden(&self, ahead_ms: i64, opened: usize) -> Duration {
        let least = self.least_ahead_ms.get(opened..).unwrap_or_default().last();
        let ms = least.map_or(0, |least| ahead_ms.saturating_sub(*least).max(0));
        Duration::from_millis(ms.cast_unsigned())
    }

    fn takes(&self, taken: &Taken, said: &Said, asked: Instant) -> bool {
        let hidden = taken.softly.map_or(Duration::ZERO, |(ahead_ms, opened)| self.hidden(ahead_ms, opened));
        asked > taken.from + hidden && taken.names(said)
    }

    /// An unsafe request was answered now, after which the resource had at least this version.
    pub fn changed(&mut self, resource: usize, number: u64) {
        let what = What::Versions(number);
        self.taken[resource].push(Taken { from: Instant::now(), what, softly: None });
    }

    /// The machine ends, and its disk may have failed to note what changed: what unsafe requests took back may be there again.
    pub fn forget_changes(&mut self) {
        self.taken.iter_mut().for_each(|taken| taken.retain(|taken| matches!(taken.what, What::Said(_))));
    }

    /// A purge that began then was answered now. What is purged softly is stale, and may be used while it is validated where that is allowed.
    pub fn purged(&mut self, resource: usize, began: Instant, soft: bool) {
        let meanwhile = self.resources[resource].meanwhile;
        let is_used = soft && !meanwhile.is_zero();
        let still = if is_used { meanwhile + ROUNDED } else { Duration::ZERO };
        let softly = is_used.then_some((self.ahead_ms, self.least_ahead_ms.len()));
        self.taken[resource].push(Taken { from: Instant::now() + still, what: What::Said(began), softly });
    }

    /// Why a request that began at `asked` may not have been answered by this version; `None` if it may. `may_be_stale` says that it
    /// may be so for any time.
    pub fn fault(&self, version: Version, asked: Instant, may_be_stale: bool) -> Option<String> {
        let Some(said) = self.of.get(&version) else {
            return Some(format!("{version:?} was never sent"));
        };
        let all = || said.iter().map(|at| &self.said[*at]);
        let may_be = |said: &&Said| {
            let hidden = self.hidden(said.ahead_ms, said.opened);
            let is_fresh = said.until + hidden >= asked || said.read.is_none_or(|read| read >= asked);
            !said.is_lost && (may_be_stale || is_fresh)
        };
        let mut fresh = all().filter(may_be).peekable();
        if fresh.peek().is_none() {
            let last = all().map(|said| said.until).max()?;
            let late = asked.saturating_duration_since(last);
            return Some(format!("{version:?} is stale since {late:?}; {:?} is there", self.present[version.resource]));
        }
        let taken = &self.taken[version.resource];
        let mut why = None;
        for said in fresh {
            why = taken.iter().find(|taken| self.takes(taken, said, asked));
            why?;
        }
        let taken = why?;
        let ago = asked.saturating_duration_since(taken.from);
        Some(format!("{version:?} was taken back, {:?}, which was answered {ago:?} before", taken.what))
    }

    /// How many answers of the origin there were.
    pub fn answers(&self) -> usize {
        self.said.len()
    }
}
