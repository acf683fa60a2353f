//! Sweeps: every whole object is shown to somebody who says whether it goes.
//!
//! An object may be in three places, and they are gone through in the order in which objects move between them: those that wait for their group, the
//! engine's, and those that memory alone still has. What is to go is dropped by its place, which means one version for ever: whatever was
//! stored since has another, and stays.
//!
//! The engine's records move while they are looked at: a cleaner writes them again, a new head takes the old one's slot. So a part in which anything could
//! not be read, or was dropped, is listed again, until it has no place that was not looked at. What is still listed then, though it was
//! unreadable or dropped, makes the sweep incomplete: nobody knows what it is, or it may be found still.

use std::collections::HashSet;
use std::sync::Arc;

use super::Inner;
use super::find::OF_HOT;
use crate::engine::{Fetched, Found, Place, Placement};
use crate::hot::Listed;
use crate::store::{Cursor, Judge, Swept};
use crate::terms::StoreError;

/// So often a part is listed anew without anything being dropped. Each time something in it must have moved.
const MOST_LISTINGS: usize = 16;

impl Inner {
    pub(super) async fn sweep(self: Arc<Self>, from: Cursor, most: usize, judge: Judge) -> Result<Swept, StoreError> {
        if self.is_closed() {
            return Err(StoreError::Closed);
        }
        if !self.engine.walks_all() {
            return Ok(Swept::default());
        }
        let mut swept = Swept { is_complete: true, ..Swept::default() };
        if let Some(number) = from.0.checked_sub(OF_HOT) {
            self.sweep_hot(number, most, &judge, &mut swept);
            return Ok(swept);
        }
        if from == Cursor::default() {
            // Before the engine's: what is written meanwhile is among those.
            self.sweep_gathered(&judge, &mut swept);
        }
        self.sweep_engine(from.0, most, &judge, &mut swept).await;
        // A store that was closed meanwhile has shown nothing.
        if self.is_closed() { Err(StoreError::Closed) } else { Ok(swept) }
    }

    fn sweep_gathered(&self, judge: &Judge, swept: &mut Swept) {
        for gather in &*self.gathers {
            for object in gather.listed() {
                let mut turns = 0..MOST_LISTINGS;
                // Its head may be another by now. Or it is the engine's, and comes there.
                while let Some(now) = gather.get(&object.digest, &object.key) {
                    swept.is_complete &= turns.next().is_some();
                    swept.shown += 1;
                    if !swept.is_complete || !judge(now.key.name(), &now.head) {
                        break;
                    }
                    let _order = self.stripe(&now.digest);
                    if gather.has(&now) {
                        gather.take(&now.digest);
                        swept.forgotten += 1;
                        break;
                    }
                }
            }
        }
    }

    async fn sweep_engine(&self, from: u64, most: usize, judge: &Judge, swept: &mut Swept) {
        let (mut seen, mut doubtful) = (HashSet::new(), HashSet::new());
        let (before, mut listings) = (swept.forgotten, 0);
        let next = loop {
            // The more of a part is gone, the further the next listing reaches.
            let (places, to) = self.engine.walk(from, most);
            // What is not live was lost or written over, and no lookup finds it.
            let is_doubtful = places.iter().any(|place| doubtful.contains(place) && self.engine.is_live(*place));
            let new: Vec<Place> = places.into_iter().filter(|place| seen.insert(*place)).collect();
            if new.is_empty() && !is_doubtful {
                break to;
            }
            if listings >= MOST_LISTINGS {
                swept.is_complete = false;
                break to;
            }
            if seen.len() >= 3 * most.max(1) && !is_doubtful && swept.forgotten > before {
                // Enough for one part: the next one begins in the same place, where there is less now.
                break Some(from);
            }
            listings += 1;
            for place in new {
                let forgotten = swept.forgotten;
                if !self.show(place, judge, swept).await {
                    doubtful.insert(place);
                }
                listings = if swept.forgotten > forgotten { 0 } else { listings };
            }
            if doubtful.is_empty() {
                break to;
            }
        };
        let hot = (self.hot.bytes() > 0).then_some(OF_HOT);
        swept.next = next.or(hot).map(Cursor);
    }

    /// Shows what is at a place. Whether it is there and stays.
    async fn show(&self, place: Place, judge: &Judge, swept: &mut Swept) -> bool {
        let Some(Fetched::Record(found)) = self.any_or_why(place).await else { return false };
        swept.shown += 1;
        if !judge(&found.name, &found.head) {
            return true;
        }
        self.drop_version(&found, place);
        swept.forgotten += 1;
        false
    }

    /// Drops one version, wherever a lookup would find it. No other takes its place meanwhile: heads are replaced under the same lock.
    fn drop_version(&self, found: &Found, place: Place) {
        let _order = self.stripe(&found.id);
        self.engine.forget(&Placement::of(found.id).named(&found.name), place);
        // What the engine has no more is not put there again.
        self.hot.remove_at(&found.id, place);
        self.reuse.removed(&found.id);
    }

    fn sweep_hot(&self, from: u64, most: usize, judge: &Judge, swept: &mut Swept) {
        let (listed, next) = self.hot.page(from, most);
        for Listed { id, key, head, place, .. } in listed {
            swept.shown += 1;
            if judge(key.name(), &head) {
                self.hot.remove_at(&id, place);
                self.reuse.removed(&id);
                swept.forgotten += 1;
            }
        }
        swept.next = next.map(|next| Cursor(OF_HOT + next));
    }
}
