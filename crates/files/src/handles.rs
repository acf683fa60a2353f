//! Integers that stand for things, each given out once: for callers that cannot hold the things themselves.
//!
//! ```text
//! bits 0-23 seat in the table | 24-27 kind | 28-62 how often the seat was used | 63 always 0
//! ```
//!
//! A seat is used again after what it held was taken out, with the next number; one whose numbers are used up is never
//! used again. So a handle means one thing for ever.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

const SEAT_BITS: u32 = 24;
const KIND_BITS: u32 = 4;
const LAST_USE: u64 = (1 << 35) - 1;

/// Names one thing in one table. Positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub i64);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a handle leads to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSuch {
    /// This table never gave it out.
    Unknown(Handle),
    /// What it stood for was taken out.
    Closed(Handle),
}

/// A table of things and their handles. Memory: 24 bytes for each seat that was ever used at once, and the things.
pub struct Handles<T> {
    kind: u8,
    most: usize,
    table: Mutex<Table<T>>,
}

struct Table<T> {
    seats: Vec<Seat<T>>,
    free: Vec<usize>,
    used: usize,
}

struct Seat<T> {
    /// The number of the handle that was given out last.
    uses: u64,
    thing: Option<Arc<T>>,
}

impl<T> Handles<T> {
    /// A table of up to `most` things, 16 million at most. Tables of different kinds, 0 to 15, share no handle.
    pub fn new(kind: u8, most: usize) -> Self {
        let table = Table { seats: Vec::new(), free: Vec::new(), used: 0 };
        Handles { kind: kind % (1 << KIND_BITS), most: most.min(1 << SEAT_BITS), table: Mutex::new(table) }
    }

    /// How many things there may be at once.
    pub fn most(&self) -> usize {
        self.most
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.table.lock().used
    }

    /// Put a thing in; `None` if the table is full.
    pub fn add(&self, thing: T) -> Option<Handle> {
        let mut table = self.table.lock();
        if table.used >= self.most {
            return None;
        }
        let number = match table.free.pop() {
            Some(number) => number,
            None if table.seats.len() < 1 << SEAT_BITS => {
                table.seats.push(Seat { uses: 0, thing: None });
                table.seats.len() - 1
            }
            None => return None,
        };
        let seat = table.seats.get_mut(number)?;
        seat.uses += 1;
        seat.thing = Some(Arc::new(thing));
        let uses = seat.uses;
        table.used += 1;
        Some(Handle((uses << (SEAT_BITS + KIND_BITS) | u64::from(self.kind) << SEAT_BITS | number as u64) as i64))
    }

    /// What a handle stands for. Errors: [`NoSuch`].
    pub fn get(&self, handle: Handle) -> Result<Arc<T>, NoSuch> {
        let table = self.table.lock();
        let number = self.find(&table, handle)?;
        let thing = table.seats.get(number).and_then(|seat| seat.thing.clone());
        thing.ok_or(NoSuch::Closed(handle))
    }

    /// Take out what a handle stands for: nobody else gets it any more. Errors: [`NoSuch`].
    pub fn take(&self, handle: Handle) -> Result<Arc<T>, NoSuch> {
        let mut table = self.table.lock();
        let number = self.find(&table, handle)?;
        let seat = table.seats.get_mut(number).ok_or(NoSuch::Unknown(handle))?;
        let thing = seat.thing.take().ok_or(NoSuch::Closed(handle))?;
        let is_spent = seat.uses >= LAST_USE;
        table.used -= 1;
        if !is_spent {
            table.free.push(number);
        }
        Ok(thing)
    }

    /// The seat of a handle that stands for what is, or was last, in it.
    fn find(&self, table: &Table<T>, handle: Handle) -> Result<usize, NoSuch> {
        let unknown = NoSuch::Unknown(handle);
        let bits = u64::try_from(handle.0).map_err(|_| unknown)?;
        let number = (bits & ((1 << SEAT_BITS) - 1)) as usize;
        let kind = (bits >> SEAT_BITS) & ((1 << KIND_BITS) - 1);
        let uses = bits >> (SEAT_BITS + KIND_BITS);
        let seat = table.seats.get(number).ok_or(unknown)?;
        match uses {
            _ if kind != u64::from(self.kind) || uses == 0 || uses > seat.uses => Err(unknown),
            _ if uses < seat.uses => Err(NoSuch::Closed(handle)),
            _ => Ok(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_means_one_thing_for_ever() {
        let table = Handles::new(3, 2);
        let (a, b) = (table.add('a').unwrap(), table.add('b').unwrap());
        assert_eq!((table.add('c'), table.count()), (None, 2));
        assert_eq!((table.get(a).map(|c| *c), table.take(b).map(|c| *c)), (Ok('a'), Ok('b')));
        assert_eq!((table.get(b), table.take(b)), (Err(NoSuch::Closed(b)), Err(NoSuch::Closed(b))));
        let c = table.add('c').unwrap();
        assert!(c != b && a.0 > 0 && c.0 > 0);
        assert_eq!(table.get(b), Err(NoSuch::Closed(b)), "its seat is used again, and it is not");
        for unknown in [0, -1, i64::MIN, i64::MAX, a.0 + 5, a.0 | 1 << 26, c.0 + (1 << 28)] {
            assert_eq!(table.get(Handle(unknown)), Err(NoSuch::Unknown(Handle(unknown))), "{unknown:x}");
        }
        let other = Handles::<char>::new(4, 2);
        let _ = other.add('x').unwrap();
        assert_eq!(other.get(a), Err(NoSuch::Unknown(a)), "a handle of another kind");
    }

    #[test]
    fn a_seat_whose_numbers_are_used_up_is_given_up() {
        let table = Handles::new(0, 1);
        let first = table.add(0).unwrap();
        table.take(first).unwrap();
        table.table.lock().seats[0].uses = LAST_USE - 1;
        let last = table.add(1).unwrap();
        assert!(last.0 > 0 && *table.get(last).unwrap() == 1);
        table.take(last).unwrap();
        let next = table.add(2).unwrap();
        assert_eq!((*table.get(next).unwrap(), next.0 & 0xff), (2, 1));
        assert_eq!(table.get(last), Err(NoSuch::Closed(last)));
    }
}
