//! The objects: a name and a body of each number, made without copying.

use std::sync::Arc;

use bytes::Bytes;
use tinaja_store::contract::bytes_of;

/// All objects of one size. Bodies are pieces of one random text, so that the measured time is not spent making them.
#[derive(Clone)]
pub struct Objects {
    text: Arc<Bytes>,
    /// Bytes of a body.
    pub size: usize,
}

const TEXT_BYTES: usize = 16 << 20;

impl Objects {
    /// Objects with bodies of so many bytes.
    pub fn of(size: usize) -> Self {
        Objects { text: Arc::new(bytes_of(1, TEXT_BYTES)), size }
    }

    /// What both caches are given as the key.
    pub fn name(number: u64) -> Vec<u8> {
        format!("http://example.net/{number}").into_bytes()
    }

    /// The body of an object.
    pub fn body(&self, number: u64) -> Bytes {
        let start = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize % (TEXT_BYTES - self.size);
        self.text.slice(start..start + self.size)
    }

    /// Whether this is the body. Both caches have verified every byte; the ends show that it is the right one.
    pub fn is_body(&self, number: u64, body: &[u8]) -> bool {
        let right = self.body(number);
        body.len() == right.len() && body[..16] == right[..16] && body[body.len() - 16..] == right[right.len() - 16..]
    }

    /// Bytes of name and body.
    pub fn payload_bytes(&self, number: u64) -> u64 {
        (Objects::name(number).len() + self.size) as u64
    }

    /// What an object takes on foyer's disk: its header, two lengths, key and value, rounded up to 4 KiB.
    pub fn bytes_on_foyer(&self) -> u64 {
        (32 + 16 + 40 + self.size as u64).next_multiple_of(4096)
    }
}
