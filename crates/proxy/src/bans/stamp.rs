//! When an answer was asked for, counted in bans.

/// The bits of the ban's number.
const NUMBER_BITS: u32 = 40;
/// The largest number of a ban.
pub(super) const MOST: u64 = (1 << NUMBER_BITS) - 1;

/// The number of the last ban, and which book of bans counts so: a book that was lost is never taken for its successor. 0 where there is no
/// book, and for what earlier versions stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp(pub u64);

impl Stamp {
    /// Of a ban in a book; ids of books have 24 bits.
    pub(super) fn new(book: u32, number: u64) -> Stamp {
        Stamp(u64::from(book) << NUMBER_BITS | number)
    }

    pub(crate) fn book(self) -> u32 {
        u32::try_from(self.0 >> NUMBER_BITS).unwrap_or_default()
    }

    pub(super) fn number(self) -> u64 {
        self.0 & MOST
    }
}
