//! Where the positions of an engine's slots are: all in memory, or some.

use std::sync::Arc;
use std::task::{Poll, Waker};

use super::index::Index;
use crate::device::Device;
use crate::engine::hashcache::loglru::{LruIndex, Said};
use crate::engine::{Place, Places, Probe};
use crate::layout::reach::Reach;
use crate::terms::Stats;

/// The index of an engine over a log.
pub enum Positions {
    /// HashCache-Log's.
    All(Index),
    /// HashCache-LogLRU's.
    Some(Arc<LruIndex>),
}

/// Do the same with either.
macro_rules! either {
    ($positions:expr, $index:ident => $work:expr) => {
        match $positions {
            Positions::All($index) => $work,
            Positions::Some($index) => $work,
        }
    };
}

impl Positions {
    /// What memory says of an object.
    pub fn probe(&self, id_low: u64) -> Probe {
        match self {
            Positions::All(index) => {
                let places = index.candidates(id_low);
                if places.iter().next().is_none() { Probe::Absent } else { Probe::At(places) }
            }
            Positions::Some(index) => match index.say(id_low) {
                Said::Absent => Probe::Absent,
                Said::At(place) => Probe::At(Places::newest_first(&mut [place])),
                Said::OnDisk => Probe::AskDisk,
            },
        }
    }

    /// Whether another object may be entered now.
    pub fn poll_room(&self, waker: &Waker) -> Poll<()> {
        match self {
            Positions::All(_) => Poll::Ready(()),
            Positions::Some(index) => index.offsets.poll_room(waker),
        }
    }

    /// How far the record at a place reaches with those related to it, where memory says so.
    pub fn reach(&self, id_low: u64, place: Place) -> Reach {
        either!(self, index => index.reach(id_low, place))
    }

    /// Enter a record by the low half of its digest.
    pub fn insert_low(&self, id_low: u64, place: Place, reach: Reach) {
        either!(self, index => index.insert_low(id_low, place, reach));
    }

    /// Drop every candidate of this fingerprint.
    pub fn remove_low(&self, id_low: u64) {
        either!(self, index => index.remove_low(id_low));
    }

    /// Drop the candidates of this fingerprint that are not newer than `place`.
    pub fn remove_to(&self, id_low: u64, place: Place) {
        either!(self, index => index.remove_to(id_low, place));
    }

    /// Make the slot of this place the most recently used of its set.
    pub fn touch(&self, id_low: u64, place: Place) {
        either!(self, index => index.touch(id_low, place));
    }

    /// Empty the dead slots of one region's share of the sets.
    pub fn sweep(&self, region: u64) {
        either!(self, index => index.sweep(region));
    }

    /// The live places of one set, or the numbers of its slots.
    pub fn places(&self, set: u64) -> Vec<Place> {
        either!(self, index => index.places(set))
    }

    /// Slots that lead to a record, as they were counted.
    pub fn live(&self) -> u64 {
        either!(self, index => index.live())
    }

    /// Sets of the index.
    pub fn sets(&self) -> u64 {
        either!(self, index => index.sets())
    }

    /// Objects dropped because their set was full.
    pub fn lost(&self) -> u64 {
        either!(self, index => index.lost())
    }

    /// Memory allocated, in bytes.
    pub fn allocated_bytes(&self) -> u64 {
        either!(self, index => index.allocated_bytes())
    }

    /// One page of a snapshot; none is taken where positions are on disk.
    pub fn page(&self, page: u64) -> Vec<u8> {
        match self {
            Positions::All(index) => index.page(page),
            Positions::Some(_) => Vec::new(),
        }
    }

    /// Wait until nothing is being written any more, after [`Positions::close`].
    pub fn ended(&self) {
        if let Positions::Some(index) = self {
            index.offsets.ended();
        }
    }

    /// What a file of positions and a device of its own did and failed at.
    pub fn stats(&self) -> Stats {
        match self {
            Positions::All(_) => Stats::default(),
            Positions::Some(index) => index.offsets.stats(),
        }
    }

    /// The device of a file of positions, if it is one of its own.
    pub fn device_apart(&self) -> Option<Arc<dyn Device>> {
        match self {
            Positions::All(_) => None,
            Positions::Some(index) => index.offsets.device_apart(),
        }
    }

    /// Write nothing more.
    pub fn close(&self) {
        if let Positions::Some(index) = self {
            index.offsets.close();
        }
    }
}
