//! Forgetting bans: what a walk through the store asks of them, and what may be stored meanwhile.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::table::Fate;
use super::{Arriving, Bans, Stamp, Subject, Tags, Writer};

/// A walk through all that is stored, after which bans may be forgotten.
#[derive(Debug)]
pub(crate) struct Walk {
    up_to: Stamp,
    takes: u64,
    /// Soft bans that something fits.
    fitting: Mutex<HashSet<u64>>,
    /// Whether it came past anything that a ban may have fitted which has left the file.
    in_doubt: AtomicBool,
}

impl Walk {
    /// The newest ban that may be forgotten after it.
    pub fn up_to(&self) -> Stamp {
        self.up_to
    }
}

impl Bans {
    /// Begins to store what was asked for at `stamp`; until the outcome is dropped, no ban is forgotten that might fit it. `None` if one may have been: then it is
    /// not to be stored.
    pub fn arrive(&self, stamp: Stamp) -> Option<Arriving> {
        self.arrivals.enter(stamp)
    }

    /// Whether what was asked for at `stamp` may still be stored.
    pub fn takes(&self, stamp: Stamp) -> bool {
        self.arrivals.takes(stamp)
    }

    /// The newest ban, by which it is told whether there are others since a walk; `None` if there is none that a walk could have forgotten.
    pub fn to_be_walked(&self) -> Option<Stamp> {
        if self.is_node {
            return None;
        }
        let table = self.table.read();
        (!table.is_empty()).then(|| table.newest())
    }

    /// Begins a walk, for as many of the bans as nothing older is being stored. From now on nothing is stored that was asked for before these. `None`
    /// if there is none of them, or the bans are not this process's alone.
    pub fn begin_walk(&self) -> Option<Walk> {
        let writer = self.writer.lock();
        if self.is_node || !matches!(*writer, Writer::Book(_)) {
            return None;
        }
        let (oldest, newest) = {
            let table = self.table.read();
            (table.oldest()?, table.newest())
        };
        let up_to = self.arrivals.raise(newest.number());
        let takes = self.takes.load(Ordering::Acquire);
        let up_to_stamp = Stamp::new(newest.book(), up_to);
        let walk = || Walk { up_to: up_to_stamp, takes, fitting: Mutex::default(), in_doubt: AtomicBool::default() };
        (oldest <= up_to).then(walk)
    }

    /// Whether the store is to forget an object. One that stays and is stale by a soft ban keeps that, if `is_asked_for` by itself.
    pub fn walk_over<'a>(
        &self,
        walk: &Walk,
        (stamp, tags, is_asked_for): (Stamp, &Tags, bool),
        subject: impl FnOnce() -> Option<Subject<'a>>,
    ) -> bool {
        let [stays, goes] = &self.walked_over;
        let newest = Stamp(self.newest.load(Ordering::Acquire));
        let fate = match (newest.0..=self.now().0).contains(&stamp.0) {
            true => Fate::Stays { soft: None, in_doubt: false },
            false => self.table.read().fate(stamp, tags, subject().as_ref()),
        };
        if let Fate::Stays { soft, in_doubt } = fate
            && is_asked_for
        {
            walk.fitting.lock().extend(soft);
            walk.in_doubt.fetch_or(in_doubt, Ordering::Relaxed);
        }
        let of = if fate == Fate::Goes { goes } else { stays };
        of.fetch_add(1, Ordering::Relaxed);
        fate == Fate::Goes
    }

    /// All that is stored was walked over, and all that was to go is gone, also for those who had looked it up before: the bans that nothing fits any more are
    /// forgotten. How many.
    pub fn end_walk(&self, walk: &Walk) -> usize {
        // While this is held no bans come, and they do not change hands.
        let writer = self.writer.lock();
        let is_the_same = walk.takes == self.takes.load(Ordering::Acquire) && matches!(*writer, Writer::Book(_));
        self.count_walk(is_the_same);
        if !is_the_same {
            return 0;
        }
        let mut table = self.table.write();
        let gone = table.forget_to(walk.up_to.number(), &walk.fitting.lock());
        if !walk.in_doubt.load(Ordering::Relaxed) && table.lost().is_some_and(|lost| lost <= walk.up_to.number()) {
            tracing::info!("nothing is left in the cache that purges may have named which are written down no more");
            table.regain();
        }
        self.show(&table);
        self.forgotten.fetch_add(gone as u64, Ordering::Relaxed);
        gone
    }

    /// Counts a walk that has ended, or was given up.
    pub fn count_walk(&self, has_ended: bool) {
        let [given_up, ended] = &self.walks;
        let of = if has_ended { ended } else { given_up };
        of.fetch_add(1, Ordering::Relaxed);
    }
}
