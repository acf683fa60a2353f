//! What stamps of other books are worth here: how many of this book's bans had been made when they were given.

use std::collections::HashMap;

use super::stamp::Stamp;

/// Books of which something is known, at most: no cluster has more nodes.
const MOST_BOOKS: usize = 256;
/// What is known of one, at most. Where more comes, some goes: stamps then count for a little older than they are.
const MOST_PAIRS: usize = 512;

/// For each other book pairs of numbers, both ascending: what has a stamp of that book with the first number or a larger one was asked for after
/// this book's bans up to the second one had been made. Memory: 2 MiB at most.
#[derive(Default)]
pub(super) struct Seen {
    books: HashMap<u32, Vec<(u64, u64)>>,
}

impl Seen {
    /// What is asked for under this stamp or a later one of its book has seen so many of the own bans.
    pub fn note(&mut self, from: Stamp, own: u64) {
        let book = from.book();
        if !self.books.contains_key(&book) && self.books.len() >= MOST_BOOKS {
            // Nodes that have lost their book leave the old one behind. Whichever goes, more is fetched anew and nothing less.
            let one = self.books.keys().next().copied();
            one.inspect(|one| _ = self.books.remove(one));
        }
        let pairs = self.books.entry(book).or_default();
        let at = pairs.partition_point(|(theirs, _)| *theirs < from.number());
        let is_known = pairs.get(..at).and_then(<[_]>::last).is_some_and(|(_, known)| *known >= own)
            || pairs.get(at).is_some_and(|(theirs, known)| *theirs == from.number() && *known >= own);
        if is_known {
            return;
        }
        let useless = pairs.iter().skip(at).take_while(|(_, known)| *known <= own).count();
        pairs.splice(at..at + useless, [(from.number(), own)]);
        if pairs.len() > MOST_PAIRS {
            // What is missed least: the older it is, the wider its neighbours may be apart.
            let least = pairs.windows(3).enumerate().filter_map(|(before, three)| {
                let [(_, left), (_, at), (_, right)] = three else { return None };
                Some((before + 1, (right - left) as f64 / (own.saturating_sub(*at) + 1) as f64))
            });
            let least = least.min_by(|(_, one), (_, other)| one.total_cmp(other));
            least.inspect(|(at, _)| _ = pairs.remove(*at));
        }
    }

    /// Nothing is known of this book any more.
    pub fn forget(&mut self, book: u32) {
        self.books.remove(&book);
    }

    /// How many of the own bans had certainly been made when such a stamp was given; 0 if nothing is known.
    pub fn floor(&self, stamp: Stamp) -> u64 {
        let Some(pairs) = self.books.get(&stamp.book()) else { return 0 };
        let at = pairs.partition_point(|(theirs, _)| *theirs <= stamp.number());
        pairs.get(..at).and_then(<[_]>::last).map_or(0, |(_, own)| *own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_worth_what_is_certain() {
        let mut seen = Seen::default();
        let floor = |seen: &Seen, number| seen.floor(Stamp::new(7, number));
        assert_eq!(floor(&seen, 100), 0);
        for (theirs, own) in [(10, 3), (20, 5), (15, 4), (12, 2), (30, 5), (20, 4), (20, 6)] {
            seen.note(Stamp::new(7, theirs), own);
        }
        for (number, own) in [(9, 0), (10, 3), (14, 3), (15, 4), (19, 4), (20, 6), (1000, 6)] {
            assert_eq!(floor(&seen, number), own, "{number}");
        }
        assert_eq!(seen.floor(Stamp::new(8, 1000)), 0, "another book's");
        // One that says more for less makes the others useless.
        seen.note(Stamp::new(7, 5), 9);
        assert_eq!((seen.books[&7].len(), floor(&seen, 4), floor(&seen, 5)), (1, 0, 9));
        seen.forget(7);
        assert_eq!(floor(&seen, 5), 0);
    }

    #[test]
    fn it_grows_to_a_bound_and_never_says_more_than_it_was_told() {
        let mut seen = Seen::default();
        for n in 1..=10_000 {
            seen.note(Stamp::new(7, 10 * n), n);
            assert_eq!(seen.floor(Stamp::new(7, 10 * n)), n, "the newest is exact");
        }
        assert!(seen.books[&7].len() <= MOST_PAIRS);
        assert!((1..=10_000).all(|n| seen.floor(Stamp::new(7, 10 * n + 9)) <= n));
        let far = (1..=10_000).map(|n| (n, n - seen.floor(Stamp::new(7, 10 * n))));
        assert!(far.clone().all(|(n, far)| n < 20 || far <= (10_000 - n) / 10 + 1), "what is old is known roughly");
        assert_eq!(
            far.clone().filter(|(n, far)| *n > 9_900 && *far > 1).count(),
            0,
            "and what is young almost exactly"
        );
        for book in 0..2 * MOST_BOOKS as u32 {
            seen.note(Stamp::new(book, 1), 1);
        }
        assert_eq!(seen.books.len(), MOST_BOOKS);
    }
}
