//! Whole objects that wait in memory for the rest of their group, to be written with it (HashCache, section 4.3).
//!
//! Objects of one group come one by one, and between them those of other groups. So that each group lies in one piece on
//! the disk, its objects wait here until no more have come for a moment. Lookups find them meanwhile; a flush, a listing
//! and a close write all of them first. When there is no room an object is written at once, and waits for the disk as any
//! other does.
//!
//! Objects that could not be written are lost: the next flush says so, and for five seconds nothing waits here, so that
//! writers hear of the failure at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tinaja_clock::Clock;

use crate::layout::reach::MAX_REACH_BYTES;
use crate::store::Hint;
use crate::terms::limits::WRITE_PATIENCE;
use crate::terms::{Digest, Key};
use crate::write::limits::{GROUP_HOLD, GROUP_QUIET, MAX_GATHERED_BYTES, MAX_GROUP_OBJECTS, MAX_GROUPS};

/// What an object takes beside its bytes.
const OVERHEAD_BYTES: usize = 256;

/// An object that waits.
pub(crate) struct Gathered {
    pub(crate) digest: Digest,
    pub(crate) key: Key,
    pub(crate) head: Bytes,
    pub(crate) body: Bytes,
    pub(crate) group: u64,
    pub(crate) hint: Hint,
}

impl Gathered {
    fn bytes(&self) -> usize {
        OVERHEAD_BYTES + self.key.name().len() + self.head.len() + self.body.len()
    }
}

/// The objects that wait for one disk. Memory: [`MAX_GATHERED_BYTES`].
pub(crate) struct Gather {
    clock: Clock,
    /// So that lookups need no lock while nothing waits.
    count: AtomicUsize,
    state: Mutex<GatherState>,
    changed: Condvar,
}

#[derive(Default)]
struct GatherState {
    objects: HashMap<Digest, Arc<Gathered>>,
    /// Those that have not begun to be written.
    groups: HashMap<u64, Group>,
    bytes: usize,
    /// What was lost since the last flush.
    lost: Option<String>,
    /// When something was lost last.
    lost_at: Option<Instant>,
    closed: bool,
}

struct Group {
    since: Instant,
    last: Instant,
    bytes: usize,
    objects: Vec<Arc<Gathered>>,
}

impl Group {
    fn is_due(&self, now: Instant) -> bool {
        let since = |then| now.saturating_duration_since(then);
        since(self.since) >= GROUP_HOLD || since(self.last) >= GROUP_QUIET || self.is_full()
    }

    fn is_full(&self) -> bool {
        self.bytes >= MAX_REACH_BYTES || self.objects.len() >= MAX_GROUP_OBJECTS
    }
}

impl GatherState {
    /// Take an object out, from its group too if that has not begun to be written.
    fn take(&mut self, digest: &Digest) -> Option<Arc<Gathered>> {
        let object = self.objects.remove(digest)?;
        self.bytes -= object.bytes();
        if let Some(group) = self.groups.get_mut(&object.group) {
            let before = group.objects.len();
            group.objects.retain(|other| !Arc::ptr_eq(other, &object));
            if group.objects.len() < before {
                group.bytes -= object.bytes();
            }
        }
        Some(object)
    }

    fn add(&mut self, object: Arc<Gathered>, now: Instant) -> bool {
        let bytes = object.bytes();
        let group = self.groups.entry(object.group).or_insert_with(|| Group {
            since: now,
            last: now,
            bytes: 0,
            objects: Vec::new(),
        });
        group.last = now;
        group.bytes += bytes;
        group.objects.push(object.clone());
        let is_full = group.is_full();
        self.objects.insert(object.digest, object);
        self.bytes += bytes;
        is_full
    }
}

impl Gather {
    /// Nothing waits.
    pub(crate) fn new(clock: Clock) -> Self {
        Gather { clock, count: AtomicUsize::new(0), state: Mutex::default(), changed: Condvar::new() }
    }

    /// Let a whole object wait for its group, in the place of any older version; false if there is no room for it. The
    /// caller holds the object's turn.
    pub(crate) fn put(&self, object: Gathered) -> bool {
        let mut state = self.state.lock();
        let is_new = !state.groups.contains_key(&object.group);
        let full = state.bytes + object.bytes() > MAX_GATHERED_BYTES || (is_new && state.groups.len() >= MAX_GROUPS);
        // Who stores on a disk that takes nothing is to hear of it at once.
        let fails = state.lost_at.is_some_and(|at| self.clock.since(at) < WRITE_PATIENCE);
        if state.closed || full || fails {
            drop(state);
            self.changed.notify_all();
            return false;
        }
        state.take(&object.digest);
        let is_full = state.add(Arc::new(object), self.clock.now());
        self.count.store(state.objects.len(), Ordering::Release);
        let wakes = is_full || state.objects.len() == 1 || state.bytes > MAX_GATHERED_BYTES / 2;
        drop(state);
        if wakes {
            self.changed.notify_all();
        }
        true
    }

