//! A phone's flash (eMMC) as section 2 of the paper on the log-structured cache describes it, in virtual time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tinaja_store::device::{Counters, Device, Geometry, Kind, Op, Request};

use super::Clock;

/// How long its requests take.
#[derive(Clone, Debug, PartialEq)]
pub struct EmmcModel {
    /// A read's time besides its bytes'.
    pub read_request: Duration,
    /// Bytes a second that are read, at random or not.
    pub read_bytes_per_second: f64,
    /// A write's time besides its bytes': what makes small ones slow that are sequential.
    pub write_request: Duration,
    /// Bytes a second that are written by large sequential requests.
    pub write_bytes_per_second: f64,
    /// A write that is not sequential costs so much more: the controller merges a unit.
    pub merge: Duration,
    /// The unit that the controller erases and merges; a write that begins one is sequential.
    pub unit_bytes: u64,
    /// A write is sequential if it begins where one of so many of the latest places of writing ended.
    pub open_units: usize,
    /// A sync's time.
    pub sync: Duration,
}

impl EmmcModel {
    /// The paper's numbers where it has some:
    ///
    /// | number | is | from |
    /// |---|---|---|
    /// | random writes of 4 KiB | 0.02 MiB/s, 195 ms each | section 2 |
    /// | unit | 4 MiB | section 3.2 |
    /// | sequential writes | 20 MiB/s; of 1 MiB 96 % of that, of 64 KiB 61 %, of 4 KiB 9 % | the form is section 2's and Figure 1's, whose numbers are not printed: 20 MiB/s is 4 MiB in about the 195 ms of a merge, and 2 ms a request chosen |
    /// | reads | 40 MiB/s and 0.5 ms a request, at random too | the form is section 2's; the numbers are chosen, of the order of phones of 2012 |
    /// | places of writing | 4 | chosen; such controllers keep from one to some ten units open |
    /// | sync | 2 ms | chosen: a request |
    pub fn phone() -> Self {
        let (write_request, write_bytes_per_second) = (Duration::from_millis(2), 20.0 * MIB);
        let random = 4096.0 / (0.02 * MIB);
        let sequential = write_request.as_secs_f64() + 4096.0 / write_bytes_per_second;
        EmmcModel {
            read_request: Duration::from_micros(500),
            read_bytes_per_second: 40.0 * MIB,
            write_request,
            write_bytes_per_second,
            merge: Duration::from_secs_f64(random - sequential),
            unit_bytes: 4 << 20,
            open_units: 4,
            sync: write_request,
        }
    }

    /// A read's time.
    pub fn read(&self, bytes: u64) -> Duration {
        self.read_request + Duration::from_secs_f64(bytes as f64 / self.read_bytes_per_second.max(1.0))
    }

    /// A write's time.
    pub fn write(&self, bytes: u64, sequential: bool) -> Duration {
        let moved = Duration::from_secs_f64(bytes as f64 / self.write_bytes_per_second.max(1.0));
        self.write_request + moved + if sequential { Duration::ZERO } else { self.merge }
    }
}

const MIB: f64 = (1 << 20) as f64;

/// A device that takes the time of a model. A request begins when the clock says or when the one before it ends, whichever is later: there
/// is no queue in which one could pass another, and so a read waits for all writes before it.
pub struct Emmc {
    below: Arc<dyn Device>,
    model: EmmcModel,
    clock: Clock,
    state: Mutex<EmmcState>,
}

#[derive(Default)]
struct EmmcState {
    free_at: Duration,
    /// When the last of the reads since [`Emmc::answered`] ends.
    answered_at: Duration,
    /// Where writing may go on, the latest last.
    places: Vec<u64>,
    busy: Duration,
    merges: u64,
}

impl Emmc {
    /// Over the device that has the bytes.
    pub fn new(below: Arc<dyn Device>, model: EmmcModel, clock: Clock) -> Self {
        Emmc { below, model, clock, state: Mutex::default() }
    }

    /// When whoever made reads since this was asked last has their answers; `None` if there were none.
    pub fn answered(&self) -> Option<Duration> {
        let at = std::mem::take(&mut self.state.lock().answered_at);
        (at > Duration::ZERO).then_some(at)
    }

    /// How long it was at work.
    pub fn busy(&self) -> Duration {
        self.state.lock().busy
    }

    /// When the last of all requests so far ends.
    pub fn free_at(&self) -> Duration {
        self.state.lock().free_at
    }

    /// Writes that were not sequential.
    pub fn merges(&self) -> u64 {
        self.state.lock().merges
    }

