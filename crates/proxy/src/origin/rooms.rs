//! Memory that a request is written from and its answer read into, kept from one request to the next.
//!
//! An answer's head and a short body stay where they were read until the answer is stored and sent, which is later than
//! its connection is free for another request. So rooms are kept apart from connections, and the one that was given
//! back first is taken first.

use std::collections::VecDeque;

use bytes::BytesMut;
use parking_lot::Mutex;

/// Room for what is read at once of a head, and of content that comes with it, as that of most objects does.
pub(super) const HEAD_READ_BYTES: usize = 16 * 1024;

/// Rooms that are kept: 320 KiB.
const MOST: usize = 16;

/// Room for a longer head of a request is not kept.
const REQUEST_BYTES: usize = 4 * 1024;

/// Memory: what one request and its answer's head take.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The request's head on the wire.
    pub request: Vec<u8>,
    /// What has been read, and is not given out. Where all that was given out is gone, it is read into anew.
    pub answer: BytesMut,
}

/// Rooms that wait for their next request.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    kept: Mutex<VecDeque<Room>>,
}

impl Rooms {
    /// A room, with memory or without.
    pub fn take(&self) -> Room {
        self.kept.lock().pop_front().unwrap_or_default()
    }

    /// Keeps a room that was to hold `most` bytes of an answer at once.
    pub fn put(&self, mut room: Room, most: usize) {
        room.request.clear();
        if most > HEAD_READ_BYTES || room.request.capacity() > REQUEST_BYTES {
            return;
        }
        let mut kept = self.kept.lock();
        if kept.len() < MOST {
            kept.push_back(room);
        }
    }
}
