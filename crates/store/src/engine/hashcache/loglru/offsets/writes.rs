//! Positions on their way to their file: all of them when a cache is opened, and then a stripe at a time.

use std::mem;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use tinaja_clock::Clock;

use super::Offsets;
use crate::device::{Op, Outcome, Request, blocking, worker};
use crate::engine::hashcache::loglru::set::{At, WAYS};
use crate::memory::AlignedBuf;
use crate::memory::aligned::ALIGN;

/// How often it is looked whether the disk has stalled.
const TICK: Duration = Duration::from_millis(100);

impl Offsets {
    /// Write the file of sets in order, from the first on: all of a stripe's sets, and then the next one's. Errors: the
    /// device's.
    pub fn write_anew(&self, sets: &mut dyn Iterator<Item = (u64, [At; WAYS])>) -> std::io::Result<()> {
        let Some(device) = self.device.as_deref() else {
            sets.for_each(drop);
            return Ok(());
        };
        let mut buffer: Option<(u64, Range<u64>, AlignedBuf)> = None;
        let write = |(_, extent, bytes): (u64, Range<u64>, AlignedBuf)| blocking::write(device, extent.start, bytes);
        for (set, all) in sets {
            let stripe = self.layout.stripe_of(set);
            if buffer.as_ref().is_some_and(|(before, ..)| *before != stripe) {
                buffer.take().map_or(Ok(()), write)?;
            }
            let (_, extent, bytes) = buffer.get_or_insert_with(|| {
                let sets = self.layout.sets_of(stripe);
                let extent = self.extent(sets.start, sets.end.saturating_sub(1));
                let bytes = AlignedBuf::zeroed((extent.end - extent.start) as usize);
                (stripe, extent, bytes)
            });
            let from = extent.start;
            all.iter().enumerate().for_each(|(way, at)| self.layout.put(bytes, from, (set, way), *at));
        }
        buffer.take().map_or(Ok(()), write)
    }

    /// The blocks from the one of a set to the one of another.
    fn extent(&self, first: u64, last: u64) -> Range<u64> {
        self.layout.block_at(first)..self.layout.block_at(last) + ALIGN as u64
    }

    /// Send the stripe that most positions wait for to the disk, if they are many and none is on its way. Not to be called
    /// with a shard locked.
    pub fn write_if_due(self: &Arc<Self>) {
        let Some(device) = self.device.as_ref().filter(|_| !self.is_lost()) else { return };
        let (going, under_way) = {
            let mut state = self.state.lock();
            let is_due = state.to_go.len() >= self.layout.most_waiting() / 4 * 3;
            if state.closed || state.writing_since.is_some() || !is_due {
                return;
            }
            state.writing_since = Some(device.clock().now());
            (state.to_go.fullest(), UnderWay(self.clone()))
        };
        let (Some(((first, _), _)), Some(((last, _), _))) = (going.first(), going.last()) else { return };
        let extent = self.extent(*first, *last);
        let into = AlignedBuf::zeroed((extent.end - extent.start) as usize);
        let at = extent.start;
        let done = move |outcome: Outcome| match (outcome.result, outcome.buffer) {
            (Ok(()), Some(bytes)) => under_way.write(at, bytes, going),
            (result, _) => under_way.0.written(result, going),
        };
        device.submit(Op { request: Request::Read { at, into }, done: Box::new(done) });
    }

    /// A stripe is on the disk, or its positions are forgotten: their slots are freed first, or the disk's older positions
    /// would be taken for theirs.
    fn written(&self, result: std::io::Result<()>, going: Vec<((u64, usize), At)>) {
        self.judge(result.is_ok());
        if let Err(error) = result {
            self.write_errors.fetch_add(1, Relaxed);
            tracing::error!("positions of {} objects could not be written, which are forgotten: {error}", going.len());
            for ((set, way), _) in &going {
                self.free.get().into_iter().for_each(|free| free(*set, *way));
            }
        }
        let mut state = self.state.lock();
        // One that has come for the same slot meanwhile waits for the next time.
        going.into_iter().for_each(|(slot, at)| state.to_go.remove(slot, at));
    }