    fn time(&self, request: &Request, state: &mut EmmcState) -> Duration {
        let (at, bytes) = match (request.kind(), request.extent()) {
            (Kind::Read, Some((_, bytes))) => return self.model.read(bytes),
            (Kind::Write, Some(extent)) => extent,
            _ => return self.model.sync,
        };
        let place = state.places.iter().position(|place| *place == at);
        let sequential = place.is_some() || at.is_multiple_of(self.model.unit_bytes.max(1));
        if let Some(place) = place {
            state.places.remove(place);
        } else if state.places.len() >= self.model.open_units.max(1) {
            state.places.remove(0);
        }
        state.places.push(at.saturating_add(bytes));
        state.merges += u64::from(!sequential);
        self.model.write(bytes, sequential)
    }
}

impl Device for Emmc {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn clock(&self) -> &tinaja_store::Clock {
        self.below.clock()
    }

    fn submit(&self, op: Op) {
        let mut state = self.state.lock();
        let time = self.time(&op.request, &mut state);
        let ends = state.free_at.max(self.clock.now()) + time;
        state.free_at = ends;
        state.busy += time;
        if op.request.kind() == Kind::Read {
            state.answered_at = ends;
        }
        drop(state);
        self.below.submit(op);
    }

    fn counters(&self) -> Counters {
        self.below.counters()
    }

    fn stop(&self) {
        self.below.stop();
    }
}

/// Carry out one request and wait for its end.
pub(crate) fn carry_out(device: &dyn Device, request: Request) -> io::Result<Option<tinaja_store::memory::AlignedBuf>> {
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    device.submit(Op { request, done: Box::new(move |outcome| drop(tell.send(outcome))) });
    let outcome = told.recv().map_err(|_| io::Error::other("the device dropped a request"))?;
    outcome.result.map(|()| outcome.buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Sparse;
    use tinaja_store::memory::AlignedBuf;

    const SIZE: u64 = 1 << 30;

    fn emmc() -> (Emmc, Clock) {
        let clock = Clock::default();
        (Emmc::new(Arc::new(Sparse::new(SIZE)), EmmcModel::phone(), clock.clone()), clock)
    }

    fn write(emmc: &Emmc, at: u64, bytes: usize) {
        let from = Arc::new(AlignedBuf::zeroed(bytes));
        carry_out(emmc, Request::Write { at, from, part: 0..bytes }).unwrap();
    }

    /// Bytes a second, in MiB, of so many bytes written in pieces.
    fn rate(bytes: usize, place: impl Fn(u64) -> u64) -> f64 {
        let (emmc, _) = emmc();
        (0..64).for_each(|number| write(&emmc, place(number), bytes));
        64.0 * bytes as f64 / MIB / emmc.busy().as_secs_f64()
    }

    #[test]
    fn writes_are_as_section_2_says() {
        let sequential = |bytes: usize| rate(bytes, |number| number * bytes as u64);
        let full = EmmcModel::phone().write_bytes_per_second / MIB;
        assert!(sequential(1 << 20) > 0.95 * full, "of 1 MiB at full speed");
        assert!(sequential(256 << 10) < 0.9 * full, "below 1 MiB not quite");
        assert!(sequential(32 << 10) < 0.5 * full, "below 64 KiB far slower");
        let random = rate(4096, |number| (number * 7919 % 10_000) * 4096 + 4096);
        assert!((random / 0.02 - 1.0).abs() < 0.01, "{random} MiB/s at random");
    }

    #[test]
    fn reads_wait_for_writes_and_not_for_distance() {
        let (emmc, clock) = emmc();
        let read = |at| carry_out(&emmc, Request::Read { at, into: AlignedBuf::zeroed(4096) }).map(drop);
        clock.reach(Duration::from_secs(1));
        assert_eq!(emmc.answered(), None);
        read(512 << 20).unwrap();
        let alone = emmc.answered().unwrap() - Duration::from_secs(1);
        assert_eq!(alone, EmmcModel::phone().read(4096));
        clock.reach(Duration::from_secs(2));
        (1..=16).for_each(|number| write(&emmc, number * 8_392_704, 4096));
        assert_eq!(emmc.answered(), None, "nobody waits for a write");
        read(0).unwrap();
        let behind = emmc.answered().unwrap() - Duration::from_secs(2);
        assert_eq!((behind, emmc.merges()), (alone + EmmcModel::phone().write(4096, false) * 16, 16));
    }

    #[test]
    fn some_places_of_writing_are_kept() {
        let (emmc, _) = emmc();
        let unit = 4 << 20;
        for step in 0..4_u64 {
            (0..4).for_each(|place| write(&emmc, place * unit + step * 4096, 4096));
        }
        assert_eq!(emmc.merges(), 0, "four go on side by side");
        (0..5).for_each(|place| write(&emmc, (10 + place) * unit, 4096));
        (0..5).for_each(|place| write(&emmc, (10 + place) * unit + 4096, 4096));
        assert_eq!(emmc.merges(), 5, "five push each other out");
    }
}
