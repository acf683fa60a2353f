//! Which entries are open, and who is just finding out about one.
//!
//! Whoever comes for a key first has it alone until it is known whether there is such an entry; others wait. So a version
//! that is being replaced is never opened beside the newer one, and a key that is being removed is not made anew before its
//! removal is in the log.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use super::Shared;

/// Entries by key. Memory: the keys, and about 100 bytes for each.
#[derive(Clone, Default)]
pub(crate) struct Table(Arc<Mutex<HashMap<Arc<[u8]>, Slot>>>);

enum Slot {
    /// Open, or being written out.
    Entry(Arc<Shared>),
    /// Somebody is at it; these wait.
    Busy(Vec<Waker>),
}

/// What there is of a key.
pub(crate) enum Claimed {
    /// An entry that is open; whoever asked to join it has it open too.
    Open(Arc<Shared>),
    /// Nothing: whoever asked has the key alone.
    Mine(Claim),
}

/// The right to a key; given back when dropped.
pub(crate) struct Claim {
    table: Table,
    key: Arc<[u8]>,
}

impl Table {
    /// What there is of a key, when nobody else is at it.
    pub(crate) async fn claim(&self, key: &Arc<[u8]>, joins: bool) -> Claimed {
        poll_fn(|cx| {
            let mut slots = self.0.lock();
            match slots.get_mut(key) {
                Some(Slot::Entry(shared)) => {
                    shared.lock().handles += usize::from(joins);
                    Poll::Ready(Claimed::Open(shared.clone()))
                }
                Some(Slot::Busy(waiting)) => {
                    if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                        waiting.push(cx.waker().clone());
                    }
                    Poll::Pending
                }
                None => {
                    slots.insert(key.clone(), Slot::Busy(Vec::new()));
                    Poll::Ready(Claimed::Mine(Claim { table: self.clone(), key: key.clone() }))
                }
            }
        })
        .await
    }

    /// One has it open no more. Whether it is to be written out, since nobody has.
    pub(crate) fn leave(&self, shared: &Arc<Shared>) -> bool {
        let mut slots = self.0.lock();
        let mut state = shared.lock();
        state.handles = state.handles.saturating_sub(1);
        let is_last = state.handles == 0 && !state.doomed;
        if is_last && !state.changed {
            take_out(&mut slots, shared);
        }
        is_last && state.changed
    }

    /// It is on disk: unless somebody has it open again, it need not be here.
    pub(crate) fn settle(&self, shared: &Arc<Shared>) {
        let mut slots = self.0.lock();
        let state = shared.lock();
        if state.handles == 0 && !state.doomed && !state.changed {
            take_out(&mut slots, shared);
        }
    }

    /// It is found no more. `None` if it was not before; else the right to its key, which is to be kept until what is on disk
    /// is removed, if anything may be.
    pub(crate) fn doom(&self, shared: &Arc<Shared>) -> Option<Option<Claim>> {
        let mut slots = self.0.lock();
        let mut state = shared.lock();
        if std::mem::replace(&mut state.doomed, true) {
            return None;
        }
        // One that is not here any more was stored, and nobody has it open.
        let was_here = take_out(&mut slots, shared);
        if !was_here || (state.stored.is_none() && !state.may_be_stored) {
            return Some(None);
        }
        slots.insert(shared.key.clone(), Slot::Busy(Vec::new()));
        Some(Some(Claim { table: self.clone(), key: shared.key.clone() }))
    }
}

/// Take this very entry out; false if its key is another's by now.
fn take_out(slots: &mut HashMap<Arc<[u8]>, Slot>, shared: &Arc<Shared>) -> bool {
    let is_here = matches!(slots.get(&shared.key), Some(Slot::Entry(other)) if Arc::ptr_eq(other, shared));
    if is_here {
        slots.remove(&shared.key);
    }
    is_here
}

impl Claim {
    /// There is such an entry now.
    pub(crate) fn put(self, shared: &Arc<Shared>) {
        let before = self.table.0.lock().insert(self.key.clone(), Slot::Entry(shared.clone()));
        wake(before);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut slots = self.table.0.lock();
        let busy = match slots.get(&self.key) {
            Some(Slot::Busy(_)) => slots.remove(&self.key),
            _ => None,
        };
        drop(slots);
        wake(busy);
    }
}

fn wake(slot: Option<Slot>) {
    if let Some(Slot::Busy(waiting)) = slot {
        waiting.into_iter().for_each(Waker::wake);
    }
}
