//! Those who have connected to ask an operator's helper something: so many places, and who has been there longest gives way.
//!
//! Figures, health and the control socket must answer though somebody opens connections and says nothing. If the silent ones kept
//! their places until their time was over, each eighty of them would keep the next question out for so long. A real one is asked and
//! answered in a moment, so the one that has been there longest is the least likely to be one.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The places.
#[derive(Debug)]
pub(crate) struct Guests {
    most: usize,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    next: u64,
    /// Those who are there, the longest first.
    guests: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// Somebody who is there, until this is dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    guests: Arc<Guests>,
    number: u64,
    gives_way: oneshot::Receiver<()>,
}

impl Guests {
    /// Nobody is there; so many may be.
    pub fn new(most: usize) -> Arc<Guests> {
        Arc::new(Guests { most, inside: Mutex::default() })
    }

    /// One more, in the place of the one who has been there longest if there is none free.
    pub fn enter(self: &Arc<Self>) -> Guest {
        let (told, gives_way) = oneshot::channel();
        let mut inside = self.inside.lock();
        if inside.guests.len() >= self.most
            && let Some((_, longest)) = inside.guests.pop_front()
        {
            // It may be leaving at this moment.
            let _ = longest.send(());
        }
        let number = inside.next;
        inside.next += 1;
        inside.guests.push_back((number, told));
        Guest { guests: self.clone(), number, gives_way }
    }
}

impl Guest {
    /// What comes of its visit; nothing if its place is needed before.
    pub async fn unless_needed<T>(&mut self, visit: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            came = visit => Some(came),
            _ = &mut self.gives_way => None,
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.guests.inside.lock().guests.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn the_one_who_has_been_there_longest_gives_way() {
        let guests = Guests::new(2);
        let (mut first, mut second) = (guests.enter(), guests.enter());
        assert_eq!(first.unless_needed(ready(1)).await, Some(1));
        let mut third = guests.enter();
        assert_eq!(first.unless_needed(pending::<()>()).await, None);
        // The place of one who has left is free.
        drop(second);
        second = guests.enter();
        assert_eq!(second.unless_needed(ready(2)).await, Some(2));
        let _fourth = guests.enter();
        assert_eq!(third.unless_needed(pending::<()>()).await, None);
        drop((first, second, third));
        assert_eq!(guests.inside.lock().guests.len(), 1);
    }
}
