//! What nodes tell each other, and how it is written.
//!
//! ```text
//! "Tc"  version  kind  sender (8)  fields  checksum of all of it (8)
//! ```
//!
//! Integers are little-endian. The checksum is seeded with the cluster's secret, so that garbage and what another cluster sends is refused. It does not prove
//! who sent a message: only networks that are trusted may bring them.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::directory::{Came, Holding, Tell};
use crate::members::NodeId;
use crate::scheme::Room;
use crate::slots::{SlotKey, Where};
use crate::table::Seen;

const MAGIC: [u8; 2] = *b"Tc";
const VERSION: u8 = 1;
const SUM_BYTES: usize = 8;

/// What one node tells another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// To a home: I have a copy.
    Has(SlotKey, Holding),
    /// To a home: this node's copy of this generation is gone.
    Gone(SlotKey, NodeId, u64),
    /// From a home, to a holder.
    Told(Tell),
    /// Read this from me, and take care of it from now on (3.1). In a swap (3.2) the sender is about to read `wanted` from the receiver, of that generation.
    Take {
        /// The sender's number for it.
        call: u64,
        /// What is to be taken.
        key: SlotKey,
        /// Where the sender has it, and what the receiver is to tell its home.
        holding: Holding,
        /// What the sender reads meanwhile.
        wanted: Option<(SlotKey, u64)>,
    },
    /// The answer: whether it was taken, and whether it is now where `wanted` was.
    Took {
        /// The number in [`Message::Take`].
        call: u64,
        /// Whether it was.
        kept: bool,
        /// Whether the receiver has `wanted` no longer.
        made_room: bool,
    },
    /// In a swap: the read of `wanted` has come to its end, and brought it or not.
    ReadEnded {
        /// The number in [`Message::Take`].
        call: u64,
        /// Whether it was brought.
        is_whole: bool,
    },
    /// To a home: this key is not valid any more; the last number says which members the sender knows.
    Invalidate(u64, SlotKey, u64),
    /// From a home, to all, which answer; the last number says which members the home knows ([`crate::members::Members::view`]).
    Forget(u64, SlotKey, u64),
    /// The answer: whether the sender knows the same members, so that nobody was left out.
    Forgot(u64, bool),
    /// From a home: nobody has it any more, as far as all have answered.
    Invalidated(u64, bool),
    /// What room the sender has: its page table, as far as others need it. And since which of its members' changes it knows the receiver: who is told another
    /// number than before was away, as the sender sees it.
    Room(Room, u64),
}

/// The kinds of messages, in the order of their numbers.
pub const KINDS: [&str; 11] =
    ["has", "gone", "told", "take", "took", "read ended", "invalidate", "forget", "forgot", "invalidated", "room"];

/// What came is not a message of this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no message of this cluster and version")]
pub struct Garbage;

impl Message {
    /// The number of its kind.
    pub fn kind(&self) -> usize {
        match self {
            Message::Has(..) => 0,
            Message::Gone(..) => 1,
            Message::Told(_) => 2,
            Message::Take { .. } => 3,
            Message::Took { .. } => 4,
            Message::ReadEnded { .. } => 5,
            Message::Invalidate(..) => 6,
            Message::Forget(..) => 7,
            Message::Forgot(..) => 8,
            Message::Invalidated(..) => 9,
            Message::Room(..) => 10,
        }
    }

