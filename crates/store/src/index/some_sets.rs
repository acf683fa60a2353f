//! Rows of some sets only, those used last: each with the number of its set, links in the order of use, and a hash
//! table to find it by (HashCache, section 3.3).
//!
//! Every number is packed into as many bits as it needs. A set's bucket is its number modulo the buckets, so the number
//! itself need not be stored whole: what is left of it after the division will do.

use parking_lot::Mutex;

use super::packed::Field;
use super::row::{Row, row_bytes};

/// Parts, each under its own lock.
const SHARDS: u64 = 16;
/// Rows to a bucket, on average: heads of buckets then cost a quarter of a link each, and few rows are looked at.
const ROWS_TO_A_BUCKET: u64 = 4;

/// The rows of up to so many sets. Memory: for each row 88 bits or with more bits of hash up to 152, the number of its set, and three and a quarter links.
pub struct SomeSets {
    shards: Box<[Mutex<Shard>]>,
}

/// How a row's entry is packed. Rows are numbered from 1; link 0 leads nowhere.
#[derive(Clone, Copy)]
struct Cut {
    number: Field,
    newer: Field,
    older: Field,
    next: Field,
    head: Field,
    entry_bytes: usize,
    hash_bits: u8,
}

struct Shard {
    cut: Cut,
    rows: usize,
    used: usize,
    buckets: u64,
    newest: u64,
    oldest: u64,
    entries: Box<[u8]>,
    heads: Box<[u8]>,
}

fn bits_for(most: u64) -> usize {
    (u64::BITS - most.leading_zeros()).max(1) as usize
}

impl SomeSets {
    /// Room for the rows, with so many bits of hash, of at least one and up to `rows` of `sets` sets. Allocates all of it now.
    pub fn new(sets: u64, rows: u64, hash_bits: u8) -> Self {
        let each = rows.min(sets).div_ceil(SHARDS).max(1);
        let sets_each = sets.div_ceil(SHARDS).max(1);
        SomeSets { shards: (0..SHARDS).map(|_| Mutex::new(Shard::new(sets_each, each, hash_bits))).collect() }
    }

    fn with<T>(&self, set: u64, work: impl FnOnce(&mut Shard, u64) -> T) -> Option<T> {
        let shard = self.shards.get((set % SHARDS) as usize)?;
        Some(work(&mut shard.lock(), set / SHARDS))
    }

    /// Look at the row of a set or change it, if it is here. It becomes the one used last.
    pub fn update<T>(&self, set: u64, work: impl FnOnce(&mut Row) -> T) -> Option<T> {
        self.with(set, |shard, set| {
            let at = shard.find(set)?;
            shard.unlink(at);
            shard.link_newest(at);
            let mut row = Row::from_bytes(shard.entry(at), shard.cut.hash_bits)?;
            let done = work(&mut row);
            shard.set_row(at, &row);
            Some(done)
        })?
    }

    /// Put the row of a set here, in the place of the row used least recently if there is no room.
    pub fn put(&self, set: u64, row: Row) {
        self.with(set, |shard, set| {
            let at = match shard.find(set) {
                Some(at) => {
                    shard.unlink(at);
                    at
                }
                None => shard.make_room(set),
            };
            shard.set_row(at, &row);
            shard.link_newest(at);
        });
    }

    /// How many sets have their row here, and how many ways of them are in use. Walks all of them.
    pub fn count(&self) -> (u64, u64) {
        let each = self.shards.iter().map(|shard| {
            let shard = shard.lock();
            let rows = shard.entries.chunks_exact(shard.cut.entry_bytes).take(shard.used);
            let rows = rows.filter_map(|row| Row::from_bytes(row, shard.cut.hash_bits));
            let ways = rows.map(|row| row.used() as u64).sum::<u64>();
            (shard.used as u64, ways)
        });
        each.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// Bytes allocated: rows, links, heads and locks.
    pub fn allocated_bytes(&self) -> u64 {
        let parts = self.shards.iter().map(|shard| {
            let shard = shard.lock();
            size_of::<Mutex<Shard>>() + shard.entries.len() + shard.heads.len()
        });
        (size_of::<Self>() + parts.sum::<usize>()) as u64
    }
}

impl Shard {
    fn new(sets: u64, rows: u64, hash_bits: u8) -> Self {
        let buckets = rows.div_ceil(ROWS_TO_A_BUCKET);
        let link = bits_for(rows);
        let field = |shift: usize, bits: usize| Field { shift, bits };
        let number = field(8 * row_bytes(hash_bits), bits_for(sets.div_ceil(buckets)));
        let newer = field(number.shift + number.bits, link);
        let older = field(newer.shift + link, link);
        let next = field(older.shift + link, bits_for(rows + buckets));
        let entry_bytes = (next.shift + next.bits).div_ceil(8);
        let cut = Cut { number, newer, older, next, head: field(0, link), entry_bytes, hash_bits };
        let heads = vec![0; (buckets as usize * link).div_ceil(8)].into();
        let entries = vec![0; rows as usize * entry_bytes].into();
        Shard { cut, rows: rows as usize, used: 0, buckets, newest: 0, oldest: 0, entries, heads }
    }

    fn entry(&self, row: u64) -> &[u8] {
        let at = (row - 1) as usize * self.cut.entry_bytes;
        self.entries.get(at..at + self.cut.entry_bytes).unwrap_or_default()
    }

    fn entry_mut(&mut self, row: u64) -> &mut [u8] {
        let at = (row - 1) as usize * self.cut.entry_bytes;
        self.entries.get_mut(at..at + self.cut.entry_bytes).unwrap_or_default()
    }

    fn set_row(&mut self, at: u64, row: &Row) {
        self.entry_mut(at).iter_mut().zip(row.bytes()).for_each(|(to, from)| *to = *from);
    }

