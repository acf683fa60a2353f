//! Which of the requests that wait goes next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Order;
use crate::device::Kind;

/// Requests that wait, by their place. Memory: some hundred bytes a request.
///
/// The head is where the last request ended, or, on its way down, where it began. So each request moves the head on in its
/// direction, by a byte at least: a sweep ends, however many requests come for the place where the head is. Whatever waits lies
/// ahead in this sweep or in the next one, so it goes before two sweeps are over. Requests for the same place go in the
/// order in which they came.
pub(super) struct Queue<T> {
    order: Order,
    /// Places beyond are taken for this one: the device will refuse such a request.
    device_bytes: u64,
    head: u64,
    is_upward: bool,
    numbers: u64,
    placed: BTreeMap<(u64, u64), Placed<T>>,
    syncs: VecDeque<(u64, T)>,
    /// The numbers of all writes that have not ended, waiting or not.
    writes: BTreeSet<u64>,
}

struct Placed<T> {
    bytes: u64,
    is_write: bool,
    what: T,
}

/// What must be told to have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    write: Option<u64>,
}

impl<T> Queue<T> {
    pub(super) fn new(order: Order, device_bytes: u64) -> Self {
        Queue {
            order,
            device_bytes,
            head: 0,
            is_upward: true,
            numbers: 0,
            placed: BTreeMap::new(),
            syncs: VecDeque::new(),
            writes: BTreeSet::new(),
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.placed.len() + self.syncs.len()
    }

    /// One more waits: where it begins and how many bytes it moves, unless it is a sync.
    pub(super) fn add(&mut self, kind: Kind, extent: Option<(u64, u64)>, what: T) {
        let number = self.numbers;
        self.numbers += 1;
        let Some((at, bytes)) = extent else { return self.syncs.push_back((number, what)) };
        let is_write = kind == Kind::Write;
        if is_write {
            self.writes.insert(number);
        }
        let place = if self.order == Order::InTurn { 0 } else { at.min(self.device_bytes) };
        self.placed.insert((place, number), Placed { bytes, is_write, what });
    }

    /// Take what goes next. A sync goes as soon as it may; `None` if nothing waits, or only syncs whose time has not come.
    pub(super) fn next(&mut self) -> Option<(Begun, T)> {
        if let Some((_, sync)) = self.syncs.pop_front_if(|(number, _)| {
            let is_behind = |first: Option<u64>| first.is_none_or(|first| *number < first);
            let turn = self.placed.keys().next().map(|(_, number)| *number).filter(|_| self.order == Order::InTurn);
            is_behind(self.writes.first().copied()) && is_behind(turn)
        }) {
            return Some((Begun { write: None }, sync));
        }
        let key @ (place, number) = self.next_place()?;
        let Placed { bytes, is_write, what } = self.placed.remove(&key)?;
        self.head = if self.is_upward { place.saturating_add(bytes.max(1)) } else { place };
        Some((Begun { write: is_write.then_some(number) }, what))
    }

    /// What was begun has ended.
    pub(super) fn ended(&mut self, begun: Begun) {
        if let Some(write) = begun.write {
            self.writes.remove(&write);
        }
    }

    fn next_place(&mut self) -> Option<(u64, u64)> {
        let lowest = self.placed.keys().next().copied()?;
        match self.order {
            Order::InTurn => Some(lowest),
            Order::OneWay => self.ahead().or(Some(lowest)),
            Order::TwoWay => self.ahead().or_else(|| {
                self.is_upward = !self.is_upward;
                self.ahead()
            }),
        }
    }

    /// The nearest in the head's direction: at the head or above it, or, on the way down, below it.
    fn ahead(&self) -> Option<(u64, u64)> {
        if self.is_upward {
            return self.placed.range((self.head, 0)..).next().map(|(key, _)| *key);
        }
        let (place, _) = *self.placed.range(..(self.head, 0)).next_back()?.0;
        self.placed.range((place, 0)..).next().map(|(key, _)| *key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl<T> Queue<T> {
        fn read(&mut self, at: u64, what: T) {
            self.add(Kind::Read, Some((at, 1)), what);
        }

        fn write(&mut self, at: u64, what: T) {
            self.add(Kind::Write, Some((at, 1)), what);
        }

        fn sync(&mut self, what: T) {
            self.add(Kind::Sync, None, what);
        }
    }

    /// The order in which reads of one byte at these places go if all wait at once.
    fn order(order: Order, places: &[u64]) -> Vec<u64> {
        let mut queue = Queue::new(order, 100);
        places.iter().for_each(|place| queue.read(*place, *place));
        std::iter::from_fn(|| queue.next().map(|(_, place)| place)).collect()
    }

    #[test]
    fn each_order_is_what_it_says() {
        let go = |order: Order| {
            let mut queue = Queue::new(order, 100);
            queue.read(50, 50);
            let mut went = vec![queue.next().unwrap().1];
            [70, 20, 60, 40].iter().for_each(|place| queue.read(*place, *place));
            went.extend(std::iter::from_fn(|| queue.next().map(|(_, place)| place)));
            went
        };
        assert_eq!(go(Order::InTurn), [50, 70, 20, 60, 40]);
        assert_eq!(go(Order::OneWay), [50, 60, 70, 20, 40]);
        assert_eq!(go(Order::TwoWay), [50, 60, 70, 40, 20]);
        assert_eq!(order(Order::TwoWay, &[u64::MAX, 7, u64::MAX - 1]), [7, u64::MAX, u64::MAX - 1], "beyond the end");
    }

    #[test]
    fn requests_for_one_place_go_in_their_order_on_the_way_down_too() {
        let mut queue = Queue::new(Order::TwoWay, 100);
        queue.read(90, 0);
        queue.next().unwrap();
        [(30, 1), (40, 2), (30, 3)].iter().for_each(|(place, name)| queue.write(*place, *name));
        let went: Vec<_> = std::iter::from_fn(|| queue.next().map(|(_, name)| name)).collect();
        assert_eq!(went, [2, 1, 3]);
    }

    /// A write for the place where the head is comes again whenever one has gone.
    #[test]
    fn nothing_waits_for_ever_behind_what_comes_again_and_again() {
        for order in [Order::OneWay, Order::TwoWay] {
            for (far, again) in [(90, 10), (10, 90), (0, 99), (100, 0)] {
                let mut queue = Queue::new(order, 100);
                queue.write(again, again);
                queue.next().unwrap();
                queue.read(far, far);
                let mut tries = 0;
                loop {
                    queue.write(again, again);
                    tries += 1;
                    if queue.next().unwrap().1 == far {
                        break;
                    }
                }
                assert!(tries <= 3, "{order:?}: {far} went after {tries} for {again}");
            }
            // And one that comes right behind the last holds it up for a sweep, not for two.
            let mut queue = Queue::new(order, 1000);
            queue.read(500, 500);
            queue.next().unwrap();
            queue.read(499, 499);
            let behind = (501..).position(|place| {
                queue.write(place, place);
                queue.next().unwrap().1 == 499
            });
            assert!(behind.unwrap() <= 501, "{order:?}: {behind:?}");
        }
    }

    #[test]
    fn a_sync_goes_once_the_writes_before_it_have_ended() {
        for order in [Order::InTurn, Order::OneWay, Order::TwoWay] {
            let mut queue = Queue::new(order, 100);
            queue.write(10, "a");
            queue.sync("sync");
            queue.write(20, "b");
            let (a, name) = queue.next().unwrap();
            assert_eq!(name, "a");
            let (b, name) = queue.next().unwrap();
            assert_eq!(name, "b", "one that came later need not wait");
            assert!(queue.next().is_none(), "{order:?}");
            queue.ended(b);
            assert!(queue.next().is_none(), "{order:?}");
            queue.ended(a);
            assert_eq!(queue.next().unwrap().1, "sync");
            assert!(queue.next().is_none() && queue.len() == 0);
        }
        let mut queue = Queue::new(Order::InTurn, 100);
        queue.read(10, "read");
        queue.sync("sync");
        assert_eq!([queue.next().unwrap().1, queue.next().unwrap().1], ["read", "sync"]);
    }

    /// The same, slowly: all that waits in a list, and each rule as a person would say it.
    struct Model {
        order: Order,
        waiting: Vec<(usize, u64, u64)>,
        head: u64,
        is_upward: bool,
    }

    impl Model {
        fn next(&mut self) -> Option<usize> {
            let first = self.waiting.iter().min()?.0;
            let head = self.head;
            let above = self.waiting.iter().filter(|(_, at, _)| *at >= head).min_by_key(|(name, at, _)| (*at, *name));
            let below = self.waiting.iter().filter(|(_, at, _)| *at < head);
            let lowest = self.waiting.iter().min_by_key(|(name, at, _)| (*at, *name)).map(|(name, ..)| *name);
            let below = below.min_by_key(|(name, at, _)| (head - at, *name)).map(|(name, ..)| *name);
            let above = above.map(|(name, ..)| *name);
            let name = match (self.order, self.is_upward) {
                (Order::InTurn, _) => first,
                (Order::OneWay, _) => above.or(lowest)?,
                (Order::TwoWay, true) => above.or(below)?,
                (Order::TwoWay, false) => below.or(above)?,
            };
            self.is_upward = self.order != Order::TwoWay || Some(name) == above;
            let at = self.waiting.iter().position(|(waits, ..)| *waits == name)?;
            let (_, at, bytes) = self.waiting.remove(at);
            self.head = if self.is_upward { at + bytes } else { at };
            Some(name)
        }
    }

    proptest! {
        #[test]
        fn it_goes_as_its_model(
            order in prop_oneof![Just(Order::InTurn), Just(Order::OneWay), Just(Order::TwoWay)],
            steps in proptest::collection::vec((0..3_u8, 0..24_u64, 1..4_u64), 0..200),
        ) {
            let mut queue = Queue::new(order, 24);
            let mut model = Model { order, waiting: Vec::new(), head: 0, is_upward: true };
            for (name, (step, at, bytes)) in steps.into_iter().enumerate() {
                if step == 0 {
                    prop_assert_eq!(queue.next().map(|(_, name)| name), model.next());
                } else {
                    queue.add(Kind::Read, Some((at, bytes)), name);
                    model.waiting.push((name, at, bytes));
                }
                prop_assert_eq!(queue.len(), model.waiting.len());
            }
            while queue.len() > 0 {
                prop_assert_eq!(queue.next().map(|(_, name)| name), model.next());
            }
        }
    }
}