    /// The object of a key, if it waits.
    pub(crate) fn get(&self, digest: &Digest, key: &Key) -> Option<Arc<Gathered>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.state.lock().objects.get(digest).filter(|object| object.key == *key).cloned()
    }

    /// Whether this very version still waits.
    pub(crate) fn has(&self, object: &Arc<Gathered>) -> bool {
        self.state.lock().objects.get(&object.digest).is_some_and(|other| Arc::ptr_eq(other, object))
    }

    /// It waits no more: it was written, removed, or a newer version was. The caller holds the object's turn.
    pub(crate) fn take(&self, digest: &Digest) {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut state = self.state.lock();
            state.take(digest);
            self.count.store(state.objects.len(), Ordering::Release);
        }
    }

    /// It could not be written, which the next flush tells.
    pub(crate) fn lose(&self, digest: &Digest, why: String) {
        self.take(digest);
        let mut state = self.state.lock();
        (state.lost, state.lost_at) = (Some(why), Some(self.clock.now()));
    }

    /// What was lost since this was asked last.
    pub(crate) fn take_lost(&self) -> Option<String> {
        self.state.lock().lost.take()
    }

    /// What waits of a group that is over.
    pub(crate) fn end(&self, group: u64) -> Vec<Arc<Gathered>> {
        self.state.lock().groups.remove(&group).map(|group| group.objects).unwrap_or_default()
    }

    /// All that waits, group by group, those under way too.
    pub(crate) fn all(&self) -> Vec<Vec<Arc<Gathered>>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut state = self.state.lock();
        let mut all: Vec<_> = state.groups.drain().map(|(_, group)| group.objects).collect();
        let of_groups: std::collections::HashSet<_> = all.iter().flatten().map(|object| object.digest).collect();
        all.push(state.objects.values().filter(|object| !of_groups.contains(&object.digest)).cloned().collect());
        all
    }

    /// All that waits, which goes on waiting.
    pub(crate) fn listed(&self) -> Vec<Arc<Gathered>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        self.state.lock().objects.values().cloned().collect()
    }

    /// Take nothing more.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Wait until something is due, or for a while: groups that are whole, and the oldest if too much waits. `None` once
    /// it is closed.
    pub(crate) fn wait(&self) -> Option<Vec<Vec<Arc<Gathered>>>> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        let waits = if state.groups.is_empty() { GROUP_HOLD } else { GROUP_QUIET / 4 };
        self.clock.wait_for(&self.changed, &mut state, waits);
        Some(self.due_of(&mut state))
    }

    #[cfg(test)]
    fn due(&self) -> Vec<Vec<Arc<Gathered>>> {
        self.due_of(&mut self.state.lock())
    }

    /// Groups that are whole, and the oldest if too much waits.
    fn due_of(&self, state: &mut GatherState) -> Vec<Vec<Arc<Gathered>>> {
        let now = self.clock.now();
        let due = state.groups.extract_if(|_, group| group.is_due(now)).map(|(_, group)| group.objects);
        let mut due: Vec<_> = due.collect();
        if due.is_empty() && state.bytes > MAX_GATHERED_BYTES / 2 {
            let oldest = state.groups.iter().min_by_key(|(_, group)| group.since).map(|(id, _)| *id);
            due.extend(oldest.and_then(|id| state.groups.remove(&id)).map(|group| group.objects));
        }
        due
    }

    /// Bytes of objects that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.state.lock().bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tinaja_clock::ManualClock;

    use super::*;

    fn object(n: u64, group: u64, size: usize) -> Gathered {
        let key = Key::from_name(&n.to_le_bytes());
        let digest = Digest(*key.digest());
        Gathered { digest, key, head: Bytes::new(), body: vec![n as u8; size].into(), group, hint: Hint::default() }
    }

    #[test]
    fn memory_is_bounded_and_a_newer_version_takes_the_place_of_the_older() {
        let gather = Gather::new(Clock::system());
        let taken = (0..1000).filter(|n| gather.put(object(*n, n % 3, 50_000))).count();
        assert!(taken > 100 && gather.bytes() <= MAX_GATHERED_BYTES as u64);
        let before = gather.bytes();
        assert!((0..1000).all(|_| !gather.put(object(2000, 1, 50_000))));
        let first = object(0, 0, 50_000);
        gather.take(&first.digest);
        assert_eq!(gather.bytes(), before - first.bytes() as u64);
        assert!((0..9).all(|size| gather.put(object(0, 5, size))));
        assert_eq!(gather.get(&first.digest, &first.key).unwrap().body.len(), 8);
        let all = gather.all();
        assert_eq!(all.iter().flatten().filter(|object| object.digest == first.digest).count(), 1);
        assert_eq!(gather.all().iter().flatten().count(), taken, "what is under way waits still");
        all.iter().flatten().for_each(|object| gather.take(&object.digest));
        assert_eq!((gather.bytes(), gather.all().len()), (0, 0));
    }

    #[test]
    fn groups_are_bounded_in_number() {
        let gather = Gather::new(Clock::system());
        let taken = (0..10_000).filter(|n| gather.put(object(*n, *n, 10))).count();
        assert_eq!(taken, MAX_GROUPS);
        gather.close();
        assert!(!gather.put(object(1, 1, 10)) && gather.wait().is_none());
    }

    #[test]
    fn a_group_is_due_when_it_is_quiet_or_as_long_as_a_request() {
        let hand = ManualClock::new();
        let gather = Gather::new(hand.clock());
        for n in 0..30 {
            assert!(gather.put(object(n, 7, 50_000)));
        }
        assert_eq!(gather.due().len(), 1, "more than a request's worth");
        assert!(gather.put(object(100, 8, 10)));
        hand.advance(GROUP_QUIET - Duration::from_millis(1));
        assert!(gather.due().is_empty() && gather.put(object(101, 8, 10)));
        hand.advance(GROUP_QUIET - Duration::from_millis(1));
        assert!(gather.due().is_empty(), "another one came");
        hand.advance(Duration::from_millis(1));
        assert_eq!(gather.due().concat().len(), 2);
        // One after the other all the time, and still written.
        let mut came = 0;
        let since = hand.clock().now();
        while gather.due().is_empty() {
            came += 1;
            assert!(gather.put(object(200 + came, 9, 10)));
            hand.advance(GROUP_QUIET / 2);
        }
        assert_eq!(hand.clock().since(since), GROUP_HOLD);
    }
}
