//! The order in which objects were asked for, and the bytes of those asked for since.
//!
//! Each turn has a place of its own in a row, later ones behind earlier ones. A binary indexed tree (Fenwick, 1994) over the row has
//! the sums: a turn is entered, left or asked about in as many steps as the row's length has bits. When the row is full, what is left in
//! it is closed up.

/// Objects of which a store follows when they are asked for, to say what a larger cache would find: estimates from as many are within two
/// points in our tests.
pub const MAX_FOLLOWED: usize = 4096;
/// Places in the row: it is closed up after as many turns as there are objects, or more.
const PLACES: usize = 2 * MAX_FOLLOWED;

/// When an object was last asked for, and how large it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    place: u32,
    /// Bytes of the object.
    pub bytes: u64,
}

/// See the module. Memory: 256 KiB once the first has come.
#[derive(Default)]
pub(super) struct Recency {
    /// Sums of bytes: entry `n` has those of as many places before it as its lowest bit says. Entry 0 is not used.
    sums: Vec<u64>,
    /// Whose each place is, with its bytes; nobody's has none.
    row: Vec<Option<(u64, u64)>>,
    next: usize,
    /// No place before this one is anybody's.
    oldest: usize,
    bytes: u64,
}

impl Recency {
    /// Bytes of all that have a turn.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether [`Recency::close_up`] has to come before another can enter.
    pub fn is_full(&self) -> bool {
        self.next >= PLACES
    }

    /// One is the last that was asked for. Nothing is entered if the row is full.
    pub fn enter(&mut self, number: u64, bytes: u64) -> Turn {
        if self.row.is_empty() {
            self.row = vec![None; PLACES];
            self.sums = vec![0; PLACES + 1];
        }
        let turn = Turn { place: self.next as u32, bytes };
        if let Some(place) = self.row.get_mut(self.next) {
            *place = Some((number, bytes));
            self.next += 1;
            self.add(turn.place, |sum| sum.wrapping_add(bytes));
            self.bytes = self.bytes.wrapping_add(bytes);
        }
        turn
    }

    /// One is followed no longer, or has another turn now.
    pub fn leave(&mut self, turn: Turn) {
        if self.row.get_mut(turn.place as usize).and_then(Option::take).is_some() {
            self.add(turn.place, |sum| sum.wrapping_sub(turn.bytes));
            self.bytes = self.bytes.wrapping_sub(turn.bytes);
        }
    }

    /// One has another size; its turn stays where it was.
    pub fn resize(&mut self, turn: Turn, bytes: u64) -> Turn {
        if let Some(Some(place)) = self.row.get_mut(turn.place as usize) {
            place.1 = bytes;
            self.add(turn.place, |sum| sum.wrapping_sub(turn.bytes).wrapping_add(bytes));
            self.bytes = self.bytes.wrapping_sub(turn.bytes).wrapping_add(bytes);
        }
        Turn { bytes, ..turn }
    }

    /// Bytes of those that were asked for after this one.
    pub fn since(&self, turn: Turn) -> u64 {
        let (mut at, mut until) = (turn.place as usize + 1, 0_u64);
        while at > 0 {
            until = until.wrapping_add(self.sums.get(at).copied().unwrap_or(0));
            at &= at - 1;
        }
        self.bytes.wrapping_sub(until)
    }

    /// The one that was asked for longest ago.
    pub fn oldest(&mut self) -> Option<u64> {
        while self.oldest < self.next {
            if let Some(Some((number, _))) = self.row.get(self.oldest) {
                return Some(*number);
            }
            self.oldest += 1;
        }
        None
    }

    /// Close up the row; each has a turn anew, of which `tell` is told.
    pub fn close_up(&mut self, mut tell: impl FnMut(u64, Turn)) {
        self.sums.fill(0);
        let before = std::mem::take(&mut self.next);
        (self.oldest, self.bytes) = (0, 0);
        for place in 0..before {
            if let Some((number, bytes)) = self.row.get_mut(place).and_then(Option::take) {
                tell(number, self.enter(number, bytes));
            }
        }
    }

    fn add(&mut self, place: u32, change: impl Fn(u64) -> u64) {
        let mut at = place as usize + 1;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum = change(*sum);
            at += at & at.wrapping_neg();
        }
    }
}
