//! What one connection holds beside its requests: answers that are over for them and wait for the client, and content that the client
//! may send before anybody reads it.

use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use tinaja_clock::Clock;

use super::limits::{CONNECTION_WINDOW_BYTES, LEAST_WINDOW_BYTES, QUEUE_BYTES, SHORT_QUEUE_BYTES, STREAM_BYTES};
use crate::client::Queue;
use crate::held::{Held, Kept, LEAST_SEND_BUFFER_BYTES, LetGo, Pending};

/// How far a client is behind.
#[derive(Debug)]
pub(super) struct Behind {
    /// Content of all answers that `h2` has.
    pub queue: Queue,
    /// Streams that were taken one behind the other.
    pub in_a_row: u32,
    held: Arc<Held>,
    /// What of the queue is counted here; nothing of another node of the cluster, whose clients are counted there.
    pending: Pending,
    is_node: bool,
    stall: Duration,
    /// What the client had taken when it was last looked at, what the system had not, and what waited; and since when it takes nothing.
    moved: u64,
    unsent: usize,
    waited: usize,
    took: Instant,
    /// The window that the client has for content, and what of it is counted now.
    window: u32,
    content: usize,
}

impl Behind {
    /// Nothing waits. A client, or another node of the cluster, may take nothing for `stall`.
    pub fn new(held: &Arc<Held>, is_node: bool, stall: Duration, now: Instant) -> Behind {
        Behind {
            queue: Queue::default(),
            in_a_row: 0,
            held: held.clone(),
            pending: held.pending(),
            is_node,
            stall,
            moved: 0,
            unsent: 0,
            waited: 0,
            took: now,
            window: LEAST_WINDOW_BYTES,
            content: 0,
        }
    }

    /// Whether so much waits of answers that are over for their requests that no further request is looked at. `streams` are being
    /// carried out, and have what is theirs besides.
    pub fn is_full(&self, streams: usize) -> bool {
        let most = if self.held.is_tight() { SHORT_QUEUE_BYTES } else { QUEUE_BYTES };
        !self.is_node && self.over(streams) >= most
    }

    /// What `h2` has of answers that are over.
    fn over(&self, streams: usize) -> usize {
        self.queue.bytes().saturating_sub(streams.saturating_mul(STREAM_BYTES))
    }

    /// Whether the system must hold no more than this of what is sent.
    pub fn send_buffer(&self) -> Option<usize> {
        (!self.is_node && self.held.is_tight()).then_some(LEAST_SEND_BUFFER_BYTES)
    }

    /// Counts what waits now: `unsent` bytes below `h2`, what `h2` has of answers, and heads that are `unseen`. Each of so many streams that are
    /// being carried out has counted what `h2` may have of its own.
    ///
    /// Errors: there is no room for it, or another needed it more.
    pub fn look(
        &mut self,
        (unsent, unseen): (usize, usize),
        streams: usize,
        clock: &Clock,
        cx: &mut Context<'_>,
    ) -> Result<(), LetGo> {
        let moved = self.queue.moved();
        let has_moved = moved != self.moved || unsent < self.unsent;
        let bytes = unsent + self.over(streams) + unseen;
        if has_moved || self.waited == 0 {
            self.took = clock.now();
        }
        (self.moved, self.unsent, self.waited) = (moved, unsent, bytes);
        if self.is_node { Ok(()) } else { self.pending.poll(bytes, has_moved, cx) }
    }

    /// When the client has taken nothing for too long.
    pub fn stalled(&self) -> Instant {
        self.took + self.stall
    }

    /// Counts what a client that sends content may send ahead: the window that it has from now on. Nothing where there is no room.
    pub fn take_content(&mut self, kept: &mut Kept) -> Option<u32> {
        let wanted = (self.window as usize).saturating_sub(self.content);
        if !kept.more(wanted) {
            return None;
        }
        self.content += wanted;
        let more = (CONNECTION_WINDOW_BYTES - self.window) as usize;
        if more > 0 && !self.held.is_tight() && kept.more(more) {
            self.content += more;
            self.window = CONNECTION_WINDOW_BYTES;
        }
        Some(self.window)
    }

    /// There is no request any more, and no content.
    pub fn give_back(&mut self, kept: &mut Kept) {
        kept.less(std::mem::take(&mut self.content));
    }
}
