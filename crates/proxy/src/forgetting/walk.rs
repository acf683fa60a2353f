//! The walk through all that is stored: who begins it and when, how fast it goes, and what it does of an object.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tinaja_store::{Clock, Cursor, FIND_DEADLINE, Judge};

use crate::bans::{Bans, Stamp, Walk};
use crate::storage::Storage;
use crate::stored::{Kind, Name, StoredHead};

/// How often it is looked whether there is something to forget.
const LOOK: Duration = Duration::from_secs(1);
/// A walk begins when so long no purge has come: a deploy has many, and what had been asked for before them has come by then, mostly.
const QUIET: Duration = Duration::from_secs(5);
/// Or when so long none was forgotten.
const PATIENCE: Duration = Duration::from_secs(60);
/// Places of the index that are looked at in one go, one after the other.
const PART: usize = 256;
/// Between two parts there is a rest of this at least: 2,560 objects a second at most.
const LEAST_REST: Duration = Duration::from_millis(100);
/// And of so many times what the part took: of the time, a walk reads one fifth at most, one record at a time.
const RESTS: u32 = 4;
/// Whoever looked something up before it was dropped has it or nothing by then. In parts: a process that was stopped finds one of them over at once.
const LOOKUPS: [Duration; 4] = [Duration::from_millis(FIND_DEADLINE.as_millis() as u64 / 2); 4];
/// When a walk is made again for purges that could not be forgotten: something that they name was there still, or something could not be read.
const AGAIN: Duration = Duration::from_secs(3600);
/// The same where no walk could begin, since something older was being stored.
const SOON: Duration = Duration::from_secs(10);

/// When the next walk is due.
#[derive(Debug, Default)]
struct Due {
    /// The newest purge, and since when it has been that.
    newest: Option<(Stamp, Instant)>,
    /// Since when there has been one that no walk has gone by.
    waiting: Option<Instant>,
    /// Not before this.
    rest: Option<Instant>,
    /// The newest purge that a walk has gone by, and when it is gone by again.
    again: Option<(Stamp, Instant)>,
}

impl Due {
    /// Whether a walk is due, where this is the newest purge.
    fn is_now(&mut self, newest: Option<Stamp>, now: Instant) -> bool {
        let Some(newest) = newest else {
            *self = Due { rest: self.rest, ..Due::default() };
            return false;
        };
        if self.newest.is_none_or(|(before, _)| before != newest) {
            self.newest = Some((newest, now));
        }
        let is_rested = self.rest.is_none_or(|rest| now >= rest);
        if let Some((_, again)) = self.again.filter(|(walked, _)| has_gone_by(*walked, newest)) {
            return is_rested && now >= again;
        }
        let waiting = *self.waiting.get_or_insert(now);
        let quiet = self.newest.is_some_and(|(_, since)| now >= since + QUIET);
        is_rested && (quiet || now >= waiting + PATIENCE)
    }

    /// A walk for purges up to this one has ended, or could not go by all of them: it rests as long as it took.
    fn ended(&mut self, newest: Stamp, (began, now): (Instant, Instant), went_by_all: bool) {
        let after = if went_by_all { AGAIN } else { SOON };
        self.waiting = None;
        self.again = Some((newest, now + after));
        self.rest = Some(now + now.saturating_duration_since(began));
    }
}

/// Whether a walk for purges up to one has gone by another too: the newest that is left is older than the newest that there was.
fn has_gone_by(walked: Stamp, newest: Stamp) -> bool {
    walked.book() == newest.book() && walked.0 >= newest.0
}

/// Forgets purges as long as this is polled: for ever.
pub(crate) async fn keep_forgetting(bans: Arc<Bans>, store: Storage, clock: Clock) {
    let mut due = Due::default();
    loop {
        clock.timer(LOOK).await;
        shorten(&bans, &store, &clock).await;
        let newest = bans.to_be_walked();
        let began = clock.now();
        let Some(newest) = newest.filter(|_| due.is_now(newest, began)) else { continue };
        let up_to = forget(&bans, &store, &clock).await;
        due.ended(newest, (began, clock.now()), up_to.is_some_and(|up_to| has_gone_by(up_to, newest)));
    }
}

/// Has the purges leave the file that name nothing any more, as far as the disks say so.
async fn shorten(bans: &Arc<Bans>, store: &Storage, clock: &Clock) {
    bans.begin_epoch(|after| store.begin_epoch(after));
    let saved = store.saved_epoch();
    if bans.may_leave(saved) {
        let bans = bans.clone();
        let _ = clock.block(move || bans.leave_out(saved)).await;
    }
}

/// One walk. The newest purge that it went by, forgotten or not; `None` if it could not begin.
async fn forget(bans: &Arc<Bans>, store: &Storage, clock: &Clock) -> Option<Stamp> {
    // Whoever writes a purge down has them both wait for the disk.
    let begins = bans.clone();
    let walk = Arc::new(clock.block(move || begins.begin_walk()).await.ok()??);
    if !is_complete(bans, &walk, store, clock).await {
        bans.count_walk(false);
        return Some(walk.up_to());
    }
    for lookups in LOOKUPS {
        clock.timer(lookups).await;
    }
    let (ends, ended) = (bans.clone(), walk.clone());
    let gone = clock.block(move || ends.end_walk(&ended)).await.unwrap_or_default();
    tracing::debug!("purges are forgotten, since nothing that they name is left: {gone}");
    Some(walk.up_to())
}

/// Walks from one end to the other, and has the store forget what is gone. Whether nothing was left out.
async fn is_complete(bans: &Arc<Bans>, walk: &Arc<Walk>, store: &Storage, clock: &Clock) -> bool {
    let judge: Judge = {
        let (bans, walk) = (bans.clone(), walk.clone());
        Arc::new(move |_, head| goes(&bans, &walk, head))
    };
    let mut from = Some(Cursor::default());
    while let Some(at) = from {
        let began = clock.now();
        match store.sweep(at, PART, judge.clone()).await {
            Ok(swept) if swept.is_complete => from = swept.next,
            // An engine that cannot tell what it has, or a disk that cannot be read.
            Ok(_) => return false,
            // It is another process's now.
            Err(_) => return false,
        }
        if from.is_some() {
            clock.timer(LEAST_REST.max(clock.since(began) * RESTS)).await;
        }
    }
    true
}

/// Whether what has this head is to go. What cannot be read as one is never served.
fn goes(bans: &Bans, walk: &Walk, head: &Bytes) -> bool {
    let Some(head) = StoredHead::decode(head) else { return false };
    let is_asked_for = match head.kind {
        // It says which variants there are, of whatever age.
        Kind::Family => return false,
        Kind::Whole | Kind::Pieces => true,
        // Whether they are stale is said by what they are found by.
        Kind::Piece | Kind::Form => false,
    };
    let name = Name::from_primary(head.primary());
    bans.walk_over(walk, (head.facts.stamp, head.tags(), is_asked_for), || name.subject())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
