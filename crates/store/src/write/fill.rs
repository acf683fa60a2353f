//! One unfinished write.
//!
//! Bytes gather in `tail`. A full tail goes to the engine as an extent, and is read back from there by followers that
//! are late; so a write of any length takes one extent of memory, and the beginning of the body where the engine keeps that
//! with the head. When the object can no longer be stored (the device
//! failed, it is too large, it was removed), the write becomes a relay: the tail is then a window that moves with the
//! slowest follower.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use foldhash::fast::RandomState;
use parking_lot::{Mutex, MutexGuard};
use tinaja_clock::Clock;

use super::tail::Tail;
use crate::engine::{BodyWriter, Engine, Hold};
use crate::layout::table::Extent;
use crate::memory::held::{Held, Share};
use crate::store::{FillId, Hint};
use crate::terms::limits::LEASE;
use crate::terms::{Digest, Key, Kind, Placement, Record, WhyNot};
use crate::write::limits::written_bytes;

pub(crate) struct Fill {
    pub(crate) id: FillId,
    pub(crate) key: Key,
    pub(crate) digest: Digest,
    pub(crate) head: Bytes,
    pub(crate) hint: Hint,
    pub(crate) extent_bytes: usize,
    /// How much of the body's beginning goes into no extent, should there be any.
    first_bytes: usize,
    /// Another version was committed since this write began. Changed and asked under the object's stripe.
    pub(super) overtaken: AtomicBool,
    state: Mutex<FillState>,
}

pub(crate) struct FillState {
    pub(crate) phase: Phase,
    /// Those who follow are told that it has ended; what came is yet to be kept.
    pub(super) broken_off: bool,
    /// Whether it was a relay, if it has ended.
    pub(super) was_relay: bool,
    /// The beginning of the body, which lies before the first extent; empty while there is none.
    pub(crate) first: Bytes,
    /// Parts already with the engine, each but the last of `extent_bytes`.
    pub(crate) extents: Vec<Extent>,
    /// Where they are written, with an engine that wants a long body as one stream. Dropped before its end, they are gone.
    pub(crate) stream: Option<Box<dyn BodyWriter>>,
    /// Keeps the parts, once all are with the engine, for whoever reads them still.
    pub(super) hold: Hold,
    /// Where the parts with the engine end.
    pub(super) stored_to: u64,
    /// Offset of the tail's first byte.
    pub(crate) base: u64,
    pub(crate) tail: Tail,
    /// What the tail takes of the bytes that all unfinished writes may hold.
    pub(super) share: Share,
    /// How far each follower has read, but for those that were left behind while they stood still.
    pub(super) followers: HashMap<u64, u64, RandomState>,
    next_follower: u64,
    waiting: Vec<Waker>,
    writer: Option<Waker>,
    pub(super) pushed_back: Option<Instant>,
}

/// What is to become of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It goes on, and will be stored.
    Open,
    /// It goes on for its followers; it will not be stored.
    Relay(WhyNot),
    /// It ended; every byte had arrived.
    Whole,
    /// It ended before every byte had arrived.
    Aborted,
}

