//! Frames of HTTP/2 as a server writes them: where each stream's head ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// What is to be told once the head of a stream has been read, by the stream's number.
pub type Tags = Arc<Mutex<BTreeMap<u32, u64>>>;

const HEADER_BYTES: usize = 9;
const HEADERS: u8 = 1;

/// Follows what a server writes on one connection, byte by byte.
#[derive(Debug, Default)]
pub struct Frames {
    tags: Tags,
    /// As far as the present frame's has come.
    header: Vec<u8>,
    /// How much of the present frame is still to come behind its header.
    left: usize,
}

impl Frames {
    /// Where to say what is to be told of which stream.
    pub fn tags(&self) -> Tags {
        self.tags.clone()
    }

    /// These bytes are written. What is to be told once they have been read.
    pub fn pass(&mut self, mut bytes: &[u8]) -> Vec<u64> {
        let mut told = Vec::new();
        while !bytes.is_empty() {
            if self.header.len() < HEADER_BYTES {
                let (some, rest) = bytes.split_at(bytes.len().min(HEADER_BYTES - self.header.len()));
                self.header.extend_from_slice(some);
                bytes = rest;
                if self.header.len() < HEADER_BYTES {
                    break;
                }
                self.left =
                    usize::from(self.header[0]) << 16 | usize::from(self.header[1]) << 8 | usize::from(self.header[2]);
            }
            let here = bytes.len().min(self.left);
            (self.left, bytes) = (self.left - here, &bytes[here..]);
            if self.left == 0 {
                let stream = u32::from_be_bytes(self.header[5..9].try_into().expect("four bytes")) & (u32::MAX >> 1);
                if self.header[3] == HEADERS {
                    told.extend(self.tags.lock().remove(&stream));
                }
                self.header.clear();
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u32, length: usize) -> Vec<u8> {
        let mut bytes = (length as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, 4]);
        bytes.extend(stream.to_be_bytes());
        bytes.resize(HEADER_BYTES + length, 7);
        bytes
    }

    /// In pieces of every size.
    #[test]
    fn a_head_is_told_of_where_it_ends() {
        let all = [
            frame(4, 0, 6),
            frame(HEADERS, 3, 40),
            frame(0, 3, 300),
            frame(4, 0, 0),
            frame(HEADERS, 1, 10),
            frame(0, 1, 5),
        ]
        .concat();
        let ends = [15 + 49, 15 + 49 + 309 + 9 + 19];
        for size in 1..all.len() {
            let mut frames = Frames::default();
            frames.tags().lock().extend([(1, 100), (3, 300)]);
            let (mut at, mut told) = (0, Vec::new());
            for piece in all.chunks(size) {
                at += piece.len();
                told.extend(frames.pass(piece).into_iter().map(|tag| (tag, at)));
            }
            let ends = ends.map(|end: usize| (end.div_ceil(size) * size).min(all.len()));
            assert_eq!(told, [(300, ends[0]), (100, ends[1])], "pieces of {size}");
            assert!(frames.tags().lock().is_empty());
        }
    }
}