    /// As bytes, from this node.
    pub fn to_bytes(&self, from: NodeId, seed: u64) -> Vec<u8> {
        let mut to = Writer(Vec::with_capacity(128));
        to.0.extend(MAGIC);
        to.u8(VERSION);
        to.u8(self.kind() as u8);
        to.u64(from.0);
        match *self {
            Message::Has(key, holding) => {
                to.key(key);
                to.holding(holding);
            }
            Message::Gone(key, node, generation) => {
                to.key(key);
                to.u64(node.0);
                to.u64(generation);
            }
            Message::Told(tell) => to.tell(tell),
            Message::Take { call, key, holding, wanted } => {
                to.u64(call);
                to.key(key);
                to.holding(holding);
                to.u8(wanted.is_some().into());
                let (key, generation) = wanted.unwrap_or_default();
                to.key(key);
                to.u64(generation);
            }
            Message::Took { call, kept, made_room } => {
                to.u64(call);
                to.u8(kept.into());
                to.u8(made_room.into());
            }
            Message::ReadEnded { call, is_whole } => {
                to.u64(call);
                to.u8(is_whole.into());
            }
            Message::Invalidate(call, key, view) | Message::Forget(call, key, view) => {
                to.u64(call);
                to.key(key);
                to.u64(view);
            }
            Message::Forgot(call, same) => {
                to.u64(call);
                to.u8(same.into());
            }
            Message::Invalidated(call, everywhere) => {
                to.u64(call);
                to.u8(everywhere.into());
            }
            Message::Room(Room { free, redundant, others }, since) => {
                to.u64(since);
                [free, redundant, others].map(|of| to.u32(of)).into_iter().collect()
            }
        }
        let sum = xxh3_64_with_seed(&to.0, seed);
        to.u64(sum);
        to.0
    }

    /// Who sent it, and what. Errors: [`Garbage`].
    pub fn from_bytes(bytes: &[u8], seed: u64) -> Result<(NodeId, Message), Garbage> {
        let (bytes, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM_BYTES).ok_or(Garbage)?).ok_or(Garbage)?;
        if xxh3_64_with_seed(bytes, seed).to_le_bytes() != *sum {
            return Err(Garbage);
        }
        let mut from = Reader(bytes);
        if from.array()? != MAGIC || from.u8()? != VERSION {
            return Err(Garbage);
        }
        let kind = from.u8()?;
        let sender = NodeId(from.u64()?);
        let message = match kind {
            0 => Message::Has(from.array()?, from.holding()?),
            1 => Message::Gone(from.array()?, NodeId(from.u64()?), from.u64()?),
            2 => Message::Told(from.tell()?),
            3 => {
                let (call, key, holding, is_swap) = (from.u64()?, from.array()?, from.holding()?, from.flag()?);
                let wanted = (from.array()?, from.u64()?);
                Message::Take { call, key, holding, wanted: is_swap.then_some(wanted) }
            }
            4 => Message::Took { call: from.u64()?, kept: from.flag()?, made_room: from.flag()? },
            5 => Message::ReadEnded { call: from.u64()?, is_whole: from.flag()? },
            6 => Message::Invalidate(from.u64()?, from.array()?, from.u64()?),
            7 => Message::Forget(from.u64()?, from.array()?, from.u64()?),
            8 => Message::Forgot(from.u64()?, from.flag()?),
            9 => Message::Invalidated(from.u64()?, from.flag()?),
            10 => {
                let since = from.u64()?;
                Message::Room(Room { free: from.u32()?, redundant: from.u32()?, others: from.u32()? }, since)
            }
            _ => return Err(Garbage),
        };
        if from.0.is_empty() { Ok((sender, message)) } else { Err(Garbage) }
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn key(&mut self, key: SlotKey) {
        self.0.extend(key);
    }

    fn tell(&mut self, tell: Tell) {
        match tell {
            Tell::Redundant(key, generation, is_redundant) => {
                self.u8(is_redundant.into());
                self.key(key);
                self.u64(generation);
            }
            Tell::Forget(key, generation) => {
                self.u8(2);
                self.key(key);
                self.u64(generation);
            }
        }
    }