    fn field(&self, row: u64, field: Field) -> u64 {
        if row == 0 { 0 } else { field.get(self.entry(row), 0, 0) }
    }

    fn set_field(&mut self, row: u64, field: Field, value: u64) {
        if row != 0 {
            field.set(self.entry_mut(row), 0, 0, value);
        }
    }

    fn head(&self, bucket: u64) -> u64 {
        self.cut.head.get(&self.heads, self.cut.head.bits, bucket as usize)
    }

    fn set_head(&mut self, bucket: u64, row: u64) {
        self.cut.head.set(&mut self.heads, self.cut.head.bits, bucket as usize, row);
    }

    fn find(&self, set: u64) -> Option<u64> {
        let (bucket, number) = (set % self.buckets, set / self.buckets);
        self.chain(self.head(bucket)).find(|row| self.field(*row, self.cut.number) == number)
    }

    /// The rows of a chain from one of them on.
    fn chain(&self, first: u64) -> impl Iterator<Item = u64> + '_ {
        let is_row = |row: &u64| (1..=self.rows as u64).contains(row);
        std::iter::successors(Some(first).filter(is_row), move |row| {
            Some(self.field(*row, self.cut.next)).filter(is_row)
        })
    }

    /// A row for a set that has none: a free one, or that of the set used least recently. It is in no order yet.
    fn make_room(&mut self, set: u64) -> u64 {
        let row = if self.used < self.rows {
            self.used += 1;
            self.used as u64
        } else {
            let oldest = self.oldest;
            self.unlink(oldest);
            self.unchain(oldest);
            oldest
        };
        let (bucket, number) = (set % self.buckets, set / self.buckets);
        let first = self.head(bucket);
        self.set_field(row, self.cut.number, number);
        // The last row of a chain says which bucket it belongs to.
        self.set_field(row, self.cut.next, if first == 0 { self.rows as u64 + 1 + bucket } else { first });
        self.set_head(bucket, row);
        row
    }

    fn unchain(&mut self, row: u64) {
        let last = self.chain(row).last().unwrap_or(row);
        let bucket = self.field(last, self.cut.next).saturating_sub(self.rows as u64 + 1);
        let after = self.field(row, self.cut.next);
        let first = self.head(bucket);
        let before = self.chain(first).find(|at| self.field(*at, self.cut.next) == row);
        match before {
            Some(before) => self.set_field(before, self.cut.next, after),
            None => self.set_head(bucket, if after > self.rows as u64 { 0 } else { after }),
        }
    }

    fn unlink(&mut self, row: u64) {
        let (newer, older) = (self.field(row, self.cut.newer), self.field(row, self.cut.older));
        if newer == 0 {
            self.newest = older
        } else {
            self.set_field(newer, self.cut.older, older)
        }
        if older == 0 { self.oldest = newer } else { self.set_field(older, self.cut.newer, newer) }
    }

    fn link_newest(&mut self, row: u64) {
        let newest = self.newest;
        self.set_field(row, self.cut.newer, 0);
        self.set_field(row, self.cut.older, newest);
        self.set_field(newest, self.cut.newer, row);
        self.newest = row;
        if self.oldest == 0 {
            self.oldest = row;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn get(some: &SomeSets, set: u64) -> Option<Row> {
        some.update(set, |row| *row)
    }

    fn row(n: u64) -> Row {
        let mut row = Row::empty(9);
        row.put(Row::fingerprint(n, 9), 8);
        row
    }

    /// HashCache, section 3.3: with 8 ways and 8 bits the rows of half the sets take as much as all rows would.
    #[test]
    fn at_forty_percent_it_takes_less_than_a_full_array() {
        for sets in [1 << 10, 1 << 14, 1 << 20, 1 << 22] {
            let bits = |percent: u64| {
                SomeSets::new(sets, sets * percent / 100, 8).allocated_bytes() as f64 * 8.0 / (sets * 8) as f64
            };
            println!(
                "{sets} sets: {:.2} bits a slot at 30 %, {:.2} at 40 %, {:.2} at 50 %",
                bits(30),
                bits(40),
                bits(50)
            );
            assert!(bits(40) < 11.0 && bits(50) < 12.0);
            assert!(bits(50) > 7.0, "half of the rows alone are 5.5");
        }
    }

    #[test]
    fn the_set_used_least_recently_gives_way() {
        let some = SomeSets::new(1000, 32, 9);
        // Sets 0, 16, 32 and so on share a shard, which has two rows.
        some.put(0, row(1));
        some.put(16, row(2));
        assert_eq!(get(&some, 0), Some(row(1)));
        some.put(32, row(3));
        assert_eq!([0, 16, 32].map(|set| get(&some, set)), [Some(row(1)), None, Some(row(3))]);
        assert_eq!(some.count(), (2, 2));
    }

    proptest! {
        /// Against a list in the order of use, one for each shard.
        #[test]
        fn rows_come_and_go_in_the_order_of_use(steps in proptest::collection::vec((any::<bool>(), 0..400_u64, 1..255_u64), 0..600)) {
            let some = SomeSets::new(400, 80, 9);
            let mut model: Vec<Vec<(u64, Row)>> = vec![Vec::new(); SHARDS as usize];
            for (puts, set, n) in steps {
                let list = &mut model[(set % SHARDS) as usize];
                let at = list.iter().position(|(other, _)| *other == set);
                let found = at.map(|at| list.remove(at));
                if puts {
                    some.put(set, row(n));
                    list.insert(0, (set, row(n)));
                    list.truncate(5);
                } else {
                    prop_assert_eq!(get(&some, set), found.map(|(_, row)| row));
                    found.into_iter().for_each(|found| list.insert(0, found));
                }
            }
        }
    }
}