impl FillState {
    /// Bytes that have arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.base + self.tail.len() as u64
    }

    /// Whether so many bytes more may be held. A relay holds them in any case, within its window.
    fn may_hold(&mut self, more: usize) -> bool {
        let bytes = self.tail.len() + more;
        let most = if self.phase == Phase::Open { written_bytes() } else { usize::MAX };
        self.share.resize(bytes, most)
    }

    fn join(&mut self) -> u64 {
        let number = self.next_follower;
        self.next_follower += 1;
        self.followers.insert(number, 0);
        number
    }

    fn wake_followers(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

impl Fill {
    /// A write of which nothing has come. Its parts are to be of so many bytes, the last but for its beginning, of which
    /// so much goes with the head.
    pub(crate) fn new(
        id: FillId,
        key: Key,
        digest: Digest,
        head: Bytes,
        hint: Hint,
        (extent_bytes, first_bytes): (usize, usize),
    ) -> Self {
        let state = FillState {
            phase: Phase::Open,
            broken_off: false,
            was_relay: false,
            first: Bytes::new(),
            extents: Vec::new(),
            stream: None,
            hold: Hold::default(),
            stored_to: 0,
            base: 0,
            tail: Tail::default(),
            share: Held::default().share(),
            followers: HashMap::default(),
            next_follower: 0,
            waiting: Vec::new(),
            writer: None,
            pushed_back: None,
        };
        let (overtaken, state) = (AtomicBool::new(false), Mutex::new(state));
        Fill { id, key, digest, head, hint, extent_bytes, first_bytes, overtaken, state }
    }

    /// What the engine is told of it.
    pub(crate) fn placement(&self) -> Placement<'_> {
        self.hint.placement(self.digest, &self.key)
    }

    /// Count its bytes among those of all.
    pub(crate) fn among(self, all: &Held) -> Self {
        self.lock().share = all.share();
        self
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, FillState> {
        self.state.lock()
    }

    /// Store no more of it.
    pub(crate) fn give_up(&self, why: WhyNot) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Relay(why);
        }
    }

    /// No more will come of it, as those who follow hear at once.
    pub(crate) fn break_off(&self) {
        let mut state = self.lock();
        state.broken_off = true;
        state.wake_followers();
    }

    /// The write has ended.
    pub(crate) fn end(&self, phase: Phase) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Open | Phase::Relay(_)) {
            state.was_relay = state.phase != Phase::Open;
            state.phase = phase;
        }
        state.let_go();
        state.wake_followers();
    }

    /// Take what fits from the front of `data`; see [`crate::Sink::poll_write`]. `max_bytes` is the largest body that
    /// will be stored.
    pub(crate) fn poll_take(
        &self,
        engine: &Arc<dyn Engine>,
        clock: &Clock,
        max_bytes: u64,
        cx: &mut Context<'_>,
        data: &mut Bytes,
    ) -> Poll<()> {
        let mut state = self.lock();
        while !data.is_empty() {
            let phase = state.phase;
            let room = match phase {
                Phase::Open if state.arrived() + data.len() as u64 > max_bytes => {
                    state.phase = Phase::Relay(WhyNot::TooLarge);
                    continue;
                }
                Phase::Open if state.tail.len() >= self.most_in_tail(&state) => {
                    std::task::ready!(self.poll_extent(engine, cx, &mut state));
                    continue;
                }
                Phase::Open => self.most_in_tail(&state) - state.tail.len(),
                _ if state.make_room() => {
                    state.pushed_back = None;
                    state.window_bytes().saturating_sub(state.tail.len())
                }
                _ => {
                    let since = *state.pushed_back.get_or_insert_with(|| clock.now());
                    if clock.since(since) >= LEASE {
                        state.leave_behind_who_stands();
                        state.pushed_back = None;
                        state.wake_followers();
                        continue;
                    }
                    state.writer = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            };
            let taken_bytes = room.min(data.len());
            if !state.may_hold(taken_bytes) {
                state.phase = Phase::Relay(WhyNot::Busy);
                continue;
            }
            let taken = data.split_to(taken_bytes);
            let whole_bytes = if phase == Phase::Open { self.tail_bytes(&state, taken.len()) } else { None };
            state.tail.push(taken, whole_bytes);
            state.wake_followers();
        }
        Poll::Ready(())
    }

    /// How long the tail will be when it is handed on, where that is known: an extent, or what is left of the body.
    fn tail_bytes(&self, state: &FillState, taken: usize) -> Option<usize> {
        let left = self.hint.expected_bytes.map(|expected| expected.saturating_sub(state.base));
        let most = self.most_in_tail(state);
        match left.and_then(|left| usize::try_from(left).ok()) {
            Some(left) => Some(left.min(most)),
            None => (taken == most).then_some(taken),
        }
    }

    /// How long the tail may be: an extent, and before the first one the beginning that goes into none.
    fn most_in_tail(&self, state: &FillState) -> usize {
        self.extent_bytes + if state.extents.is_empty() { self.first_bytes } else { 0 }
    }

    /// When a writer that is pushed back by its followers goes on at the latest.
    pub(crate) fn pushed_back_until(&self) -> Option<Instant> {
        self.lock().pushed_back.map(|since| since + LEASE)
    }

    /// Hand the tail to the engine as an extent. A refusal makes the write a relay.
    pub(crate) fn poll_extent(
        &self,
        engine: &Arc<dyn Engine>,
        cx: &mut Context<'_>,
        state: &mut FillState,
    ) -> Poll<()> {
        let begun = if state.extents.is_empty() && state.tail.len() > self.first_bytes { self.first_bytes } else { 0 };
        let (first, body) = state.tail.split_at(begun);
        let at = self.placement();
        if let Some(bodies) =
            engine.capabilities().bodies.filter(|_| state.extents.is_empty() && state.stream.is_none())
        {
            state.stream = Some(bodies.begin(&at));
        }
        let kept = match &mut state.stream {
            Some(stream) => stream.poll_part(cx, body),
            None => {
                let (id, kind) = (self.digest, Kind::Extent);
                let record = Record { id, kind, name: &[], head: &[], body, related_bytes: 0 };
                engine.poll_append(cx, &at, &record)
            }
        };
        match std::task::ready!(kept) {
            Ok(place) => {
                let extent = Extent { place, bytes: body.len() as u32 };
                if begun > 0 {
                    state.first = Bytes::copy_from_slice(first);
                }
                state.extents.push(extent);
                state.base += state.tail.len() as u64;
                state.stored_to = state.base;
                state.tail.clear();
                state.share.set(0);
            }
            Err(why) => state.phase = Phase::Relay(why),
        }
        Poll::Ready(())
    }

    /// A new follower, at the first byte. Returns its number.
    pub(crate) fn join(&self) -> u64 {
        self.lock().join()
    }

    /// [`Fill::join`], if a reader that begins now can have every byte. Asked and done in one: a relay whose readers
    /// are not known yet drops what they would begin with. One that begins far behind its window would be left behind.
    pub(crate) fn join_whole(&self) -> Option<u64> {
        let mut state = self.lock();
        let whole = match state.phase {
            Phase::Open | Phase::Whole => state.stored_to == state.base,
            Phase::Relay(_) => state.base == 0,
            Phase::Aborted => false,
        };
        (whole && !state.broken_off).then(|| state.join())
    }

    pub(crate) fn leave(&self, number: u64) {
        let mut state = self.lock();
        state.followers.remove(&number);
        state.let_go();
        let writer = state.writer.take();
        drop(state);
        writer.into_iter().for_each(Waker::wake);
    }

    /// A follower has read up to `at`.
    pub(crate) fn read_to(&self, state: &mut FillState, number: u64, at: u64) {
        if let Some(position) = state.followers.get_mut(&number) {
            *position = at;
        }
        if let Some(writer) = state.writer.take() {
            writer.wake();
        }
    }

    /// Wake this follower when something changes.
    pub(crate) fn wait(&self, state: &mut FillState, cx: &Context<'_>) {
        if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.waiting.push(cx.waker().clone());
        }
    }
}