    fn holding(&mut self, Holding { at, version, by }: Holding) {
        self.u32(at.slot);
        self.u32(at.bytes);
        self.u64(at.generation);
        self.u64(version);
        // How it came, and up to three numbers that belong to it.
        let (kind, numbers) = match by {
            Came::Stored(seen) => (0, [seen.0, 0, 0]),
            Came::Before => (1, [0; 3]),
            Came::Copied { seen, instead_of } => {
                let (node, generation) = instead_of.unwrap_or((NodeId(0), 0));
                let kind = 2 + u8::from(seen.is_some()) + 2 * u8::from(instead_of.is_some());
                (kind, [seen.unwrap_or_default().0, node.0, generation])
            }
        };
        self.u8(kind);
        numbers.into_iter().for_each(|number| self.u64(number));
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Garbage> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Garbage)?;
        self.0 = rest;
        Ok(*array)
    }

    fn u8(&mut self) -> Result<u8, Garbage> {
        self.array().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Result<bool, Garbage> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Garbage),
        }
    }

    fn u32(&mut self) -> Result<u32, Garbage> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Garbage> {
        self.array().map(u64::from_le_bytes)
    }

    fn tell(&mut self) -> Result<Tell, Garbage> {
        let (kind, key, generation) = (self.u8()?, self.array()?, self.u64()?);
        match kind {
            0 | 1 => Ok(Tell::Redundant(key, generation, kind == 1)),
            2 => Ok(Tell::Forget(key, generation)),
            _ => Err(Garbage),
        }
    }

    fn holding(&mut self) -> Result<Holding, Garbage> {
        let at = Where { slot: self.u32()?, bytes: self.u32()?, generation: self.u64()? };
        let (version, kind) = (self.u64()?, self.u8()?);
        let (seen, node, generation) = (Seen(self.u64()?), NodeId(self.u64()?), self.u64()?);
        let by = match kind {
            0 => Came::Stored(seen),
            1 => Came::Before,
            2..=5 => Came::Copied {
                seen: (kind % 2 == 1).then_some(seen),
                instead_of: (kind >= 4).then_some((node, generation)),
            },
            _ => return Err(Garbage),
        };
        Ok(Holding { at, version, by })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all() -> Vec<Message> {
        let at = Where { slot: 3, bytes: 8192, generation: 10 };
        let by = [None, Some(Seen(7))]
            .into_iter()
            .flat_map(|seen| [None, Some((NodeId(4), 5))].map(|instead_of| Came::Copied { seen, instead_of }));
        let holdings = by.chain([Came::Stored(Seen(9)), Came::Before]).map(|by| Holding { at, version: 77, by });
        let key = [5; 16];
        let mut all: Vec<Message> = holdings.clone().map(|holding| Message::Has(key, holding)).collect();
        for wanted in [None, Some(([6; 16], 8))] {
            all.extend(holdings.clone().map(|holding| Message::Take { call: 1, key, holding, wanted }));
        }
        all.extend([
            Message::Gone(key, NodeId(2), 6),
            Message::Told(Tell::Redundant(key, 5, true)),
            Message::Told(Tell::Redundant(key, 6, false)),
            Message::Told(Tell::Forget(key, 12)),
            Message::Took { call: 1, kept: true, made_room: false },
            Message::ReadEnded { call: 1, is_whole: true },
            Message::Invalidate(1, key, 5),
            Message::Forget(1, key, 5),
            Message::Forgot(1, true),
            Message::Invalidated(1, false),
            Message::Room(Room { free: 1, redundant: 2, others: 3 }, 4),
        ]);
        all
    }

    #[test]
    fn what_is_sent_is_what_is_received() {
        for message in all() {
            let bytes = message.to_bytes(NodeId(9), 42);
            assert_eq!(Message::from_bytes(&bytes, 42), Ok((NodeId(9), message)));
            assert_eq!(Message::from_bytes(&bytes, 43), Err(Garbage), "another cluster's");
            for end in 0..bytes.len() {
                assert_eq!(Message::from_bytes(&bytes[..end], 42), Err(Garbage), "cut off");
            }
        }
        let kinds: std::collections::BTreeSet<usize> = all().iter().map(Message::kind).collect();
        assert_eq!(kinds.len(), KINDS.len());
    }

    /// What a later version adds is refused, and not taken for something else.
    #[test]
    fn what_is_whole_and_not_known_is_refused() {
        let sealed = |mut bytes: Vec<u8>| {
            let sum = xxh3_64_with_seed(&bytes, 42);
            bytes.extend(sum.to_le_bytes());
            bytes
        };
        for message in all() {
            let bytes = message.to_bytes(NodeId(9), 42);
            let inner = &bytes[..bytes.len() - 8];
            let longer = [inner, &[0]].concat();
            let [mut version, mut kind] = [inner.to_vec(), inner.to_vec()];
            (version[2], kind[3]) = (2, 11);
            for wrong in [longer, version, kind, inner[..inner.len() - 1].to_vec()] {
                assert_eq!(Message::from_bytes(&sealed(wrong), 42), Err(Garbage), "{message:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_foreign_is_taken_for_a_message(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Message::from_bytes(&bytes, 42), Err(Garbage));
        }
    }
}