    /// Begin to send positions out; `free` frees a slot. A thread looks after those who wait for a disk that has stalled; it
    /// ends when the file is closed or dropped. Errors: the system has no more threads.
    pub fn start(self: &Arc<Self>, free: impl Fn(u64, usize) + Send + Sync + 'static) -> std::io::Result<()> {
        let Some(device) = &self.device else { return Ok(()) };
        let _ = self.free.set(Box::new(free));
        let weak = Arc::downgrade(self);
        worker::spawn("tinaja-offsets", device, move |clock| work(clock, &weak))
    }
}

/// A stripe on its way: while this lives no other one is, and who closes the file waits for it. A device may drop a request
/// unanswered, as under an engine that was stopped, and with it this.
struct UnderWay(Arc<Offsets>);

impl UnderWay {
    /// Change these positions among the bytes of the device from `at` on, and write them.
    fn write(self, at: u64, mut bytes: AlignedBuf, going: Vec<((u64, usize), At)>) {
        let Some(device) = self.0.device.clone() else { return };
        for (slot, position) in &going {
            self.0.layout.put(&mut bytes, at, *slot, *position);
        }
        let from = Arc::new(bytes);
        let part = 0..from.len();
        let done = move |outcome: Outcome| self.0.written(outcome.result, going);
        device.submit(Op { request: Request::Write { at, from, part }, done: Box::new(done) });
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.writing_since = None;
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        self.0.idle.notify_all();
        waiting.into_iter().for_each(Waker::wake);
    }
}

fn work(clock: &Clock, offsets: &Weak<Offsets>) {
    while let Some(offsets) = offsets.upgrade() {
        offsets.write_if_due();
        let let_go = {
            let mut state = offsets.state.lock();
            if state.closed {
                return;
            }
            if offsets.is_stalled(&state) || offsets.is_lost() { mem::take(&mut state.waiting) } else { Vec::new() }
        };
        let_go.into_iter().for_each(Waker::wake);
        drop(offsets);
        clock.sleep(TICK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fused::FusedDevice;
    use crate::device::wrap::{Fault, Faulty};
    use crate::device::{Medium, Memory};
    use crate::engine::hashcache::loglru::OffsetLayout;
    use crate::fuse::Fuse;
    use crate::layout::reach::Reach;

    /// A file with as many positions waiting as there is room for, a stripe of which stalls on its way; and what makes its
    /// device drop all requests.
    fn stalled() -> (Arc<Offsets>, Arc<Fuse>, Arc<Faulty>) {
        let layout = OffsetLayout { base: 0, sets: 512, has_reaches: false, is_apart: true };
        let disk = Arc::new(Memory::over(&Medium::zeroed(layout.bytes() as usize)));
        let (fuse, slow) = (Fuse::new(), Arc::new(Faulty::new(disk, |_, _| Some(Fault::Stalled))));
        let offsets = Offsets::on(Some(FusedDevice::over(slow.clone(), fuse.clone())), layout);
        for set in 0..layout.most_waiting() as u64 {
            assert!(offsets.put(set, 7, At { position: set as u32, reach: Reach::default() }));
        }
        assert!(offsets.poll_room(Waker::noop()).is_pending());
        (offsets, fuse, slow)
    }

    /// The engine is stopped while a stripe is on its way: its completion is dropped. Whoever closes the file was to wait for it,
    /// and would have waited for ever.
    #[test]
    fn a_request_that_is_dropped_keeps_nobody_waiting() {
        let (offsets, fuse, slow) = stalled();
        fuse.blow("a test");
        slow.release();
        offsets.close();
        offsets.ended();
        assert!(offsets.poll_room(Waker::noop()).is_ready(), "closed");
    }

    #[test]
    fn who_closes_waits_for_what_is_on_its_way() {
        let (offsets, _, slow) = stalled();
        offsets.close();
        let waits = std::thread::spawn({
            let offsets = offsets.clone();
            move || offsets.ended()
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waits.is_finished() && offsets.poll_room(Waker::noop()).is_ready());
        // The read, and then the write, which stalls as well.
        while !waits.is_finished() {
            slow.release();
            std::thread::yield_now();
        }
        waits.join().unwrap();
        assert_eq!(offsets.unwritten(0, 7), None);
    }
}
